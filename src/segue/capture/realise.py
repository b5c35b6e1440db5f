"""From an object of the program to its kind of value: the one place that decides it, by the object's exact type."""

from __future__ import annotations

import collections
import enum
import functools
import re
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.attributes import lookup
from segue.capture.rules.wrappers import WRAPPERS
from segue.capture.values.base import ContainerValue, Value
from segue.capture.values.derived import DerivedValue, base_of, is_plain_tuple
from segue.capture.values.function import CellValue, FunctionValue, MethodValue, PartialValue
from segue.capture.values.iterator import PROGRAM_ITERATORS
from segue.capture.values.known import IDENTITY_TYPES, PRIMITIVES, Known
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ExceptionValue, ObjectValue
from segue.capture.values.proxy import MappingProxyValue
from segue.capture.values.sequence import ListValue, SliceValue, TupleValue
from segue.guards.source import Attr, DictItem, Item, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

_KNOWN = (
    *IDENTITY_TYPES,
    re.Pattern,
    re.Match,
    types.GenericAlias,
    torch.device,
    enum.Enum,
    types.UnionType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
    *WRAPPERS,
    *((sys.modules["numpy"].ufunc, type(sys.modules["numpy"].prod)) if "numpy" in sys.modules else ()),
)

Maker = Callable[["Tracer", Any, "Source"], "Value | None"]


def realise(tr: Tracer, obj: Any, source: Source) -> Value:
    """The value of an object, with its type guarded.

    `isinstance` is not asked of the object: its class may answer by code of its own.
    """
    cls = type(obj)
    if not isinstance(source, Pinned) and not issubclass(cls, torch.Tensor):
        tr.program.check("type_is", source, cls)
    if cls in PRIMITIVES or (cls not in MAKERS and issubclass(cls, _KNOWN)):
        return Known(obj, source)
    maker = MAKERS.get(cls)
    if maker is not None:
        made = maker(tr, obj, source)
        return made if made is not None else tr.track(obj, ObjectValue(cls, source, obj))
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
    return TupleValue(_items(tr, obj, source), type(obj), source, obj)


def _items(tr: Tracer, obj: tuple[Any, ...], source: Source) -> list[Value]:
    return [tr.wrap(tuple.__getitem__(obj, i), Item(source, i)) for i in range(tuple.__len__(obj))]


def _dict(tr: Tracer, obj: Any, source: Source) -> Value:
    return tr.track(obj, DictValue(None, type(obj), source, obj))


def _set(tr: Tracer, obj: Any, source: Source) -> Value:
    made = _set_part(tr, obj, type(obj), source)
    return tr.track(obj, ObjectValue(type(obj), source, obj) if made is None else made)


def _set_part(tr: Tracer, obj: Any, base: type, source: Source) -> SetValue | None:
    """The items of a set or of its subclass; None if they cannot be guarded."""
    items = tuple(base.__iter__(obj))  # type: ignore[attr-defined]
    if not all(isinstance(k, (*PRIMITIVES, *IDENTITY_TYPES)) for k in items):
        return None
    if not isinstance(source, Pinned):
        check = functools.partial(_same_items, base, items)
        tr.program.check_plain("predicate", check, (tr.program.fetch(source),))
    return SetValue({k: tr.constant(k) for k in items}, base, source, obj)


def _same_items(base: Any, expected: tuple[Any, ...], found: Any) -> bool:
    """Whether a set holds these very items, in this order of iteration."""
    if base.__len__(found) != len(expected):
        return False
    return all(type(a) is type(b) and repr(a) == repr(b) for a, b in zip(base.__iter__(found), expected, strict=True))


def _function(tr: Tracer, obj: Any, source: Source) -> Value:
    return tr.track(obj, FunctionValue.of(tr, obj, source))


def _method(tr: Tracer, obj: Any, source: Source) -> Value:
    function = tr.look(tr.wrap(obj.__func__, Attr(source, "__func__")))
    return MethodValue(function, tr.wrap(obj.__self__, Attr(source, "__self__")), source, obj)


def _builtin(tr: Tracer, obj: Any, source: Source) -> Value:
    owner = getattr(obj, "__self__", None)
    if isinstance(owner, type) and isinstance(lookup(owner, obj.__name__), types.ClassMethodDescriptorType):
        tr.program.check("equals", Attr(source, "__name__"), obj.__name__)
        tr.program.check_is(Attr(source, "__self__"), owner)
        return MethodValue(tr.constant(lookup(owner, obj.__name__)), tr.constant(owner), source, obj)
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


def _derived(tr: Tracer, obj: Any, source: Source) -> Value | None:
    """An instance of a user's class that derives from a built-in container."""
    cls = type(obj)
    base = base_of(cls)
    contents: ContainerValue | None
    if base is tuple:
        if is_plain_tuple(cls):
            return _tuple(tr, obj, source)
        if not isinstance(source, Pinned):
            tr.program.check("length", source, tuple.__len__(obj))
        contents = TupleValue(_items(tr, obj, source), tuple, source, obj)
    elif base is list:
        contents = ListValue(None, list, source, obj)
    elif base in (set, frozenset):
        contents = _set_part(tr, obj, base, source)
        if contents is None:
            return None
    else:
        assert base is not None
        contents = DictValue(None, base, source, obj)
    tr.looked.append(contents)
    return tr.track(obj, DerivedValue(cls, contents, source, obj))


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
    types.MappingProxyType: MappingProxyValue.of,
    **PROGRAM_ITERATORS,
}

BASES: tuple[tuple[type | tuple[type, ...], Any], ...] = (
    (torch.Tensor, _tensor),
    (BaseException, _exception),
    ((tuple, list, dict, set, frozenset), _derived),
)
