"""Formulas: expressions with Python's operators, where numbers take the dtype of what they are combined with."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from segue.backends.native import ir
from segue.backends.native.rules.context import constant


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """An expression in a formula.

    Example:
        >>> x = Value(ir.Constant(2.0, torch.float32))
        >>> ir.expr_text((x * x + 1).expr)
        'add(mul(2.0, 2.0), 1.0)'
    """

    expr: ir.Expr

    @property
    def dtype(self) -> torch.dtype:
        return self.expr.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point

    @property
    def number(self) -> bool | int | float | None:
        """What it is, if it is the same number everywhere."""
        return self.expr.value if isinstance(self.expr, ir.Constant) else None

    def to(self, dtype: torch.dtype) -> Value:
        return Value(ir.cast(self.expr, dtype))

    def __add__(self, other: Operand) -> Value:
        return call("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return call("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return call("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return call("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return call("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return call("mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return call("div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return call("div", other, self)

    def __neg__(self) -> Value:
        return call("neg", self)

    def __abs__(self) -> Value:
        return call("abs", self)

    def __lt__(self, other: Operand) -> Value:
        return call("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return call("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return call("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return call("ge", self, other)

    def eq(self, other: Operand) -> Value:
        return call("eq", self, other)

    def ne(self, other: Operand) -> Value:
        return call("ne", self, other)

    def __and__(self, other: Operand) -> Value:
        return call("and", self, other)

    def __or__(self, other: Operand) -> Value:
        return call("or", self, other)

    def __xor__(self, other: Operand) -> Value:
        return call("xor", self, other)

    def __invert__(self) -> Value:
        return call("not", self)


Operand = Value | bool | int | float


def call(name: str, *args: Operand) -> Value:
    """An operation of the IR on operands of one dtype."""
    dtype = next(a.dtype for a in args if isinstance(a, Value))
    return Value(ir.apply(name, *(_expr(a, dtype) for a in args)))


def where(condition: Value, x: Operand, y: Operand) -> Value:
    """x where the condition holds, else y; one of them is a value."""
    dtype = x.dtype if isinstance(x, Value) else y.dtype if isinstance(y, Value) else torch.get_default_dtype()
    return Value(ir.apply("where", condition.expr, _expr(x, dtype), _expr(y, dtype)))


def clamp(x: Value, low: Operand, high: Operand) -> Value:
    """Within bounds; NaN stays."""
    return call("minimum", call("maximum", x, low), high)


def _expr(operand: Operand, dtype: torch.dtype) -> ir.Expr:
    return operand.expr if isinstance(operand, Value) else constant(operand, dtype)
