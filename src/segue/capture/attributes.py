"""Attribute access as Python defines it: descriptors, instance dicts, classes, `__getattr__`.

Follows the data model's description of `object.__getattribute__` and `type.__getattribute__`
(docs.python.org, "Invoking Descriptors").
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture import classstate
from segue.capture.breaks import Raised, graph_break
from segue.capture.values.base import MISSING, Value, is_heap_type
from segue.capture.values.function import MethodValue
from segue.capture.values.known import Known

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

_TUPLE_GETTER = type(__import__("collections").namedtuple("_", "field").field)
_C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType)
_METHODS = (types.FunctionType, *_C_METHODS)
_C_FIELDS = (types.GetSetDescriptorType, types.MemberDescriptorType)
_CLASS_FIELD = vars(object)["__class__"]


def lookup(cls: type, name: str) -> Any:
    """The class attribute that `name` finds along the MRO; MISSING if none."""
    for base in cls.__mro__:
        found = base.__dict__.get(name, MISSING)
        if found is not MISSING:
            return found
    return MISSING


_fixed_attribute = functools.cache(lookup)
"""`lookup` on a class that is written in C, whose attributes do not change."""


def class_attribute(tr: Tracer, cls: type, name: str) -> Any:
    """What `lookup` gives, guarded; looked up once in a capture."""
    if not is_heap_type(cls):
        return _fixed_attribute(cls, name)
    names = tr.classes.get(cls)
    if names is None:
        names = tr.classes[cls] = {}
    if name not in names:
        names[name] = lookup(cls, name)
    return names[name]


def hashes_by_identity(cls: type) -> bool:
    """Whether instances of a class hash and compare as plain objects do."""
    return lookup(cls, "__hash__") is vars(object)["__hash__"] and lookup(cls, "__eq__") is vars(object)["__eq__"]


def is_data_descriptor(attribute: Any) -> bool:
    """Whether a class attribute takes precedence over the instance's own."""
    return hasattr(type(attribute), "__set__") or hasattr(type(attribute), "__delete__")


def generic_get(tr: Tracer, value: Value, name: str) -> Value:
    """`getattr(value, name)` for an instance; on an AttributeError the class's `__getattr__` is asked."""
    cls = value.python_type(tr)
    getter = class_attribute(tr, cls, "__getattribute__")
    fallback = class_attribute(tr, cls, "__getattr__")
    try:
        if isinstance(getter, types.FunctionType):
            return tr.call(tr.pinned(getter), [value, tr.constant(name)], {})
        found = _find(tr, value, cls, name)
    except Raised as r:
        if fallback is MISSING or not issubclass(r.value.cls, AttributeError):
            raise
        found = None
    if found is not None:
        return found
    if fallback is MISSING:
        _raise_missing(tr, cls, name)
    return tr.call(bind(tr, fallback, value, cls, "__getattr__"), [tr.constant(name)], {})


def default_get(tr: Tracer, value: Value, name: str) -> Value:
    """`object.__getattribute__(value, name)`."""
    cls = value.python_type(tr)
    found = _find(tr, value, cls, name)
    if found is None:
        _raise_missing(tr, cls, name)
    return found


def _raise_missing(tr: Tracer, cls: type, name: str) -> NoReturn:
    tr.raise_error(AttributeError, f"{cls.__name__!r} object has no attribute {name!r}")


def _find(tr: Tracer, value: Value, cls: type, name: str) -> Value | None:
    """The attribute by the instance and its class; None if they have none."""
    written = classstate.read(tr, cls, name)
    if written is not None:
        own = value.own_attribute(tr, name)
        return own if own is not None else written
    attribute = class_attribute(tr, cls, name)
    if attribute is MISSING:
        return value.own_attribute(tr, name)
    kind = type(attribute)
    if is_heap_type(kind):
        for method in ("__get__", "__set__", "__delete__"):
            tr.guard_class(kind, method)
    if is_data_descriptor(attribute):
        return bind(tr, attribute, value, cls, name)
    own = value.own_attribute(tr, name)
    return own if own is not None else bind(tr, attribute, value, cls, name)


