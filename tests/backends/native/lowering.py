"""Functions of tensors, recorded, lowered and interpreted, compared with eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from segue.backends.native.ir import Invoke, LoopGraph
from segue.backends.native.lower import lower
from tests.backends.native.interpreter import run
from tests.backends.native.recorder import record


def lowered(function: Callable, *tensors: torch.Tensor) -> LoopGraph:
    """The loop graph of a function of tensors like these."""
    return lower(record(function, [t.clone() for t in tensors])[0])


def invoked(loops: LoopGraph) -> list[str]:
    """The names of the operations left to ATen."""
    return [s.call.op.overloadpacket.__name__ for s in loops.statements if isinstance(s, Invoke)]


def check(function: Callable, *tensors: torch.Tensor, left: tuple[str, ...] = (), **tolerance: Any) -> LoopGraph:
    """Assert that results and written arguments are eager's, and that just `left` was left to ATen."""
    eager = [t.clone(memory_format=torch.preserve_format) for t in tensors]
    graph, expected = record(function, eager)
    loops = lower(graph)
    assert invoked(loops) == list(left)
    ours = [t.clone(memory_format=torch.preserve_format) for t in tensors]
    got = run(loops, ours)
    for a, b in zip([*got, *ours], [*expected, *eager], strict=True):
        torch.testing.assert_close(a, b.detach(), equal_nan=True, check_stride=False, **tolerance)
    return loops


def check_gradients(function: Callable, *tensors: torch.Tensor, **tolerance: Any) -> None:
    """Assert the same of a function and of the gradients of a weighted sum of its result."""

    def forward_and_backward(*given: torch.Tensor) -> list[torch.Tensor]:
        given = tuple(t.detach().requires_grad_() for t in given)
        result = function(*given)
        weights = torch.arange(result.numel(), dtype=result.dtype).reshape(result.shape) * 0.25 - 1
        return [result.detach(), *torch.autograd.grad(result, given, weights)]

    check(forward_and_backward, *tensors, **tolerance)
