"""What a test of captured constructs says: one graph, no break, no second capture, and all that eager PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import segue
from segue.report.events import Event
from tests.graphs import Graphs

N_CALLS = 3


def assert_captured(function: Callable[..., Any], *make: Callable[[], Any], backend: Any = None) -> Graphs:
    """The function is one graph, and its results and gradients are those of the plain function.

    Args:
        make: makes an argument of each call; tensors that require gradients are compared by their gradients too.
        backend: `Graphs` if not given.

    Returns:
        The backend, for further questions.
    """
    graphs = Graphs()
    compiled = segue.compile(function, backend=backend or graphs)
    _compare(function, compiled, make, exact=backend is None)
    assert not _breaks(compiled), [e.reason for e in _breaks(compiled)]
    if backend is None:
        assert graphs.count == 1, graphs.operations
        assert graphs.runs == N_CALLS
    return graphs


def assert_breaks(function: Callable[..., Any], kind: str, *make: Callable[[], Any]) -> None:
    """The function is left to the interpreter somewhere, for this reason, and all the same gives what eager gives."""
    compiled = segue.compile(function, backend=Graphs())
    _compare(function, compiled, make, exact=True)
    assert kind in [e.id for e in _breaks(compiled)]


def _breaks(compiled: Any) -> list[Event]:
    return list(compiled.compiler.log.of_kind("break", "skip", "failure"))


def _compare(function: Callable[..., Any], compiled: Callable[..., Any], make: Any, exact: bool) -> None:
    for number in range(N_CALLS):
        expected, got = _observed(function, make, number), _observed(compiled, make, number)
        assert len(expected) == len(got), f"call {number}: {expected} {got}"
        for a, b in zip(expected, got, strict=True):
            _same(a, b, exact)


def _same(expected: Any, got: Any, exact: bool) -> None:
    if not isinstance(expected, torch.Tensor):
        assert type(got) is type(expected)
        assert got == expected
        return
    assert (got.requires_grad, got.is_inference(), got.stride()) == (
        expected.requires_grad,
        expected.is_inference(),
        expected.stride(),
    )
    bounds = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(got.detach(), expected.detach(), equal_nan=True, **bounds)


def _observed(function: Callable[..., Any], make: Any, seed: int) -> list[Any]:
    """The results of a call, the gradients of its arguments, and the next random number."""
    torch.manual_seed(seed)
    args = [m() for m in make]
    result = function(*args)
    found = pytree.tree_leaves(result)
    differentiable = [t.sum() for t in found if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    if differentiable:
        sum(differentiable).backward()
    inputs = [a for a in args if isinstance(a, torch.Tensor)]
    modules = [a for a in args if isinstance(a, torch.nn.Module)]
    inputs += [p for m in modules for p in (*m.parameters(), *m.buffers())]
    gradients = [t.grad for t in inputs if t.is_leaf]
    for module in modules:
        module.zero_grad()
    return [*found, *inputs, *gradients, torch.rand(())]
