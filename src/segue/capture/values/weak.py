"""Weak references made during capture."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value
from segue.capture.values.function import CellValue
from segue.guards.source import Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer


class WeakRefValue(Value):
    """`weakref.ref(target, callback)`."""

    def __init__(self, target: Value, callback: Value | None) -> None:
        self.target = target
        self.callback = callback

    def __repr__(self) -> str:
        return f"WeakRef({self.target})"

    def python_type(self, tr: Tracer) -> type:
        return weakref.ReferenceType

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if self.target.source is None and not self.target.is_constant() and not _is_held(tr, self.target):
            graph_break("opaque-call", function="a weak reference to an object that may be gone")
        return self.target

    def hash_key(self, tr: Tracer) -> Any:
        """References to one object are one key."""
        from segue.capture.attributes import hashes_by_identity

        target = self.target
        if target.real is MISSING or not (isinstance(target.real, type) or hashes_by_identity(type(target.real))):
            self.unsupported(tr, "hash()")
        if target.source is not None and not isinstance(target.source, Pinned):
            tr.program.check_is(target.source, target.real)
        return weakref.ref(target.real)

    def rebuild(self, to: Rebuilder) -> int:
        operands = [self.target] if self.callback is None else [self.target, self.callback]
        return to.program.call(weakref.ref, *(to.register(o) for o in operands))


def _is_held(tr: Tracer, target: Value) -> bool:
    """Whether a variable of a captured frame holds an object, so that it is certainly there."""
    for frame in tr.frames:
        for slot in frame.slots:
            held = slot.contents if isinstance(slot, CellValue) else slot
            if held is target or getattr(held, "looked", None) is target:
                return True
    return False
