"""Putting producers into their consumers, so that what is computed and used once never reaches memory.

A buffer that is written in pieces (a concatenation, a padded tensor) is handled by cutting its consumers into the same
pieces, each of which then reads from one producer only.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from segue.backends.native import ir
from segue.backends.native.access import Affine, Split, invert, part, split, squeezed, substitute
from segue.backends.native.ir import DIVISION, Apply, Assign, Expr, Invoke, Load, Reduce, Statement, loads, walk
from segue.graphs.aten import Buffer, View, product

HEAVY = frozenset(
    """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc
    erfinv sigmoid lgamma digamma pow hypot remainder fmod floordiv truncdiv
    """.split()
)
"""Operations that take many instructions."""

DIVISIONS = frozenset(DIVISION.split())

LARGEST_EXPRESSION = 160
"""Nodes of an expression up to which it is put into its consumer: keeps the size of code linear in the graph's."""
MOST_PIECES = 8


def cost(expr: Expr) -> int:
    """About how many instructions an element takes, loads not counted."""
    return sum((12 if e.name in HEAVY else e.name != "cast") for e in walk(expr) if isinstance(e, Apply))


class Inliner:
    """One run over a list of statements.

    Args:
        statements: in program order.
        kept: buffers that have to be in memory whatever happens.
        arguments: buffers of the caller: what may fail stays before they are written, so that a run can be taken back.
    """

    def __init__(
        self, statements: Iterable[Statement], kept: set[Buffer], arguments: AbstractSet[Buffer] = frozenset()
    ) -> None:
        self.statements = [s if isinstance(s, Invoke) else with_shared_loads(squeezed(s)) for s in statements]
        self.kept = kept
        self.written_at: dict[Buffer, list[int]] = defaultdict(list)
        self.readers: dict[Buffer, int] = defaultdict(int)
        for i, statement in enumerate(self.statements):
            for buffer in writes(statement):
                self.written_at[buffer].append(i)
            for buffer in reads(statement):
                self.readers[buffer] += 1
        self.producers: dict[Buffer, list[tuple[int, Assign]]] = {}
        places = (i for i, s in enumerate(self.statements) if not arguments.isdisjoint(writes(s)))
        self.first_write = next(places, len(self.statements))

    def run(self) -> list[Statement]:
        """The statements, with producers put in and those that are no longer needed left out."""
        result: list[Statement] = []
        for i, statement in enumerate(self.statements):
            if isinstance(statement, Invoke):
                result.append(statement)
                continue
            pieces = [self._inlined(piece, i) for piece in self._cut(statement)]
            result += pieces
            for piece in pieces:
                self._note(piece, i)
        return without_dead(result, self.kept)

    def _note(self, statement: Assign | Reduce, i: int) -> None:
        buffer = statement.target.buffer
        if (
            isinstance(statement, Assign)
            and buffer not in self.kept
            and set(self.written_at[buffer]) <= self._region(buffer)
        ):
            self.producers.setdefault(buffer, []).append((i, statement))

    def _region(self, buffer: Buffer) -> set[int]:
        """Where the pieces of a buffer are written, if that is one run of Assigns and nothing else."""
        found = self.written_at[buffer]
        if len(found) > MOST_PIECES or not all(isinstance(self.statements[i], Assign) for i in found):
            return set()
        if len(found) > 1 and not _are_disjoint([self.statements[i].target for i in found]):  # type: ignore[union-attr]
            return set()
        return set(found)

    # --- consumers of several pieces ------------------------------------------------------------------

    def _cut(self, statement: Assign | Reduce) -> list[Assign | Reduce]:
        """The statement, cut so that none of its loads reads from two producers."""
        todo: list[Assign | Reduce] = [statement]
        done: list[Assign | Reduce] = []
        while todo:
            current = todo.pop(0)
            where = self._seam(current) if isinstance(current, Assign) else None
            if isinstance(current, Assign) and where is not None:
                todo[:0] = _halves(current, *where)
            else:
                done.append(current)
        return done if len(done) <= MOST_PIECES else [statement]

    def _seam(self, statement: Assign) -> tuple[int, int] | None:
        """The axis, and the index in it, where a load goes over from one producer to the next."""
        for load in statement.loads:
            pieces = self.producers.get(load.buffer, [])
            if len(pieces) < 2 or load.terms:
                continue
            for axis, stride in enumerate(load.strides):
                for _, piece in pieces:
                    at = piece.target.offset - load.offset
                    if stride > 0 and at > 0 and at % stride == 0 and at // stride < statement.sizes[axis]:
                        return axis, at // stride
        return None

    # --- one consumer ---------------------------------------------------------------------------------

    def _inlined(self, statement: Assign | Reduce, i: int) -> Assign | Reduce:
        refused: set[int] = set()
        size = sum(1 for _ in walk(statement.expr))
        while True:
            found = self._next(statement, i, refused)
            if found is None:
                return statement
            load, axes = found
            if isinstance(axes, Split):
                statement = split(statement, axes.axis, axes.inner)
                refused = set()
                continue
            producer = axes[1]
            size += sum(1 for _ in walk(producer.expr))
            if size > LARGEST_EXPRESSION:
                refused.add(id(load))
                size = sum(1 for _ in walk(statement.expr))
                continue
            value = substitute(producer.expr, axes[0], len(statement.sizes))
            if not reads_as_written(value, statement.target):
                refused.add(id(load))
                continue
            expr = ir.rewrite(statement.expr, lambda e, load=load, value=value: value if e is load else None)  # type: ignore[misc]
            statement = with_shared_loads(_with_expr(statement, expr))

    def _next(
        self, statement: Assign | Reduce, i: int, refused: set[int]
    ) -> tuple[Load, Split | tuple[list[Affine], Assign]] | None:
        for load in statement.loads:
            if id(load) in refused:
                continue
            for at, producer in self.producers.get(load.buffer, ()):
                if not self._is_current(producer, at, i) or not self._pays(producer, load, statement):
                    continue
                if may_fail(producer) and not (self._is_early(at, i) and _reads_all(load, statement.sizes, producer)):
                    continue
                axes = invert(load, statement.sizes, producer.target)
                if isinstance(axes, Split):
                    if axes.axis < len(statement.sizes) and len(statement.sizes) < 8:
                        return load, axes
                elif axes is not None:
                    return load, (axes, producer)
            refused.add(id(load))
        return None

    def _is_current(self, producer: Assign, at: int, i: int) -> bool:
        """Whether nothing that the producer reads has been written since."""
        return not any(at < w < i for load in producer.loads for w in self.written_at[load.buffer])

    def _is_early(self, at: int, i: int) -> bool:
        """Whether what is computed at `at` may as well be computed at `i`, as to what the caller sees if it fails."""
        return at >= self.first_write or i < self.first_write

    def _pays(self, producer: Assign, load: Load, consumer: Assign | Reduce) -> bool:
        price = cost(producer.expr)
        repeats = product(consumer.sizes) > product(producer.sizes)
        if repeats or load.terms:
            return price == 0 or (bool(load.terms) and not repeats)
        return self.readers[load.buffer] == 1 or (price <= 4 and len(producer.loads) <= 3)


