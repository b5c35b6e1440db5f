"""Choosing loops for a nest: which axis the vectors run along, the order of axes, what a unit of parallel work is.

Along the vector axis memory is contiguous for most of what a nest touches.  If that is an inner axis, a row is worked
through vector by vector; if it is an outer one (a reduction over columns), several rows are worked on at once, one in
each lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from segue.backends.native.access import arranged, moved, part, permuted, split
from segue.backends.native.fuse import Member, Nest
from segue.backends.native.inline import cost
from segue.backends.native.ir import Assign, Index, Load, Reduce, Statement, walk
from segue.graphs.aten import Buffer, View, contiguous_strides, product

BLOCK = 4096
"""Elements of a unit of pointwise work, about."""
SCRATCH_BYTES = 65536
"""A row of a temporary up to this size stays in the kernel's frame."""
GRAIN = 100_000
"""Instructions on elements that are worth another thread: some 25 µs of work."""
LINE = 64
"""Bytes of a cache line."""
TILE_ROWS = 256
"""How far a tile reaches along the vector axis, so that the pages it touches stay known to the processor."""
FEW_ROWS = 4
LONG_ROW = 65536


@dataclass(eq=False)
class Loops:
    """A nest with its loops decided.

    Attributes:
        nest: its axes are in loop order; the vector axis is the last one of its kind (inner, or outer in a nest whose
            vectors run across rows).
        across: whether the vectors run along the last outer axis.
        unroll: vectors worked on at once.
        tile: the size of the axis before the vector axis, where loads along it are transposed in registers; else 0.
        scratch: local buffers that are kept for a row, with their strides.
        units: iterations of the outermost loop.
        unit_cost: of one of them, in instructions on elements, about.
    """

    nest: Nest
    lanes: int
    across: bool
    unroll: int
    tile: int = 0
    scratch: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    units: int = 1
    unit_cost: int = 1

    @property
    def vector_axis(self) -> int:
        return self.nest.n_outer - 1 if self.across else len(self.nest.sizes) - 1

    @property
    def grain(self) -> int:
        """Units that one thread takes at least; 0: not parallel."""
        grain = max(1, GRAIN // max(self.unit_cost, 1))
        return grain if self.units > grain else 0

    def __str__(self) -> str:
        how = f"vectors of {self.lanes} along axis {self.vector_axis}, {self.unroll} at once"
        return f"{self.nest}\n  {how}; {self.units} units of {self.unit_cost}, grain {self.grain}"


# --- before fusion ----------------------------------------------------------------------------------------


def with_parallel_reductions(statements: list[Statement], lanes: int) -> list[Statement]:
    """Long reductions to few results in two steps, so that there is work for several threads."""
    result: list[Statement] = []
    for statement in statements:
        result += _in_two_steps(statement, lanes) if isinstance(statement, Reduce) else [statement]
    return result


def _in_two_steps(statement: Reduce, lanes: int) -> list[Statement]:
    kept = [a for a in range(len(statement.sizes)) if a not in statement.reduced]
    n_kept = product([statement.sizes[a] for a in kept])
    n_reduced = product([statement.sizes[a] for a in statement.reduced])
    contiguous = any(load.strides[a] == 1 for load in statement.loads for a in kept)
    rows = n_kept // (4 * lanes) if contiguous else n_kept
    if statement.combine.startswith("arg") or rows >= FEW_ROWS or n_kept * n_reduced < 2 * LONG_ROW:
        return [statement]
    if n_reduced < 64:
        return [statement]
    wanted = max(8, min(256, n_kept * n_reduced // 16384))
    divisors = {a: _divisor(statement.sizes[a], wanted) for a in sorted(statement.reduced)}
    axis = next((a for a, parts in divisors.items() if parts >= 8), max(divisors, key=lambda a: divisors[a]))
    parts = divisors[axis]
    if parts < 2:
        return [statement]
    divided = split(statement, axis, statement.sizes[axis] // parts)
    still = [a for a in range(len(divided.sizes)) if a == axis or a not in divided.reduced]  # type: ignore[union-attr]
    part_sizes = tuple(divided.sizes[a] for a in still)
    own = contiguous_strides(part_sizes)
    buffer = Buffer(f"{statement.target.buffer.name}_parts", statement.target.dtype, product(part_sizes))
    strides = [0] * len(divided.sizes)
    for a, s in zip(still, own, strict=True):
        strides[a] = s
    reduced = frozenset(a for a in range(len(divided.sizes)) if a not in still)
    first = Reduce(View(buffer, divided.sizes, tuple(strides)), divided.expr, statement.combine, reduced)
    target = View(
        statement.target.buffer, part_sizes, tuple(divided.target.strides[a] for a in still), statement.target.offset
    )
    second = Reduce(target, Load(buffer, own), statement.combine, frozenset({still.index(axis)}))
    return [first, second]


def _divisor(n: int, wanted: int) -> int:
    """The divisor of n that is nearest to `wanted` from below, or else the smallest one above."""
    below = [d for d in range(min(wanted, n), 1, -1) if n % d == 0]
    if below:
        return below[0]
    return next((d for d in range(wanted + 1, min(n, 4 * wanted)) if n % d == 0), 1)


# --- after fusion -----------------------------------------------------------------------------------------


def schedule(nest: Nest, lanes: int) -> list[Loops]:
    """The loops for a nest: one, or two where the end of an axis is worked on apart."""
    if not nest.sizes:
        nest = _with_axis(nest)
    if not nest.has_inner:
        nest = _ordered_pointwise(nest)
        crossing = _crossing_axis(nest)
        parts = [(nest, 0)] if crossing is None else _tiles(nest, crossing, lanes)
        return [_finished(b, lanes, False, tile) for part, tile in parts for b in ([part] if tile else _blocks(part))]
    nest, across = _ordered_reduction(nest, lanes)
    nest = _coalesced(nest)
    _drop_long_locals(nest, lanes, across)
    if not across:
        return [_finished(nest, lanes, False)]
    return [_finished(part, lanes, True) for part in _column_blocks(nest, lanes)]


def _with_axis(nest: Nest) -> Nest:
    """A nest of scalars as a nest with one row."""
    return _mapped(nest, lambda s: moved(s, [], (1,)), (1,), 1)


def _mapped(nest: Nest, change: object, sizes: tuple[int, ...], n_outer: int) -> Nest:
    members = [Member(change(m.statement), m.step) for m in nest.members]  # type: ignore[operator]
    return Nest(sizes, n_outer, members, nest.local)


def _permuted(nest: Nest, order: list[int]) -> Nest:
    sizes = tuple(nest.sizes[a] for a in order)
    return _mapped(nest, lambda s: permuted(s, order), sizes, nest.n_outer)


def _accesses(nest: Nest) -> Iterator[tuple[tuple[int, ...], bool]]:
    """The strides of every load and store of members that run for every index, and whether it is to memory."""
    for member in nest.members:
        if member.is_row(nest):
            continue
        for load in member.statement.loads:
            yield load.strides, load.buffer not in nest.local
        if isinstance(member.statement, Assign):
            yield member.statement.target.strides, member.statement.target.buffer not in nest.local


def _ordered_pointwise(nest: Nest) -> Nest:
    """Axes in the order of the result in memory, merged where they are one run of memory."""
    stored = [m.statement.target for m in nest.members if m.statement.target.buffer not in nest.local]
    main = max(stored or [m.statement.target for m in nest.members], key=lambda v: sum(s != 0 for s in v.strides))
    order = sorted(range(len(nest.sizes)), key=lambda a: (-abs(main.strides[a]), a))
    return _coalesced(_permuted(nest, order))


def _ordered_reduction(nest: Nest, lanes: int) -> tuple[Nest, bool]:
    """Axes in loop order, and whether the vectors run across rows."""
    accesses = [strides for strides, in_memory in _accesses(nest) if in_memory and any(strides)]

    def worth(axis: int) -> float:
        near = sum(3 if s[axis] == 1 else 1 if s[axis] == 0 else -4 for s in accesses)
        short = 0.5 if nest.sizes[axis] < lanes else 1
        return near * short if near > 0 else near / short

    ordered = any(isinstance(m.statement, Reduce) and m.statement.combine.startswith("arg") for m in nest.members)
    inner = list(range(nest.n_outer, len(nest.sizes)))
    candidates = inner[-1:] if ordered else inner
    best_inner = max(candidates, key=lambda a: (worth(a), nest.sizes[a]))
    best_outer = max(range(nest.n_outer), key=lambda a: (worth(a), nest.sizes[a]), default=None)
    across = best_outer is not None and worth(best_outer) > worth(best_inner) and nest.sizes[best_outer] >= 4
    weight = {a: max((abs(s[a]) for s in accesses), default=0) for a in range(len(nest.sizes))}
    outer = sorted(range(nest.n_outer), key=lambda a: (across and a == best_outer, -weight[a], a))
    if not ordered:
        inner = sorted(inner, key=lambda a: (not across and a == best_inner, -weight[a], a))
    return _permuted(nest, [*outer, *inner]), across


def _coalesced(nest: Nest) -> Nest:
    """Neighbouring axes that are one run of memory everywhere as one axis."""
    a = len(nest.sizes) - 2
    while a >= 0:
        b = a + 1
        crosses = a < nest.n_outer <= b
        if not crosses and _mergeable(nest, a, b):
            nest = _merged(nest, a)
        a -= 1
    return nest


def _mergeable(nest: Nest, a: int, b: int) -> bool:
    for member in nest.members:
        statement = member.statement
        for node in walk(statement.expr):
            if isinstance(node, Index) and node.axis in (a, b):
                return False
            if isinstance(node, Load) and node.strides[a] != node.strides[b] * nest.sizes[b]:
                return False
        target = statement.target
        if target.strides[a] != target.strides[b] * nest.sizes[b]:
            return False
        if (statement.sizes[a] == nest.sizes[a]) != (statement.sizes[b] == nest.sizes[b]):
            return False
    return True


def _merged(nest: Nest, a: int) -> Nest:
    sizes = (*nest.sizes[:a], nest.sizes[a] * nest.sizes[a + 1], *nest.sizes[a + 2 :])

    def merge(statement: Assign | Reduce) -> Assign | Reduce:
        places = {old: old if old < a else old - 1 for old in range(len(statement.sizes)) if old != a}
        new = (*statement.sizes[:a], statement.sizes[a] * statement.sizes[a + 1], *statement.sizes[a + 2 :])
        return arranged(statement, places, new)

    return _mapped(nest, merge, sizes, nest.n_outer - (a < nest.n_outer))


# --- parts ------------------------------------------------------------------------------------------------


def _blocks(nest: Nest) -> list[Nest]:
    """A pointwise nest in which no single row is long: the last axis is cut into blocks."""
    size = nest.sizes[-1]
    others = product(nest.sizes[:-1])
    if size <= 2 * BLOCK or others >= 64:
        return [nest]
    divisor = next((d for d in range(BLOCK, 2 * BLOCK + 1) if size % d == 0), None)
    if divisor is not None:
        return [_divided(nest, divisor)]
    whole = size // BLOCK * BLOCK
    return [
        _divided(_part(nest, len(nest.sizes) - 1, 0, whole), BLOCK),
        _part(nest, len(nest.sizes) - 1, whole, size - whole),
    ]


def _divided(nest: Nest, inner: int) -> Nest:
    axis = len(nest.sizes) - 1
    sizes = (*nest.sizes[:-1], nest.sizes[-1] // inner, inner)
    return _mapped(nest, lambda s: split(s, axis, inner), sizes, nest.n_outer + 1)


def _part(nest: Nest, axis: int, start: int, n: int) -> Nest:
    """The nest for indices start to start + n of an axis."""
    sizes = (*nest.sizes[:axis], n, *nest.sizes[axis + 1 :])
    return _mapped(nest, lambda s: part(s, axis, start, n), sizes, nest.n_outer)


def _crossing_axis(nest: Nest) -> int | None:
    """The axis along which a load runs that would stride through memory on the vector axis, if there is one."""
    last = len(nest.sizes) - 1
    for member in nest.members:
        for load in member.statement.loads:
            if load.strides[last] in (0, 1) or load.terms or load.buffer in nest.local:
                continue
            for axis in range(last):
                if load.strides[axis] == 1:
                    return axis
    return None


def _tiles(nest: Nest, axis: int, lanes: int) -> list[tuple[Nest, int]]:
    """A nest in tiles of `axis` and the vector axis, each with the size of its tiles; what is left over has none."""
    last = len(nest.sizes) - 1
    tile = max(lanes, LINE // 4)
    whole = [nest.sizes[axis] // tile * tile, nest.sizes[last] // lanes * lanes]
    if 0 in whole:
        return [(nest, 0)]
    parts: list[tuple[Nest, int]] = []
    main = nest
    for place, n in zip((axis, last), whole, strict=True):
        if n < nest.sizes[place]:
            parts.append((_part(main, place, n, nest.sizes[place] - n), 0))
            main = _part(main, place, 0, n)
    rows = next((r for r in range(TILE_ROWS, lanes, -lanes) if main.sizes[last] % r == 0), main.sizes[last])
    sizes = (
        *main.sizes[:axis],
        main.sizes[axis] // tile,
        tile,
        *main.sizes[axis + 1 : last],
        main.sizes[last] // rows,
        rows,
    )
    divided = _mapped(main, lambda s: split(split(s, last, rows), axis, tile), sizes, len(sizes))
    inner, outer_rows, inner_rows = axis + 1, len(sizes) - 2, len(sizes) - 1
    others = [a for a in range(len(sizes)) if a not in (axis, inner, outer_rows, inner_rows)]
    return [(_permuted(divided, [*others, outer_rows, axis, inner, inner_rows]), tile), *parts]


def _column_blocks(nest: Nest, lanes: int) -> list[Nest]:
    """A nest across rows, cut so that the last outer axis is as long as the vectors that are worked on at once."""
    axis = nest.n_outer - 1
    width = lanes * _unroll(nest, True)
    size = nest.sizes[axis]
    whole = size // width * width
    parts = []
    if whole:
        main = _part(nest, axis, 0, whole)
        sizes = (*main.sizes[:axis], whole // width, width, *main.sizes[axis + 1 :])
        parts.append(_mapped(main, lambda s: split(s, axis, width), sizes, nest.n_outer + 1))
    if whole < size:
        parts.append(_part(nest, axis, whole, size - whole))
    return parts


def _unroll(nest: Nest, across: bool) -> int:
    """Vectors at once: many for cheap work, to hide latencies; few where registers are short."""
    work = sum(cost(m.statement.expr) + 1 for m in nest.members if not m.is_row(nest))
    n_reduced = sum(isinstance(m.statement, Reduce) for m in nest.members)
    if work > 40:
        return 1 if work > 150 else 2
    if across:
        return 8 if n_reduced <= 1 and work <= 8 else 4
    return 4 if work <= 16 else 2


def _drop_long_locals(nest: Nest, lanes: int, across: bool) -> None:
    """Rows of temporaries that are too long for the kernel's frame go to memory."""
    row = product(nest.sizes[nest.n_outer :]) * (lanes * _unroll(nest, across) if across else 1)
    for member in nest.members:
        target = member.statement.target
        if (
            isinstance(member.statement, Assign)
            and not member.is_row(nest)
            and row * target.dtype.itemsize > SCRATCH_BYTES
        ):
            nest.local.discard(target.buffer)


def _finished(nest: Nest, lanes: int, across: bool, tile: int = 0) -> Loops:
    loops = Loops(nest, lanes, across, 1 if tile else _unroll(nest, across), tile)
    if nest.has_inner:
        loops.scratch = _scratch(nest, loops)
    outer = nest.n_outer - (across or not nest.has_inner) - (tile > 0)
    loops.units = product(nest.sizes[:outer])
    elements = product(nest.sizes[outer:])
    loops.unit_cost = elements * max(
        1, sum(cost(m.statement.expr) for m in nest.members if not m.is_row(nest)) // 2 + 1
    )
    return loops


def _scratch(nest: Nest, loops: Loops) -> dict[Buffer, tuple[int, ...]]:
    """Local buffers that a later pass than their own reads, with strides for a row (times the lanes, across rows)."""
    made = {
        m.statement.target.buffer: m.step
        for m in nest.members
        if isinstance(m.statement, Assign) and not m.is_row(nest) and m.statement.target.buffer in nest.local
    }
    late = {
        load.buffer
        for m in nest.members
        for load in m.statement.loads
        if load.buffer in made and m.step > made[load.buffer]
    }
    inner = contiguous_strides(nest.sizes[nest.n_outer :])
    if not loops.across:
        return {b: (*[0] * nest.n_outer, *inner) for b in late}
    width = nest.sizes[nest.n_outer - 1]
    return {b: (*[0] * (nest.n_outer - 1), 1, *(s * width for s in inner)) for b in late}
