"""The page about what is captured, docs/python-support.md: each row says what is so."""

import collections
import inspect
import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from tests.support import nn_modules
from tests.support.__main__ import statuses
from tests.support.construct import load

CONSTRUCTS = load()
AREAS = list(dict.fromkeys(c.area for c in CONSTRUCTS))
PAGE = Path(__file__).parents[1] / "docs" / "python-support.md"


@pytest.mark.parametrize("part", range(4))
def test_every_construct_fares_as_the_page_says(part: int) -> None:
    """Never wrong; captured where the page says so. Make the page anew with `make support`."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.support", "--check", str(PAGE), "--areas", *AREAS[part::4]]
    run = subprocess.run(command, cwd=PAGE.parents[1], capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_page_has_exactly_these_rows() -> None:
    said = statuses(PAGE.read_text())
    rows = {area: {c.name for c in CONSTRUCTS if c.area == area} for area in AREAS}
    assert {area: set(names) for area, names in said.items()} == rows


def test_names_are_unique() -> None:
    counts = collections.Counter(map(str, CONSTRUCTS))
    assert [name for name, n in counts.items() if n > 1] == []


def test_every_module_of_torch_nn_has_a_row() -> None:
    found = {n for n, c in vars(nn).items() if inspect.isclass(c) and issubclass(c, nn.Module)}
    assert found - set(nn_modules.TABLE) == nn_modules.NOT_CALLED


def test_every_function_of_itertools_has_a_row() -> None:
    rows = " ".join(c.name for c in CONSTRUCTS if c.area == "itertools")
    assert [n for n in vars(itertools) if not n.startswith("_") and f"`{n}`" not in rows] == []
