"""Special methods of built-in types called by name, such as `list.__len__(x)` or `super().__setattr__(…)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture import attributes, operators
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.derived import BUILT_IN
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Method = Callable[["Tracer", Value, list[Value]], Any]


def _set_item(tr: Tracer, value: Value, args: list[Value]) -> Value:
    value.set_item(tr, args[0], args[1])
    return tr.constant(None)


def _delete_item(tr: Tracer, value: Value, args: list[Value]) -> Value:
    value.delete_item(tr, args[0])
    return tr.constant(None)


_METHODS: dict[str, Method] = {
    "__len__": lambda tr, v, a: tr.constant(v.length(tr)),
    "__getitem__": lambda tr, v, a: v.get_item(tr, a[0]),
    "__setitem__": _set_item,
    "__delitem__": _delete_item,
    "__contains__": lambda tr, v, a: tr.constant(v.contains(tr, a[0])),
    "__iter__": lambda tr, v, a: v.iterate(tr),
    "__reversed__": lambda tr, v, a: tr.call(tr.constant(reversed), [v], {}),
}


def _binary(symbol: str, reflected: bool, inplace: bool) -> Method:
    def call(tr: Tracer, value: Value, args: list[Value]) -> Value:
        a, b = value, tr.look(args[0]).built_in()
        if reflected:
            a, b = b, a
        found = operators.containers(tr, symbol, inplace, a, b)
        if found is None:
            return tr.constant(NotImplemented)
        return getattr(found, "owner", None) or found

    return call


def _comparison(symbol: str) -> Method:
    def call(tr: Tracer, value: Value, args: list[Value]) -> Value:
        other = tr.look(args[0]).built_in()
        if not any(isinstance(value, k) and isinstance(other, k) for k in (ListValue, TupleValue, DictValue, SetValue)):
            return tr.constant(NotImplemented)
        if isinstance(value, DictValue) and symbol not in ("==", "!="):
            return tr.constant(NotImplemented)
        return operators.compare(tr, symbol, value, other)

    return call


for _symbol, (_, _word) in operators.BINARY.items():
    _METHODS[f"__{_word}__"] = _binary(_symbol, reflected=False, inplace=False)
    _METHODS[f"__r{_word}__"] = _binary(_symbol, reflected=True, inplace=False)
    _METHODS[f"__i{_word}__"] = _binary(_symbol, reflected=False, inplace=True)
for _symbol, _named in operators.COMPARE.items():
    _METHODS[_named[1]] = _comparison(_symbol)


def _register(cls: type, name: str, method: Method) -> None:
    def call(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        value = tr.look(args[0]).built_in()
        if isinstance(value, SymbolicValue):
            value = tr.constant(value.concrete(tr))
        if isinstance(value, ObjectValue):  # its contents are not followed
            graph_break("unsupported-operation", operation=name, types=value.cls.__name__)
        result = method(tr, value, args[1:])
        assert isinstance(result, Value)
        return result

    rule(vars(cls)[name])(call)


for _cls in BUILT_IN:
    for _name, _method in _METHODS.items():
        if _name in vars(_cls):
            _register(_cls, _name, _method)
for _name in ("__contains__", "__iter__"):
    _register(str, _name, _METHODS[_name])


@rule(object.__setattr__, BaseException.__setattr__)
def _setattr(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.default_set(tr, tr.look(args[0]), tr.look(args[1]).concrete(tr), args[2])
    return tr.constant(None)


@rule(object.__delattr__, BaseException.__delattr__)
def _delattr(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.default_delete(tr, tr.look(args[0]), tr.look(args[1]).concrete(tr))
    return tr.constant(None)


@rule(*{vars(c)["__getattribute__"] for c in (object, *BUILT_IN) if "__getattribute__" in vars(c)})
def _getattribute(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return attributes.default_get(tr, tr.look(args[0]), tr.look(args[1]).concrete(tr))


@rule(object.__eq__)
def _eq(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tr.constant(True if operators.identical(tr, args[0], args[1]) else NotImplemented)


@rule(object.__ne__)
def _ne(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tr.constant(False if operators.identical(tr, args[0], args[1]) else NotImplemented)


@rule(type.__call__)
def _type_call(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    from segue.capture.calls import construct

    return construct(tr, tr.look(args[0]).concrete(tr), args[1:], kwargs)
