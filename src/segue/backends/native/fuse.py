"""Fusing statements into nests: one loop tree per row.

A *nest* has outer axes, whose index is called a row, and inner axes.  Its members run row by row, in *passes* over
the inner axes: what a reduction gives is known after its pass, so that layer_norm is three passes over a row that
stays in the cache.  A member may join a nest only if it takes what the nest makes at the very index at which it is
made; then the order of rows does not matter, and rows can run in parallel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from segue.backends.native.access import Affine, Split, arranged, invert, is_injective, permuted, split, squeezed
from segue.backends.native.inline import may_fail, reads, writes
from segue.backends.native.ir import Assign, Invoke, Load, Reduce, Statement, statement_text
from segue.graphs.aten import Buffer, View, product

MOST_MEMBERS = 2000
MOST_SPLITS = 12


@dataclass(eq=False)
class Member:
    """A statement over a nest's axes; one that runs once a row has size 1 on the inner axes.

    Attributes:
        step: the number of the pass that it runs in, or after if it runs once a row; -1 is before the first.
    """

    statement: Assign | Reduce
    step: int = 0

    def is_row(self, nest: Nest) -> bool:
        """Whether it runs once a row."""
        return isinstance(self.statement, Assign) and nest.has_inner and self.statement.sizes != nest.sizes


@dataclass(eq=False)
class Nest:
    """Loops over `sizes`; the first `n_outer` axes are the rows.  Without reductions there are no inner axes."""

    sizes: tuple[int, ...]
    n_outer: int
    members: list[Member] = field(default_factory=list)
    local: set[Buffer] = field(default_factory=set)

    @property
    def has_inner(self) -> bool:
        return self.n_outer < len(self.sizes)

    @property
    def n_passes(self) -> int:
        return 1 + max(m.step for m in self.members)

    def producers(self, buffer: Buffer) -> Iterator[Member]:
        """The members that write a buffer."""
        return (m for m in self.members if m.statement.target.buffer is buffer)

    def __str__(self) -> str:
        lines = [f"nest {list(self.sizes[: self.n_outer])} × {list(self.sizes[self.n_outer :])}"]
        for member in self.members:
            local = " (local)" if member.statement.target.buffer in self.local else ""
            lines.append(
                f"  {member.step}{'r' if member.is_row(self) else ' '} {statement_text(member.statement)}{local}"
            )
        return "\n".join(lines)


def fuse(
    statements: Iterable[Statement], kept: set[Buffer], arguments: AbstractSet[Buffer] = frozenset()
) -> list[Nest | Invoke]:
    """Nests and ATen operations in an order in which they can run.

    Args:
        statements: in program order.
        kept: buffers that have to be in memory at the end.
        arguments: buffers of the caller, which are written only after what may fail.
    """
    units: list[Nest | Invoke] = []
    touched: list[tuple[set[Buffer], set[Buffer]]] = []
    safe = 0
    for statement in statements:
        if isinstance(statement, Invoke):
            units.append(statement)
            touched.append((reads(statement), writes(statement)))
            safe = len(units)
            continue
        at = _join(units, touched, statement, safe if statement.target.buffer in arguments else 0)
        if at is None:
            units.append(_new_nest(statement))
            touched.append((reads(statement), writes(statement)))
        else:
            touched[at] = (touched[at][0] | reads(statement), touched[at][1] | writes(statement))
        if may_fail(statement):
            safe = max(safe, (len(units) - 1 if at is None else at) + 1)
    for unit in units:
        if isinstance(unit, Nest):
            _set_steps(unit)
    _find_local(units, kept)
    return units


def _new_nest(statement: Assign | Reduce) -> Nest:
    statement = squeezed(statement)
    if isinstance(statement, Reduce):
        statement = _inner_last(statement)
        return Nest(statement.sizes, len(statement.sizes) - len(statement.reduced), [Member(statement)])
    return Nest(statement.sizes, len(statement.sizes), [Member(statement)])


def _inner_last(statement: Reduce) -> Reduce:
    axes = range(len(statement.sizes))
    result = permuted(statement, sorted(axes, key=lambda a: a in statement.reduced))
    assert isinstance(result, Reduce)
    return result


def _join(
    units: list[Nest | Invoke],
    touched: list[tuple[set[Buffer], set[Buffer]]],
    statement: Assign | Reduce,
    first: int,
) -> int | None:
    """The number of the unit that the statement has been added to, which is not before the `first`."""
    read, written = reads(statement), writes(statement)
    for at in range(len(units) - 1, max(first, len(units) - 39) - 1, -1):
        unit = units[at]
        if isinstance(unit, Nest) and len(unit.members) < MOST_MEMBERS and _Joining(unit, statement).run():
            return at
        unit_reads, unit_writes = touched[at]
        if read & unit_writes or written & (unit_reads | unit_writes):
            return None
    return None


class _Joining:
    """An attempt to make a statement a member of a nest; changes the nest only if it succeeds."""

    def __init__(self, nest: Nest, statement: Assign | Reduce) -> None:
        self.sizes = nest.sizes
        self.n_outer = nest.n_outer
        self.members = [m.statement for m in nest.members]
        self.nest = nest
        self.statement = squeezed(statement)
        self.n_splits = 0

    def run(self) -> bool:
        placed = self._placed()
        if placed is None or not self._is_row_by_row(placed):
            return False
        self.nest.sizes, self.nest.n_outer = self.sizes, self.n_outer
        for member, statement in zip(self.nest.members, self.members, strict=True):
            member.statement = statement
        self.nest.members.append(Member(placed))
        return True

    # --- finding the axes -----------------------------------------------------------------------------

    def _placed(self) -> Assign | Reduce | None:
        """The statement over the nest's axes."""
        for member in self.members:
            target = member.target
            if target.buffer in self.statement.read:
                load = next(x for x in self.statement.loads if x.buffer is target.buffer)
                return self._follow(load, target)
        own = self.statement.target
        for member in self.members:
            if own.buffer not in member.read:
                continue
            for theirs in member.loads:
                if theirs.buffer is own.buffer and not theirs.terms:
                    return self._follow(Load(own.buffer, own.strides, own.offset), self._as_view(theirs))
        return self._beside()

    def _as_view(self, load: Load) -> View:
        return View(load.buffer, self.sizes, load.strides, load.offset)

    def _follow(self, load: Load, target: View) -> Assign | Reduce | None:
        """Over the nest's axes, so that `load` reads where `target` is written."""
        covered = [a for a, s in enumerate(target.strides) if s != 0]
        layout = View(
            target.buffer,
            tuple(self.sizes[a] for a in covered),
            tuple(target.strides[a] for a in covered),
            target.offset,
        )
        axes = invert(load, self.statement.sizes, layout)
        if isinstance(axes, Split):
            return self._split_own(axes.axis, axes.inner)
        if axes is None:
            return None
        for place, affine in zip(covered, axes, strict=True):
            radix = _finer(affine, self.statement.sizes, self.sizes[place])
            if radix is not None and self._split_nest(place, radix):
                return self._placed()
        chosen = [a.is_axis() for a in axes]
        if None in chosen or len(set(chosen)) != len(chosen):
            return None
        places = {int(own): place for own, place in zip(chosen, covered, strict=True) if own is not None}
        if any(self.statement.sizes[own] != self.sizes[place] for own, place in places.items()):
            return None
        return self._complete(places)

    def _split_own(self, axis: int, inner: int) -> Assign | Reduce | None:
        self.n_splits += 1
        if self.n_splits > MOST_SPLITS:
            return None
        self.statement = split(self.statement, axis, inner)
        return self._placed()

    def _split_nest(self, axis: int, inner: int) -> bool:
        self.n_splits += 1
        if self.n_splits > MOST_SPLITS:
            return False
        size = self.sizes[axis]
        self.members = [split(m, axis, inner) for m in self.members]
        self.sizes = (*self.sizes[:axis], size // inner, inner, *self.sizes[axis + 1 :])
        self.n_outer += axis < self.n_outer
        return True

    def _complete(self, places: dict[int, int]) -> Assign | Reduce | None:
        """Place the axes that the shared buffer does not tell, in their order."""
        own = [a for a in range(len(self.statement.sizes)) if a not in places]
        free = [a for a in range(len(self.sizes)) if a not in places.values()]
        if not own:
            inner = list(range(self.n_outer, len(self.sizes)))
            if free and (isinstance(self.statement, Reduce) or free != inner):
                return None
            return self._arranged(places)
        if product([self.statement.sizes[a] for a in own]) != product([self.sizes[a] for a in free]):
            return None
        for mine, theirs in zip(own, free, strict=False):
            n, m = self.statement.sizes[mine], self.sizes[theirs]
            if n == m:
                places[mine] = theirs
                continue
            if n > m and n % m == 0:
                # The first of the two axes is the outer one, so what remains is split off behind it.
                return self._split_own(mine, n // m)
            if m > n and m % n == 0 and self._split_nest(theirs, m // n):
                return self._placed()
            return None
        return self._arranged(places) if len(own) == len(free) else None

    def _beside(self) -> Assign | Reduce | None:
        """A statement that shares only what it reads: it must have the nest's axes, in order."""
        statement = self.statement
        if isinstance(statement, Reduce):
            statement = _inner_last(statement)
        if statement.sizes != self.sizes:
            return None
        wanted = {(x.buffer, x.strides, x.offset) for x in statement.loads if any(x.strides)}
        if not any((x.buffer, x.strides, x.offset) in wanted for m in self.members for x in m.loads):
            return None
        self.statement = statement
        return self._arranged({a: a for a in range(len(self.sizes))})

    def _is_reducing(self) -> bool:
        return self.n_outer < len(self.sizes)

    def _arranged(self, places: dict[int, int]) -> Assign | Reduce | None:
        """Over the nest's axes, given the place of each own axis; fits the nest's rows to a reduction."""
        missing = [a for a in range(len(self.sizes)) if a not in places.values()]
        placed = arranged(self.statement, places, [1 if a in missing else n for a, n in enumerate(self.sizes)])
        if not isinstance(placed, Reduce):
            return placed
        if self._is_reducing():
            return placed if placed.reduced == frozenset(range(self.n_outer, len(self.sizes))) else None
        order = sorted(range(len(self.sizes)), key=lambda a: a in placed.reduced)
        self.members = [permuted(m, order) for m in self.members]
        self.sizes = tuple(self.sizes[a] for a in order)
        self.n_outer = len(self.sizes) - len(placed.reduced)
        return permuted(placed, order)

    # --- checking -------------------------------------------------------------------------------------

    def _is_row_by_row(self, placed: Assign | Reduce) -> bool:
        """Whether every buffer that one of them writes is accessed by the others at the same index only."""
        new, used = _places(placed), placed.read | {placed.target.buffer}
        for member in self.members:
            if member.target.buffer not in used and new.buffer not in member.read:
                continue
            made = _places(member)
            if not all(_same(x, made) for x in placed.loads if x.buffer is made.buffer):
                return False
            if not all(_same(x, new) for x in member.loads if x.buffer is new.buffer):
                return False
            if new.buffer is made.buffer and (new.strides, new.offset) != (made.strides, made.offset):
                return False
        return True


def _places(statement: Assign | Reduce) -> View:
    """What a statement writes, with one index for each time."""
    target = statement.target
    if isinstance(statement, Assign):
        return target
    sizes = tuple(1 if a in statement.reduced else n for a, n in enumerate(target.sizes))
    return View(target.buffer, sizes, target.strides, target.offset)


def _same(load: Load, target: View) -> bool:
    if load.strides != target.strides or load.offset != target.offset or load.terms:
        return False
    return is_injective(target)


def _finer(affine: Affine, sizes: tuple[int, ...], size: int) -> int | None:
    """The size of the inner part, if two or more axes together run through one axis of the nest."""
    used = sorted((c, a) for a, c in enumerate(affine.coefficients) if c)
    if len(used) < 2 or affine.offset or affine.terms or used[0][0] != 1:
        return None
    inner = sizes[used[0][1]]
    return inner if used[1][0] == inner and size % inner == 0 else None


# --- passes and places ------------------------------------------------------------------------------------


def _set_steps(nest: Nest) -> None:
    """Number the passes: a reduction is known only after the pass that it runs in."""
    written: dict[Buffer, tuple[int, bool]] = {}
    read: dict[Buffer, int] = defaultdict(int)
    for member in nest.members:
        is_row = member.is_row(nest)
        step = -1 if is_row else 0
        buffers = reads(member.statement)
        for buffer in buffers & written.keys():
            at, after_pass = written[buffer]
            step = max(step, at + 1 if after_pass and not is_row else at)
        target = member.statement.target.buffer
        if target in read:
            step = max(step, read[target])
        if target in written:
            at, after_pass = written[target]
            step = max(step, at + 1 if after_pass and not is_row else at)
        member.step = step
        for buffer in buffers:
            read[buffer] = max(read[buffer], step)
        written[target] = (step, is_row or isinstance(member.statement, Reduce))


def _find_local(units: list[Nest | Invoke], kept: set[Buffer]) -> None:
    """Note the buffers that only one nest uses: they need no memory outside it."""
    users: dict[Buffer, set[int]] = defaultdict(set)
    for i, unit in enumerate(units):
        parts: list[Statement] = [unit] if isinstance(unit, Invoke) else [m.statement for m in unit.members]
        for part in parts:
            for buffer in reads(part) | writes(part):
                users[buffer].add(i)
    for i, unit in enumerate(units):
        if isinstance(unit, Nest):
            made = {m.statement.target.buffer for m in unit.members}
            unit.local = {b for b in made if users[b] == {i} and b not in kept}
