"""From an object of the program to its kind of value: the one place that decides it, by the object's exact type."""

from __future__ import annotations

import collections
import enum
import functools
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.attributes import lookup
from segue.capture.rules.wrappers import WRAPPERS
from segue.capture.values.base import Value
from segue.capture.values.function import CellValue, FunctionValue, MethodValue, PartialValue
from segue.capture.values.known import IDENTITY_TYPES, PRIMITIVES, Known
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ExceptionValue, ObjectValue
from segue.capture.values.sequence import ListValue, SliceValue, TupleValue
from segue.guards.source import Attr, DictItem, Item, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

_KNOWN = (
    *IDENTITY_TYPES,
    torch.device,
    enum.Enum,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    *WRAPPERS,
    *((sys.modules["numpy"].ufunc, type(sys.modules["numpy"].prod)) if "numpy" in sys.modules else ()),
)

Maker = Callable[["Tracer", Any, "Source"], Value]


def realise(tr: Tracer, obj: Any, source: Source) -> Value:
    """The value of an object, with its type guarded.

    `isinstance` is not asked of the object: its class may answer by code of its own.
    """
    cls = type(obj)
    if cls in PRIMITIVES or (cls not in MAKERS and issubclass(cls, _KNOWN)):
        return Known(obj, source)
    if not isinstance(source, Pinned) and not issubclass(cls, torch.Tensor):
        tr.program.check("type_is", source, cls)
    maker = MAKERS.get(cls)
    if maker is not None:
        return maker(tr, obj, source)
    for base, make in BASES:
        if issubclass(cls, base):
            made = make(tr, obj, source)
            if made is not None:
                return made
    return tr.track(obj, ObjectValue(cls, source, obj))


def _list(tr: Tracer, obj: Any, source: Source) -> Value:
    return tr.track(obj, ListValue(None, type(obj), source, obj))


def _tuple(tr: Tracer, obj: Any, source: Source) -> Value:
    if not isinstance(source, Pinned):
        tr.program.check("length", source, len(obj))
    items = [tr.wrap(tuple.__getitem__(obj, i), Item(source, i)) for i in range(len(obj))]
    return TupleValue(items, type(obj), source, obj)


def _dict(tr: Tracer, obj: Any, source: Source) -> Value:
    return tr.track(obj, DictValue(None, type(obj), source, obj))


def _set(tr: Tracer, obj: Any, source: Source) -> Value:
    if not all(isinstance(k, (*PRIMITIVES, *IDENTITY_TYPES)) for k in obj):
        return tr.track(obj, ObjectValue(type(obj), source, obj))
    if not isinstance(source, Pinned):
        tr.program.check_plain("predicate", functools.partial(_same_items, tuple(obj)), (tr.program.fetch(source),))
    return tr.track(obj, SetValue({k: tr.constant(k) for k in obj}, type(obj), source, obj))


def _same_items(expected: tuple[Any, ...], found: Any) -> bool:
    """Whether a set holds these very items, in this order of iteration."""
    if len(found) != len(expected):
        return False
    return all(type(a) is type(b) and repr(a) == repr(b) for a, b in zip(found, expected, strict=True))


def _function(tr: Tracer, obj: Any, source: Source) -> Value:
    return tr.track(obj, FunctionValue.of(tr, obj, source))


def _method(tr: Tracer, obj: Any, source: Source) -> Value:
    function = tr.look(tr.wrap(obj.__func__, Attr(source, "__func__")))
    return MethodValue(function, tr.wrap(obj.__self__, Attr(source, "__self__")), source, obj)


def _builtin(tr: Tracer, obj: Any, source: Source) -> Value:
    owner = getattr(obj, "__self__", None)
    descriptor = lookup(type(owner), obj.__name__) if owner is not None else None
    if isinstance(owner, (types.ModuleType, type)) or not isinstance(descriptor, types.MethodDescriptorType):
        return Known(obj, source)
    tr.program.check("equals", Attr(source, "__name__"), obj.__name__)
    return MethodValue(tr.constant(descriptor), tr.wrap(owner, Attr(source, "__self__")), source, obj)


def _partial(tr: Tracer, obj: Any, source: Source) -> Value:
    arguments, keywords = Attr(source, "args"), Attr(source, "keywords")
    tr.program.check("length", arguments, len(obj.args))
    tr.program.check("dict_keys", keywords, tuple(obj.keywords))
    return PartialValue(
        tr.wrap(obj.func, Attr(source, "func")),
        [tr.wrap(a, Item(arguments, i)) for i, a in enumerate(obj.args)],
        {k: tr.wrap(v, DictItem(keywords, k)) for k, v in obj.keywords.items()},
        source,
        obj,
    )


def _slice(tr: Tracer, obj: Any, source: Source) -> Value:
    start, stop, step = (tr.wrap(getattr(obj, n), Attr(source, n)) for n in ("start", "stop", "step"))
    return SliceValue(start, stop, step, source)


def _range(tr: Tracer, obj: Any, source: Source) -> Value:
    if any(tr.has_changed(Attr(source, part), getattr(obj, part)) for part in ("start", "stop", "step")):
        return ObjectValue(range, source, obj)  # what iterates over it runs in place
    return Known(obj, source)


def _cell(tr: Tracer, obj: Any, source: Source) -> Value:
    return CellValue.of(tr, obj, source)


def _tensor(tr: Tracer, obj: Any, source: Source) -> Value | None:
    from segue.capture.tensors import reason_against

    cls = type(obj)
    if reason_against(obj) is not None:
        tr.program.check("type_is", source, cls)
        return tr.track(obj, ObjectValue(cls, source, obj))
    tr.program.check(
        "tensor", source, cls, obj.dtype, obj.device.type, obj.device.index or 0,
        tuple(obj.shape), tuple(obj.stride()), obj.requires_grad,
    )  # fmt: skip
    return tr.track(obj, tr.graph.input_tensor(obj, source, cls))


def _exception(tr: Tracer, obj: Any, source: Source) -> Value | None:
    return tr.track(obj, ExceptionValue(type(obj), [], source, obj))


OVERRIDABLE = (
    "__getitem__ __setitem__ __delitem__ __contains__ __iter__ __len__ __bool__ __eq__ __hash__ append extend insert "
    "pop get update setdefault keys values items __getattribute__ __reversed__"
).split()


def _container(make: Maker, base: type) -> Maker:
    """Subclasses of a container are that kind as long as they keep its methods."""

    def made(tr: Tracer, obj: Any, source: Source) -> Any:
        cls = type(obj)
        if any(isinstance(lookup(cls, name), types.FunctionType) for name in OVERRIDABLE):
            return None
        if cls.__dictoffset__ and base in (list, set):
            return None
        return make(tr, obj, source)

    return made


MAKERS: dict[type, Maker] = {
    list: _list,
    tuple: _tuple,
    torch.Size: _tuple,
    dict: _dict,
    collections.OrderedDict: _dict,
    collections.defaultdict: _dict,
    set: _set,
    frozenset: _set,
    types.FunctionType: _function,
    types.MethodType: _method,
    types.BuiltinFunctionType: _builtin,
    functools.partial: _partial,
    slice: _slice,
    range: _range,
    types.CellType: _cell,
}

BASES: tuple[tuple[type, Any], ...] = (
    (torch.Tensor, _tensor),
    (BaseException, _exception),
    (tuple, _container(_tuple, tuple)),
    (dict, _container(_dict, dict)),
    (list, _container(_list, list)),
)
