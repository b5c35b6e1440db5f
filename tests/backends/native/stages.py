"""The passes of the native backend one by one, for tests that look at what is between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from segue.backends.native import loops, plan, versions
from segue.backends.native.fuse import Nest, fuse
from segue.backends.native.inline import Inliner, without_dead
from segue.backends.native.ir import Assign, Expr, Invoke, LoopGraph, Reduce, Statement, loads
from segue.backends.native.lower import lower
from segue.graphs.aten import AtenGraph, Buffer, View
from tests.backends.native.interpreter import run
from tests.backends.native.opinfo import copies
from tests.backends.native.recorder import record


def renamed(graph: LoopGraph) -> LoopGraph:
    """A graph with versions of its buffers."""
    return LoopGraph(graph.inputs, graph.outputs, versions.renamed(graph.statements))


def inlined(graph: LoopGraph) -> LoopGraph:
    """A graph with producers put into their consumers."""
    statements = Inliner(graph.statements, loops.kept_buffers(graph)).run()
    return LoopGraph(graph.inputs, graph.outputs, statements)


def fused(graph: LoopGraph) -> list[Nest | Invoke]:
    """The nests of a graph, after the passes before."""
    kept = loops.kept_buffers(graph)
    return fuse(without_dead(inlined(renamed(graph)).statements, kept), kept)


def checked(
    change: Callable[[LoopGraph], LoopGraph], function: Callable, *tensors: torch.Tensor
) -> list[Assign | Reduce | Invoke]:
    """The statements of a function after a pass; asserts that they still do what eager does."""
    eager, ours = copies(tensors), copies(tensors)
    graph, expected = record(function, eager)
    changed = change(lower(graph))
    got = run(changed, ours)
    for a, b in zip([*got, *ours], [*expected, *eager], strict=True):
        torch.testing.assert_close(a, b.detach(), check_stride=False)
    return changed.statements


def nests(function: Callable, *tensors: torch.Tensor) -> list[Nest]:
    """The nests of a function of tensors like these; ATen operations are left out."""
    graph = lower(record(function, copies(tensors))[0])
    return [u for u in fused(graph) if isinstance(u, Nest)]


def graph_of(function: Callable, *tensors: torch.Tensor) -> AtenGraph:
    """What is recorded of a function."""
    return record(function, copies(tensors))[0]


def texts(statements: Sequence[Statement]) -> list[str]:
    """Statements as they are printed."""
    return str(LoopGraph([], [], list(statements))).splitlines()


def executed(graph: LoopGraph, inputs: Sequence[Any]) -> list[torch.Tensor]:
    """The outputs of a loop graph by generated code."""
    graph.check()
    aten = AtenGraph(graph.inputs, [], graph.outputs, [None] * len(graph.outputs))
    return list(plan.make_plan(plan.compile_kernels(aten, loops.kernels(graph)), lambda *_: None)(*inputs))


def of_expression(expr: Expr, *tensors: torch.Tensor) -> LoopGraph:
    """A graph that computes an expression over one axis, whose loads read buffers 0, 1, ... that are inputs."""
    n = tensors[0].numel()
    found = {load.buffer.name: load.buffer for load in loads(expr)}
    buffers = [found.get(str(i)) or Buffer(str(i), t.dtype, n) for i, t in enumerate(tensors)]
    target = View(Buffer("out", expr.dtype, n), (n,), (1,))
    return LoopGraph([View(b, (n,), (1,)) for b in buffers], [target], [Assign(target, expr)])
