"""Symbolic values: numbers and strings of the program that may differ from call to call without a recompile.

Pure functions of them become steps of the segment's register program, run by Python's own operators, so that the result
is Python's to the last bit.  Only what decides something (a branch, a shape) is guarded.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture.values.base import Value
from segue.guards.source import Computed, Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

SYMBOLIC_TYPES = (int, float, bool, str)
"""Types that a symbolic value can have."""


class SymbolicValue(Value):
    """An int, float, bool or string whose value is known only at run time; `real` is its value now."""

    def __init__(self, real: Any, source: Source) -> None:
        self.real = real
        self.source: Source = source

    def __repr__(self) -> str:
        return f"Symbolic({self.source})"

    def python_type(self, tr: Tracer) -> type:
        return type(self.real)

    def concrete(self, tr: Tracer) -> Any:
        """The value now, guarded: it stops being symbolic for this segment."""
        tr.guard_value(self.source, self.real)
        return self.real

    def truth(self, tr: Tracer) -> bool:
        if type(self.real) is not bool:
            return compute_symbolic(tr, bool, self).truth(tr)
        tr.program.check("true" if self.real else "false", self.source)
        return bool(self.real)

    def hash_key(self, tr: Tracer) -> Any:
        return self.concrete(tr)

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name in ("real", "numerator"):
            return self
        return tr.constant(getattr(self.concrete(tr), name))

    def rebuild(self, to: Rebuilder) -> int:
        return to.program.fetch(self.source)


def compute_symbolic(tr: Tracer, function: Callable[..., Any], *operands: Value) -> Value:
    """The value of a pure `function(*operands)`; at least one operand is symbolic."""
    if function is divmod:
        from segue.capture.values.sequence import TupleValue

        parts = (operator.floordiv, operator.mod)
        return TupleValue([compute_symbolic(tr, part, *operands) for part in parts])
    result = function(*(o.real if isinstance(o, SymbolicValue) else o.concrete(tr) for o in operands))
    sources = tuple(o.source if isinstance(o, SymbolicValue) else Pinned(o.concrete(tr)) for o in operands)
    if type(result) not in SYMBOLIC_TYPES:
        for operand in operands:
            operand.concrete(tr)
        return tr.plain_value(result)
    parent = next(s for s in sources if not isinstance(s, Pinned))
    source = Computed(parent, function, sources)
    number = SymbolicValue(result, source)
    if type(result) is not bool:
        tr.program.check("type_is", source, type(result))
    return number
