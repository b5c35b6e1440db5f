"""Elements that other tensors point at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from segue.backends.native.ir import Expr, Load, apply, load
from segue.backends.native.rules.context import Context, NoLowering, constant, rule, value
from segue.backends.native.rules.formula import Value, where
from segue.backends.native.rules.views import drop, insert, wrapped
from segue.graphs.aten import View


def bounded(index: Expr, size: int) -> Expr:
    """An index that may count from the end."""
    return apply("bounded", index, constant(size, torch.int64))


def strictly_bounded(index: Expr, size: int) -> Expr:
    """An index that may not count from the end."""
    i = Value(index)
    return bounded(where(i < 0, size, i).expr, size)


def point_at(x: View, sizes: Sequence[int], places: Sequence[Expr | int]) -> Load:
    """An element of a view: for each of its axes, the axis of the space that counts it, or a computed index."""
    strides, terms = [0] * len(sizes), []
    for place, stride in zip(places, x.strides, strict=True):
        if isinstance(place, int):
            strides[place] += stride
        else:
            terms.append((place, stride))
    return Load(x.buffer, tuple(strides), x.offset, tuple(terms))


@rule("gather")
def gather(context: Context, outs: list[View], x: View, axis: int, index: View, _: bool) -> None:
    out, rank = outs[0], len(x.sizes)
    if not rank or not index.sizes:
        raise NoLowering("gather of a scalar")
    places: list[Expr | int] = list(range(rank))
    axis = wrapped(axis, rank)
    places[axis] = strictly_bounded(value(index, out.sizes, torch.int64), x.sizes[axis])
    context.assign(out, point_at(x, out.sizes, places))


@rule("index_select")
def index_select(context: Context, outs: list[View], x: View, axis: int, index: View) -> None:
    out, rank = outs[0], len(x.sizes)
    if not rank:
        raise NoLowering("index_select of a scalar")
    places: list[Expr | int] = list(range(rank))
    axis = wrapped(axis, rank)
    along = index if index.sizes else insert(index, (0,))
    column = insert(along, range(1, rank - axis))
    places[axis] = strictly_bounded(value(column, out.sizes, torch.int64), x.sizes[axis])
    context.assign(out, point_at(x, out.sizes, places))


@rule("embedding")
def embedding(context: Context, outs: list[View], weight: View, index: View, *_: Any) -> None:
    sizes = outs[0].sizes
    row = value(insert(index, (len(index.sizes),)), sizes, torch.int64)
    context.assign(outs[0], point_at(weight, sizes, [strictly_bounded(row, weight.sizes[0]), len(sizes) - 1]))


@rule("index.Tensor _unsafe_index.Tensor")
def index(context: Context, outs: list[View], x: View, indices: Sequence[View | None]) -> None:
    given = [*indices, *[None] * (len(x.sizes) - len(indices))]
    pointing = [a for a, i in enumerate(given) if i is not None]
    tensors = [i for i in given if i is not None]
    if any(i.dtype in (torch.bool, torch.uint8) for i in tensors):
        raise NoLowering("a mask")
    if not pointing:
        return context.copy(outs[0], x)
    rank = max(len(i.sizes) for i in tensors)
    adjacent = pointing == list(range(pointing[0], pointing[-1] + 1))
    start = pointing[0] if adjacent else 0
    sizes, counters = outs[0].sizes, iter([*range(start), *range(start + rank, len(outs[0].sizes))])
    places: list[Expr | int] = []
    for axis, tensor in enumerate(given):
        if tensor is None:
            places.append(next(counters))
            continue
        trailing = len(sizes) - start - rank
        placed = insert(tensor, range(len(tensor.sizes), len(tensor.sizes) + trailing))
        places.append(bounded(value(placed, sizes, torch.int64), x.sizes[axis]))
    context.assign(outs[0], point_at(x, sizes, places))


@rule("take")
def take(context: Context, outs: list[View], x: View, index: View) -> None:
    out = outs[0]
    if len(x.sizes) > 1:
        raise NoLowering("take of flattened elements")
    n, stride = (x.sizes[0], x.strides[0]) if x.sizes else (1, 0)
    place = bounded(value(index, out.sizes, torch.int64), n)
    context.assign(out, Load(x.buffer, (0,) * len(out.sizes), x.offset, ((place, stride),)))


@rule("index_put")
def index_put(context: Context, outs: list[View], x: View, indices: Any, values: View, accumulate: bool) -> None:
    """x[mask] = one value; other forms scatter."""
    mask = indices[0]
    if len(indices) != 1 or mask is None or mask.dtype is not torch.bool or values.n_elements != 1 or accumulate:
        raise NoLowering("it scatters")
    sizes = outs[0].sizes
    chosen = Value(load(insert(mask, range(len(mask.sizes), len(sizes))), sizes))
    filled = Value(load(drop(values, range(len(values.sizes))), sizes))
    context.assign(outs[0], where(chosen, filled.to(x.dtype), Value(load(x, sizes))).expr)
