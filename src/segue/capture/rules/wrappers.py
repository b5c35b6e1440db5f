"""Wrappers that only affect compilation or caching: what stands inside them is captured."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from segue import _core
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

_LRU = type(functools.lru_cache(lambda: None))


def unwrap(tr: Tracer, target: Any) -> Value | None:
    """The callable inside a wrapper, or None."""
    if isinstance(target, _core.Entry):
        bound = getattr(target, "bound", ())
        function = tr.pinned(target.__wrapped__)
        if not bound:
            return function
        from segue.capture.values.function import PartialValue

        return PartialValue(function, [tr.pinned(b) for b in bound], {})
    if isinstance(target, _LRU):
        return tr.pinned(target.__wrapped__)
    return None
