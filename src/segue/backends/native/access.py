"""Accesses as affine functions of loop indices: splitting axes, inverting, substituting.

An access reads or writes `buffer[offset + sum(index * stride)]`.  To put a producer's expression into a consumer, the
consumer's access is turned back into the producer's loop indices; where one axis of the consumer runs through several
axes of the producer (a `view` lies between them), the axis is split first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from segue.backends.native.ir import Apply, Assign, Constant, Expr, Index, Load, Reduce, rewrite
from segue.graphs.aten import View


@dataclass(frozen=True)
class Affine:
    """A loop index as a function of other indices: offset + sum(index * coefficient) + sum(term * coefficient)."""

    coefficients: tuple[int, ...]
    offset: int = 0
    terms: tuple[tuple[Expr, int], ...] = ()

    def is_axis(self) -> int | None:
        """The one axis that this is the plain index of, if so."""
        used = [a for a, c in enumerate(self.coefficients) if c]
        if len(used) == 1 and self.coefficients[used[0]] == 1 and self.offset == 0 and not self.terms:
            return used[0]
        return None


@dataclass(frozen=True)
class Split:
    """Axis `axis` has to become two, of sizes (size // inner, inner)."""

    axis: int
    inner: int


@dataclass
class _Digit:
    """An axis of a layout, and what has been found of it."""

    axis: int
    size: int
    stride: int
    reach: int = 0
    backwards: int = 0


def invert(load: Load, sizes: Sequence[int], layout: View) -> list[Affine] | Split | None:
    """The indices of `layout` at which a load over axes of `sizes` reads.

    The strides of a layout are the weights of a mixed-radix number whose digits are the layout's indices; each axis of
    the load moves one digit.

    Returns:
        An `Affine` for each axis of the layout; or the split of an axis of the load that is needed first; or None if
        the access is not of this kind.
    """
    digits = [_Digit(a, n, s) for a, (n, s) in enumerate(zip(layout.sizes, layout.strides, strict=True)) if n > 1]
    digits.sort(key=lambda d: -d.stride)
    if not _is_nested(digits):
        return None
    coefficients = [[0] * len(sizes) for _ in layout.sizes]
    rest = load.offset - layout.offset
    for axis in sorted(range(len(sizes)), key=lambda a: -abs(load.strides[a])):
        stride, size = load.strides[axis], sizes[axis]
        if stride == 0 or size <= 1:
            continue
        digit = next((d for d in digits if d.stride <= abs(stride)), None)
        if digit is None or stride % digit.stride:
            return None
        step = stride // digit.stride
        if abs(step) * (size - 1) >= digit.size:
            inner = digit.size // abs(step)
            fits = digit.size % abs(step) == 0 and inner > 1 and size % inner == 0
            return Split(axis, inner) if fits else None
        coefficients[digit.axis][axis] = step
        digit.reach += abs(step) * (size - 1)
        if step < 0:
            digit.backwards += -step * (size - 1)
            rest += stride * (size - 1)
    offsets = [0] * len(layout.sizes)
    for digit in digits:
        base, rest = divmod(rest, digit.stride) if rest >= 0 else (0, rest)
        if base + digit.reach >= digit.size:
            return None
        offsets[digit.axis] = base + digit.backwards
    if rest != 0:
        return None
    terms = _place_terms(load, digits, offsets)
    if terms is None:
        return None
    return [Affine(tuple(c), o, tuple(terms[a])) for a, (c, o) in enumerate(zip(coefficients, offsets, strict=True))]


def is_injective(view: View) -> bool:
    """Whether all indices of a view are seen to be different places."""
    digits = [_Digit(a, n, s) for a, (n, s) in enumerate(zip(view.sizes, view.strides, strict=True)) if n > 1]
    return _is_nested(sorted(digits, key=lambda d: -d.stride))


def _is_nested(digits: list[_Digit]) -> bool:
    reach = 0
    for digit in reversed(digits):
        if digit.stride <= reach:
            return False
        reach += digit.stride * (digit.size - 1)
    return True


def _place_terms(load: Load, digits: list[_Digit], offsets: list[int]) -> dict[int, list[tuple[Expr, int]]] | None:
    """Computed indices, each of which must be the whole of one digit."""
    placed: dict[int, list[tuple[Expr, int]]] = {a: [] for a in range(len(offsets))}
    for term, stride in load.terms:
        digit = next((d for d in digits if d.stride == stride), None)
        if digit is None or digit.reach or offsets[digit.axis] or placed[digit.axis]:
            return None
        if not _stays_below(term, digit.size):
            return None
        placed[digit.axis].append((term, 1))
    return placed


def _stays_below(term: Expr, size: int) -> bool:
    if isinstance(term, Apply) and term.name == "bounded" and isinstance(term.args[1], Constant):
        return int(term.args[1].value) <= size
    return False


def substitute(expr: Expr, axes: Sequence[Affine], rank: int) -> Expr:
    """An expression over some axes as one over `rank` others, of which `axes` gives the old ones."""

    def replace(node: Expr) -> Expr | None:
        if isinstance(node, Index):
            return index_expr(axes[node.axis])
        if isinstance(node, Load):
            return _moved(node, axes, rank, replace)
        return None

    return rewrite(expr, replace)


def _moved(node: Load, axes: Sequence[Affine], rank: int, replace: object) -> Load:
    strides, offset = [0] * rank, node.offset
    terms = [(substitute(t, axes, rank), s) for t, s in node.terms]
    for stride, affine in zip(node.strides, axes, strict=True):
        if stride == 0:
            continue
        offset += stride * affine.offset
        for a, c in enumerate(affine.coefficients):
            strides[a] += stride * c
        terms += [(t, s * stride) for t, s in affine.terms]
    return Load(node.buffer, tuple(strides), offset, tuple(terms))


def index_expr(affine: Affine) -> Expr:
    """An affine function as an int64 expression."""
    parts: list[Expr] = [_times(Index(a), c) for a, c in enumerate(affine.coefficients) if c]
    parts += [_times(t, c) for t, c in affine.terms]
    if affine.offset or not parts:
        parts.append(Constant(affine.offset, torch.int64))
    total = parts[0]
    for part in parts[1:]:
        total = Apply("add", (total, part), torch.int64)
    return total


def _times(expr: Expr, factor: int) -> Expr:
    return expr if factor == 1 else Apply("mul", (expr, Constant(factor, torch.int64)), torch.int64)


# --- whole statements -------------------------------------------------------------------------------------


def moved(statement: Assign | Reduce, axes: Sequence[Affine], sizes: Sequence[int]) -> Assign | Reduce:
    """A statement over other axes: `axes` gives each old index as a function of the new ones, of `sizes`.

    For a Reduce every new axis belongs to one old axis, and is reduced if that is.
    """
    target = statement.target
    moved_target = _moved(Load(target.buffer, target.strides, target.offset), axes, len(sizes), None)
    view = View(target.buffer, tuple(sizes), moved_target.strides, moved_target.offset)
    expr = substitute(statement.expr, axes, len(sizes))
    if isinstance(statement, Assign):
        return Assign(view, expr)
    reduced = {a for old in statement.reduced for a, c in enumerate(axes[old].coefficients) if c}
    return Reduce(view, expr, statement.combine, frozenset(reduced))


def split(statement: Assign | Reduce, axis: int, inner: int) -> Assign | Reduce:
    """The statement with `axis` as two axes, of sizes (size // inner, inner); an axis of size 1 becomes two such."""
    size, rank = statement.sizes[axis], len(statement.sizes)
    outer, inner = (1, 1) if size == 1 else (size // inner, inner)
    axes = []
    for old in range(rank):
        row = [0] * (rank + 1)
        row[old if old < axis else old + 1] = 1
        if old == axis:
            row[axis] = inner
        axes.append(Affine(tuple(row)))
    return moved(statement, axes, [*statement.sizes[:axis], outer, inner, *statement.sizes[axis + 1 :]])


def part(statement: Assign | Reduce, axis: int, start: int, n: int) -> Assign | Reduce:
    """The statement for indices start to start + n of an axis."""
    rank = len(statement.sizes)
    axes = [Affine(tuple(int(a == b) for b in range(rank)), start if a == axis else 0) for a in range(rank)]
    return moved(statement, axes, [*statement.sizes[:axis], n, *statement.sizes[axis + 1 :]])


def arranged(statement: Assign | Reduce, places: Mapping[int, int], sizes: Sequence[int]) -> Assign | Reduce:
    """The statement over axes of `sizes`, each old axis at its place among them; one without a place stays at 0."""
    axes = [Affine(tuple(int(places.get(a) == b) for b in range(len(sizes)))) for a in range(len(statement.sizes))]
    return moved(statement, axes, sizes)


def permuted(statement: Assign | Reduce, order: Sequence[int]) -> Assign | Reduce:
    """The statement with its axes in another order; axes of size 1 may be left out of `order`."""
    places = {old: new for new, old in enumerate(order)}
    return arranged(statement, places, [statement.sizes[a] for a in order])


def squeezed(statement: Assign | Reduce) -> Assign | Reduce:
    """The statement without axes of size 1."""
    if 1 not in statement.sizes:
        return statement
    return permuted(statement, [a for a, n in enumerate(statement.sizes) if n != 1])
