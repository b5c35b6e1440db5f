"""Classes as objects: subscription, instance and subclass checks."""

from __future__ import annotations

import abc
import functools
import types
import typing
from typing import TYPE_CHECKING, Any

import torch

from segue.capture import classstate
from segue.capture.attributes import bind, class_attribute, default_class_get, lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.values.base import MISSING, Value
from segue.capture.values.known import Known
from segue.capture.values.proxy import MappingProxyValue
from segue.capture.values.sequence import ListValue, TupleValue
from segue.capture.values.tensor import TensorValue
from segue.guards.source import Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

STANDARD_BASES = ("collections.abc", "numbers", "contextlib", "os", "typing", "importlib.abc")
"""Modules of abstract base classes whose own checks are pure."""


def subscripted(tr: Tracer, value: Known, key: Value) -> Value:
    """`cls[key]`: by the metaclass, else by the class's `__class_getitem__`."""
    cls = value.concrete(tr)
    meta = type(cls)
    by_meta = class_attribute(tr, meta, "__getitem__")
    if by_meta is not MISSING:
        return tr.call(bind(tr, by_meta, value, meta, "__getitem__"), [key], {})
    if cls is type:
        return _alias(tr, types.GenericAlias, value, key)
    getter = class_attribute(tr, cls, "__class_getitem__")
    if getter is MISSING:
        tr.raise_error(TypeError, f"type '{cls.__name__}' is not subscriptable")
    function = getattr(getter, "__func__", getter)
    if isinstance(getter, types.ClassMethodDescriptorType) or getattr(function, "__module__", None) == "typing":
        return _alias(tr, cls.__class_getitem__, None, key)
    return tr.call(bind(tr, getter, None, cls, "__class_getitem__"), [key], {})


def _alias(tr: Tracer, make: Any, origin: Known | None, key: Value) -> Value:
    """A generic alias; it is a constant, as it compares by what it is made of."""
    parameters = _parameter(tr, key)
    operands = [parameters] if origin is None else [origin.concrete(tr), parameters]
    try:
        return tr.pinned(make(*operands))
    except TypeError as e:
        tr.raise_error(TypeError, *e.args)


def _parameter(tr: Tracer, value: Value) -> Any:
    """What stands between the brackets: classes, texts, other aliases."""
    value = tr.look(value)
    if isinstance(value, TupleValue):
        return tuple(_parameter(tr, item) for item in value.items(tr))
    if isinstance(value, ListValue):
        return [_parameter(tr, item) for item in value.items(tr)]
    if not value.is_constant() and isinstance(value.source, Pinned):
        return value.real
    return value.concrete(tr)


_TYPING_FORMS = ("_SpecialForm", "_LiteralSpecialForm", "_SpecialGenericAlias", "_CallableType", "_TupleType")


