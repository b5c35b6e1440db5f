"""The page about what is captured, docs/python-support.md: each row says what is so."""

import collections
import inspect
import itertools
import re
from pathlib import Path

import pytest
from torch import nn

from tests.support import nn_modules
from tests.support.__main__ import word
from tests.support.construct import load
from tests.support.outcome import isolated, measure, prepare

CONSTRUCTS = load()
AREAS = list(dict.fromkeys(c.area for c in CONSTRUCTS))
PAGE = Path(__file__).parents[1] / "docs" / "python-support.md"


def statuses() -> dict[str, dict[str, str]]:
    """What the page says, by area and construct."""
    found: dict[str, dict[str, str]] = {}
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            rows = found[line[3:]] = {}
        row = re.match(r"\| (.*) \| (captured|breaks|by design|several graphs) \| ", line)
        if row is not None:
            rows[row[1]] = row[2]
    return found


@pytest.mark.parametrize("area", AREAS)
def test_every_construct_fares_as_the_page_says(area: str) -> None:
    """Never wrong; captured where the page says so. Make the page anew with `make support`."""
    prepare()
    outcomes = isolated(measure, [c for c in CONSTRUCTS if c.area == area])
    fares = {c.name: (word(c, outcome), outcome.note, outcome.place) for c, outcome in outcomes}
    said = statuses()[area]
    assert {name: found for name, found in fares.items() if found[0] != said.get(name)} == {}
    assert said.keys() == fares.keys()


def test_names_are_unique() -> None:
    counts = collections.Counter(map(str, CONSTRUCTS))
    assert [name for name, n in counts.items() if n > 1] == []


def test_every_module_of_torch_nn_has_a_row() -> None:
    found = {n for n, c in vars(nn).items() if inspect.isclass(c) and issubclass(c, nn.Module)}
    assert found - set(nn_modules.TABLE) == nn_modules.NOT_CALLED


def test_every_function_of_itertools_has_a_row() -> None:
    rows = " ".join(c.name for c in CONSTRUCTS if c.area == "itertools")
    assert [n for n in vars(itertools) if not n.startswith("_") and f"`{n}`" not in rows] == []
