"""Arithmetic on lanes written as expressions, for formulas that should read like formulas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from segue.backends.native.text import Lanes

FLOATING = frozenset({"half", "float", "double"})
_INTEGER = {"float": "i32", "double": "i64"}


def fma(lanes: Lanes, element: str, a: str, b: str, c: str) -> str:
    """`a * b + c`, rounded once where the target has an instruction for it and twice elsewhere.

    `llvm.fma` without such an instruction is a call per lane, which is far slower than two roundings are harmful.
    """
    if lanes.function.module.has_fma:
        return lanes.intrinsic("llvm.fma", element, a, b, c)
    return lanes.op("fadd", element, lanes.op("fmul", element, a, b), c)


@dataclass(frozen=True)
class Value:
    """A value in every lane, with operators that write instructions; plain numbers are constants.

    Comparisons of floats are ordered: false for NaN. Right shifts are logical.

    Example:
        x = Value(lanes, "float", name)
        y = (x < 0.0).select(-x, x) * 2.0
    """

    lanes: Lanes
    element: str
    name: str

    # --- arithmetic -----------------------------------------------------------------------------------

    def __add__(self, other: Operand) -> Value:
        return self._op("add", other)

    def __sub__(self, other: Operand) -> Value:
        return self._op("sub", other)

    def __mul__(self, other: Operand) -> Value:
        return self._op("mul", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._op("div", other)

    def __radd__(self, other: float) -> Value:
        return self.like(other) + self

    def __rsub__(self, other: float) -> Value:
        return self.like(other) - self

    def __rmul__(self, other: float) -> Value:
        return self.like(other) * self

    def __rtruediv__(self, other: float) -> Value:
        return self.like(other) / self

    def __neg__(self) -> Value:
        return self._with(self.lanes.op("fneg", self.element, self.name))

    def mul_add(self, factor: Operand, term: Operand) -> Value:
        """`self * factor + term`, rounded once where the target can."""
        return self._with(fma(self.lanes, self.element, self.name, self.like(factor).name, self.like(term).name))

    def polynomial(self, coefficients: Sequence[float]) -> Value:
        """The polynomial in this value, the coefficients starting with the constant one.

        Estrin's scheme keeps the chain of dependent instructions short; the last step is Horner's, for one rounding
        error of the size of the result instead of two.
        """
        constant, *terms = coefficients
        return self._estrin(terms).mul_add(self, constant) if terms else self.like(constant)

    def _estrin(self, terms: Sequence[Operand]) -> Value:
        power = self
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            terms = [*(power.mul_add(high, low) for low, high in pairs), *(terms[-1:] if len(terms) % 2 else [])]
            power = power * power if len(terms) > 1 else power
        return self.like(terms[0])

    def sqrt(self) -> Value:
        """The square root, correctly rounded."""
        return self._unary("llvm.sqrt")

    def rint(self) -> Value:
        """The nearest integer, halves to even."""
        return self._unary("llvm.rint")

    def trunc(self) -> Value:
        """The integer part."""
        return self._unary("llvm.trunc")

    # --- signs and bounds -----------------------------------------------------------------------------

    def __abs__(self) -> Value:
        return self._unary("llvm.fabs")

    def with_sign_of(self, other: Value) -> Value:
        """This magnitude with the other sign."""
        return self._with(self.lanes.intrinsic("llvm.copysign", self.element, self.name, other.name))

    def signed(self, other: Value) -> Value:
        """This non-negative value with the other sign."""
        sign = other.bits() & (1 << (31 if self.element == "float" else 63))
        return (self.bits() | sign).as_float()

    def at_most(self, bound: float) -> Value:
        """The smaller of the two; NaN stays (the order of operands makes this one instruction on x86)."""
        limit = self.like(bound)
        return (limit < self).select(limit, self)

    def at_least(self, bound: float) -> Value:
        """The greater of the two; NaN stays."""
        limit = self.like(bound)
        return (limit > self).select(limit, self)

    # --- bits -----------------------------------------------------------------------------------------

    def bits(self) -> Value:
        """The bits of a float as an integer."""
        return self.converted("bitcast", _INTEGER[self.element])

    def as_float(self) -> Value:
        """The float that has these bits."""
        return self.converted("bitcast", {"i32": "float", "i64": "double"}[self.element])

    def __lshift__(self, count: int) -> Value:
        return self._op("shl", count)

    def __rshift__(self, count: int) -> Value:
        return self._op("lshr", count)

    def __and__(self, other: Operand) -> Value:
        return self._op("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._op("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._op("xor", other)

    def __invert__(self) -> Value:
        return self._op("xor", True if self.element == "i1" else -1)

    # --- comparisons ----------------------------------------------------------------------------------

    def __lt__(self, other: Operand) -> Value:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("ge", other)

    def equals(self, other: Operand) -> Value:
        """Where both are the same number."""
        return self._compare("eq", other)

    def not_at_least(self, bound: float) -> Value:
        """Where it is below the bound or NaN."""
        name = self.lanes.compare("fcmp ult", self.element, self.name, self.like(bound).name)
        return Value(self.lanes, "i1", name)

    def select(self, chosen: Value, otherwise: Operand) -> Value:
        """`chosen` where this i1 value holds, else `otherwise`."""
        name = self.lanes.select(self.name, chosen.element, chosen.name, chosen.like(otherwise).name)
        return Value(self.lanes, chosen.element, name)

    # --- conversions ----------------------------------------------------------------------------------

    def wide(self) -> Value:
        """A float as double."""
        return self.converted("fpext", "double")

    def narrow(self) -> Value:
        """A double rounded to float."""
        return self.converted("fptrunc", "float")

    def converted(self, opcode: str, element: str) -> Value:
        """`sitofp`, `fptosi`, `zext`, ... to another element type."""
        return Value(self.lanes, element, self.lanes.convert(opcode, self.element, element, self.name))

    def like(self, operand: Operand) -> Value:
        """The operand itself, or a constant of this value's type."""
        if isinstance(operand, Value):
            return operand
        return self._with(self.lanes.constant(self.element, operand))

    # --- single lanes ---------------------------------------------------------------------------------

    def lane(self, index: int) -> str:
        """The operand that is one lane of it."""
        if self.lanes.count == 1:
            return self.name
        return self.lanes.function.let(f"extractelement {self.lanes.type(self.element)} {self.name}, i64 {index}")

    @staticmethod
    def of_lanes(lanes: Lanes, element: str, names: Sequence[str]) -> Value:
        """The value that has these lanes."""
        if lanes.count == 1:
            return Value(lanes, element, names[0])
        kind, result = lanes.type(element), "poison"
        for index, name in enumerate(names):
            result = lanes.function.let(f"insertelement {kind} {result}, {element} {name}, i64 {index}")
        return Value(lanes, element, result)

    # --- how they are written -------------------------------------------------------------------------

    def _op(self, opcode: str, other: Operand) -> Value:
        if self.element in FLOATING:
            opcode = f"f{opcode}"
        return self._with(self.lanes.op(opcode, self.element, self.name, self.like(other).name))

    def _compare(self, relation: str, other: Operand) -> Value:
        if self.element in FLOATING:
            predicate = f"fcmp o{relation}"
        else:
            predicate = "icmp eq" if relation == "eq" else f"icmp s{relation}"
        name = self.lanes.compare(predicate, self.element, self.name, self.like(other).name)
        return Value(self.lanes, "i1", name)

    def _unary(self, intrinsic: str) -> Value:
        return self._with(self.lanes.intrinsic(intrinsic, self.element, self.name))

    def _with(self, name: str) -> Value:
        return Value(self.lanes, self.element, name)


