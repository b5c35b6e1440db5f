"""Iterators: over sequences and views, zip, enumerate, and generators of inlined functions."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture.breaks import Raised, graph_break
from segue.capture.values.base import NULL, Value, next_serial
from segue.guards.source import Computed, Item, Pinned

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.capture.values.object import ExceptionValue
    from segue.guards.source import Source


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

    `step` gives the next value or None; as long as nothing was taken the object can be rebuilt by calling the type, or
    whatever else makes it.
    """

    def __init__(
        self,
        kind: type,
        args: list[Value],
        kwargs: dict[str, Value],
        body: Value,
        born: Place | None,
        maker: Any = None,
    ) -> None:
        super().__init__(born)
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.body = body
        self.maker = maker or kind
        self.started = False

    def next(self, tr: Tracer) -> Value | None:
        self.started = True
        return self.body.next(tr)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        if self.started:
            to.impossible(self)
        operands = [to.register(a) for a in (*self.args, *self.kwargs.values())]
        return to.program.call(self.maker, *operands, keywords=tuple(self.kwargs))


class ProgramIterator(IteratorValue):
    """An iterator of the program that a copy can be made of: over a list, a range, a dict, `enumerate`, …

    What it will give is looked at in a copy, at the gate; the segment advances it as far as the program did.
    """

    def __init__(self, real: Any, source: Source) -> None:
        super().__init__(None)
        self.kind = type(real)
        self.real = real
        self.source: Source = source
        self.position = 0

    @staticmethod
    def of(tr: Tracer, real: Any, source: Source) -> Value | None:
        """The value of an iterator; None if no copy can be made."""
        if not is_copyable(real):
            return None
        for other in tr.looked:
            if isinstance(other, ProgramIterator):
                assert other.source is not None
                if not are_apart(real, other.real):
                    graph_break("generator", what="an iterator inside another")
                tr.program.check_plain(
                    "predicate", are_apart, (tr.program.fetch(source), tr.program.fetch(other.source))
                )
        return tr.track(real, ProgramIterator(real, source))

    def next(self, tr: Tracer) -> Value | None:
        over = container_of(self.real)
        if any(over is None or value.real is over for value in tr.written.values() if value is not self):
            self.unsupported(tr, "next() after a write")
        place = Computed(self.source, peek, (self.source, Pinned(self.position)))
        found = peek(self.real, self.position)
        tr.program.check("is" if found is END else "is_not", place, tr.program.constant(END))
        self.position += 1
        tr.mutated(self)
        return None if found is END else tr.wrap(found, place)

    def rebuild(self, to: Rebuilder) -> int:
        return to.program.fetch(self.source)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effect that advances the program's iterator."""
        to.program.call(advance, to.register(self), to.program.constant(self.position))


END: Any = object()


def _parts(iterator: Any) -> Any:
    """What an iterator is made of: for `zip`, `map` and `filter` the function and the iterators that they take from."""
    return iterator.__reduce__()[1]


def peek(iterator: Any, position: int) -> Any:
    """What an iterator gives after `position` others; `END` if it does not."""
    return next(itertools.islice(copied(iterator), position, None), END)


def copied(iterator: Any) -> Any:
    """A copy of an iterator, which can be advanced without the iterator noticing."""
    if type(iterator) is enumerate:
        inner, count = _parts(iterator)
        return enumerate(copied(inner), count)
    return copy.copy(iterator)


def advance(iterator: Any, count: int) -> None:
    """Take items from an iterator."""
    for _ in range(count):
        next(iterator, None)


_ITERABLES: tuple[Any, ...] = ([], (), "", "\u0100", b"", range(0), range(1 << 70), {}, {}.values(), {}.items(), set())

COPYABLE: tuple[type, ...] = (
    *(type(iter(i)) for i in _ITERABLES),
    type(reversed([])),
    itertools.count,
    itertools.repeat,
)
"""Types of iterators whose `__reduce__` neither runs code of the program nor changes them."""


def _innermost(iterator: Any) -> Any:
    """The iterator that an `enumerate` takes from."""
    while type(iterator) is enumerate:
        iterator = _parts(iterator)[0]
    return iterator


def is_copyable(iterator: Any) -> bool:
    """Whether `copied` can be used on an iterator."""
    return type(_innermost(iterator)) in COPYABLE


def are_apart(a: Any, b: Any) -> bool:
    """Whether taking from one iterator leaves the other as it is."""
    return _innermost(a) is not _innermost(b)


def container_of(iterator: Any) -> Any:
    """What an iterator goes over, if that cannot change or is a list; None if it is not known."""
    inner = _innermost(iterator)
    if type(inner) in (itertools.count, itertools.repeat):
        return inner
    found = inner.__reduce__()[1][0]
    is_snapshot = type(found) is list and type(inner) not in (type(iter([])), type(reversed([])))
    return None if is_snapshot else found


