"""A value that is simply known: a constant, a class, a module, a C function, a dtype, …"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value
from segue.guards.source import Attr, DictItem, InstanceDict, Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.capture.values.mapping import DictValue
    from segue.guards.source import Source

PRIMITIVES = (int, float, bool, str, bytes, complex, type(None), type(Ellipsis), type(NotImplemented))
"""Immutable types whose value is compared by a guard."""

STABLE_MODULES = ("torch", "builtins", "math", "operator", "functools", "itertools", "collections", "typing", "enum")
"""Modules whose attributes are taken as fixed once they were read."""

IDENTITY_TYPES = (
    type,
    types.BuiltinFunctionType,
    types.ModuleType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
)
"""Types whose objects are compared by identity and never change for capture."""


class Known(Value):
    """An object that capture may use as it is.

    With a source, the first use of the object records the guard: equality for plain constants, identity for the rest.
    """

    def __init__(self, real: Any, source: Source | None = None) -> None:
        self.real = real
        self.source = source

    def __repr__(self) -> str:
        return f"Known({self.real!r})"

    def python_type(self, tr: Tracer) -> type:
        return type(self.real)

    def is_constant(self) -> bool:
        return True

    def concrete(self, tr: Tracer) -> Any:
        if self.source is not None:
            tr.guard_value(self.source, self.real)
        return self.real

    def truth(self, tr: Tracer) -> bool:
        if isinstance(self.real, (*PRIMITIVES, range)):
            return bool(self.concrete(tr))
        return super().truth(tr)

    def length(self, tr: Tracer) -> int:
        if isinstance(self.real, (str, bytes, range)):
            return len(self.concrete(tr))
        return super().length(tr)

    def iterate(self, tr: Tracer) -> Value:
        from segue.capture.values.iterator import SequenceIterator

        if isinstance(self.real, (str, bytes, range)):
            return SequenceIterator(self, born=tr.here)
        return super().iterate(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        from segue.capture.operators import compute

        if isinstance(self.real, (str, bytes, range)):
            return compute(tr, lambda a, b: a[b], self, tr.look(key))
        if isinstance(self.real, type):
            from segue.capture.rules.classes import subscripted

            return subscripted(tr, self, key)
        return super().get_item(tr, key)

    def contains(self, tr: Tracer, item: Value) -> bool:
        if isinstance(self.real, (str, bytes, range)) and item.is_constant():
            try:
                return bool(item.concrete(tr) in self.concrete(tr))
            except TypeError as e:
                tr.raise_error(TypeError, str(e))
        return super().contains(tr, item)

    def hash_key(self, tr: Tracer) -> Any:
        try:
            hash(self.real)
        except TypeError as e:
            tr.raise_error(TypeError, str(e))
        return self.concrete(tr)

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        from segue.capture.attributes import class_get, generic_get

        if isinstance(self.real, type):
            return class_get(tr, self, name)
        if isinstance(self.real, types.ModuleType):
            return self._module_attribute(tr, name)
        if isinstance(self.real, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            return tr.pinned(getattr(self.concrete(tr), name))
        return generic_get(tr, self, name)

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        from segue.capture.attributes import class_set, generic_set

        if isinstance(self.real, type):
            class_set(tr, self, name, value)
        elif isinstance(self.real, types.ModuleType):
            module = self.concrete(tr)
            is_stream = module is sys and name in ("stdout", "stderr")
            if not is_stream and module.__name__.partition(".")[0] in ("torch", *sys.stdlib_module_names):
                graph_break("unsupported-attribute", name=name, type=f"module {module.__name__}", verb="written")
            self._names(tr).store(tr, name, tr.constant(name), value)
        else:
            generic_set(tr, self, name, value)

    def _names(self, tr: Tracer) -> DictValue:
        """The namespace of a module."""
        return tr.namespace(vars(self.real), InstanceDict(self.source or Pinned(self.real)))

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name == "__class__":
            return tr.constant(type(self.real))
        found = getattr(self.concrete(tr), name)
        return tr.wrap(found, Attr(self.source or Pinned(self.real), name))

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        own = getattr(self.real, "__dict__", None)
        if not isinstance(own, dict) or name not in own:
            return None
        return tr.wrap(own[name], DictItem(InstanceDict(self.source or Pinned(self.real)), name))

    def _module_attribute(self, tr: Tracer, name: str) -> Value:
        module = self.concrete(tr)
        known = self._names(tr).find(tr, name)
        if known is None:
            if "__getattr__" in module.__dict__ or type(module) is not types.ModuleType:
                try:
                    found: Any = getattr(module, name) if is_stable(module) else MISSING
                except AttributeError:
                    found = MISSING
                if found is MISSING:
                    graph_break("unsupported-attribute", name=name, type=f"module {module.__name__}", verb="read")
                return tr.pinned(found)
            tr.raise_error(AttributeError, f"module {module.__name__!r} has no attribute {name!r}")
        return known

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None and not isinstance(self.source, Pinned):
            return to.program.fetch(self.source)
        return to.program.constant(self.real)


def is_stable(module: types.ModuleType) -> bool:
    """Whether the attributes of a module are taken as fixed."""
    return module.__name__.partition(".")[0] in STABLE_MODULES
