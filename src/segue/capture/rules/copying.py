"""`copy.copy`, `copy.deepcopy` and what they ask of objects."""

from __future__ import annotations

import collections
import copyreg
from typing import TYPE_CHECKING, NamedTuple

import torch

from segue.capture.attributes import bind, class_attribute
from segue.capture.breaks import graph_break
from segue.capture.rules import inline, polyfills_copy, rule
from segue.capture.values.base import Value, is_heap_type
from segue.capture.values.object import ObjectValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

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
    if not isinstance(value, ObjectValue) or not is_heap_type(cls) or issubclass(cls, BaseException):
        graph_break("opaque-call", function=f"__reduce_ex__ of {cls.__name__}")


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


class _Copied(NamedTuple):
    """A tensor that was copied: with which memo, its fake storage, the program's tensor with that memory, where."""

    memo: Value
    storage: int
    given: tuple[Source, torch.Tensor] | None
    place: Place | None


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
    given = _given_memory(tr, storage)
    copied: list[_Copied] = tr.state.setdefault(_deepcopy, [])
    earlier = [c for c in copied if c.memo is memo]
    for other in earlier:
        if other.storage == storage._cdata or (given and other.given and _share(given[1], other.given[1])):
            tr.give_back(other.place, "a copy of tensors that share memory")  # the interpreter copies it once
    if given is not None:
        operands = [tr.program.fetch(c.given[0]) for c in earlier if c.given is not None]
        tr.program.check_plain("predicate", _is_apart, (tr.program.fetch(given[0]), *operands))
    if memo.source is not None:
        graph_break("opaque-call", function="deepcopy of a tensor when the interpreter has copied others")
    whole = storage.nbytes() == tensor.fake.numel() * tensor.fake.element_size()
    if tensor.fake.requires_grad or not whole or tensor.fake.is_conj() or tensor.fake.is_neg():
        graph_break("opaque-call", function="deepcopy of this tensor")
    made = tr.graph.call(tr, "call_function", torch.clone, [tensor], {})
    copied.append(_Copied(memo, storage._cdata, given, tr.here))
    memo.set_item(tr, key, made)
    return made


def _given_memory(tr: Tracer, storage: torch.UntypedStorage) -> tuple[Source, torch.Tensor] | None:
    """The tensor of the program whose memory a fake storage stands for, if it is one of the program's."""
    for value in tr.looked:
        if isinstance(value, TensorValue) and value.source is not None:
            if value.fake.untyped_storage()._cdata == storage._cdata:
                return value.source, value.real
    return None


def _share(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def _is_apart(tensor: torch.Tensor, *others: torch.Tensor) -> bool:
    return not any(_share(tensor, other) for other in others)
