"""Generators and iterators: their methods, `iter`, `next`, iterators of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.rules import polyfills_iteration, rule
from segue.capture.values.base import Value
from segue.capture.values.iterator import COPYABLE, CombinedIterator, GeneratorValue
from segue.capture.values.known import Known
from segue.capture.values.object import ExceptionValue, ObjectValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_Generator = type(_ for _ in ())


def _generator(tr: Tracer, value: Value) -> GeneratorValue:
    found = tr.look(value)
    if not isinstance(found, GeneratorValue):
        graph_break("generator", what="a generator of the program")
    return found


def _yielded(tr: Tracer, iterator: Value, value: Value | None) -> Value:
    """What an iterator gave, or the StopIteration with the result of a generator."""
    if value is not None:
        return value
    result = iterator.frame.result if isinstance(iterator, GeneratorValue) else None
    tr.raise_value(StopIteration, [] if result is None or tr.look(result).real is None else [result])


@rule(next)
def _next_or_default(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    iterator = tr.look(args[0])
    item = iterator.next(tr)
    return args[1] if item is None and len(args) > 1 else _yielded(tr, iterator, item)


@rule(_Generator.send)
def _send(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    generator = _generator(tr, args[0])
    return _yielded(tr, generator, generator.send(tr, args[1]))


@rule(_Generator.throw)
def _throw(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    generator, thrown = _generator(tr, args[0]), tr.look(args[1])
    given = tr.look(args[2]) if len(args) > 2 else tr.constant(None)
    if isinstance(given, ExceptionValue):
        thrown = given
    elif isinstance(thrown, Known) and isinstance(thrown.real, type):
        thrown = tr.look(tr.call(thrown, [] if given.real is None else [given], {}))
    if not isinstance(thrown, ExceptionValue):
        graph_break("generator", what="throw() of this exception")
    return _yielded(tr, generator, generator.throw(tr, thrown))


@rule(_Generator.close)
def _close(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _generator(tr, args[0]).close(tr)
    return tr.constant(None)


@rule(iter)
def _iter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if len(args) == 1:
        return tr.look(args[0]).iterate(tr)
    body = tr.call(tr.pinned(polyfills_iteration.call_until), args, kwargs)
    return CombinedIterator(type(iter(int, 1)), args, kwargs, body, born=tr.here, maker=iter)


def iterate_by_items(tr: Tracer, sequence: Value) -> Value:
    """`iter()` of an object whose class has `__getitem__` only."""
    body = tr.call(tr.pinned(polyfills_iteration.items_of), [sequence], {})
    return CombinedIterator(_SequenceIterator, [sequence], {}, body, born=tr.here, maker=iter)


class _Sequence:
    def __getitem__(self, index: int) -> Any:
        raise IndexError


_SequenceIterator = type(iter(_Sequence()))


@rule(*{vars(c)["__next__"] for c in (*COPYABLE, enumerate, zip, map, filter, _Generator)})
def _next(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if isinstance(tr.look(args[0]), ObjectValue):
        graph_break("generator", what="a generator or iterator of the program")
    return tr.call(tr.constant(next), args, kwargs)


@rule(*{vars(c)["__iter__"] for c in (*COPYABLE, enumerate, zip, map, filter, _Generator)})
def _itself(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.look(args[0])
