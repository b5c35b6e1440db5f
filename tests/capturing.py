"""What a test of captured constructs says: one graph, no break, no second capture, and all that eager PyTorch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import segue
from segue.report.events import Event
from tests.graphs import Graphs
from tests.observation import difference
from tests.support.outcome import Values

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
        found = difference(expected, got, rounding=not exact)
        assert found is None, f"call {number}: {found}"


def _observed(function: Callable[..., Any], make: Any, seed: int) -> Any:
    """The result of a call, its arguments with their gradients, and the next random number."""
    torch.manual_seed(seed)
    args = [m() for m in make]
    result = function(*args)
    tensors = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    differentiable = [t.sum() for t in tensors if t.grad_fn is not None]
    if differentiable:
        sum(differentiable).backward()
    seen = Values()((result, args, torch.rand(())))
    for module in (a for a in args if isinstance(a, torch.nn.Module)):
        module.zero_grad()
    return seen
