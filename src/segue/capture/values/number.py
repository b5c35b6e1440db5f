"""Symbolic numbers: Python ints and floats that may differ from call to call without a recompile.

Arithmetic on them becomes steps of the segment's register program, with Python's own operators, so that the result is
Python's to the last bit.  Only what decides something (a branch, an index) is guarded.
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

ARITHMETIC: frozenset[Callable[..., Any]] = frozenset(
    (
        operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.neg,
        operator.pos, operator.and_, operator.or_, operator.xor, operator.invert, operator.lshift, operator.rshift,
        operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.pow, abs, float, int,
        min, max, round, divmod, bool,
    )
)  # fmt: skip
"""Functions that may be computed on symbolic numbers."""


class NumberValue(Value):
    """An int, float or bool whose value is known only at run time; `real` is its value now."""

    def __init__(self, real: Any, source: Source) -> None:
        self.real = real
        self.source: Source = source

    def __repr__(self) -> str:
        return f"Number({self.source})"

    def python_type(self, tr: Tracer) -> type:
        return type(self.real)

    def concrete(self, tr: Tracer) -> Any:
        """The value now, guarded: the number stops being symbolic for this segment."""
        tr.guard_value(self.source, self.real)
        return self.real

    def truth(self, tr: Tracer) -> bool:
        if type(self.real) is not bool:
            return compute_number(tr, bool, self).truth(tr)
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


def compute_number(tr: Tracer, function: Callable[..., Any], *operands: Value) -> Value:
    """The number `function(*operands)`; at least one operand is symbolic."""
    result = function(*(o.real if isinstance(o, NumberValue) else o.concrete(tr) for o in operands))
    sources = tuple(o.source if isinstance(o, NumberValue) else Pinned(o.concrete(tr)) for o in operands)
    if type(result) not in (int, float, bool):
        for operand in operands:
            operand.concrete(tr)
        return tr.plain_value(result)
    parent = next(s for s in sources if not isinstance(s, Pinned))
    source = Computed(parent, function, sources)
    number = NumberValue(result, source)
    if type(result) is not bool:
        tr.program.check("type_is", source, type(result))
    return number
