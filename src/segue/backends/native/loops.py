"""From statements to kernels: the passes of the native backend in their order."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import torch

from segue import config
from segue.backends.native import codegen, target, versions
from segue.backends.native.access import Affine, moved
from segue.backends.native.codegen import Kernel
from segue.backends.native.combine import identity
from segue.backends.native.fuse import fuse
from segue.backends.native.inline import Inliner, reads, unread_failures, writes
from segue.backends.native.ir import Assign, Constant, Invoke, LoopGraph, Statement
from segue.backends.native.schedule import schedule, with_parallel_reductions
from segue.graphs.aten import Buffer, Number, View

_log = logging.getLogger("segue")


def kernels(graph: LoopGraph) -> list[Kernel | Invoke]:
    """What runs a graph, in order.

    Raises:
        NotGenerated: there is no code for an operation of the loop IR.
    """
    machine = target.host()
    attributes = target.function_attributes(machine)
    lanes = machine.lanes(32)
    kept = kept_buffers(graph)
    statements = [s for statement in graph.statements for s in _plain(statement)]
    statements = versions.renamed(statements)
    arguments = {v.buffer for v in graph.inputs}
    kept |= unread_failures(statements, kept)
    statements = with_parallel_reductions(Inliner(statements, kept, arguments).run(), lanes)
    result: list[Kernel | Invoke] = []
    shows = "loops" in config.log.split(",")
    for unit in fuse(statements, kept, arguments):
        if isinstance(unit, Invoke):
            result.append(unit)
            continue
        for loops in schedule(unit, lanes):
            if shows:
                _log.info("%s", loops)
            result.append(codegen.generate(loops, attributes, machine.has_fma, machine.has_f16c))
    return result


def kept_buffers(graph: LoopGraph) -> set[Buffer]:
    """The buffers that have to be in memory: what comes in, goes out, or is handed to ATen."""
    kept = {v.buffer for v in (*graph.inputs, *graph.outputs) if isinstance(v, (View, Number))}
    for statement in graph.statements:
        buffers = reads(statement) | writes(statement)
        if isinstance(statement, Invoke):
            kept |= buffers
        kept |= {b for b in buffers if b.constant is not None}
    return kept


def _plain(statement: Statement) -> Iterable[Statement]:
    """Without statements over nothing, and reductions of one element or none."""
    if isinstance(statement, Invoke):
        return [statement]
    if isinstance(statement, Assign):
        return [] if 0 in statement.sizes else [_writing_once(statement)]
    n_reduced = 1
    for axis in statement.reduced:
        n_reduced *= statement.sizes[axis]
    kept = [n for a, n in enumerate(statement.sizes) if a not in statement.reduced]
    if 0 in kept or n_reduced > 1:
        return [] if 0 in kept else [statement]
    sizes = tuple(1 if a in statement.reduced else n for a, n in enumerate(statement.sizes))
    view = View(statement.target.buffer, sizes, statement.target.strides, statement.target.offset)
    if statement.combine.startswith("arg"):
        return [Assign(view, Constant(0, torch.int64))]
    if n_reduced == 1:
        return [Assign(view, statement.expr)]
    return [Assign(view, Constant(identity(statement.combine, statement.expr.dtype), statement.expr.dtype))]


def _writing_once(statement: Assign) -> Assign:
    """Only the last of the indices along which an expanded target does not move, each of which writes the same."""
    target = statement.target
    still = {a for a, (n, s) in enumerate(zip(target.sizes, target.strides, strict=True)) if s == 0 and n > 1}
    if not still:
        return statement
    axes = [
        Affine(tuple(int(a == b and a not in still) for b in range(len(target.sizes))), n - 1 if a in still else 0)
        for a, n in enumerate(target.sizes)
    ]
    once = moved(statement, axes, [1 if a in still else n for a, n in enumerate(target.sizes)])
    assert isinstance(once, Assign)
    return once
