"""A transfer at every instruction boundary of every function of the corpus goes unnoticed."""

import pytest

from tests.corpus import CORPUS, Case
from tests.frames.torture import torture


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_no_transfer_is_noticed(case: Case) -> None:
    outcome = torture(case)
    print(f"{outcome.boundaries} boundaries, {outcome.transfers} transfers", end=" ")
    assert outcome.differences == []
    assert outcome.reached > outcome.boundaries // 2
    assert outcome.transfers >= outcome.reached
    assert outcome.passages > outcome.transfers
