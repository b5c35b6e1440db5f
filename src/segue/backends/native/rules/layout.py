"""Elements moved as they are: joined, padded, turned, repeated.  Each is one copy or a few of strided pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

import torch

from segue.backends.native.ir import Index, Load, cast
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.creation import zeros
from segue.backends.native.rules.formula import Value, call
from segue.backends.native.rules.views import broadcast, drop, insert, narrow, permute, select, split, wrapped
from segue.graphs.aten import View


@rule("cat")
def cat(context: Context, outs: list[View], tensors: Sequence[View], axis: int) -> None:
    parts = [t for t in tensors if t.sizes != (0,)]
    axis = wrapped(axis, len(outs[0].sizes))
    ends = accumulate((t.sizes[axis] for t in parts), initial=0)
    for part, start in zip(parts, ends, strict=False):
        context.copy(narrow(outs[0], axis, start, part.sizes[axis]), part)


@rule("stack")
def stack(context: Context, outs: list[View], tensors: Sequence[View], axis: int) -> None:
    axis = wrapped(axis, len(outs[0].sizes))
    for position, part in enumerate(tensors):
        context.copy(select(outs[0], axis, position), part)


# --- pieces -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Piece:
    """Along an axis, elements start... of the result are elements source, source + step, ... of the argument."""

    start: int
    length: int
    source: int
    step: int = 1


def copy_pieces(context: Context, out: View, x: View, pieces: Sequence[Iterable[Piece]]) -> None:
    """Copy every combination of the axes' pieces."""
    for chosen in product(*pieces):
        target, source = out, x
        for axis, piece in enumerate(chosen):
            target = narrow(target, axis, piece.start, piece.length)
            source = narrow(source, axis, piece.source, piece.length, piece.step)
        if target.n_elements:
            context.assign(target, cast(Load(source.buffer, source.strides, source.offset), target.dtype))


def whole(x: View) -> list[list[Piece]]:
    """One piece for every axis."""
    return [[Piece(0, n, 0)] for n in x.sizes]


@rule("flip")
def flip(context: Context, outs: list[View], x: View, axes: Sequence[int]) -> None:
    pieces = whole(x)
    for axis in {a % max(len(x.sizes), 1) for a in axes if x.sizes}:
        pieces[axis] = [Piece(0, x.sizes[axis], x.sizes[axis] - 1, -1)]
    copy_pieces(context, outs[0], x, pieces)


@rule("roll")
def roll(context: Context, outs: list[View], x: View, shifts: Sequence[int], axes: Sequence[int]) -> None:
    if not axes or len({a % len(x.sizes) for a in axes}) != len(axes):
        raise NoLowering("a roll of flattened elements, or along an axis twice")
    pieces = whole(x)
    for shift, axis in zip(shifts, axes, strict=True):
        axis = wrapped(axis, len(x.sizes))
        n = x.sizes[axis]
        first = shift % n
        pieces[axis] = [Piece(0, first, n - first), Piece(first, n - first, 0)]
    copy_pieces(context, outs[0], x, pieces)


