"""Views of views, as plain arithmetic on sizes, strides and offsets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from segue.graphs.aten import View


def broadcast(view: View, sizes: Sequence[int]) -> View:
    """The view with these sizes, its strides 0 where it has one element and is wanted to have others."""
    missing = len(sizes) - len(view.sizes)
    strides = [0] * missing
    for want, have, stride in zip(sizes[missing:], view.sizes, view.strides, strict=True):
        strides.append(stride if have == want else 0)
    return View(view.buffer, tuple(sizes), tuple(strides), view.offset)


def narrow(view: View, axis: int, start: int, length: int, step: int = 1) -> View:
    """Elements start, start + step, ... along an axis; a step may be 0 or negative."""
    sizes, strides = list(view.sizes), list(view.strides)
    offset = view.offset + start * strides[axis]
    sizes[axis] = length
    strides[axis] *= step
    return View(view.buffer, tuple(sizes), tuple(strides), offset)


def select(view: View, axis: int, index: int) -> View:
    """The view at one index of an axis, without the axis."""
    return drop(narrow(view, axis, index, 1), (axis,))


def drop(view: View, axes: Collection[int]) -> View:
    """The view without some axes, at index 0 of them."""
    kept = [a for a in range(len(view.sizes)) if a not in axes]
    return permute(view, kept)


def permute(view: View, order: Sequence[int]) -> View:
    """The axes in another order; those left out stay at index 0."""
    return View(view.buffer, tuple(view.sizes[a] for a in order), tuple(view.strides[a] for a in order), view.offset)


def insert(view: View, axes: Collection[int]) -> View:
    """The view with axes of one element, which are at these positions of the result."""
    sizes, strides = list(view.sizes), list(view.strides)
    for axis in sorted(axes):
        sizes.insert(axis, 1)
        strides.insert(axis, 0)
    return View(view.buffer, tuple(sizes), tuple(strides), view.offset)


def split(view: View, axis: int, parts: Sequence[int]) -> View:
    """An axis as several, whose sizes multiply to its size, the last one moving fastest."""
    strides: list[int] = []
    step = view.strides[axis]
    for part in reversed(parts):
        strides.insert(0, step)
        step *= part
    sizes = (*view.sizes[:axis], *parts, *view.sizes[axis + 1 :])
    return View(view.buffer, sizes, (*view.strides[:axis], *strides, *view.strides[axis + 1 :]), view.offset)


def wrapped(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    return axis % max(rank, 1)


def wrapped_axes(axes: int | Sequence[int] | None, rank: int, empty_is_all: bool = True) -> tuple[int, ...]:
    """Axes counted from the front, in order; None (or none at all, if that means it) is every axis."""
    if axes is None or (empty_is_all and axes == []) or (empty_is_all and axes == ()):
        return tuple(range(rank))
    if rank == 0:
        return ()
    return tuple(sorted(a % rank for a in ([axes] if isinstance(axes, int) else axes)))


def same_place(a: View, b_strides: Sequence[int], b_offset: int) -> bool:
    """Whether the view's element at each index is where the other strides and offset have it."""
    if a.offset != b_offset:
        return False
    return all(n == 1 or s == t for n, s, t in zip(a.sizes, a.strides, b_strides, strict=True))