Operand = Value | float
Unary = Callable[[Value], Value]
Binary = Callable[[Value, Value], Value]


def where_any(condition: Value, values: Sequence[Value], replacements: Callable[[], Sequence[Value]]) -> list[Value]:
    """The values, replaced in all lanes by what a block computes that runs only if some lane asks for it.

    For what is rare and long. The results pass through memory of the frame, for there is nothing to merge them in.

    Args:
        condition: i1 lanes; any that is set makes the block run.
        values: what holds without the block.
        replacements: writes the block, which may use any value from before it; returns as many values.
    """
    lanes, function = condition.lanes, condition.lanes.function
    slots = [function.allocate(v.element, lanes.count) for v in values]
    pairs = list(zip(slots, values, strict=True))
    for slot, value in pairs:
        _store(slot, value)

    def rare() -> None:
        for slot, value in zip(slots, replacements(), strict=True):
            _store(slot, value)

    function.when(_any(condition), rare)
    return [
        Value(lanes, v.element, function.fresh(f"load {lanes.type(v.element)}, ptr {slot}, align 64"))
        for slot, v in pairs
    ]


def _store(slot: str, value: Value) -> None:
    value.lanes.function.effect(f"store {value.lanes.type(value.element)} {value.name}, ptr {slot}, align 64")


def _any(condition: Value) -> str:
    lanes = condition.lanes
    if lanes.count == 1:
        return condition.name
    bits = lanes.function.let(f"bitcast {lanes.type('i1')} {condition.name} to i{lanes.count}")
    return lanes.function.let(f"icmp ne i{lanes.count} {bits}, 0")
