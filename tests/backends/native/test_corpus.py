"""The corpus on the native backend: all that can be seen of a call is as in eager, up to rounding."""

import pytest

import segue
from tests.corpus import CORPUS, Case, difference, observe


@pytest.mark.parametrize("case", [c for c in CORPUS if c.group == "tensor"], ids=lambda case: case.name)
def test_a_call_is_as_in_eager(case: Case) -> None:
    compiled = segue.compile(case.function, backend="native")
    for _ in range(2):
        for number in range(len(case.make_args())):
            expected = observe(case.function, case.make_args()[number])
            got = observe(compiled, case.make_args()[number])
            assert difference(expected, got, rounding=True) is None
    assert not compiled.compiler.log.of_kind("failure")