def reads_as_written(expr: Expr, target: View) -> bool:
    """Whether an expression reads the target's buffer, if at all, only at the index that is written."""
    return all(
        load.strides == target.strides and load.offset == target.offset and not load.terms
        for load in loads(expr)
        if load.buffer is target.buffer
    )


def _reads_all(load: Load, sizes: Iterable[int], producer: Assign) -> bool:
    """Whether a load whose places differ reads as many elements as a producer makes."""
    return not load.terms and product([n for n, s in zip(sizes, load.strides, strict=True) if s]) == product(
        producer.sizes
    )


def with_shared_loads(statement: Assign | Reduce) -> Assign | Reduce:
    """The statement with one node for all loads of the same element, so that what replaces it is there once."""
    known: dict[tuple[Buffer, tuple[int, ...], int], Load] = {}

    def first(node: Expr) -> Expr | None:
        if not isinstance(node, Load) or node.terms:
            return None
        return known.setdefault((node.buffer, node.strides, node.offset), node)

    return _with_expr(statement, ir.rewrite(statement.expr, first))


def _with_expr(statement: Assign | Reduce, expr: Expr) -> Assign | Reduce:
    if isinstance(statement, Assign):
        return Assign(statement.target, expr)
    return Reduce(statement.target, expr, statement.combine, statement.reduced)


