"""Special methods of built-in types called by name, such as `list.__len__(x)` or `super().__setattr__(…)`."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture import attributes, operators
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.object import ObjectValue

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
    "__eq__": lambda tr, v, a: operators.compare(tr, "==", v, a[0]),
    "__ne__": lambda tr, v, a: operators.compare(tr, "!=", v, a[0]),
    "__add__": lambda tr, v, a: operators.binary(tr, "+", v, a[0]),
}


def _register(cls: type, name: str, method: Method) -> None:
    def call(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        value = tr.look(args[0])
        if isinstance(value, ObjectValue):  # a subclass that overrides methods: its contents are not followed
            graph_break("unsupported-operation", operation=name, types=value.cls.__name__)
        result = method(tr, value, args[1:])
        assert isinstance(result, Value)
        return result

    rule(vars(cls)[name])(call)


for _cls in (list, tuple, dict, set, frozenset, collections.OrderedDict, collections.defaultdict, str):
    for _name, _method in _METHODS.items():
        if _name in vars(_cls) and not (_cls is str and _name in ("__add__", "__getitem__", "__len__")):
            _register(_cls, _name, _method)


@rule(object.__setattr__, BaseException.__setattr__)
def _setattr(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.default_set(tr, tr.look(args[0]), tr.look(args[1]).concrete(tr), args[2])
    return tr.constant(None)


@rule(object.__delattr__, BaseException.__delattr__)
def _delattr(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    attributes.default_delete(tr, tr.look(args[0]), tr.look(args[1]).concrete(tr))
    return tr.constant(None)


@rule(object.__getattribute__)
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
