"""Wrong calls of what has a rule: the program gets CPython's own exception, and its own handler catches it."""

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)

CALLS = {
    "len()": lambda values, x: len(),
    "len(a, b)": lambda values, x: len(values, values),
    "isinstance(a)": lambda values, x: isinstance(values),
    "sorted(a, by=)": lambda values, x: sorted(values, by=1),
    "min()": lambda values, x: min(),
    "min(a, by=)": lambda values, x: min(values, by=1),
    "map(f)": lambda values, x: map(len),
    "zip(a, k=)": lambda values, x: zip(values, k=1),
    "list(a, b)": lambda values, x: list(values, values),
    "object(a)": lambda values, x: object(values),
    "super(a)": lambda values, x: super(1),
    "getattr(a, 1)": lambda values, x: getattr(x, 1),
    "hasattr(a, 1)": lambda values, x: hasattr(x, 1),
    "setattr(a, 1, b)": lambda values, x: setattr(test_wrong_calls, 1, 2),
    "reversed(1)": lambda values, x: reversed(1),
    "sum(a, str)": lambda values, x: sum("ab", "c"),
    "vars(1)": lambda values, x: vars(1),
    "list.sort(1)": lambda values, x: values.sort(1),
    "list.append()": lambda values, x: values.append(),
    "list.pop(1, 2)": lambda values, x: values.pop(1, 2),
    "dict.get()": lambda values, x: {}.get(),
    "dict.update(a, b)": lambda values, x: {}.update({}, {}),
    "dict.fromkeys()": lambda values, x: dict.fromkeys(),
    "set.add()": lambda values, x: set().add(),
}


@pytest.mark.parametrize("name", CALLS)
def test_wrong_calls(name) -> None:
    call = CALLS[name]

    def function(values, x):
        y = x + 1
        try:
            call(values, x)
        except TypeError as error:
            return y * 2, str(error)
        return y

    compiled = segue.compile(function, backend=Graphs())
    for _ in range(2):
        assert difference(observe(function, ([3, 1], X)), observe(compiled, ([3, 1], X))) is None


def test_a_set_is_no_subset_of_a_text() -> None:
    def function(x):
        return x + 1, {1, 2}.issubset("ab"), {"a"}.issubset("ab"), {1}.issubset({1: 2})

    assert difference(observe(function, (X,)), observe(segue.compile(function, backend=Graphs()), (X,))) is None
