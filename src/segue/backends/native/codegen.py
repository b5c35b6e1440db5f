"""LLVM text for a nest: the loops that `schedule` decided, over the vectors of the target.

A kernel is `i32 kernel(ptr pointers, i64 begin, i64 end)`: it runs the units from `begin` to `end` and returns whether
it failed.  What does not depend on an inner loop is computed before it.  The end of an axis that no whole vector fits
in is worked on with a shorter vector: sizes are known, so no masks are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from segue import config
from segue.backends.native.combine import Accumulator, accumulator, total
from segue.backends.native.fuse import Member
from segue.backends.native.ir import Apply, Assign, Constant, Expr, Index, Load, Reduce, operands, walk
from segue.backends.native.memory import Memory, Vec, plus, times
from segue.backends.native.schedule import Loops
from segue.backends.native.text import Function, Lanes, Module
from segue.backends.native.values import REGISTERS, Values
from segue.graphs.aten import Buffer, View

NAME = "kernel"


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
    buffers = list(writer.memory.pointers)
    written = writer.written & set(buffers)
    return Kernel(module.functions[0], module.declarations, buffers, written, loops.units, loops.grain)


@dataclass
class _Writer:
    """Writes one kernel."""

    loops: Loops
    function: Function

    def __post_init__(self) -> None:
        nest = self.loops.nest
        self.nest = nest
        self.vector_axis = self.loops.vector_axis
        self.scalar = Lanes(self.function, 1)
        self.values = Values(self.function, self.function.allocate("i32", 1))
        self.index: dict[int, str] = {}
        self.is_vector = self._find_vectors()
        self.once_a_row: dict[int, list[Member]] = {}
        self.in_pass: dict[int, list[Member]] = {}
        for member in nest.members:
            (self.once_a_row if member.is_row(nest) else self.in_pass).setdefault(member.step, []).append(member)
        self.written = {m.statement.target.buffer for m in nest.members}
        self.memo: list[dict[tuple[Expr, Vec | None], str]] = [{}]
        self.made: list[dict[tuple[Buffer, Vec | None], str]] = [{}]
        self.memory = Memory(self.function, self.loops, self.index)
        for buffer in self._in_memory():
            self.memory.add_pointer(buffer)

    def _in_memory(self) -> Iterator[Buffer]:
        seen: set[Buffer] = set(self.nest.local)
        for member in self.nest.members:
            for buffer in (*(x.buffer for x in member.statement.loads), member.statement.target.buffer):
                if buffer not in seen:
                    seen.add(buffer)
                    yield buffer

    def _find_vectors(self) -> dict[Expr, bool]:
        """Whether each expression differs along the vector axis."""
        moves: dict[Expr, bool] = {}
        for member in self.nest.members:
            for expr in walk(member.statement.expr):
                moves[expr] = (
                    (isinstance(expr, Index) and expr.axis == self.vector_axis)
                    or (isinstance(expr, Load) and expr.strides[self.vector_axis] != 0)
                    or any(moves[e] for e in operands(expr))
                )
        return moves

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
                self._keep(member.statement.target, vec, self._assigned(member, vec))

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
            if load.buffer not in self.written
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
        turned = {load: self.memory.square(load, vec, first) for load in crossing}
        for k in range(width):
            self.index[axis] = str(first + k)

            def row(k: int = k) -> None:
                for load, rows in turned.items():
                    self.memo[-1][(load, vec)] = self.values.from_memory(vec.lanes, load.buffer.dtype, rows[k])
                self._body(members, [vec], [])

            self._scoped(row)
        del self.index[axis]

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
        """The members of a pass at some vectors; each reduction has an accumulator for each of these.

        Stores come last: a load that follows a store at the same place of another page waits for it.
        """
        at = 0
        stores: dict[tuple[Buffer, Vec], tuple[View, str]] = {}
        for member in members:
            statement = member.statement
            if isinstance(statement, Assign):
                for vec in vecs:
                    stores[statement.target.buffer, vec] = statement.target, self._assigned(member, vec)
                continue
            for vec, acc in zip(vecs, accumulators[at], strict=True):
                value = self._evaluated(statement.expr, vec)
                acc.add(value, lambda vec=vec: self._position(vec))  # type: ignore[misc]
            at += 1
        for (_, vec), (target, value) in stores.items():
            self._keep(target, vec, value)

    def _assigned(self, member: Member, vec: Vec | None) -> str:
        """The value that a member gives to its target."""
        target = member.statement.target
        value = self._evaluated(member.statement.expr, vec)
        self.made[-1][(target.buffer, vec)] = value
        if vec is not None and vec.lanes.count == 1 and target.strides[self.vector_axis] == 0:
            self.made[-1][(target.buffer, None)] = value
        return value

    def _keep(self, target: View, vec: Vec | None, value: str) -> None:
        """Store a value, unless nothing outside this row and pass needs it."""
        if target.buffer not in self.nest.local or target.buffer in self.loops.scratch:
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
                scaled = times(self.function, position, self.nest.sizes[axis])
                return self._iota(vec, "i64", scaled)
            position = plus(
                self.function, times(self.function, position, self.nest.sizes[axis]), self.index.get(axis, "0")
            )
        return vec.lanes.splat("i64", position)

    # --- values ---------------------------------------------------------------------------------------

    def _evaluated(self, root: Expr, vec: Vec | None) -> str:
        """The value of a whole expression; operands first, so that deep ones need no deep recursion."""
        for expr in walk(root):
            self._value(expr, vec)
        return self._value(root, vec)

    def _value(self, expr: Expr, vec: Vec | None) -> str:
        """An expression at a vector, as lanes; or, without a vector, as a scalar."""
        if vec is None:
            return self._compute(expr, None)
        if isinstance(expr, Constant):
            return vec.lanes.constant(REGISTERS[expr.dtype], expr.value)
        if not self.is_vector[expr]:
            return vec.lanes.splat(REGISTERS[expr.dtype], self._compute(expr, None))
        return self._compute(expr, vec)

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

    def _iota(self, vec: Vec, element: str, more: str) -> str:
        """The indices of a vector, as lanes."""
        first = plus(self.function, plus(self.function, vec.base, vec.start), more)
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
        if vec is not None and any(self.is_vector[t] for t, _ in load.terms):
            indices = [(self._value(t, vec), s) for t, s in load.terms if self.is_vector[t]]
            raw = self.memory.gather(load, self._scalar_terms(load), vec, indices)
        else:
            raw = self.memory.read(load, self._scalar_terms(load), vec, load.buffer in self.written)
        return self.values.from_memory(lanes, load.buffer.dtype, raw)

    def _scalar_terms(self, load: Load) -> list[tuple[str, int]]:
        return [(self._compute(t, None), s) for t, s in load.terms if not self.is_vector[t]]

    def _already_made(self, load: Load, vec: Vec | None) -> str | None:
        """The value that a member has just given to what is loaded."""
        if load.buffer not in self.written:
            return None
        for scope in reversed(self.made):
            if (load.buffer, vec) in scope:
                return scope[(load.buffer, vec)]
        return None

    def _store(self, target: View, vec: Vec | None, value: str) -> None:
        lanes = vec.lanes if vec is not None else self.scalar
        raw = self.values.to_memory(lanes, target.dtype, value)
        self.memory.write(Load(target.buffer, target.strides, target.offset), vec, raw)

    # --- work that can be done before a loop ------------------------------------------------------------

    def _prepare(self, members: list[Member]) -> None:
        """Compute, ahead of the loops inside, what members need that does not depend on those loops."""
        known: dict[Expr, bool] = {}
        for member in members:
            for expr in walk(member.statement.expr):
                if expr not in known:
                    known[expr] = self._is_known(expr, known)
                    self._prepare_expr(expr, known[expr])
            target = member.statement.target
            if target.buffer not in self.nest.local or target.buffer in self.loops.scratch:
                self.memory.base(Load(target.buffer, target.strides, target.offset))

    def _is_known(self, expr: Expr, known: dict[Expr, bool]) -> bool:
        """Whether an expression can be computed here: all the axes that it moves with have an index."""
        if isinstance(expr, Index):
            return expr.axis in self.index and expr.axis != self.vector_axis
        if isinstance(expr, Load):
            if expr.buffer in self.written:
                return False
            if any(s and (a not in self.index or a == self.vector_axis) for a, s in enumerate(expr.strides)):
                return False
        return all(known[e] for e in operands(expr))

    def _prepare_expr(self, expr: Expr, is_known: bool) -> None:
        if is_known:
            if not isinstance(expr, (Constant, Index)):
                self._compute(expr, None)
        elif isinstance(expr, Load) and not expr.terms:
            if expr.buffer not in self.nest.local or expr.buffer in self.loops.scratch:
                self.memory.base(expr)


def _flat(accumulators: list[list[Accumulator]]) -> list[str]:
    return [v for group in accumulators for a in group for v in a.state]
