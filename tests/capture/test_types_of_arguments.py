"""Questions about the type of a value that ask nothing else of it, for values of many types in turn."""

from __future__ import annotations

import numbers
import re
import types
from typing import Any

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)

VALUES: tuple[Any, ...] = (
    1, "a", 1.5, None, True, 2 + 3j, b"x", torch.float32, torch.device("cpu"), int, len, re.compile("a"), range(3),
    (1,), [1], {}, {1}, slice(1), types.SimpleNamespace(a=1), ..., frozenset({1}), numbers,
)  # fmt: skip


def by_type(x, value):
    return x + 1, type(value).__name__


def by_class(x, value):
    return x + 1, value.__class__.__name__


def by_instance(x, value):
    return x + 1, isinstance(value, str), isinstance(value, (int, float)), isinstance(value, numbers.Number)


def by_attribute(x, value):
    return x + 1, hasattr(value, "upper"), hasattr(value, "real"), hasattr(value, "__len__")


def by_callability(x, value):
    return x + 1, callable(value), value is None, isinstance(value, type)


def by_pattern(x, value):
    match value:
        case int():
            kind = "int"
        case str():
            kind = "str"
        case [_]:
            kind = "sequence"
        case None:
            kind = "none"
        case {}:
            kind = "mapping"
        case _:
            kind = "other"
    return x + 1, kind


@pytest.mark.parametrize(
    "function", [by_type, by_class, by_instance, by_attribute, by_callability, by_pattern], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("step", [1, -1])
def test_a_value_of_another_type_is_noticed(function, step) -> None:
    with segue.config.patch(recompile_limit=100):
        compiled = segue.compile(function, backend=Graphs())
        for value in VALUES[::step]:
            assert difference(observe(function, (X, value)), observe(compiled, (X, value))) is None
