"""`contextvars.ContextVar`: reads are guarded, writes are made after the graph, in order."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

from segue.capture import outputs
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.object import ObjectValue
from segue.guards.source import Computed, Source

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

UNSET: Any = object()


class TokenValue(Value):
    """What `set` gives; `before` is the value before, None if there was none."""

    def __init__(self, tr: Tracer, variable: Value, before: Value | None) -> None:
        self.variable = variable
        self.before = before
        self.born = tr.here

    def python_type(self, tr: Tracer) -> type:
        return contextvars.Token


def current(variable: contextvars.ContextVar[Any]) -> Any:
    """The value of a variable in this context, without its default."""
    return contextvars.copy_context().get(variable, UNSET)


def default_of(variable: contextvars.ContextVar[Any]) -> Any:
    """The default of a variable."""
    return contextvars.Context().run(variable.get, *([] if _has_default(variable) else [UNSET]))


def _has_default(variable: contextvars.ContextVar[Any]) -> bool:
    try:
        contextvars.Context().run(variable.get)
    except LookupError:
        return False
    return True


def _variable(tr: Tracer, value: Value) -> tuple[ObjectValue, Source]:
    found = tr.look(value)
    if not isinstance(found, ObjectValue) or found.source is None or tr.graph.bodies:
        graph_break("opaque-call", function="a context variable made in the function")
    return found, found.source


def _written(tr: Tracer) -> dict[int, Value | None]:
    """What the segment has set, by variable; None if it is unset again."""
    written: dict[int, Value | None] = tr.state.setdefault(contextvars.ContextVar, {})
    return written


def _read(tr: Tracer, variable: ObjectValue, source: Source) -> Value | None:
    """The value that is set, None if there is none."""
    written = _written(tr)
    if id(variable) in written:
        return written[id(variable)]
    place, found = Computed(source, current, (source,)), current(variable.real)
    tr.program.check("is" if found is UNSET else "is_not", place, tr.program.constant(UNSET))
    return None if found is UNSET else tr.wrap(found, place)


@rule(contextvars.ContextVar.get)
def _get(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    variable, source = _variable(tr, args[0])
    found = _read(tr, variable, source)
    if found is not None:
        return found
    if len(args) > 1:
        return args[1]
    place, default = Computed(source, default_of, (source,)), default_of(variable.real)
    tr.program.check("is" if default is UNSET else "is_not", place, tr.program.constant(UNSET))
    if default is UNSET:
        tr.raise_value(LookupError, [variable])
    return tr.wrap(default, place)


@rule(contextvars.ContextVar.set)
def _set(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    variable, source = _variable(tr, args[0])
    token = TokenValue(tr, variable, _read(tr, variable, source))
    outputs.note(tr, contextvars.ContextVar.set, variable, tr.look(args[1]), result=token)
    _written(tr)[id(variable)] = args[1]
    return token


@rule(contextvars.ContextVar.reset)
def _reset(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    variable, _ = _variable(tr, args[0])
    token = tr.look(args[1])
    if not isinstance(token, TokenValue) or token.variable is not variable:
        graph_break("opaque-call", function="ContextVar.reset() with a token from outside")
    outputs.note(tr, contextvars.ContextVar.reset, variable, token)
    _written(tr)[id(variable)] = token.before
    return tr.constant(None)
