"""Forced breaks in the whole compiler: the eager result wherever capture leaves off.

`python -m tests.capture.torture` forces a break at every boundary one at a time as well; here every seventh is.
"""

import pytest

from tests.capture.torture import boundaries, everywhere, inside_calls, one_at_a_time
from tests.corpus import CORPUS


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.function.__name__)
def test_a_break_at_every_instruction_at_once(case):
    assert everywhere(case).differences == []


@pytest.mark.parametrize("number", range(len(CORPUS)), ids=lambda n: CORPUS[n].function.__name__)
def test_one_break(number):
    chosen = list(boundaries(CORPUS[number]))[number % 7 :: 7]
    assert one_at_a_time(CORPUS[number], chosen).differences == []


@pytest.mark.parametrize("number", range(len(CORPUS)), ids=lambda n: CORPUS[n].function.__name__)
def test_one_break_inside_a_call(number):
    assert inside_calls(CORPUS[number], step=13, first=number % 13).differences == []
