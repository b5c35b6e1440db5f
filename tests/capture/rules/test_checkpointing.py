"""`torch.utils.checkpoint`: one node of the graph that recomputes in backward what eager PyTorch recomputes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import segue
from tests.capturing import assert_breaks, assert_captured


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


def simple(x, reentrant):
    return checkpoint(lambda a: a.sin().cos(), x * 1, use_reentrant=reentrant) + 1


def random(x, reentrant):
    return checkpoint(lambda a: F.dropout(a.sin()), x * 1, use_reentrant=reentrant)


def reading_outside(x, reentrant):
    y = x * 2
    return checkpoint(lambda a: a.sin() * y, x * 1, use_reentrant=reentrant)


def several_results(x, reentrant):
    a, b = checkpoint(lambda a, b: (a.sin() * b, a + b), x * 1, x * 2, use_reentrant=reentrant)
    return a * b


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("make", [leaf, matrix])
@pytest.mark.parametrize("function", [simple, random, reading_outside, several_results])
def test_a_checkpointed_function(function, make, reentrant):
    if make is matrix and reentrant:
        pytest.skip("PyTorch warns that there is nothing to differentiate")
    assert_captured(lambda x: function(x, reentrant), make)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def inside(self, x, scale=1):
        return self.dropout(self.linear(x)).relu() * scale

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False, scale=2)


BLOCK = Block()
STACK = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))


def test_a_method_with_keywords():
    assert_captured(lambda x, m: m(x) + 1, matrix, lambda: BLOCK)


def test_modules_in_a_row():
    assert_captured(lambda x, m: checkpoint_sequential(m, 2, x, use_reentrant=False), matrix, lambda: STACK)


def test_without_gradients_there_is_nothing_to_recompute():
    def function(x):
        with torch.no_grad():
            return checkpoint(lambda a: a.sin(), x, use_reentrant=False)

    assert "checkpoint" not in assert_captured(function, leaf).operations


def test_less_is_kept_for_backward():
    def function(x):
        for _ in range(3):
            x = checkpoint(lambda a: a.sin().cos().tan().sin(), x, use_reentrant=False)
        return x

    def kept(f):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            f(leaf())
        return len(saved)

    assert kept(segue.compile(function, backend="eager")) == kept(function)


def test_a_function_with_effects():
    def function(x):
        seen = []
        y = checkpoint(lambda a: (seen.append(1), a.sin())[1], x, use_reentrant=False)
        return y, len(seen)

    assert_breaks(function, "effect-in-body", leaf)
