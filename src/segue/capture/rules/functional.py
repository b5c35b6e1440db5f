"""Callables that make callables: `operator.itemgetter`, `functools.cmp_to_key`, bound methods; arithmetic built-ins."""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture import operators
from segue.capture.attributes import bind, special_method
from segue.capture.breaks import graph_break
from segue.capture.rules import inline, polyfills_functional, rule
from segue.capture.values.base import Value
from segue.capture.values.function import MethodValue, PartialValue
from segue.capture.values.helper import HelperValue
from segue.capture.values.known import Known
from segue.capture.values.sequence import TupleValue
from segue.capture.values.symbolic import SymbolicValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

for _python, *_targets in (
    (polyfills_functional.count_of, operator.countOf),
    (polyfills_functional.index_of, operator.indexOf),
    (polyfills_functional.length_hint, operator.length_hint),
    (polyfills_functional.call_, operator.call),
):
    inline(_python, *_targets)


def body_of(tr: Tracer, kind: Any, args: Args, kwargs: Kwargs) -> Value:
    """What stands in for an `itemgetter`, `attrgetter` or `methodcaller` made with these arguments."""
    if kind is operator.methodcaller:
        operands = [args[0], TupleValue(args[1:]), tr.new_dict(kwargs)]
    else:
        operands = [TupleValue(args)]
    return PartialValue(tr.pinned(_GETTERS[kind]), operands, {})


_GETTERS: dict[Any, Callable[..., Any]] = {
    operator.itemgetter: polyfills_functional.items_of,
    operator.attrgetter: polyfills_functional.attributes_of,
    operator.methodcaller: polyfills_functional.method_called,
}


def _getter(kind: Any) -> None:
    def make(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if not args:
            tr.raise_error(TypeError, f"{kind.__name__} expected 1 argument, got 0")
        return HelperValue(kind, args, kwargs, body_of(tr, kind, args, kwargs))

    rule(kind)(make)


for _kind in _GETTERS:
    _getter(_kind)


@rule(functools.cmp_to_key)
def _cmp_to_key(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    compare = args[0] if args else kwargs["mycmp"]
    body = PartialValue(tr.constant(polyfills_functional.ComparedKey), [compare], {})
    return HelperValue(functools.cmp_to_key, [compare], {}, body)


@rule(types.MethodType)
def _method(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return MethodValue(tr.look(args[0]), tr.look(args[1]))


@rule(
    *(
        vars(kind)["__get__"]
        for kind in (
            types.FunctionType,
            property,
            classmethod,
            staticmethod,
            types.MethodDescriptorType,
            types.WrapperDescriptorType,
            types.GetSetDescriptorType,
            types.MemberDescriptorType,
        )
    )
)
def _get(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`descriptor.__get__(instance, owner)`"""
    descriptor, instance = tr.look(args[0]), tr.look(args[1])
    is_none = instance.real is None
    if descriptor.python_type(tr) is types.FunctionType:
        return descriptor if is_none and len(args) > 2 else MethodValue(descriptor, instance)
    if not descriptor.is_constant() and descriptor.source is None:
        graph_break("opaque-call", function="__get__ of a new descriptor")
    owner = tr.look(args[2]).concrete(tr) if len(args) > 2 else instance.python_type(tr)
    name = getattr(descriptor.real, "__name__", "")
    return bind(tr, descriptor.real, None if is_none else instance, owner, name)


def _arithmetic(function: Callable[..., Any], name: str) -> None:
    """A built-in that asks a special method of its first argument."""

    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        values = [tr.look(a) for a in args]
        if all(isinstance(v, Known | SymbolicValue) for v in values):
            if not hasattr(getattr(type(values[0].real), name, None), "__code__"):
                return tr.fold(function, args, kwargs)
        method = special_method(tr, values[0], name)
        if method is None:
            cls = values[0].python_type(tr)
            tr.raise_error(TypeError, _REFUSALS[function].format(type=cls.__name__, name=name))
        return tr.call(method, values[1:], kwargs)

    rule(function)(call)


_REFUSALS: dict[Any, str] = {
    abs: "bad operand type for abs(): '{type}'",
    round: "type {type} doesn't define {name} method",
}

_arithmetic(abs, "__abs__")
_arithmetic(round, "__round__")


def _binary(function: Callable[..., Any], perform: Callable[[Tracer, Value, Value], Value]) -> None:
    """A built-in of two operands, of which not both are constants."""

    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        values = [tr.look(a) for a in (*args, *kwargs.values())]
        if all(isinstance(v, Known | SymbolicValue) for v in values):
            return tr.fold(function, args, kwargs)
        if len(values) != 2:
            graph_break("opaque-call", function=function.__name__)
        return perform(tr, *values)

    rule(function)(call)


def _divmod(tr: Tracer, a: Value, b: Value) -> Value:
    method, reflected = special_method(tr, a, "__divmod__"), special_method(tr, b, "__rdivmod__")
    for bound, operand in ((method, b), (reflected, a)):
        if bound is None or (bound is method and isinstance(a, Known | SymbolicValue)):
            continue
        result = tr.look(tr.call(bound, [operand], {}))
        if result.real is not NotImplemented:
            return result
    names = "' and '".join(v.python_type(tr).__name__ for v in (a, b))
    tr.raise_error(TypeError, f"unsupported operand type(s) for divmod(): '{names}'")


_binary(pow, lambda tr, a, b: operators.binary(tr, "**", a, b))
_binary(divmod, _divmod)
