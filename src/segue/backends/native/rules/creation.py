"""Fresh tensors of given elements, and copies."""

from __future__ import annotations

from typing import Any

import torch

from segue.backends.native.ir import Index
from segue.backends.native.rules.context import Context, NoLowering, fitting, rule, value
from segue.backends.native.rules.formula import Value, where
from segue.backends.native.rules.types import INTEGERS
from segue.graphs.aten import View


@rule("clone _to_copy lift_fresh_copy alias_copy expand_copy view_copy")
def clone(context: Context, outs: list[View], x: View | int | float, *_: Any) -> None:
    if not isinstance(x, View):
        fill(context, outs, x)
        return
    if x.sizes != outs[0].sizes:
        raise NoLowering("a copy of a view of another shape")
    context.copy(outs[0], x)


@rule("copy")
def copy(context: Context, outs: list[View], _: View, source: View, __: bool) -> None:
    context.copy(outs[0], source)


@rule("empty.memory_format empty_strided empty_like new_empty new_empty_strided empty_permuted")
def empty(context: Context, outs: list[View], *_: Any) -> None:
    """Nothing: the elements may be anything, but where the program wants the same in every run."""
    if torch.are_deterministic_algorithms_enabled():
        raise NoLowering("PyTorch fills it")


def fill(context: Context, outs: list[View], number: Any) -> None:
    context.assign(outs[0], fitting(number, outs[0].sizes, outs[0].dtype))


@rule("full full_like fill.Scalar fill.Tensor")
def full(context: Context, outs: list[View], _: Any, number: Any, *__: Any) -> None:
    fill(context, outs, number)


@rule("new_full")
def new_full(context: Context, outs: list[View], _: View, __: list[int], number: Any, *___: Any) -> None:
    fill(context, outs, number)


@rule("scalar_tensor")
def scalar_tensor(context: Context, outs: list[View], number: Any, *_: Any) -> None:
    fill(context, outs, number)


@rule("zeros zeros_like new_zeros zero")
def zeros(context: Context, outs: list[View], *_: Any) -> None:
    fill(context, outs, 0)


@rule("ones ones_like new_ones")
def ones(context: Context, outs: list[View], *_: Any) -> None:
    fill(context, outs, 1)


@rule("arange.start_step")
def arange_step(context: Context, outs: list[View], start: Any, _: Any, step: Any = 1, *__: Any) -> None:
    out = outs[0]
    dtype = torch.int64 if out.dtype in INTEGERS else torch.float64
    first, stride = (Value(value(n, out.sizes, dtype)) for n in (start, step))
    context.assign(out, (first + Value(Index(0)).to(dtype) * stride).expr)


@rule("arange.start")
def arange_start(context: Context, outs: list[View], start: Any, end: Any, *_: Any) -> None:
    arange_step(context, outs, start, end)


@rule("arange")
def arange(context: Context, outs: list[View], end: Any, *_: Any) -> None:
    arange_step(context, outs, 0, end)


@rule("linspace")
def linspace(context: Context, outs: list[View], start: Any, end: Any, steps: int, *_: Any) -> None:
    out = outs[0]
    if out.dtype in INTEGERS:
        raise NoLowering("linspace of integers")
    first, last = (Value(value(n, out.sizes, torch.float64)) for n in (start, end))
    index = Value(Index(0)).to(torch.float64)
    if steps == 1:
        return context.assign(out, first.expr)
    step = (last - first) / (steps - 1)
    near_start = Value(Index(0)) < steps // 2
    context.assign(out, where(near_start, first + step * index, last - step * ((steps - 1) - index)).expr)


@rule("eye eye.m")
def eye(context: Context, outs: list[View], *_: Any) -> None:
    context.assign(outs[0], Value(Index(0)).eq(Value(Index(1))).expr)


@rule("tril triu")
def triangle(context: Context, outs: list[View], x: View, diagonal: int) -> None:
    out, rank = outs[0], len(outs[0].sizes)
    row, column = Value(Index(rank - 2)), Value(Index(rank - 1))
    kept = column - row <= diagonal if context.name == "tril" else column - row >= diagonal
    context.assign(out, where(kept, Value(value(x, out.sizes, x.dtype)), 0).expr)