PADS = ("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
REPLICATIONS = ("replication_pad1d", "replication_pad2d", "replication_pad3d")


@rule(" ".join(PADS + REPLICATIONS))
def pad(context: Context, outs: list[View], x: View, padding: Sequence[int]) -> None:
    pieces = whole(x)
    for axis, low, high in padded_axes(x, padding):
        if low < 0 or high < 0 or not x.n_elements:
            raise NoLowering("padding that takes away")
        n, mirrored = x.sizes[axis], context.name in PADS
        step = -1 if mirrored else 0
        before = Piece(0, low, low if mirrored else 0, step)
        after = Piece(low + n, high, n - 2 if mirrored else n - 1, step)
        pieces[axis] = [before, Piece(low, n, 0), after]
    copy_pieces(context, outs[0], x, pieces)


def padded_axes(x: View, padding: Sequence[int]) -> list[tuple[int, int, int]]:
    """Axis, amount before and amount after; the list of amounts begins with the last axis."""
    last = len(x.sizes) - 1
    return [(last - i // 2, padding[i], padding[i + 1]) for i in range(0, len(padding), 2)]


@rule("constant_pad_nd")
def constant_pad(context: Context, outs: list[View], x: View, padding: Sequence[int], number: Any) -> None:
    pieces, inside = whole(x), outs[0]
    for axis, low, high in padded_axes(x, padding):
        n, out_n = x.sizes[axis], outs[0].sizes[axis]
        start, end = max(low, 0), out_n - max(high, 0)
        for place, length in ((0, start), (end, out_n - end)):
            border = narrow(inside, axis, place, length)
            context.assign(border, value(number, border.sizes, border.dtype))
        inside = narrow(inside, axis, start, end - start)
        pieces[axis] = [Piece(0, end - start, max(-low, 0))]
        assert end - start <= n
    copy_pieces(context, inside, x, pieces)


# --- repetition -------------------------------------------------------------------------------------------


@rule("repeat")
def repeat(context: Context, outs: list[View], x: View, repeats: Sequence[int]) -> None:
    rank = len(repeats)
    source, target = broadcast(x, (1,) * (rank - len(x.sizes)) + x.sizes), outs[0]
    for axis in reversed(range(rank)):
        target = split(target, axis, (repeats[axis], source.sizes[axis]))
    strides = tuple(s for stride in source.strides for s in (0, stride))
    context.assign(target, Load(x.buffer, strides, x.offset))


@rule("pixel_shuffle")
def pixel_shuffle(context: Context, outs: list[View], x: View, factor: int) -> None:
    rank = len(x.sizes)
    c, h = rank - 3, rank - 2
    parts = split(x, c, (x.sizes[c] // factor**2, factor, factor))
    order = [*range(c), c, c + 3, c + 1, c + 4, c + 2]
    target = split(split(outs[0], h + 1, (x.sizes[h + 1], factor)), h, (x.sizes[h], factor))
    context.copy(target, permute(parts, order))


@rule("pixel_unshuffle")
def pixel_unshuffle(context: Context, outs: list[View], x: View, factor: int) -> None:
    rank = len(x.sizes)
    c, h = rank - 3, rank - 2
    parts = split(split(x, h + 1, (x.sizes[h + 1] // factor, factor)), h, (x.sizes[h] // factor, factor))
    order = [*range(c), c, c + 2, c + 4, c + 1, c + 3]
    target = split(outs[0], c, (x.sizes[c], factor, factor))
    context.copy(target, permute(parts, order))


@rule("channel_shuffle")
def channel_shuffle(context: Context, outs: list[View], x: View, groups: int) -> None:
    each = x.sizes[1] // groups
    parts = split(x, 1, (groups, each))
    order = [0, 2, 1, *range(3, len(parts.sizes))]
    context.copy(split(outs[0], 1, (each, groups)), permute(parts, order))


@rule("upsample_nearest1d upsample_nearest2d upsample_nearest3d")
def upsample_nearest(context: Context, outs: list[View], x: View, _: Sequence[int], *scales: float | None) -> None:
    """By whole factors, elements are repeated along an axis of their own; else their indices are computed."""
    target, source = outs[0], x
    computed: list[tuple[int, int, float]] = []
    for axis, scale in reversed(list(enumerate(scales, start=2))):
        have, want = x.sizes[axis], outs[0].sizes[axis]
        ratio = 1 / scale if scale is not None and scale > 0 else have / want
        if want % have == 0 and nearest(want, have, ratio) == [i // (want // have) for i in range(want)]:
            target = split(target, axis, (have, want // have))
            source = broadcast(insert(source, (axis + 1,)), target.sizes[: axis + 2] + source.sizes[axis + 1 :])
            computed = [(a + 1, n, r) for a, n, r in computed]
        else:
            computed.append((axis, have, ratio))
    strides, terms = list(source.strides), []
    for axis, have, ratio in computed:
        position = call("floor", Value(Index(axis)).to(torch.float32) * ratio).to(torch.int64)
        terms.append((call("minimum", position, have - 1).expr, strides[axis]))
        strides[axis] = 0
    context.assign(target, Load(x.buffer, tuple(strides), x.offset, tuple(terms)))


def nearest(want: int, have: int, ratio: float) -> list[int]:
    """The index of the element that each is taken from; ATen computes it in float32."""
    if want in (have, 2 * have):
        return [i * have // want for i in range(want)]
    positions = torch.arange(want, dtype=torch.float32) * ratio
    return [min(int(p), have - 1) for p in positions.floor().tolist()]


# --- slices of a result -----------------------------------------------------------------------------------


def slice_of(view: View, axis: int, start: int | None, end: int | None, step: int) -> View:
    """What view[start:end:step] is along an axis."""
    axis = wrapped(axis, len(view.sizes))
    first, last, by = slice(start, end, step).indices(view.sizes[axis])
    return narrow(view, axis, first, len(range(first, last, by)), by)


def selection(view: View, axis: int, index: int) -> View:
    """What view.select(axis, index) is; both may count from the end."""
    axis = wrapped(axis, len(view.sizes))
    return select(view, axis, index % view.sizes[axis])


def diagonal_of(view: View, offset: int, first: int, second: int) -> View:
    """The diagonal as the last axis."""
    first, second = wrapped(first, len(view.sizes)), wrapped(second, len(view.sizes))
    rows, columns = view.sizes[first], view.sizes[second]
    length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    start = narrow(narrow(view, first, max(-offset, 0), 1), second, max(offset, 0), 1)
    rest = drop(start, (first, second))
    step = view.strides[first] + view.strides[second]
    return View(view.buffer, (*rest.sizes, length), (*rest.strides, step), rest.offset)


@rule("slice_scatter")
def slice_scatter(context: Context, outs: list[View], x: View, source: View, *place: Any) -> None:
    context.copy(outs[0], x)
    context.copy(slice_of(outs[0], *place), source)


@rule("select_scatter")
def select_scatter(context: Context, outs: list[View], x: View, source: View, axis: int, index: int) -> None:
    context.copy(outs[0], x)
    context.copy(selection(outs[0], axis, index), source)


@rule("diagonal_scatter")
def diagonal_scatter(context: Context, outs: list[View], x: View, source: View, *place: int) -> None:
    context.copy(outs[0], x)
    context.copy(diagonal_of(outs[0], *place), source)


@rule("slice_backward")
def slice_backward(context: Context, outs: list[View], grad: View, _: Any, *place: int) -> None:
    zeros(context, outs)
    context.copy(slice_of(outs[0], *place), grad)


@rule("select_backward")
def select_backward(context: Context, outs: list[View], grad: View, _: Any, axis: int, index: int) -> None:
    zeros(context, outs)
    context.copy(selection(outs[0], axis, index), grad)


@rule("diagonal_backward")
def diagonal_backward(context: Context, outs: list[View], grad: View, _: Any, *place: int) -> None:
    zeros(context, outs)
    context.copy(diagonal_of(outs[0], *place), grad)


@rule("diag_embed")
def diag_embed(context: Context, outs: list[View], x: View, *place: int) -> None:
    zeros(context, outs)
    context.copy(diagonal_of(outs[0], *place), x)
