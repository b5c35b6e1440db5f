"""`inspect` and `typing`: what functions and classes say of themselves."""

from __future__ import annotations

import inspect
import types
import typing
from typing import TYPE_CHECKING, Any

from segue.capture.attributes import class_attribute
from segue.capture.breaks import graph_break
from segue.capture.rules import call_inlined, rule
from segue.capture.values.base import MISSING, Value
from segue.capture.values.function import FunctionValue, MethodValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


@rule(inspect.signature)
def _signature(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Of a function of the program it is a constant, as long as its defaults and annotations are the same objects."""
    target = tr.look(args[0]) if len(args) == 1 and not kwargs else None
    function = target.function if isinstance(target, MethodValue) else target
    if not isinstance(function, FunctionValue) or function.real is MISSING or not _is_plain(tr, function):
        return call_inlined(tr, inspect.signature, args, kwargs)
    real: Any = function.real
    return tr.pinned(inspect.signature(types.MethodType(real, real) if target is not function else real))


def _is_plain(tr: Tracer, function: FunctionValue) -> bool:
    """Whether a function's own code, defaults and annotations make its signature; guards them if so."""
    from segue.guards.source import Attr

    own = function.own_dict(tr)
    if any(own.find(tr, name) is not None for name in ("__wrapped__", "__signature__", "__text_signature__")):
        return False
    assert function.source is not None
    for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
        tr.program.check_is(Attr(function.source, name), getattr(function.real, name))
    return True


@rule(typing.get_type_hints)
def _type_hints(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Of a class whose annotations are objects, not texts that would have to be evaluated."""
    target = tr.look(args[0])
    if len(args) > 1 or kwargs or not target.is_constant() or not isinstance(target.real, type):
        graph_break("opaque-call", function="typing.get_type_hints() with these arguments")
    cls = target.concrete(tr)
    for base in cls.__mro__:
        class_attribute(tr, base, "__annotations__")
        if any(isinstance(hint, str | typing.ForwardRef) for hint in vars(base).get("__annotations__", {}).values()):
            graph_break("opaque-call", function="typing.get_type_hints() of annotations that are texts")
    hints = typing.get_type_hints(cls)
    return tr.new_dict({name: tr.pinned(hint) for name, hint in hints.items()})