def combined_of(tr: Tracer, real: Any, source: Source) -> Value | None:
    """The value of the program's `zip`, `map` or `filter`, whose state is all in the iterators that they take from."""
    from segue.capture.rules import polyfills

    reduced = real.__reduce__()
    python = {"zip": polyfills.zip_, "map": polyfills.map_, "filter": polyfills.filter_}[type(real).__name__]
    place = Computed(source, _parts, (source,))
    args = [tr.wrap(part, Item(place, number)) for number, part in enumerate(reduced[1])]
    if len(reduced) > 2 or not all(isinstance(tr.look(a), IteratorValue) for a in args[type(real) is not zip :]):
        return None
    tr.program.check("length", place, len(args))
    made = CombinedIterator(type(real), args, {}, tr.call(tr.pinned(python), args, {}), None)
    made.source, made.real = source, real
    return tr.track(real, made)


PROGRAM_ITERATORS: dict[type, Callable[..., Any]] = {
    **dict.fromkeys((*COPYABLE, enumerate), ProgramIterator.of),
    **dict.fromkeys((zip, map, filter), combined_of),
}
"""What makes the values of the program's iterators, by type."""


class GeneratorValue(IteratorValue):
    """A generator of an inlined function: a suspended frame."""

    def __init__(self, frame: Frame, born: Place | None) -> None:
        super().__init__(born)
        self.frame = frame
        self.started = False
        self.finished = False
        self.running = False
        self._handled: Value | None = None
        """What the generator's own handlers handle, while it is suspended."""
        self._outside: list[Value] = []

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
        if not self.started and value is not None and tr.look(value).real is not None:
            tr.raise_error(TypeError, "can't send non-None value to a just-started generator")
        tr.mutated(self)
        if self.started:
            self.frame.stack.append(value or tr.constant(None))
        self.started = True
        return self._resume(tr, lambda: self.frame.run(tr))

    def throw(self, tr: Tracer, exception: ExceptionValue) -> Value | None:
        """Resume by raising an exception at the yield, or in the generator that it delegates to."""
        if self.running:
            tr.raise_error(ValueError, "generator already executing")
        if self.finished or not self.started:
            self.finished = True
            raise Raised(exception)
        tr.mutated(self)
        return self._resume(tr, lambda: self._throw(tr, exception))

    def _throw(self, tr: Tracer, exception: ExceptionValue) -> Value:
        inner = self.frame.delegate()
        if inner is None or isinstance(inner := tr.look(inner), SequenceIterator | ViewIterator | CombinedIterator):
            return self.frame.throw(tr, exception)
        if not isinstance(inner, GeneratorValue):
            graph_break("generator", what="throw() through an iterator of the program")
        try:
            if issubclass(exception.cls, GeneratorExit):
                inner.close(tr)
                return self.frame.throw(tr, exception)
            yielded = inner.throw(tr, exception)
        except Raised as raised:
            return self.frame.throw(tr, raised.value)
        if yielded is not None:
            return yielded
        return self.frame.delegate_returned(tr, inner.frame.result or tr.constant(None))

    def close(self, tr: Tracer) -> None:
        """`generator.close()`."""
        from segue.capture.values.object import ExceptionValue

        if self.finished:
            return
        try:
            yielded = self.throw(tr, ExceptionValue(GeneratorExit, []))
        except Raised as raised:
            if not issubclass(raised.value.cls, (GeneratorExit, StopIteration)):
                raise
            return
        if yielded is not None:
            tr.raise_error(RuntimeError, "generator ignored GeneratorExit")

    def _resume(self, tr: Tracer, run: Callable[[], Value]) -> Value | None:
        self.running = True
        outside = tr.handled
        self._outside.append(outside)
        if self._handled is not None:
            tr.handled = self._handled
        try:
            yielded = run()
        except Raised as raised:
            self.finished = True
            if issubclass(raised.value.cls, StopIteration):
                self._stopped(tr, raised.value)
            raise
        except BaseException:  # a break or a restart: what is left of the frame can not be resumed
            self.finished = True
            raise
        finally:
            self.running = False
            is_own = not any(tr.handled is handled for handled in self._outside)
            self._handled = tr.handled if is_own else None
            tr.handled = outside
        if yielded is NULL:
            self.finished = True
            return None
        return yielded

    def _stopped(self, tr: Tracer, stop: ExceptionValue) -> NoReturn:
        from segue.capture.values.object import ExceptionValue

        error = ExceptionValue(RuntimeError, [tr.constant("generator raised StopIteration")])
        error.origin, error.born = stop.origin, stop.born
        error.chain = {"__cause__": stop, "__context__": stop}
        raise Raised(error)

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        function = self.frame.function_value
        if name in ("__name__", "__qualname__"):
            return tr.constant(function.name if name == "__name__" else function.qualname)
        if name == "gi_code":
            return tr.pinned(function.code)
        if name == "gi_running":
            return tr.constant(self.running)
        if name == "gi_suspended":
            return tr.constant(self.started and not self.running and not self.finished)
        if name == "gi_frame" and self.finished:
            return tr.constant(None)
        return super().special_attribute(tr, descriptor, name)

    def rebuild(self, to: Rebuilder) -> int:
        if self.started or not self.frame.function_value:
            to.impossible(self)
        return to.generator(self)


def _advance(iterator: Any, position: int) -> None:
    iterator.__setstate__(position)
