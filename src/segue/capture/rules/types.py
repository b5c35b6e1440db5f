"""Instances of classes that derive from built-in ones: named tuples, dict and list classes, exceptions."""

from __future__ import annotations

import builtins
import collections
from typing import TYPE_CHECKING, Any

from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import polyfills, rule
from segue.capture.rules.exceptions import new_group
from segue.capture.values.base import MISSING, Value
from segue.capture.values.derived import BUILT_IN, DerivedValue, new_instance
from segue.capture.values.known import Known
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_callable = Known(callable)


def _exception_classes() -> list[type[BaseException]]:
    """The built-in exceptions whose `__init__` only keeps its arguments."""
    own = (ImportError, OSError, StopIteration, SyntaxError, SystemExit, UnicodeError, NameError, AttributeError)
    found = [c for c in vars(builtins).values() if isinstance(c, type) and issubclass(c, BaseException)]
    return [c for c in found if "__init__" in vars(c) and not issubclass(c, (*own, BaseExceptionGroup))]


@rule(*{c.__new__ for c in BUILT_IN})
def _new(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return new_instance(tr, tr.look(args[0]).concrete(tr), args[1:])


@rule(collections.OrderedDict)
def _ordered(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    made = DictValue({}, collections.OrderedDict)
    if args or kwargs:
        tr.call(tr.pinned(polyfills.dict_update), [made, *args], kwargs)
    return made


@rule(collections.defaultdict)
def _defaulting(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    made = new_instance(tr, collections.defaultdict, [])
    _init_defaulting(tr, [made, *args], kwargs)
    return made


@rule(collections.defaultdict.__init__)
def _init_defaulting(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = tr.look(args[0]).built_in()
    assert isinstance(target, DictValue)
    if target.source is not None:
        graph_break("unsupported-class", type="defaultdict")
    factory = tr.look(args[1]) if len(args) > 1 else tr.constant(None)
    if factory.real is not None and not tr.truth(tr.call(_callable, [factory], {})):
        tr.raise_error(TypeError, "first argument must be callable or None")
    target.factory = factory
    return tr.call(tr.pinned(polyfills.dict_update), [target, *args[2:]], kwargs)


@rule(collections.defaultdict.__missing__)
def _missing(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = tr.look(args[0]).built_in()
    assert isinstance(target, DictValue)
    return target.default(tr, tr.look(args[1]))


@rule(list.__init__)
def _init_list(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = tr.look(args[0]).built_in()
    assert isinstance(target, ListValue)
    target.replace(tr, list(tr.unpack(args[1])) if len(args) > 1 else [])
    return tr.constant(None)


@rule(set.__init__)
def _init_set(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = tr.look(args[0]).built_in()
    assert isinstance(target, SetValue)
    target.clear(tr)
    if len(args) > 1:
        target.update(tr, args[1])
    return tr.constant(None)


@rule(*{vars(c)["__init__"] for c in _exception_classes()})
def _exception_init(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    if isinstance(value, ExceptionValue):
        value.args = list(args[1:])
    return tr.constant(None)


def new_builtin(tr: Tracer, cls: type, new: Any, args: Args, kwargs: Kwargs) -> Value:
    """`cls.__new__` where it is a built-in's."""
    if any(new is c.__new__ for c in BUILT_IN):
        if lookup(cls, "__del__") is not MISSING:
            graph_break("unsupported-class", type=f"{cls.__name__} (which has __del__)")
        return new_instance(tr, cls, args)
    if issubclass(cls, BaseExceptionGroup):
        return new_group(tr, cls, args)
    if issubclass(cls, BaseException):
        made = ExceptionValue(cls, list(args))
        made.born = tr.here
        return made
    graph_break("unsupported-class", type=cls.__name__)


def init_builtin(tr: Tracer, made: Value, init: Any, args: Args, kwargs: Kwargs) -> None:
    """`__init__` where it is a built-in's."""
    if isinstance(made, ExceptionValue):
        if args or kwargs:
            made.args = list(args)
    elif isinstance(made, DerivedValue):
        tr.call(tr.constant(init), [made, *args], kwargs)
    elif not isinstance(made, TupleValue):
        graph_break("unsupported-class", type=made.python_type(tr).__name__)
