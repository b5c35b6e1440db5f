"""`copy.copy`, `copy.deepcopy` and what they ask of objects."""

from __future__ import annotations

import collections
import copyreg
from typing import TYPE_CHECKING

import torch

from segue.capture.attributes import bind, class_attribute
from segue.capture.breaks import graph_break
from segue.capture.rules import inline, polyfills_copy, rule
from segue.capture.values.base import Value
from segue.capture.values.object import ObjectValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


@rule(object.__reduce_ex__)
def _reduce_ex(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    cls = value.python_type(tr)
    reduce = class_attribute(tr, cls, "__reduce__")
    if reduce is not object.__reduce__:
        return tr.call(bind(tr, reduce, value, cls, "__reduce__"), [], {})
    _refuse_native(tr, value)
    return tr.call(tr.pinned(polyfills_copy.reduce_ex), args, kwargs)


inline(polyfills_copy.reduce_set, set.__reduce__, frozenset.__reduce__)
inline(polyfills_copy.reduce_ordered, collections.OrderedDict.__reduce__)
inline(polyfills_copy.reduce_defaulting, collections.defaultdict.__reduce__)


@rule(object.__getstate__)
def _getstate(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _refuse_native(tr, tr.look(args[0]))
    return tr.call(tr.pinned(polyfills_copy.getstate), args, kwargs)


def _refuse_native(tr: Tracer, value: Value) -> None:
    """Only Python classes keep all that they hold in a `__dict__` and in slots."""
    cls = value.python_type(tr)
    if not isinstance(value, ObjectValue) or not cls.__flags__ & _HEAP_TYPE or issubclass(cls, BaseException):
        graph_break("opaque-call", function=f"__reduce_ex__ of {cls.__name__}")


_HEAP_TYPE = 1 << 9


@rule(copyreg._slotnames)  # type: ignore[attr-defined]
def _slot_names(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls = tr.look(args[0]).concrete(tr)
    class_attribute(tr, cls, "__slots__")
    return tr.plain_value(slot_names(cls))


def slot_names(cls: type) -> list[str]:
    """The names of the slots that the instances of a class have."""
    found: list[str] = []
    for owner in cls.__mro__:
        slots = vars(owner).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            private = name.startswith("__") and not name.endswith("__")
            if name not in ("__dict__", "__weakref__"):
                found.append(f"_{owner.__name__.lstrip('_')}{name}" if private else name)
    return found


@rule(torch.Tensor.__deepcopy__)
def _deepcopy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """A plain tensor that no gradients flow through; its copy is noted in the memo."""
    tensor, memo = tr.look(args[0]), tr.look(args[1])
    key = tr.call(tr.constant(id), [tensor], {})
    if memo.contains(tr, key):
        return memo.get_item(tr, key)
    if not isinstance(tensor, TensorValue) or tensor.python_type(tr) is not torch.Tensor:
        graph_break("opaque-call", function="deepcopy of this tensor")
    storage = tensor.fake.untyped_storage()
    whole = storage.nbytes() == tensor.fake.numel() * tensor.fake.element_size()
    if tensor.fake.requires_grad or not whole or tensor.fake.is_conj() or tensor.fake.is_neg():
        graph_break("opaque-call", function="deepcopy of this tensor")
    copied = tr.graph.call(tr, "call_function", torch.clone, [tensor], {})
    memo.set_item(tr, key, copied)
    return copied