def bind(tr: Tracer, attribute: Any, value: Value | None, cls: type, name: str) -> Value:
    """What a class attribute gives when read through an instance (or the class, when `value` is None)."""
    kind = type(attribute)
    if kind is types.FunctionType:
        function = tr.pinned(attribute)
        return MethodValue(tr.look(function), value) if value is not None else function
    if kind is staticmethod:
        return tr.pinned(attribute.__func__)
    if kind is classmethod:
        return MethodValue(tr.look(tr.pinned(attribute.__func__)), tr.constant(cls))
    if kind in _C_METHODS:
        return MethodValue(tr.constant(attribute), value) if value is not None else tr.constant(attribute)
    if kind is types.ClassMethodDescriptorType:
        return MethodValue(tr.constant(attribute), tr.constant(cls))
    if value is None:
        return _bind_to_class(tr, attribute, cls)
    if kind is property:
        if attribute.fget is None:
            tr.raise_error(AttributeError, f"property {name!r} of {cls.__name__!r} object has no getter")
        return tr.call(tr.pinned(attribute.fget), [value], {})
    if kind is _TUPLE_GETTER:
        return value.built_in().get_item(tr, tr.constant(attribute.__reduce__()[1][0]))
    if attribute is _CLASS_FIELD:
        return tr.constant(cls)
    if kind in _C_FIELDS:
        return value.special_attribute(tr, attribute, name)
    if kind is functools.cached_property:
        computed = tr.call(tr.pinned(attribute.func), [value], {})
        tr.own_namespace(value).store(tr, attribute.attrname, tr.constant(attribute.attrname), computed)
        return computed
    return _bind_by_protocol(tr, attribute, value, cls, name)


def _bind_to_class(tr: Tracer, attribute: Any, cls: type) -> Value:
    getter = class_attribute(tr, type(attribute), "__get__")
    if isinstance(getter, types.FunctionType):
        return tr.call(tr.pinned(getter), [tr.pinned(attribute), tr.constant(None), tr.constant(cls)], {})
    return tr.pinned(attribute)


def _bind_by_protocol(tr: Tracer, attribute: Any, value: Value, cls: type, name: str) -> Value:
    from segue.capture.rules.wrappers import WRAPPERS, binds

    getter = class_attribute(tr, type(attribute), "__get__")
    tr.guard_class(type(attribute), "__set__")
    if getter is MISSING:
        return tr.pinned(attribute)
    if isinstance(getter, types.FunctionType):
        return tr.call(tr.pinned(getter), [tr.pinned(attribute), value, tr.constant(cls)], {})
    if binds(attribute):
        return MethodValue(tr.pinned(attribute), value)
    if isinstance(attribute, WRAPPERS):
        return tr.pinned(attribute)
    graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="read")


def class_get(tr: Tracer, value: Known, name: str) -> Value:
    """`getattr(cls, name)`: an attribute read through the class itself."""
    meta = type(value.concrete(tr))
    getter = class_attribute(tr, meta, "__getattribute__")
    if not isinstance(getter, types.FunctionType):
        return default_class_get(tr, value, name)
    try:
        return tr.call(tr.pinned(getter), [value, tr.constant(name)], {})
    except Raised as r:
        fallback = class_attribute(tr, meta, "__getattr__")
        if not issubclass(r.value.cls, AttributeError) or not isinstance(fallback, types.FunctionType):
            raise
    return tr.call(tr.pinned(fallback), [value, tr.constant(name)], {})


def default_class_get(tr: Tracer, value: Known, name: str) -> Value:
    """`type.__getattribute__(cls, name)`, and the metaclass's `__getattr__` if that finds nothing."""
    cls = value.concrete(tr)
    meta = type(cls)
    written = classstate.read(tr, cls, name)
    if written is not None:
        return written
    through_meta = class_attribute(tr, meta, name)
    if through_meta is not MISSING and is_data_descriptor(through_meta):
        return _class_field(tr, cls, through_meta, name)
    attribute = class_attribute(tr, cls, name)
    if attribute is not MISSING:
        if issubclass(meta, tr.enum_type) and name in cls.__members__:
            return tr.pinned(cls.__members__[name])
        return bind(tr, attribute, None, cls, name)
    if through_meta is not MISSING:
        return bind(tr, through_meta, value, meta, name)
    fallback = class_attribute(tr, meta, "__getattr__")
    if issubclass(meta, tr.enum_type) and name in cls.__members__:
        return tr.pinned(cls.__members__[name])
    if isinstance(fallback, types.FunctionType):
        return tr.call(tr.pinned(fallback), [value, tr.constant(name)], {})
    tr.raise_error(AttributeError, f"type object {cls.__name__!r} has no attribute {name!r}")


_FIXED_CLASS_FIELDS = frozenset(
    """
    __name__ __qualname__ __module__ __mro__ __bases__ __base__ __doc__ __flags__ __basicsize__ __itemsize__
    __dictoffset__ __weakrefoffset__ __text_signature__ __abstractmethods__
    """.split()
)


