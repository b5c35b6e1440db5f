"""`torch.autograd.Function`: forward is captured, backward is what it is in eager PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from tests.capturing import assert_breaks, assert_captured


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


class Square(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.factor = 2
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor * x


class WithContextSetUp(Function):
    @staticmethod
    def forward(x, y, scale=2.0):
        return x * y + scale, x - y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, scale = inputs
        ctx.save_for_backward(x, y)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, grad, other):
        x, y = ctx.saved_tensors
        assert other is None
        return grad * y, grad * x, None


class InPlace(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class WithIndices(Function):
    @staticmethod
    def forward(ctx, x):
        indices = x.argmax(-1)
        ctx.mark_non_differentiable(indices)
        return x.cos(), indices

    @staticmethod
    def backward(ctx, grad, _):
        return grad * 3


class OnceWithConstant(Function):
    @staticmethod
    def forward(ctx, x, p):
        ctx.p = p
        return x * p

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * ctx.p, None


class Product(Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        ctx.wanted = ctx.needs_input_grad
        return x @ w

    @staticmethod
    def backward(ctx, grad):
        x, w = ctx.saved_tensors
        assert ctx.wanted == ctx.needs_input_grad
        return grad @ w.t() if ctx.wanted[0] else None, x.t() @ grad if ctx.wanted[1] else None


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


def square(x):
    return Square.apply(x.sin()) + 1


def set_up(x):
    return WithContextSetUp.apply(x, x * 2)[0].sin()


def set_up_with_keyword(x):
    return WithContextSetUp.apply(x, y=x * 2, scale=3.0)[0].sin()


def in_place(x):
    y = x * 1
    z = InPlace.apply(y)
    return z.sin(), z is y


def indices(x):
    values, where = WithIndices.apply(x * 2)
    return values + where.unsqueeze(-1)


def constant(x):
    return OnceWithConstant.apply(x * 2, 5)


def given_back(x):
    return Reversed.apply(x).sin()


def without_gradients(x):
    with torch.no_grad():
        y = Square.apply(x.sin())
    return y + x


PROGRAMS = [square, set_up, set_up_with_keyword, in_place, indices, constant, given_back, without_gradients]


@pytest.mark.parametrize("make", [matrix, leaf])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_forward_is_part_of_the_graph(function, make):
    assert_captured(function, make)


@pytest.mark.parametrize("make", [matrix, leaf])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_with_the_native_backend(function, make):
    assert_captured(function, make, backend="native")


def test_only_the_needed_gradients():
    assert_captured(lambda x, w: Product.apply(x, w), matrix, leaf)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return Square.apply(self.linear(x)).relu()


LAYER = Layer()


def test_inside_a_module():
    assert_captured(lambda x, m: m(x), matrix, lambda: LAYER)


CALLS = []


class Counting(Function):
    @staticmethod
    def forward(ctx, x):
        CALLS.append(x.shape)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        CALLS.append("backward")
        return grad * 2


def counted(x):
    CALLS.clear()
    y = Counting.apply(x * 1)
    return y.sin(), len(CALLS)


def test_effects_of_forward_happen():
    assert_captured(counted, matrix)
    assert_breaks(lambda x: (Counting.apply(x * 1).sin(), len(CALLS) % 2), "effect-in-body", leaf)


FACTOR = 1.0


class ReadsGlobal(Function):
    @staticmethod
    def forward(ctx, x):
        return x * FACTOR

    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR


def test_forward_sees_what_was_written_before_it():
    def function(x):
        global FACTOR
        FACTOR = 3.0
        y = ReadsGlobal.apply(x)
        FACTOR = 2.0
        return y

    assert_breaks(function, "opaque-call", leaf)


def test_operations_in_forward_have_no_history():
    weight = nn.Parameter(torch.randn(4, 4))

    class UsesParameter(Function):
        @staticmethod
        def forward(ctx, x):
            return x @ weight

        @staticmethod
        def backward(ctx, grad):
            return grad

    assert_captured(lambda x: UsesParameter.apply(x) + weight, matrix)
    assert_captured(lambda x: UsesParameter.apply(x) + weight, leaf)
