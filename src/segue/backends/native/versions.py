"""Versions of buffers: what is overwritten as a whole becomes a buffer of its own, so that in-place code fuses too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from segue.backends.native.access import is_injective
from segue.backends.native.inline import reads, writes
from segue.backends.native.ir import Assign, Expr, Invoke, Load, Reduce, Statement, rewrite
from segue.graphs.aten import Buffer, View


def renamed(statements: Sequence[Statement]) -> list[Statement]:
    """The statements with a new buffer for each version of a buffer but the first content of an input and the last.

    A version begins where a statement writes every element.  Buffers that ATen works on have one version only.

    Args:
        statements: in program order.
    """
    pinned = {b for s in statements if isinstance(s, Invoke) for b in reads(s) | writes(s)}
    beginnings: dict[Buffer, list[int]] = defaultdict(list)
    for i, statement in enumerate(statements):
        if isinstance(statement, Assign) and _is_whole(statement.target):
            beginnings[statement.target.buffer].append(i)
    current: dict[Buffer, Buffer] = {}
    result: list[Statement] = []
    for i, statement in enumerate(statements):
        if isinstance(statement, Invoke):
            result.append(statement)
            continue
        old = statement.target.buffer
        expr = _with_buffers(statement.expr, current)
        if old not in pinned and i in beginnings[old] and len(beginnings[old]) > 1:
            number = beginnings[old].index(i)
            is_last = number == len(beginnings[old]) - 1
            current[old] = old if is_last else Buffer(f"{old.name}~{number + 1}", old.dtype, old.size)
        target = _on(statement.target, current.get(old, old))
        if isinstance(statement, Assign):
            result.append(Assign(target, expr))
        else:
            result.append(Reduce(target, expr, statement.combine, statement.reduced))
    return result


def _is_whole(view: View) -> bool:
    """Whether a view has every element of its buffer once."""
    return view.n_elements == view.buffer.size and is_injective(view)


def _on(view: View, buffer: Buffer) -> View:
    return view if buffer is view.buffer else View(buffer, view.sizes, view.strides, view.offset)


def _with_buffers(expr: Expr, current: dict[Buffer, Buffer]) -> Expr:
    if not current:
        return expr

    def replace(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or current.get(node.buffer, node.buffer) is node.buffer:
            return None
        terms = tuple((_with_buffers(t, current), s) for t, s in node.terms)
        return Load(current[node.buffer], node.strides, node.offset, terms)

    return rewrite(expr, replace)
