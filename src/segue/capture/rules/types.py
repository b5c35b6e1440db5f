"""Instances of classes that derive from built-in ones: named tuples, dict and list classes, exceptions."""

from __future__ import annotations

import builtins
import collections
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.rules import polyfills, rule
from segue.capture.values.base import Value
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.sequence import TupleValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def _exception_classes() -> list[type[BaseException]]:
    """The built-in exceptions whose `__init__` only keeps its arguments."""
    own = (ImportError, OSError, StopIteration, SyntaxError, SystemExit, UnicodeError, NameError, AttributeError)
    found = [c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)]
    return [c for c in found if "__init__" in vars(c) and not issubclass(c, (*own, BaseExceptionGroup))]


@rule(tuple.__new__)
def _tuple_new(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls = tr.look(args[0]).concrete(tr)
    return TupleValue(list(tr.unpack(args[1])) if len(args) > 1 else [], cls)


@rule(collections.OrderedDict)
def _ordered(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    made = DictValue({}, collections.OrderedDict)
    if args or kwargs:
        tr.call(tr.pinned(polyfills.dict_update), [made, *args], kwargs)
    return made


@rule(*{vars(c)["__init__"] for c in _exception_classes()})
def _exception_init(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    if isinstance(value, ExceptionValue):
        value.args = list(args[1:])
    return tr.constant(None)


def new_builtin(tr: Tracer, cls: type, new: Any, args: Args, kwargs: Kwargs) -> Value:
    """`cls.__new__` where it is a built-in's."""
    if new is tuple.__new__:
        return TupleValue(list(tr.unpack(args[0])) if args else [], cls)
    if issubclass(cls, BaseException):
        made = ExceptionValue(cls, list(args))
        made.born = tr.here
        return made
    graph_break("unsupported-class", type=cls.__name__)


def init_builtin(tr: Tracer, made: Value, init: Any, args: Args, kwargs: Kwargs) -> None:
    """`__init__` where it is a built-in's."""
    if isinstance(made, ExceptionValue):
        if not args and not kwargs:
            return
        made.args = list(args)
        return
    if isinstance(made, TupleValue):
        return
    graph_break("unsupported-class", type=made.python_type(tr).__name__)
