"""Wrappers that only affect compilation or caching: what stands inside them is captured."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from segue import _core
from segue.frames.filter import is_left_alone
from segue.guards.source import Attr, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer
    from segue.capture.values.base import Value

WRAPPERS: tuple[type, ...] = (_core.Entry, _core.Disabled, type(functools.lru_cache(lambda: None)))
"""Types of callables that stand for the function in their `__wrapped__`."""


def unwrap(tr: Tracer, wrapper: Value) -> Value | None:
    """The callable inside a wrapper; None if the value is not one."""
    target = wrapper.real
    if not isinstance(target, WRAPPERS) or isinstance(target, _core.Disabled) or _is_cache_of_the_program(target):
        return None
    source = wrapper.source or Pinned(target)
    inside: Any = target
    return tr.wrap(inside.__wrapped__, Attr(source, "__wrapped__"))


def _is_cache_of_the_program(target: Any) -> bool:
    """A cache that the program can see: hits, misses and the identity of results are part of its behaviour."""
    if isinstance(target, _core.Entry):
        return False
    code = getattr(target.__wrapped__, "__code__", None)
    return code is None or not is_left_alone(code)


def binds(attribute: Any) -> bool:
    """Whether a wrapper found in a class becomes a bound method."""
    return isinstance(attribute, WRAPPERS) and not isinstance(attribute, _core.BoundEntry)
