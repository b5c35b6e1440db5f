"""`torch.cond`, `while_loop`, `scan`, `associative_scan`: nodes of one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import segue
from tests.capturing import assert_breaks, assert_captured


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


def branches(x):
    return torch.cond(x.sum() > 0, lambda a: a.sin() * 2, lambda a: a.cos() * 3, (x,)) + 1


def branches_that_read_outside(x):
    y, z = x * 2, x * 3
    return torch.cond(x.sum() > 0, lambda a: a + y, lambda a: a - z * y, (x,))


def without_operands(x):
    return torch.cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos())


def with_containers(x):
    return torch.cond(
        x.sum() > 0, lambda a: {"a": a.sin(), "b": (a * 2,)}, lambda a: {"a": a.cos(), "b": (a * 3,)}, (x,)
    )


def inside_each_other(x):
    def inner(a):
        return torch.cond(a.max() > 1, lambda b: b * 2, lambda b: b * 3, (a,))

    return torch.cond(x.sum() > 0, inner, lambda a: a.cos(), (x,))


def known_condition(x):
    return torch.cond(x.shape[0] > 3, lambda a: a.sin(), lambda a: a.cos(), (x,))


def loop(x):
    y = x * 0.5
    return while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a.sin() + y), (torch.tensor(0), x))


def loop_that_depends_on_data(x):
    return while_loop(lambda a: a.abs().max() > 0.5, lambda a: (a * 0.7,), (x,))


def running_products(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


def running_products_backwards(x):
    scale = x.sum()
    return scan(lambda carry, row: (carry + row * scale, {"y": carry * row}), x[0], x, dim=1, reverse=True)


def running_sums(x):
    return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")


def running_sums_backwards(x):
    return associative_scan(lambda a, b: a * b + 1, x, 1, reverse=True, combine_mode="generic")


PROGRAMS = [
    branches, branches_that_read_outside, without_operands, with_containers, inside_each_other, known_condition, loop,
    loop_that_depends_on_data, running_products, running_products_backwards, running_sums, running_sums_backwards,
]  # fmt: skip


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_control_flow_is_part_of_the_graph(function):
    assert_captured(function, matrix)


@pytest.mark.parametrize(
    "function", [branches, inside_each_other, loop, running_products, running_sums], ids=lambda f: f.__name__
)
def test_with_the_native_backend(function):
    assert_captured(function, matrix, backend="native")


@pytest.mark.parametrize(
    "function", [branches, branches_that_read_outside, inside_each_other, running_sums], ids=lambda f: f.__name__
)
def test_gradients(function):
    assert_captured(function, leaf)


class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.a, self.b, (x,))


SWITCH = Switch()


def test_modules_as_branches():
    assert_captured(lambda x, m: m(x), matrix, lambda: SWITCH)


def test_both_branches_are_taken():
    compiled = segue.compile(branches, backend="eager")
    for x in (torch.ones(3), -torch.ones(3), torch.ones(3)):
        assert torch.equal(compiled(x), branches(x))


SEEN = []


def effectful(x):
    def branch(a):
        SEEN.append(1)
        return a.sin()

    return torch.cond(x.sum() > 0, branch, branch, (x,))


def test_a_branch_with_effects_is_left_to_pytorch():
    with pytest.raises(Exception, match=r"side effect|mutat|HigherOrderOperator"):
        segue.compile(effectful, backend="eager")(matrix())


def test_gradients_through_a_scan_are_left_to_pytorch():
    assert_breaks(lambda x: scan(lambda c, row: (c + row, c * row), torch.zeros(4), x * 1), "opaque-call", leaf)
