"""Iterators: over sequences and views, zip, enumerate, and generators of inlined functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture.values.base import NULL, Value, next_serial

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.capture.values.object import ExceptionValue


class IteratorValue(Value):
    """Base: an iterator is its own iterable."""

    kind: type = type(iter([]))

    def __init__(self, born: Place | None) -> None:
        self.born = born
        self.serial = next_serial()

    def python_type(self, tr: Tracer) -> type:
        return self.kind

    def truth(self, tr: Tracer) -> bool:
        return True

    def iterate(self, tr: Tracer) -> Value:
        return self

    def hash_key(self, tr: Tracer) -> Any:
        return self


class SequenceIterator(IteratorValue):
    """Over a list, tuple, range or string, by position."""

    def __init__(self, sequence: Value, born: Place | None, transient: bool = False) -> None:
        super().__init__(born)
        self.sequence = sequence
        self.position = 0
        self.transient = transient
        """The sequence was made for this iterator and is not what eager Python iterates over."""

    def __repr__(self) -> str:
        return f"iter({self.sequence})[{self.position}]"

    def next(self, tr: Tracer) -> Value | None:
        from segue.capture.values.known import Known
        from segue.capture.values.sequence import SequenceValue

        sequence = self.sequence
        tr.mutated(self)
        if isinstance(sequence, SequenceValue):
            items = sequence.items(tr)
            if self.position >= len(items):
                return None
            self.position += 1
            return items[self.position - 1]
        assert isinstance(sequence, Known)
        known = sequence.concrete(tr)
        if self.position >= len(known):
            return None
        self.position += 1
        return tr.constant(known[self.position - 1])

    def rebuild(self, to: Rebuilder) -> int:
        if self.transient:
            to.impossible(self)
        made = to.program.call(iter, to.register(self.sequence))
        if self.position:
            to.program.call(_advance, made, to.program.constant(self.position))
        return made


class ViewIterator(IteratorValue):
    """Over the items of a dict view or set, which were listed when iteration began."""

    kind: type = type(iter(dict[int, int]().keys()))

    def __init__(self, view: Value, items: list[Value], born: Place | None) -> None:
        super().__init__(born)
        self.view = view
        self.items = items
        self.position = 0

    def next(self, tr: Tracer) -> Value | None:
        tr.mutated(self)
        if self.position >= len(self.items):
            return None
        self.position += 1
        return self.items[self.position - 1]

    def rebuild(self, to: Rebuilder) -> int:
        if self.position:
            to.impossible(self)
        return to.program.call(iter, to.register(self.view))


class CombinedIterator(IteratorValue):
    """`zip`, `map`, `enumerate` and their kin: made by a C type from arguments, run by Python code of ours.

    `step` gives the next value or None; as long as nothing was taken the object can be rebuilt by calling the type.
    """

    def __init__(
        self, kind: type, args: list[Value], kwargs: dict[str, Value], body: Value, born: Place | None
    ) -> None:
        super().__init__(born)
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.body = body
        self.started = False

    def next(self, tr: Tracer) -> Value | None:
        self.started = True
        return self.body.next(tr)

    def rebuild(self, to: Rebuilder) -> int:
        if self.started:
            to.impossible(self)
        operands = [to.register(a) for a in (*self.args, *self.kwargs.values())]
        return to.program.call(self.kind, *operands, keywords=tuple(self.kwargs))


class GeneratorValue(IteratorValue):
    """A generator of an inlined function: a suspended frame."""

    def __init__(self, frame: Frame, born: Place | None) -> None:
        super().__init__(born)
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False

    def python_type(self, tr: Tracer) -> type:
        import types

        return types.GeneratorType

    def next(self, tr: Tracer) -> Value | None:
        return self.send(tr, None)

    def send(self, tr: Tracer, value: Value | None) -> Value | None:
        """Resume with a sent value; None at the end (the return value is then in `frame.result`)."""
        if self.finished:
            self.frame.result = None
            return None
        if self.running:
            tr.raise_error(ValueError, "generator already executing")
        tr.mutated(self)
        if self.started:
            self.frame.stack.append(value or tr.constant(None))
        self.started = True
        return self._resume(tr, lambda: self.frame.run(tr))

    def throw(self, tr: Tracer, exception: ExceptionValue) -> Value | None:
        """Resume by raising an exception at the yield."""
        if self.finished:
            from segue.capture.breaks import Raised

            raise Raised(exception)
        tr.mutated(self)
        return self._resume(tr, lambda: self.frame.throw(tr, exception))

    def _resume(self, tr: Tracer, run: Callable[[], Value]) -> Value | None:
        self.running = True
        try:
            yielded = run()
        except BaseException:
            self.finished = True
            raise
        finally:
            self.running = False
        if yielded is NULL:
            self.finished = True
            return None
        return yielded

    def rebuild(self, to: Rebuilder) -> int:
        if self.started or not self.frame.function_value:
            to.impossible(self)
        return to.generator(self)


def _advance(iterator: Any, position: int) -> None:
    iterator.__setstate__(position)