def _class_field(tr: Tracer, cls: type, descriptor: Any, name: str) -> Value:
    if name == "__class__":
        return tr.constant(type(cls))
    if name == "__dict__":
        from segue.capture.values.proxy import MappingProxyValue

        return MappingProxyValue.of_class(tr, cls)
    if name in _FIXED_CLASS_FIELDS or (name == "__annotations__" and name in cls.__dict__):
        try:
            return tr.pinned(getattr(cls, name))
        except AttributeError as e:
            tr.raise_error(AttributeError, *e.args)
    if isinstance(descriptor, property) or type(descriptor).__name__ == "property":
        return tr.call(tr.pinned(descriptor.fget), [tr.constant(cls)], {})
    graph_break("unsupported-attribute", name=name, type=f"class {cls.__name__}", verb="read")


def special_method(tr: Tracer, value: Value, name: str) -> Value | None:
    """The method that an operator looks up on the type, bound; None if the type has none (or sets it to None)."""
    cls = value.python_type(tr)
    attribute = class_attribute(tr, cls, name)
    if attribute is MISSING or attribute is None:
        return None
    return bind(tr, attribute, value, cls, name)


def class_set(tr: Tracer, value: Known, name: str, new: Value) -> None:
    """`setattr(cls, name, new)`"""
    cls = value.concrete(tr)
    setter = class_attribute(tr, type(cls), "__setattr__")
    if isinstance(setter, types.FunctionType):
        tr.call(tr.pinned(setter), [value, tr.constant(name), new], {})
    elif setter is type.__setattr__:
        classstate.write(tr, cls, name, new)
    else:
        graph_break("unsupported-attribute", name=name, type=f"class {cls.__name__}", verb="written")


_DEFAULT_WRITERS = tuple(vars(c)[n] for c in (object, BaseException) for n in ("__setattr__", "__delattr__"))
"""C implementations of attribute writing that follow the data model and do nothing else."""


def generic_set(tr: Tracer, value: Value, name: str, new: Value) -> None:
    """`setattr(value, name, new)` for an instance."""
    cls = value.python_type(tr)
    setter = class_attribute(tr, cls, "__setattr__")
    if setter in _DEFAULT_WRITERS:
        default_set(tr, value, name, new)
    elif isinstance(setter, _METHODS):
        tr.call(bind(tr, setter, value, cls, "__setattr__"), [tr.constant(name), new], {})
    else:
        graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="written")


def default_set(tr: Tracer, value: Value, name: str, new: Value) -> None:
    """`object.__setattr__(value, name, new)`."""
    from segue.capture.values.object import ObjectValue, is_slot

    cls = value.python_type(tr)
    attribute = class_attribute(tr, cls, name)
    if attribute is not MISSING and is_data_descriptor(attribute):
        if isinstance(attribute, property):
            if attribute.fset is None:
                tr.raise_error(AttributeError, f"property {name!r} of {cls.__name__!r} object has no setter")
            tr.call(tr.pinned(attribute.fset), [value, new], {})
            return
        if isinstance(value, ObjectValue) and is_slot(attribute, name):
            value.write_slot(tr, name, attribute, new)
            return
        if attribute is _CLASS_FIELD and isinstance(value, ObjectValue):
            value.change_class(tr, tr.look(new).concrete(tr))
            return
        method = class_attribute(tr, type(attribute), "__set__")
        if isinstance(method, types.FunctionType):
            tr.call(tr.pinned(method), [tr.pinned(attribute), value, new], {})
            return
        graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="written")
    tr.own_namespace(value).store(tr, name, tr.constant(name), new)


def generic_delete(tr: Tracer, value: Value, name: str) -> None:
    """`delattr(value, name)` for an instance."""
    cls = value.python_type(tr)
    deleter = class_attribute(tr, cls, "__delattr__")
    if deleter in _DEFAULT_WRITERS:
        default_delete(tr, value, name)
    elif isinstance(deleter, _METHODS):
        tr.call(bind(tr, deleter, value, cls, "__delattr__"), [tr.constant(name)], {})
    else:
        graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="deleted")


def default_delete(tr: Tracer, value: Value, name: str) -> None:
    """`object.__delattr__(value, name)`."""
    cls = value.python_type(tr)
    attribute = class_attribute(tr, cls, name)
    if attribute is not MISSING and is_data_descriptor(attribute):
        method = class_attribute(tr, type(attribute), "__delete__")
        if isinstance(attribute, property) and attribute.fdel is not None:
            tr.call(tr.pinned(attribute.fdel), [value], {})
        elif isinstance(method, types.FunctionType):
            tr.call(tr.pinned(method), [tr.pinned(attribute), value], {})
        else:
            graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="deleted")
        return
    if tr.own_namespace(value).remove(tr, name) is None:
        tr.raise_error(AttributeError, name)
