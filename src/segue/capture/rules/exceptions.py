"""Exceptions: their texts and methods, exception groups, `sys.exc_info`."""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import inline, polyfills_exceptions, rule
from segue.capture.rules.texts import join, text
from segue.capture.values.base import Value
from segue.capture.values.known import Known
from segue.capture.values.object import ExceptionValue
from segue.capture.values.sequence import ListValue, SequenceValue, TupleValue
from segue.guards.source import Computed

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

inline(polyfills_exceptions.add_note, BaseException.add_note)
inline(polyfills_exceptions.with_traceback, BaseException.with_traceback)
inline(polyfills_exceptions.derive, BaseExceptionGroup.derive)
inline(polyfills_exceptions.split, BaseExceptionGroup.split)
inline(polyfills_exceptions.subgroup, BaseExceptionGroup.subgroup)

_TEXT_OF_STATE = (OSError, SyntaxError, UnicodeError)
"""Exceptions whose text is not made of their arguments alone."""


def exception_text(tr: Tracer, value: ExceptionValue, function: Callable[..., Any]) -> Value:
    """`str`, `repr` or `ascii` of an exception."""
    method = "__str__" if function is str else "__repr__"
    found = lookup(value.cls, method)
    if isinstance(found, types.FunctionType):
        tr.guard_class(value.cls, method)
        return tr.call(tr.pinned(found), [value], {})
    return _built_in_text(tr, value, function)


def _built_in_text(tr: Tracer, value: ExceptionValue, function: Callable[..., Any]) -> Value:
    if value.source is not None:
        return _text_of_programs(tr, value, function)
    if issubclass(value.cls, _TEXT_OF_STATE) and function is str:
        graph_break("opaque-call", function=f"str() of {value.cls.__name__}")
    if function is not str:
        if len(value.args) != 1:
            return join(tr, [tr.constant(value.cls.__name__), text(tr, function, TupleValue(list(value.args)))])
        inside = text(tr, function, value.args[0])
        return join(tr, [tr.constant(f"{value.cls.__name__}("), inside, tr.constant(")")])
    if isinstance(value.members, SequenceValue):
        count = value.members.length(tr)
        ending = f" ({count} sub-exception{'s' if count != 1 else ''})"
        return join(tr, [text(tr, str, value.args[0]), tr.constant(ending)])
    if not value.args:
        return tr.constant("")
    if len(value.args) == 1:
        return text(tr, repr if issubclass(value.cls, KeyError) else str, value.args[0])
    return text(tr, str, TupleValue(list(value.args)))


def _text_of_programs(tr: Tracer, value: ExceptionValue, function: Callable[..., Any]) -> Value:
    """The text of an exception that came from outside: read at the gate if nothing of the program's runs for it."""
    args = value.real.args
    if not all(type(a) in (str, int, float, bool, type(None)) for a in args) or issubclass(
        value.cls, BaseExceptionGroup
    ):
        graph_break("opaque-call", function=f"{function.__name__}() of {value.cls.__name__}")
    source = value.source
    assert source is not None
    return tr.wrap(function(value.real), Computed(source, function, (source,)))


def _text_method(function: Callable[..., Any], *methods: Any) -> None:
    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        value = tr.look(args[0])
        if not isinstance(value, ExceptionValue):
            graph_break("opaque-call", function=f"BaseException.__{function.__name__}__()")
        return _built_in_text(tr, value, function)

    rule(*methods)(call)


_BUILT_IN = [c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)]
_text_method(str, *{vars(c)["__str__"] for c in _BUILT_IN if "__str__" in vars(c)})
_text_method(repr, BaseException.__repr__)


@rule(sys.exc_info)
def _exc_info(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    handled = tr.handled
    if not isinstance(handled, ExceptionValue):
        return TupleValue([tr.constant(None)] * 3)
    traceback = handled.get_attribute(tr, "__traceback__")
    return TupleValue([tr.constant(handled.cls), handled, traceback])


@rule(sys.exception)
def _exception(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.handled


def new_group(tr: Tracer, cls: type, args: Args) -> Value:
    """`cls(message, exceptions)` for an exception group."""
    if len(args) != 2:
        graph_break("unsupported-class", type=cls.__name__)
    message, given = tr.look(args[0]), tr.look(args[1])
    if not isinstance(given, SequenceValue) or not issubclass(message.python_type(tr), str):
        graph_break("unsupported-class", type=cls.__name__)
    members = [tr.look(m) for m in given.items(tr)]
    if not members or not all(isinstance(m, ExceptionValue) for m in members):
        graph_break("unsupported-class", type=cls.__name__)
    are_usual = all(issubclass(m.python_type(tr), Exception) for m in members)
    if cls is BaseExceptionGroup and are_usual:
        cls = ExceptionGroup
    elif issubclass(cls, Exception) and not are_usual:
        inside = "an ExceptionGroup" if cls is ExceptionGroup else f"'{cls.__name__}'"
        tr.raise_error(TypeError, f"Cannot nest BaseExceptions in {inside}")
    made = ExceptionValue(cls, list(args))
    made.members = TupleValue(members)
    made.born = tr.here
    return made


def star_match(tr: Tracer, exception: Value, wanted: Value) -> tuple[Value, Value]:
    """What `except* wanted` takes of an exception, and the rest."""
    none = tr.constant(None)
    classes = [tr.look(w) for w in tr.unpack(wanted)] if not isinstance(wanted, Known) else [wanted]
    objects = [c.concrete(tr) for c in classes]
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in objects):
        tr.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    if any(issubclass(c, BaseExceptionGroup) for c in objects):
        tr.raise_error(TypeError, "catching ExceptionGroup with except* is not allowed. Use except instead.")
    if exception.real is None:
        return none, none
    if not isinstance(exception, ExceptionValue) or exception.source is not None:
        graph_break("opaque-call", function="except* for an exception that was raised outside")
    is_group = issubclass(exception.cls, BaseExceptionGroup)
    if issubclass(exception.cls, tuple(objects)):
        if is_group:
            return exception, none
        return new_group(tr, BaseExceptionGroup, [tr.constant(""), TupleValue([exception])]), none
    if not is_group:
        return none, exception
    pair = tr.call(exception.get_attribute(tr, "split"), [wanted], {})
    match, rest = (tr.look(part) for part in tr.unpack(pair))
    for part in (match, rest):
        if isinstance(part, ExceptionValue):
            part.raised_as, part.origin = exception.raised_as, exception.origin
    return match, rest


def star_rest(tr: Tracer, exception: Value, left: list[Value]) -> Value:
    """What `except*` raises at its end, of what its handlers raised and left; None if nothing."""
    parts = [part for part in map(tr.look, left) if isinstance(part, ExceptionValue)]
    if not isinstance(exception, ExceptionValue) or not parts:
        return tr.constant(None)
    if not issubclass(exception.cls, BaseExceptionGroup):
        return parts[0]
    raised = [part for part in parts if part.raised_as is not exception.raised_as]
    rest = [part for part in parts if part.raised_as is exception.raised_as]
    function = tr.pinned(polyfills_exceptions.star_rest)
    found = tr.look(tr.call(function, [exception, ListValue(list(raised)), ListValue(list(rest))], {}))
    if isinstance(found, ExceptionValue) and found.origin is None:
        found.raised_as, found.origin = exception.raised_as, exception.origin
    return found
