"""LLVM text for a nest: the loops that `schedule` decided, over the vectors of the target.

A kernel is `i32 kernel(ptr pointers, i64 begin, i64 end)`: it runs the units from `begin` to `end` and returns whether
it failed.  What does not depend on an inner loop is computed before it.  The end of an axis that no whole vector fits
in is worked on with a shorter vector: sizes are known, so no masks are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from segue import config
from segue.backends.native.combine import Accumulator, accumulator, total
from segue.backends.native.fuse import Member
from segue.backends.native.ir import Apply, Assign, Constant, Expr, Index, Load, Reduce, operands
from segue.backends.native.schedule import Loops
from segue.backends.native.text import Function, Lanes, Module
from segue.backends.native.values import MEMORY, REGISTERS, Values
from segue.graphs.aten import Buffer, View

NAME = "kernel"


@dataclass(frozen=True)
class Vec:
    """Some neighbouring indices of the vector axis: `base` + `start`, and as many as there are lanes."""

    lanes: Lanes
    base: str
    start: int


@dataclass
class Kernel:
    """The text of a kernel and what its runner has to know.

    Attributes:
        function, declarations: its LLVM text, with the name NAME, and what that declares.
        buffers: whose pointers it takes, in order.
        written: the buffers among them that it writes.
        units: how many units there are.
        grain: units that one thread takes at least; 0: it runs on one thread.
    """

    function: str
    declarations: dict[str, str]
    buffers: list[Buffer]
    written: set[Buffer]
    units: int
    grain: int


def generate(loops: Loops, attributes: str, has_fma: bool = True, has_f16c: bool = True) -> Kernel:
    """The kernel for a nest.

    Args:
        loops: the nest and how its loops are to run.
        attributes: LLVM attributes of the function.
        has_fma: whether the target has fused multiply-add.
        has_f16c: whether it has conversions of float16.

    Raises:
        NotGenerated: it holds an operation that there is no code for.
    """
    module = Module(has_fma=has_fma, has_f16c=has_f16c, fast_math=config.fast_math)
    writer = _Writer(loops, Function(module))
    writer.write()
    writer.function.finish(NAME, "ptr %pointers, i64 %begin, i64 %end", "i32", attributes)
    buffers = list(writer.pointers)
    written = writer.written & set(buffers)
    return Kernel(module.functions[0], module.declarations, buffers, written, loops.units, loops.grain)


@dataclass
class _Writer:
    """Writes one kernel."""

    loops: Loops
    function: Function
    pointers: dict[Buffer, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nest = self.loops.nest
        self.nest = nest
        self.vector_axis = self.loops.vector_axis
        self.scalar = Lanes(self.function, 1)
        self.values = Values(self.function, self.function.allocate("i32", 1))
        self.index: dict[int, str] = {}
        self.is_vector: dict[Expr, bool] = {}
        self.once_a_row: dict[int, list[Member]] = {}
        self.in_pass: dict[int, list[Member]] = {}
        for member in nest.members:
            (self.once_a_row if member.is_row(nest) else self.in_pass).setdefault(member.step, []).append(member)
        self.written = {m.statement.target.buffer for m in nest.members}
        self.memo: list[dict[tuple[Expr, Vec | None], str]] = [{}]
        self.made: list[dict[tuple[Buffer, Vec | None], str]] = [{}]
        self.frames = {b: self.function.allocate(MEMORY[b.dtype], self._scratch_size(b)) for b in self.loops.scratch}
        for buffer in self._in_memory():
            slot = self.function.let(f"getelementptr ptr, ptr %pointers, i64 {len(self.pointers)}")
            self.pointers[buffer] = self.function.let(f"load ptr, ptr {slot}")

    def _scratch_size(self, buffer: Buffer) -> int:
        sizes, strides = self.nest.sizes, self.loops.scratch[buffer]
        return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))

    def _in_memory(self) -> Iterator[Buffer]:
        seen: set[Buffer] = set(self.nest.local)
        for member in self.nest.members:
            for buffer in (*(x.buffer for x in member.statement.loads), member.statement.target.buffer):
                if buffer not in seen:
                    seen.add(buffer)
                    yield buffer

    # --- loops ----------------------------------------------------------------------------------------

    def write(self) -> None:
        """The whole body."""
        f = self.function
        f.effect(f"store i32 0, ptr {self.values.failure}")
        if self.loops.units == 1:
            self._unit("0")
        else:
            f.loop("%begin", "%end", 1, [], lambda counter, _: self._scoped(lambda: self._unit(counter)))
        f.effect(f"ret i32 {f.fresh(f'load i32, ptr {self.values.failure}')}")

    def _scoped(self, body: Callable[[], list[str] | None]) -> list[str]:
        self.memo.append({})
        self.made.append({})
        try:
            return body() or []
        finally:
            self.memo.pop()
            self.made.pop()

    def _unit(self, unit: str) -> None:
        """Find the row's indices and run it."""
        sizes, n_rows = self.nest.sizes, self._n_row_axes()
        rest = unit
        for axis in reversed(range(n_rows)):
            if axis == 0:
                self.index[axis] = rest
            else:
                self.index[axis] = self.function.let(f"urem i64 {rest}, {sizes[axis]}")
                rest = self.function.let(f"udiv i64 {rest}, {sizes[axis]}")
        self._row()

    def _n_row_axes(self) -> int:
        return self.nest.n_outer - (self.loops.across or not self.nest.has_inner) - (self.loops.tile > 0)

    def _row(self) -> None:
        self._prepare(self.nest.members)
        if self.loops.across:
            self.row_vecs: list[Vec | None] = list(self._vecs("0", self.nest.sizes[self.vector_axis]))
        else:
            self.row_vecs = [None]
        self._row_members(-1)
        for step in range(self.nest.n_passes):
            self._pass(step)
            self._row_members(step)

    def _row_members(self, step: int) -> None:
        """What runs once a row after a pass."""
        for member in self.once_a_row.get(step, ()):
            for vec in self.row_vecs:
                self._assign(member, vec)

    def _pass(self, step: int) -> None:
        members = self.in_pass.get(step)
        if not members:
            return
        reductions = [m for m in members if isinstance(m.statement, Reduce)]
        inner = [a for a in range(self._n_row_axes(), len(self.nest.sizes)) if a != self.vector_axis]
        if self.loops.tile:
            self._tile_loop(members)
            return
        lanes = self._accumulator_lanes()
        accumulators = [[self._accumulator(m, n) for n in lanes] for m in reductions]
        carried = [c for group in accumulators for a in group for c in a.carried()]
        results = self._inner_loops(members, inner, accumulators, carried)
        self._take(accumulators, results)
        for member, group in zip(reductions, accumulators, strict=True):
            self._finish(member, group)

    def _accumulator(self, member: Member, lanes: Lanes) -> Accumulator:
        assert isinstance(member.statement, Reduce)
        return accumulator(self.values, lanes, member.statement.combine, member.statement.expr.dtype)

    def _accumulator_lanes(self) -> list[Lanes]:
        """One accumulator for each vector that is worked on at once, and one for the short one at the end."""
        size, width = self.nest.sizes[self.vector_axis], self.loops.lanes
        whole = min(self.loops.unroll, size // width) if not self.loops.across else size // width
        full = [Lanes(self.function, width)] * whole
        return full + ([Lanes(self.function, size % width)] if size % width else [])

    def _inner_loops(
        self,
        members: list[Member],
        axes: list[int],
        accumulators: list[list[Accumulator]],
        carried: list[tuple[str, str]],
    ) -> list[str]:
        if not axes:
            if self.loops.across:
                self._take(accumulators, [v for _, v in carried])
                self._body(members, [v for v in self.row_vecs if v is not None], accumulators)
                return _flat(accumulators)
            return self._vector_loop(members, accumulators, [v for _, v in carried])
        axis, kinds = axes[0], [k for k, _ in carried]

        def body(counter: str, values: list[str]) -> list[str]:
            def inside() -> list[str]:
                self.index[axis] = counter
                self._prepare(members)
                results = self._inner_loops(members, axes[1:], accumulators, list(zip(kinds, values, strict=True)))
                del self.index[axis]
                return results

            return self._scoped(inside)

        if self.nest.sizes[axis] == 1:
            return body("0", [v for _, v in carried])
        return self.function.loop("0", str(self.nest.sizes[axis]), 1, carried, body)

    def _vector_loop(
        self, members: list[Member], accumulators: list[list[Accumulator]], values: list[str]
    ) -> list[str]:
        """Along the vector axis: whole groups of vectors, then single ones, then a short one."""
        size, width = self.nest.sizes[self.vector_axis], self.loops.lanes
        stride = width * self.loops.unroll
        grouped = size // stride * stride
        self._take(accumulators, values)

        def group(base: str, now: list[str]) -> list[str]:
            def inside() -> list[str]:
                self._take(accumulators, now)
                lanes = Lanes(self.function, width)
                vecs = [Vec(lanes, base, k * width) for k in range(self.loops.unroll)]
                self._body(members, vecs, [g[: len(vecs)] for g in accumulators])
                return _flat(accumulators)

            return self._scoped(inside)

        if grouped > stride:
            kinds = [k for g in accumulators for a in g for k, _ in a.carried()]
            carried = list(zip(kinds, values, strict=True))
            self._take(accumulators, self.function.loop("0", str(grouped), stride, carried, group))
        elif grouped:
            self._take(accumulators, group("0", values))
        rest = self._vecs(str(grouped), size - grouped)
        for k, vec in enumerate(rest):
            is_short = vec.lanes.count != width
            chosen = [[g[-1] if is_short else g[k]] for g in accumulators]
            self._scoped(lambda vec=vec, chosen=chosen: self._body(members, [vec], chosen))  # type: ignore[misc]
        return _flat(accumulators)

    def _tile_loop(self, members: list[Member]) -> None:
        """Along the vector axis of a tile: a square of each crossing load is turned round in registers."""
        width, axis = self.loops.lanes, self.vector_axis - 1
        crossing = [
            load
            for member in members
            for load in member.statement.loads
            if load.strides[axis] == 1 and load.strides[self.vector_axis] not in (0, 1) and not load.terms
        ]

        def body(base: str, _: list[str]) -> list[str]:
            for first in range(0, self.loops.tile, width):
                self._scoped(lambda first=first: self._square(members, crossing, base, first))  # type: ignore[misc]
            return []

        self.function.loop("0", str(self.nest.sizes[self.vector_axis]), width, [], body)

    def _square(self, members: list[Member], crossing: list[Load], base: str, first: int) -> None:
        width, axis = self.loops.lanes, self.vector_axis - 1
        vec = Vec(Lanes(self.function, width), base, 0)
        self.index[axis] = "0"
        turned = {load: self._transposed(load, vec, first) for load in crossing}
        for k in range(width):
            self.index[axis] = str(first + k)

            def row(k: int = k) -> None:
                for load, rows in turned.items():
                    self.memo[-1][(load, vec)] = self.values.from_memory(vec.lanes, load.buffer.dtype, rows[k])
                self._body(members, [vec], [])

            self._scoped(row)
        del self.index[axis]

    def _transposed(self, load: Load, vec: Vec, first: int) -> list[str]:
        """Vectors along the vector axis for neighbouring indices of the axis before it, from loads along that axis.

        Pairs of rows exchange halves, quarters, ... (Eklundh, "A Fast Computer Method for Matrix Transposing", 1972).
        """
        element, width = MEMORY[load.buffer.dtype], vec.lanes.count
        kind, stride = vec.lanes.type(element), load.strides[self.vector_axis]
        base = self._base(load.buffer, load.strides, load.offset + first, ())
        rows = []
        for k in range(width):
            place = self._offset(base, element, Vec(self.scalar, vec.base, k), stride)
            rows.append(self.function.let(f"load {kind}, ptr {place}, align {_align(element)}"))
        distance = width // 2
        while distance:
            low = [k if not k & distance else width + k - distance for k in range(width)]
            high = [k + distance if not k & distance else width + k for k in range(width)]
            for i in (i for i in range(width) if not i & distance):
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (self._shuffled(kind, width, *pair, picks) for picks in (low, high))
            distance //= 2
        return rows

    def _shuffled(self, kind: str, width: int, x: str, y: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        return self.function.let(f"shufflevector {kind} {x}, {kind} {y}, <{width} x i32> <{mask}>")

    def _vecs(self, base: str, count: int) -> list[Vec]:
        """Vectors over `count` indices from a constant base."""
        width, start = self.loops.lanes, int(base)
        full = [Vec(Lanes(self.function, width), "0", start + k * width) for k in range(count // width)]
        short = count % width
        return full + ([Vec(Lanes(self.function, short), "0", start + count - short)] if short else [])

    def _take(self, accumulators: list[list[Accumulator]], values: list[str]) -> None:
        """Set the accumulators to values as they are carried."""
        at = 0
        for group in accumulators:
            for acc in group:
                acc.state = values[at : at + len(acc.state)]
                at += len(acc.state)

    # --- what is done at an index ---------------------------------------------------------------------

    def _body(self, members: list[Member], vecs: list[Vec], accumulators: list[list[Accumulator]]) -> None:
        """The members of a pass at some vectors; each reduction has an accumulator for each of these."""
        at = 0
        last_store = {m.statement.target.buffer: m for m in members if isinstance(m.statement, Assign)}
        for member in members:
            statement = member.statement
            if isinstance(statement, Assign):
                for vec in vecs:
                    self._assign(member, vec, last_store[statement.target.buffer] is member)
                continue
            for vec, acc in zip(vecs, accumulators[at], strict=True):
                value = self._value(statement.expr, vec)
                acc.add(value, lambda vec=vec: self._position(vec))  # type: ignore[misc]
            at += 1

    def _assign(self, member: Member, vec: Vec | None, stores: bool = True) -> None:
        target = member.statement.target
        value = self._value(member.statement.expr, vec)
        self.made[-1][(target.buffer, vec)] = value
        if vec is not None and vec.lanes.count == 1 and target.strides[self.vector_axis] == 0:
            self.made[-1][(target.buffer, None)] = value
        if target.buffer in self.nest.local and target.buffer not in self.loops.scratch:
            return
        if stores:
            self._store(target, vec, value)

    def _finish(self, member: Member, accumulators: list[Accumulator]) -> None:
        """What a reduction gives for a row, or for a row in each lane."""
        assert isinstance(member.statement, Reduce)
        target = member.statement.target
        results = [acc.result() for acc in accumulators] if self.loops.across else [total(accumulators)]
        for vec, value in zip(self.row_vecs, results, strict=True):
            self.made[-1][(target.buffer, vec)] = value
            if target.buffer not in self.nest.local:
                self._store(target, vec, value)

    def _position(self, vec: Vec) -> str:
        """The place of the reduced elements at hand among all those of the row, in row-major order, as i64 lanes."""
        inner = range(self.nest.n_outer, len(self.nest.sizes))
        position = "0"
        for axis in inner:
            if axis == self.vector_axis:
                scaled = self._times(position, self.nest.sizes[axis])
                return self._iota(vec, "i64", scaled)
            position = self._plus(self._times(position, self.nest.sizes[axis]), self.index.get(axis, "0"))
        return vec.lanes.splat("i64", position)

    # --- values ---------------------------------------------------------------------------------------

    def _value(self, expr: Expr, vec: Vec | None) -> str:
        """An expression at a vector, as lanes; or, without a vector, as a scalar."""
        if vec is None:
            return self._compute(expr, None)
        if isinstance(expr, Constant):
            return vec.lanes.constant(REGISTERS[expr.dtype], expr.value)
        if not self._is_vector(expr):
            return vec.lanes.splat(REGISTERS[expr.dtype], self._compute(expr, None))
        return self._compute(expr, vec)

    def _is_vector(self, expr: Expr) -> bool:
        """Whether an expression differs along the vector axis."""
        known = self.is_vector.get(expr)
        if known is None:
            known = self.is_vector[expr] = self._is_vector_anew(expr)
        return known

    def _is_vector_anew(self, expr: Expr) -> bool:
        if isinstance(expr, Index):
            return expr.axis == self.vector_axis
        if isinstance(expr, Load) and expr.strides[self.vector_axis] != 0:
            return True
        return any(self._is_vector(e) for e in operands(expr))

    def _compute(self, expr: Expr, vec: Vec | None) -> str:
        key = (expr, vec)
        for scope in reversed(self.memo):
            if key in scope:
                return scope[key]
        value = self.memo[-1][key] = self._compute_anew(expr, vec)
        return value

    def _compute_anew(self, expr: Expr, vec: Vec | None) -> str:
        lanes = vec.lanes if vec is not None else self.scalar
        if isinstance(expr, Constant):
            return lanes.constant(REGISTERS[expr.dtype], expr.value)
        if isinstance(expr, Index):
            return self._iota(vec, "i64", "0") if vec is not None else self.index[expr.axis]
        if isinstance(expr, Load):
            return self._load(expr, vec)
        assert isinstance(expr, Apply)
        args = [self._value(a, vec) for a in expr.args]
        return self.values.apply(lanes, expr.name, expr.dtype, [a.dtype for a in expr.args], args)

    def _iota(self, vec: Vec, element: str, plus: str) -> str:
        """The indices of a vector, as lanes."""
        first = self._plus(self._plus(vec.base, vec.start), plus)
        if vec.lanes.count == 1:
            return first
        steps = ", ".join(f"{element} {k}" for k in range(vec.lanes.count))
        return vec.lanes.op("add", element, vec.lanes.splat(element, first), f"<{steps}>")

    # --- memory ---------------------------------------------------------------------------------------

    def _load(self, load: Load, vec: Vec | None) -> str:
        made = self._already_made(load, vec)
        if made is not None:
            return made
        lanes = vec.lanes if vec is not None else self.scalar
        element = MEMORY[load.buffer.dtype]
        strides = self.loops.scratch.get(load.buffer, load.strides)
        changes = load.buffer in self.written
        if vec is not None and any(self._is_vector(t) for t, _ in load.terms):
            raw = self._gather(load, vec, element)
        else:
            offset = 0 if load.buffer in self.loops.scratch else load.offset
            base = self._base(load.buffer, strides, offset, load.terms)
            raw = self._read(base, element, strides[self.vector_axis], vec, changes)
        return self.values.from_memory(lanes, load.buffer.dtype, raw)

    def _already_made(self, load: Load, vec: Vec | None) -> str | None:
        """The value that a member has just given to what is loaded."""
        if load.buffer not in self.written:
            return None
        for scope in reversed(self.made):
            if (load.buffer, vec) in scope:
                return scope[(load.buffer, vec)]
        return None

    def _read(self, base: str, element: str, stride: int, vec: Vec | None, changes: bool) -> str:
        f = self.function
        take = f.fresh if changes else f.let
        if vec is None:
            return take(f"load {element}, ptr {base}")
        if stride == 1 or vec.lanes.count == 1:
            place = self._offset(base, element, vec, stride)
            return take(f"load {vec.lanes.type(element)}, ptr {place}, align {_align(element)}")
        kind, result = vec.lanes.type(element), "poison"
        for k in range(vec.lanes.count):
            place = self._offset(base, element, Vec(self.scalar, vec.base, vec.start + k), stride)
            one = take(f"load {element}, ptr {place}")
            result = f.let(f"insertelement {kind} {result}, {element} {one}, i64 {k}")
        return result

    def _gather(self, load: Load, vec: Vec, element: str) -> str:
        """Elements at computed places, one by one."""
        f = self.function
        base = self._base(
            load.buffer, load.strides, load.offset, tuple(t for t in load.terms if not self._is_vector(t[0]))
        )
        kind, result = vec.lanes.type(element), "poison"
        terms = [(self._value(t, vec), s) for t, s in load.terms if self._is_vector(t)]
        for k in range(vec.lanes.count):
            place = self._offset(
                base, element, Vec(self.scalar, vec.base, vec.start + k), load.strides[self.vector_axis]
            )
            for value, stride in terms:
                index = value
                if vec.lanes.count > 1:
                    index = f.let(f"extractelement {vec.lanes.type('i64')} {value}, i64 {k}")
                place = f.let(f"getelementptr {element}, ptr {place}, i64 {self._times(index, stride)}")
            one = f.let(f"load {element}, ptr {place}")
            if vec.lanes.count == 1:
                return one
            result = f.let(f"insertelement {kind} {result}, {element} {one}, i64 {k}")
        return result

    def _store(self, target: View, vec: Vec | None, value: str) -> None:
        f, buffer = self.function, target.buffer
        element = MEMORY[buffer.dtype]
        lanes = vec.lanes if vec is not None else self.scalar
        raw = self.values.to_memory(lanes, buffer.dtype, value)
        strides = self.loops.scratch.get(buffer, target.strides)
        base = self._base(buffer, strides, 0 if buffer in self.loops.scratch else target.offset, ())
        stride = strides[self.vector_axis]
        if vec is None:
            f.effect(f"store {element} {raw}, ptr {base}")
        elif stride == 1 or vec.lanes.count == 1:
            place = self._offset(base, element, vec, stride)
            f.effect(f"store {vec.lanes.type(element)} {raw}, ptr {place}, align {_align(element)}")
        else:
            for k in range(vec.lanes.count):
                place = self._offset(base, element, Vec(self.scalar, vec.base, vec.start + k), stride)
                one = f.let(f"extractelement {vec.lanes.type(element)} {raw}, i64 {k}")
                f.effect(f"store {element} {one}, ptr {place}")

    def _base(self, buffer: Buffer, strides: tuple[int, ...], offset: int, terms: tuple[tuple[Expr, int], ...]) -> str:
        """The address of an access but for the vector axis; each axis adds to it as soon as its index is known."""
        element = MEMORY[buffer.dtype]
        place = self.frames.get(buffer) or self.pointers[buffer]
        if offset:
            place = self.function.let(f"getelementptr {element}, ptr {place}, i64 {offset}")
        for axis, stride in enumerate(strides):
            if stride and axis != self.vector_axis and axis in self.index and self.index[axis] != "0":
                step = self._times(self.index[axis], stride)
                place = self.function.let(f"getelementptr {element}, ptr {place}, i64 {step}")
        for term, stride in terms:
            step = self._times(self._compute(term, None), stride)
            place = self.function.let(f"getelementptr {element}, ptr {place}, i64 {step}")
        return place

    def _offset(self, base: str, element: str, vec: Vec, stride: int) -> str:
        f, place = self.function, base
        if stride == 0:
            return base
        if vec.base != "0":
            place = f.let(f"getelementptr {element}, ptr {place}, i64 {self._times(vec.base, stride)}")
        return f.let(f"getelementptr {element}, ptr {place}, i64 {vec.start * stride}") if vec.start else place

    def _times(self, index: str, factor: int) -> str:
        if index == "0" or factor == 1:
            return index
        return self.function.let(f"mul i64 {index}, {factor}")

    def _plus(self, index: str, more: str | int) -> str:
        if str(more) == "0":
            return index
        return str(more) if index == "0" else self.function.let(f"add i64 {index}, {more}")

    # --- work that can be done before a loop ------------------------------------------------------------

    def _prepare(self, members: list[Member]) -> None:
        """Compute, ahead of the loops inside, what members need that does not depend on those loops."""
        for member in members:
            self._prepare_expr(member.statement.expr)
            target = member.statement.target
            if target.buffer in self.pointers or target.buffer in self.frames:
                strides = self.loops.scratch.get(target.buffer, target.strides)
                self._base(target.buffer, strides, 0 if target.buffer in self.frames else target.offset, ())

    def _prepare_expr(self, root: Expr) -> None:
        stack, seen = [root], set()
        while stack:
            expr = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            if isinstance(expr, Load):
                self._prepare_load(expr)
            elif not isinstance(expr, (Constant, Index)) and self._is_known(expr):
                self._compute(expr, None)
                continue
            stack += operands(expr)

    def _prepare_load(self, load: Load) -> None:
        if load.buffer in self.written:
            if load.buffer not in self.nest.local or load.buffer in self.frames:
                strides = self.loops.scratch.get(load.buffer, load.strides)
                self._base(load.buffer, strides, 0 if load.buffer in self.frames else load.offset, ())
        elif self._is_known(load):
            self._compute(load, None)
        elif not load.terms:
            self._base(load.buffer, load.strides, load.offset, ())

    def _is_known(self, expr: Expr) -> bool:
        """Whether an expression can be computed here: all the axes that it moves with have an index."""
        if isinstance(expr, Constant):
            return True
        if isinstance(expr, Index):
            return expr.axis in self.index and expr.axis != self.vector_axis
        if isinstance(expr, Load):
            if expr.buffer in self.written:
                return False
            if any(s and (a not in self.index or a == self.vector_axis) for a, s in enumerate(expr.strides)):
                return False
        return all(self._is_known(e) for e in operands(expr))


def _flat(accumulators: list[list[Accumulator]]) -> list[str]:
    return [v for group in accumulators for a in group for v in a.state]


def _align(element: str) -> int:
    return {"double": 8, "i64": 8, "float": 4, "i32": 4, "half": 2, "i16": 2}.get(element, 1)
