"""Objects that are no tensors but take part in PyTorch's functions by `__torch_function__`."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.capturing import assert_breaks, assert_captured


def matrix():
    return torch.randn(4, 4)


class Measured:
    """A tensor with a unit."""

    def __init__(self, tensor, unit="m"):
        self.tensor = tensor
        self.unit = unit

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.cos:
            return NotImplemented
        plain = [a.tensor if isinstance(a, Measured) else a for a in args]
        unit = "rad" if func is torch.sin else "m"
        return cls(func(*plain, **(kwargs or {})), f"{unit}{len(types)}")


class Exact(Measured):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs)
        result.unit += " exactly"
        return result


def parts(measured):
    return measured.tensor, measured.unit, type(measured).__name__


def c_function(x):
    return parts(torch.sin(Measured(x)))


def with_keywords(x):
    return parts(torch.add(Measured(x), x, alpha=2))


def python_function(x):
    return parts(F.relu(Measured(x)))


def subclass_first(x):
    return parts(torch.add(Measured(x), Exact(x)))


@pytest.mark.parametrize(
    "function", [c_function, with_keywords, python_function, subclass_first], ids=lambda f: f.__name__
)
def test_functions_hand_over(function):
    assert_captured(function, matrix)


def test_an_object_of_the_program():
    assert_captured(lambda x, m: parts(torch.add(m, x)), matrix, lambda: Measured(torch.ones(4)))


def test_operators_of_tensors_are_left_to_the_interpreter():
    assert_breaks(lambda x: parts(x * 2 + Measured(x)), "unsupported-operation", matrix)


def test_an_object_that_declines():
    def function(x):
        try:
            return torch.cos(Measured(x))
        except TypeError:
            return x + 1

    assert_breaks(function, "unsupported-operation", matrix)