@rule(*{vars(vars(typing)[name])["__getitem__"] for name in _TYPING_FORMS})
def _typing_form(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """`Literal["a"]`, `Optional[int]`, `List[int]`"""
    form = tr.look(args[0])
    if not isinstance(form.source, Pinned) and form.source is not None:
        tr.program.check_is(form.source, form.real)
    try:
        return tr.pinned(form.real[_parameter(tr, args[1])])
    except TypeError as e:
        tr.raise_error(TypeError, *e.args)


@rule(types.GenericAlias.__call__)
def _call_alias(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.call(tr.look(args[0]).get_attribute(tr, "__origin__"), args[1:], kwargs)


@rule(isinstance)
def _isinstance(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value, target = tr.look(args[0]), tr.look(args[1])
    return tr.constant(any(_is_instance(tr, value, cls) for cls in _alternatives(tr, target)))


@rule(issubclass)
def _issubclass(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value, target = tr.look(args[0]), tr.look(args[1])
    if not isinstance(value.real, type):
        graph_break("unsupported-operation", operation="issubclass()", types=value.python_type(tr).__name__)
    cls = value.concrete(tr)
    return tr.constant(any(_is_subclass(tr, cls, wanted) for wanted in _alternatives(tr, target)))


def _alternatives(tr: Tracer, target: Value) -> list[Any]:
    """The classes that a class, a union or a nested tuple of them names, looked at one by one."""
    target = tr.look(target)
    if isinstance(target, TupleValue):
        return [cls for item in target.items(tr) for cls in _alternatives(tr, item)]
    if target.is_constant() and isinstance(target.real, type):
        return [target.concrete(tr)]
    found = target.real
    if isinstance(found, types.UnionType) and target.source is not None:
        return [type(None) if cls is None else cls for cls in found.__args__ if isinstance(cls, type | None)]
    origin = typing.get_origin(found)
    if origin is typing.Union:
        return [cls for cls in typing.get_args(found) if isinstance(cls, type)]
    if isinstance(origin, type) and not isinstance(found, types.GenericAlias) and not typing.get_args(found):
        return [origin]
    if isinstance(found, types.GenericAlias):
        tr.raise_error(TypeError, "isinstance() argument 2 cannot be a parameterized generic")
    if target.source is None or (isinstance(found, typing.Hashable) and found is not MISSING and not callable(found)):
        tr.raise_error(TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union")
    graph_break("unsupported-operation", operation="isinstance()", types=target.python_type(tr).__name__)


def _is_instance(tr: Tracer, value: Value, wanted: type) -> bool:
    cls = value.python_type(tr)
    if cls is wanted:
        return True
    check = _meta_attribute(tr, wanted, "__instancecheck__")
    if check is type.__instancecheck__:
        return issubclass(cls, wanted) or _claims(tr, value, cls, wanted)
    if type(wanted).__module__.startswith("torch"):
        return _torch_class(tr, value, cls, wanted)
    if check is abc.ABCMeta.__instancecheck__:
        return _is_subclass(tr, cls, wanted) or _claims(tr, value, cls, wanted)
    if type(wanted) is type(typing.Protocol) and lookup(wanted, "_is_protocol") is True:
        return _follows_protocol(tr, value, cls, wanted)
    if isinstance(check, types.FunctionType):
        return tr.truth(tr.call(tr.pinned(check), [tr.constant(wanted), value], {}))
    graph_break("unsupported-operation", operation=f"isinstance() with {wanted.__name__}", types=cls.__name__)


def _is_subclass(tr: Tracer, cls: type, wanted: type) -> bool:
    check = _meta_attribute(tr, wanted, "__subclasscheck__")
    if check is type.__subclasscheck__ or _checks_plainly(wanted):
        if isinstance(wanted, abc.ABCMeta):
            guard_registrations(tr)
        try:
            return issubclass(cls, wanted)
        except TypeError as e:
            tr.raise_error(TypeError, *e.args)
    if check is abc.ABCMeta.__subclasscheck__ or type(wanted) is type(typing.Protocol):
        return _by_abstract_base(tr, cls, wanted)
    if isinstance(check, types.FunctionType):
        return tr.truth(tr.call(tr.pinned(check), [tr.constant(wanted), tr.constant(cls)], {}))
    graph_break("unsupported-operation", operation=f"issubclass() with {wanted.__name__}", types=cls.__name__)


def _meta_attribute(tr: Tracer, cls: type, name: str) -> Any:
    """What the metaclass of a class says, guarded if it is one of the program's."""
    meta = type(cls)
    settled = meta.__module__ in ("abc", "enum", "typing") or meta.__module__.startswith("torch")
    return lookup(meta, name) if settled else class_attribute(tr, meta, name)


def guard_registrations(tr: Tracer) -> None:
    """No class has been registered with an abstract base class since."""
    tr.program.check_plain("predicate", functools.partial(_registrations_are, abc.get_cache_token()), ())


def _registrations_are(token: object) -> bool:
    return abc.get_cache_token() == token


def _checks_plainly(cls: type) -> bool:
    """An ABC whose check runs no code of the program."""
    if type(cls) is not abc.ABCMeta:
        return False
    hook = lookup(cls, "__subclasshook__")
    return not isinstance(getattr(hook, "__func__", None), types.FunctionType) or cls.__module__ in STANDARD_BASES


def _by_abstract_base(tr: Tracer, cls: type, wanted: type) -> bool:
    """`ABCMeta.__subclasscheck__`, with the program's own hooks followed."""
    guard_registrations(tr)
    registry, passed, refused, version = abc._get_dump(wanted)  # type: ignore[attr-defined]
    if any(ref() is cls for ref in passed):
        return True
    if version == abc.get_cache_token() and any(ref() is cls for ref in refused):
        return False
    hook = class_attribute(tr, wanted, "__subclasshook__")
    function = getattr(hook, "__func__", None)
    if isinstance(function, types.FunctionType):
        if function.__module__ in STANDARD_BASES:
            answer: Value = tr.constant(function(wanted, cls))
        else:
            bound = bind(tr, hook, None, wanted, "__subclasshook__")  # Python runs it once and keeps the answer
            what = f"{wanted.__name__}.__subclasshook__()"
            answer = tr.look(tr.without_effects(lambda: tr.call(bound, [tr.constant(cls)], {}), what))
        if answer.real is not NotImplemented:
            return tr.truth(answer)
    if wanted in cls.__mro__:
        return True
    registered = [ref() for ref in registry]
    below = [*(r for r in registered if r is not None), *wanted.__subclasses__()]
    return any(_is_subclass(tr, cls, each) for each in below)


def _follows_protocol(tr: Tracer, value: Value, cls: type, wanted: Any) -> bool:
    """`isinstance` with a protocol: its members are there."""
    if not getattr(wanted, "_is_runtime_protocol", False):
        tr.raise_error(TypeError, "Instance and class checks can only be used with @runtime_checkable protocols")
    if wanted in cls.__mro__:
        return True
    for name in typing._get_protocol_attrs(wanted):  # type: ignore[attr-defined]
        if not _has_member(tr, value, wanted, name):
            return _by_abstract_base(tr, cls, wanted)
    return True


def _has_member(tr: Tracer, value: Value, wanted: type, name: str) -> bool:
    found = value.find_attribute(tr, name)
    if found is None:
        return False
    return tr.look(found).real is not None or not callable(lookup(wanted, name))


def _claims(tr: Tracer, value: Value, cls: type, wanted: type) -> bool:
    """Whether an instance passes for another class by its `__class__` attribute."""
    if class_attribute(tr, cls, "__class__") is object.__dict__["__class__"]:
        return False
    claimed = tr.look(value.get_attribute(tr, "__class__"))
    return isinstance(claimed, Known) and isinstance(claimed.real, type) and issubclass(claimed.concrete(tr), wanted)


def _torch_class(tr: Tracer, value: Value, cls: type, wanted: type) -> bool:
    """PyTorch's classes with a check of their own: Parameter, Buffer, FloatTensor and the like."""
    if isinstance(value, TensorValue):
        return isinstance(value.fake, wanted) or (value.real is not MISSING and isinstance(value.real, wanted))
    if issubclass(cls, wanted):
        return True
    if wanted in (torch.nn.Parameter, torch.nn.Buffer) and not issubclass(cls, torch.Tensor):
        return False
    graph_break("unsupported-operation", operation=f"isinstance() with {wanted.__name__}", types=cls.__name__)


@rule(type.__getattribute__)
def _getattribute(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls = tr.look(args[0])
    assert isinstance(cls, Known)
    return default_class_get(tr, cls, tr.look(args[1]).concrete(tr))


@rule(type.__setattr__)
def _setattr(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    classstate.write(tr, tr.look(args[0]).concrete(tr), tr.look(args[1]).concrete(tr), args[2])
    return tr.constant(None)


@rule(types.MappingProxyType)
def _mapping_proxy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return MappingProxyValue(tr.look(args[0]))


def _delegated(name: str) -> None:
    """A method of a view that is its mapping's."""

    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        view = tr.look(args[0])
        assert isinstance(view, MappingProxyValue)
        return tr.call(view.mapping.get_attribute(tr, name), args[1:], kwargs)

    rule(vars(types.MappingProxyType)[name])(call)


for _name in "get keys values items copy __len__ __getitem__ __contains__ __iter__ __reversed__ __or__ __eq__".split():
    _delegated(_name)