def _halves(statement: Assign, axis: int, at: int) -> list[Assign | Reduce]:
    """The statement below and from index `at` of an axis."""
    return [part(statement, axis, 0, at), part(statement, axis, at, statement.sizes[axis] - at)]


def _are_disjoint(targets: list[View]) -> bool:
    """Whether no two of the views have an element in common; only boxes of one layout are recognised."""
    strides = {1} | {s for v in targets for n, s in zip(v.sizes, v.strides, strict=True) if n > 1}
    ordered = sorted(strides, reverse=True)
    if ordered[-1] < 1 or any(large % small for large, small in itertools.pairwise(ordered)):
        return False
    boxes = [_box(v, ordered) for v in targets]
    return all(
        a is not None and b is not None and any(p[1] < q[0] or q[1] < p[0] for p, q in zip(a, b, strict=True))
        for i, a in enumerate(boxes)
        for b in boxes[:i]
    )


def _box(view: View, strides: list[int]) -> list[tuple[int, int]] | None:
    """The first and the last digit of a view's places for each stride, if none of its axes carries into another."""
    box: list[tuple[int, int]] = []
    rest, limit = view.offset, view.buffer.size
    for stride in strides:
        first, rest = divmod(rest, stride)
        last = first + sum(n - 1 for n, s in zip(view.sizes, view.strides, strict=True) if s == stride)
        if last * stride >= limit:
            return None
        box.append((first, last))
        limit = stride
    return box


# --- reading and writing ----------------------------------------------------------------------------------


def writes(statement: Statement) -> set[Buffer]:
    """The buffers that a statement writes."""
    if isinstance(statement, Invoke):
        return {r.buffer for r in statement.call.results if r is not None} | set(statement.call.written)
    return {statement.target.buffer}


def reads(statement: Statement) -> set[Buffer]:
    """The buffers that a statement reads."""
    if isinstance(statement, Invoke):
        return {v.buffer for v in statement.call.views()}
    return set(statement.read)


def may_fail(statement: Assign | Reduce) -> bool:
    """Whether a statement raises an error for some data: an index out of range, an integer divided by 0."""
    return any(
        isinstance(e, Apply) and (e.name == "bounded" or (e.name in DIVISIONS and not e.dtype.is_floating_point))
        for e in walk(statement.expr)
    )


def unread_failures(statements: Sequence[Statement], kept: set[Buffer]) -> set[Buffer]:
    """The buffers that nobody reads, but whose making may fail: it has to be tried nevertheless."""
    live = set(map(id, without_dead(list(statements), kept)))
    dead = [s for s in statements if id(s) not in live]
    return {s.target.buffer for s in dead if not isinstance(s, Invoke) and may_fail(s)}


def without_dead(statements: list[Statement], kept: set[Buffer]) -> list[Statement]:
    """Without Assigns and Reduces whose results nobody reads."""
    needed, result = set(kept), []
    for statement in reversed(statements):
        if isinstance(statement, Invoke) or statement.target.buffer in needed:
            needed |= reads(statement)
            result.append(statement)
    return result[::-1]
