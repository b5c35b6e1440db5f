"""Context variables: reads are of the context of the call, writes stay in it."""

import contextvars

import pytest
import torch

import segue
from tests.capturing import assert_captured
from tests.graphs import Graphs

scale = contextvars.ContextVar("scale", default=2)
bare = contextvars.ContextVar("bare")


def set_and_reset(x):
    token = scale.set(5)
    y = x * scale.get()
    inner = scale.set(scale.get() + 1)
    y = y + scale.get()
    scale.reset(inner)
    scale.reset(token)
    return y + scale.get() + bare.get(7)


def left_set(x):
    bare.set(x + 1)
    return x * 2


def unset(x):
    try:
        return x * bare.get()
    except LookupError:
        return x + 1


def test_set_get_reset():
    assert_captured(set_and_reset, lambda: torch.ones(2))
    assert scale.get() == 2


def test_a_value_that_stays():
    compiled = segue.compile(left_set, backend=Graphs(), fullgraph=True)
    for number in range(3):
        contextvars.copy_context().run(_check_stays, compiled, torch.full((2,), float(number)))
    assert bare.get(None) is None


def _check_stays(compiled, x):
    compiled(x)
    assert torch.equal(bare.get(), x + 1)


def test_values_of_the_context_are_guarded():
    compiled = segue.compile(unset, backend=Graphs())
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    context = contextvars.copy_context()
    context.run(bare.set, 3)
    assert torch.equal(context.run(compiled, torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


@pytest.mark.parametrize("step", [1, 2])
def test_breaks_in_between(step):
    with segue.config.patch(break_at=lambda code, index: index % step == 0):
        assert torch.equal(segue.compile(set_and_reset, backend=Graphs())(torch.ones(2)), set_and_reset(torch.ones(2)))
    assert scale.get() == 2
