"""Python equivalents of what `copy` and `copyreg` find on objects; see `polyfills`."""

from __future__ import annotations

import collections
import copyreg
from typing import Any


def reduce_ex(self: Any, protocol: int, /) -> Any:
    """`object.__reduce_ex__` for the protocols that `copy` asks for, of a class without a `__reduce__` of its own."""
    cls: Any = type(self)
    if hasattr(cls, "__getnewargs_ex__"):
        args, kwargs = self.__getnewargs_ex__()
        return copyreg.__newobj_ex__, (cls, args, kwargs), self.__getstate__(), None, None  # type: ignore[attr-defined]
    args = self.__getnewargs__() if hasattr(cls, "__getnewargs__") else ()
    items = iter(self) if isinstance(self, list) else None
    entries = iter(self.items()) if isinstance(self, dict) else None
    return copyreg.__newobj__, (cls, *args), self.__getstate__(), items, entries  # type: ignore[attr-defined]


def _state(self: Any) -> Any:
    built_in = (set, frozenset, collections.OrderedDict)
    return None if type(self) in built_in else self.__getstate__()


def reduce_set(self: Any, /) -> Any:
    return type(self), (list(self),), _state(self)


def reduce_ordered(self: Any, /) -> Any:
    return type(self), (), _state(self), None, iter(self.items())


def reduce_defaulting(self: Any, /) -> Any:
    args = () if self.default_factory is None else (self.default_factory,)
    return type(self), args, None, None, iter(self.items())


def getstate(self: Any, /) -> Any:
    """`object.__getstate__`"""
    state = self.__dict__ if hasattr(self, "__dict__") else None
    names = copyreg._slotnames(type(self))  # type: ignore[attr-defined]
    slots = {}
    for name in names:
        if hasattr(self, name):
            slots[name] = getattr(self, name)
    if state is not None:
        state = dict(state) if state else None
    return (state, slots) if slots else state
