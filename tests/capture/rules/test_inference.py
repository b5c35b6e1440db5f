"""`torch.inference_mode` in compiled code: one graph, and the same kind of tensors."""

from __future__ import annotations

import pytest
import torch

import segue
from tests.capturing import assert_captured
from tests.graphs import Graphs


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


def in_the_middle(x):
    with torch.inference_mode():
        y = (x * 2).relu()
        z = y.t()
    return y, z + 1


@torch.inference_mode()
def decorated(x):
    return x.sin() + 1


def calls_a_decorated_function(x):
    return decorated(x)


def suspended(x):
    with torch.inference_mode():
        y = x * 2
        with torch.inference_mode(False):
            z = x * 3
    return y, z


def questions(x):
    with torch.inference_mode():
        inside = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
        y = x * 2
    return y, inside, torch.is_inference_mode_enabled(), y.is_inference(), x.is_inference()


def with_gradients_after_it(x):
    with torch.inference_mode():
        n = x.sum()
    return x * 2, n


PROGRAMS = [in_the_middle, calls_a_decorated_function, decorated, suspended, questions, with_gradients_after_it]


@pytest.mark.parametrize("make", [matrix, leaf])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_one_graph(function, make):
    assert_captured(function, make)
    assert not torch.is_inference_mode_enabled()


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_with_the_native_backend(function):
    assert_captured(function, matrix, backend="native")
    assert not torch.is_inference_mode_enabled()


def test_the_native_backend_compiles_what_is_wholly_inside():
    compiled = segue.compile(decorated, backend="native")
    compiled(matrix())
    assert not compiled.compiler.log.of_kind("declined")


def test_a_graph_break_inside_keeps_the_mode():
    def function(x):
        with torch.inference_mode():
            y = x * 2
            segue.graph_break()
            z = y + 1
            inside = torch.is_inference_mode_enabled()
        return z, inside, torch.is_inference_mode_enabled()

    backend = Graphs()
    compiled = segue.compile(function, backend=backend)
    for _ in range(3):
        x = leaf()
        z, *modes = compiled(x)
        assert modes == [True, False]
        assert z.is_inference()
        assert torch.equal(z, x * 2 + 1)
    assert backend.count == 2


def test_an_error_inside_leaves_the_mode():
    def function(x, i):
        try:
            with torch.inference_mode():
                y = x.sin()
                return torch.index_select(y, 0, i)
        except (IndexError, RuntimeError):
            return torch.is_inference_mode_enabled()

    compiled = segue.compile(function, backend="eager")
    assert compiled(matrix(), torch.tensor([1])).is_inference()
    assert compiled(matrix(), torch.tensor([9])) is False
    assert not torch.is_inference_mode_enabled()


def test_capture_leaves_the_mode_when_it_leaves_off():
    def function(x):
        with torch.inference_mode():
            return x.sum().item() + float(torch.is_inference_mode_enabled())

    compiled = segue.compile(function, backend="eager")
    for _ in range(2):
        x = matrix()
        assert compiled(x) == function(x)
        assert not torch.is_inference_mode_enabled()
