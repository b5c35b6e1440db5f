"""Tensor objects, gradients inside the function, generators, and objects that describe tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import segue
from tests.capturing import assert_breaks, assert_captured
from tests.graphs import Graphs


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


# --- gradients ------------------------------------------------------------------------------------


def gradient(x):
    (g,) = torch.autograd.grad((x * x).sum(), x)
    return g * 2


def gradient_of_a_gradient(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return torch.autograd.grad(g.sum(), x)


def unused(x):
    y = x.detach().requires_grad_()
    return torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)


@pytest.mark.parametrize("backend", [None, "native"])
@pytest.mark.parametrize("function", [gradient, gradient_of_a_gradient, unused], ids=lambda f: f.__name__)
def test_gradients_in_the_function(function, backend):
    assert_captured(function, leaf, backend=backend)


def test_gradients_of_a_new_leaf():
    def function(x):
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(leaf.sin().sum(), leaf), leaf.is_leaf

    assert_captured(function, matrix)


def test_backward_is_the_interpreters():
    def function(x):
        y = x.sin().sum()
        y.backward()
        return x.grad * 2

    assert_breaks(function, "side-effect-call", leaf)


MODULE = nn.Linear(4, 4)


def assigned(x, m):
    before = m.weight.grad is None
    m.weight.grad = x * 2
    m.bias.grad = None
    return m.weight.grad + 1, before, m.bias.grad


def zeroed(x, m):
    m.zero_grad()
    return x + 1, m.weight.grad


@pytest.mark.parametrize("function", [assigned, zeroed])
def test_gradients_are_assigned(function):
    assert_captured(function, matrix, lambda: MODULE)


def test_a_gradient_that_does_not_fit_raises_as_in_eager():
    def function(x, m):
        y = x + 1
        m.weight.grad = y[:2]
        return y

    with pytest.raises(RuntimeError, match="size"):
        segue.compile(function, backend="eager")(matrix(), MODULE)


# --- tensor objects -------------------------------------------------------------------------------


def changed_in_place(x):
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    y.squeeze_(0)
    y.transpose_(0, 1)
    return y


def detached_in_place(x):
    y = x * 2
    z = y.detach_()
    return z + 1, z is y, y.requires_grad


def resized(x):
    return x.clone().resize_(2, 8)


def strided(x):
    return x.as_strided((2, 2), (1, 2)), (x + 1).as_strided((2, 2), (1, 2), 3), (x + 1)[1:].storage_offset()


def parameters(x):
    p = nn.Parameter(x.detach() * 2)
    return p, p.requires_grad, isinstance(p, nn.Parameter), x.detach() @ p


@pytest.mark.parametrize("make", [matrix, leaf])
@pytest.mark.parametrize(
    "function", [changed_in_place, detached_in_place, strided, parameters], ids=lambda f: f.__name__
)
def test_tensor_objects(function, make):
    assert_captured(function, make)


def test_resized_tensors():
    assert_captured(resized, matrix)


def test_a_new_parameter_has_its_class():
    backend = Graphs()
    compiled = segue.compile(lambda x: nn.Parameter(x * 2), backend=backend)
    assert type(compiled(matrix())) is nn.Parameter
    assert backend.count == 1


def test_tensors_of_the_program_are_changed_by_the_interpreter():
    def function(x):
        y = x + 1
        x.requires_grad_()
        return x * 2, y

    assert_breaks(function, "unsupported-operation", matrix)


def test_where_a_tensor_begins_is_not_taken_for_granted():
    def function(x):
        return x.storage_offset(), x + 1

    compiled = segue.compile(function, backend="eager")
    base = torch.arange(8.0)
    for start in (0, 2, 4):
        assert compiled(base[start : start + 4])[0] == start


def test_tensors_as_keys():
    def function(x, y):
        seen = {x: 1, y: 2}
        return seen[x] + seen[y] + len({x, y}), x + y

    compiled = segue.compile(function, backend="eager")
    for args in ((matrix(), matrix()), (matrix(),) * 2, (matrix(), matrix())):
        got, expected = compiled(*args), function(*args)
        assert got[0] == expected[0]


# --- generators of random numbers -----------------------------------------------------------------


def drawn(x, generator):
    y = x + torch.rand(4, 4, generator=generator)
    return y, x.clone().normal_(generator=generator), torch.randperm(4, generator=generator)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_numbers_from_a_generator(backend):
    graphs = Graphs()
    compiled = segue.compile(drawn, backend=graphs if backend == "eager" else backend)
    for seed in range(3):
        mine, theirs = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        x = matrix()
        for _ in range(2):
            for got, expected in zip(compiled(x, mine), drawn(x, theirs), strict=True):
                assert torch.equal(got, expected)
        assert torch.equal(mine.get_state(), theirs.get_state())
    if backend == "eager":
        assert graphs.count == 1


# --- descriptions ---------------------------------------------------------------------------------


def numbers(x):
    f, i = torch.finfo(x.dtype), torch.iinfo(torch.int32)
    return x * f.eps + f.min, f.max, f.tiny, i.max, f.bits, f.dtype, x.dtype.to_complex(), x.dtype.itemsize


def devices(x):
    d = torch.device("cpu")
    return torch.zeros(2, device=d), d.type, d.index, d == x.device, str(d), torch.device("cpu", 0).index, d


def sizes(x):
    s = x.shape
    return x.view(s.numel()), s + (1,), s[1:], list(s), s.count(4), s == (4, 4), isinstance(s, tuple), s.index(4)


@pytest.mark.parametrize("function", [numbers, devices, sizes])
def test_objects_that_describe(function):
    assert_captured(function, matrix)


def with_numbers_of_numpy(x):
    return x * np.float32(2.5) + np.pi + float(np.sqrt(4.0)) + int(np.int64(3)) + np.prod([2, 3])


def with_an_array(x):
    return x + 1, np.zeros(3).sum()


def test_numbers_of_numpy():
    assert_captured(with_numbers_of_numpy, matrix)


def test_arrays_are_left_to_the_interpreter():
    assert_breaks(with_an_array, "opaque-call", matrix)


def test_arrays_put_together_by_numpy():
    def function(x):
        return torch.from_numpy(np.stack([x.numpy(), x.numpy()])) + 1

    assert_breaks(function, "data-dependent-value", matrix)
