"""Operations of the loop IR on lanes: what each is in LLVM.

In registers float16 and bfloat16 are float (always holding a value of the narrow type), bool is i1; in memory they are
half, i16 and i8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from segue.backends.native import half, maths
from segue.backends.native.text import ELEMENT_BITS, Function, Lanes

REGISTERS = {
    torch.float32: "float", torch.float64: "double", torch.float16: "float", torch.bfloat16: "float",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "i8", torch.uint16: "i16", torch.uint32: "i32", torch.uint64: "i64", torch.bool: "i1",
}  # fmt: skip
"""The element type of a dtype in a register."""

MEMORY = REGISTERS | {torch.float16: "half", torch.bfloat16: "i16", torch.bool: "i8"}
"""The element type of a dtype in memory."""

_UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.bool)


class NotGenerated(Exception):
    """An operation that there is no code for; the graph then runs on the eager backend."""


@dataclass
class Values:
    """Writes operations into a function.

    Attributes:
        failure: the i32 in the function's frame that becomes 1 when an index is out of range or an integer is divided
            by zero.
    """

    function: Function
    failure: str

    def apply(self, lanes: Lanes, name: str, dtype: torch.dtype, kinds: list[torch.dtype], args: list[str]) -> str:
        """The result of an operation of the loop IR.

        Args:
            dtype: of the result.
            kinds: the operands' dtypes.
            args: the operands.
        """
        if name == "cast":
            return self.cast(lanes, kinds[0], dtype, args[0])
        if name == "where":
            return lanes.select(args[0], REGISTERS[dtype], args[1], args[2])
        kind = kinds[0]
        if name in _COMPARISONS:
            return self._compare(lanes, name, kind, args)
        if name in _SPECIAL:
            return _SPECIAL[name](self, lanes, kind, *args)
        if kind.is_floating_point:
            return self._float(lanes, name, REGISTERS[kind], args)
        if name in _INTEGER:
            return lanes.op(_INTEGER[name], REGISTERS[kind], *args)
        raise NotGenerated(f"{name} of {kind}")

    def _float(self, lanes: Lanes, name: str, element: str, args: list[str]) -> str:
        if name in _FLOAT:
            flags = " contract arcp nsz" if self.function.module.fast_math else ""
            return lanes.op(_FLOAT[name] + flags, element, *args)
        if name in _INTRINSICS:
            return lanes.intrinsic(f"llvm.{_INTRINSICS[name]}", element, *args)
        if name in maths.NAMES:
            return maths.call(lanes, name, element, *args)
        raise NotGenerated(f"{name} of {element}")

    def _compare(self, lanes: Lanes, name: str, kind: torch.dtype, args: list[str]) -> str:
        if kind.is_floating_point:
            return lanes.compare(f"fcmp {_COMPARISONS[name][0]}", REGISTERS[kind], *args)
        predicate = _COMPARISONS[name][2 if kind in _UNSIGNED else 1]
        return lanes.compare(f"icmp {predicate}", REGISTERS[kind], *args)

    # --- conversions ----------------------------------------------------------------------------------

    def cast(self, lanes: Lanes, source: torch.dtype, target: torch.dtype, value: str) -> str:
        """A value as another dtype, as `tensor.to` converts it."""
        have, want = REGISTERS[source], REGISTERS[target]
        if source == target:
            return value
        if target is torch.bool:
            predicate = "fcmp une" if source.is_floating_point else "icmp ne"
            return lanes.compare(predicate, have, value, lanes.constant(have, 0))
        if source is torch.bool:
            one, zero = lanes.constant(want, 1), lanes.constant(want, 0)
            return lanes.select(value, want, one, zero)
        if target.is_floating_point:
            return self.narrow(lanes, target, self._to_float(lanes, source, have, want, value))
        if source.is_floating_point:
            wide = want if ELEMENT_BITS[want] >= 32 and target not in _UNSIGNED else "i64" if want == "i64" else "i32"
            wide = "i64" if target is torch.uint32 else wide
            return self._resize(lanes, wide, want, False, lanes.convert("fptosi", have, wide, value))
        return self._resize(lanes, have, want, source not in _UNSIGNED, value)

    def _to_float(self, lanes: Lanes, source: torch.dtype, have: str, want: str, value: str) -> str:
        if not source.is_floating_point:
            return lanes.convert("uitofp" if source in _UNSIGNED else "sitofp", have, want, value)
        if have == want:
            return value
        return lanes.convert("fpext" if want == "double" else "fptrunc", have, want, value)

    def _resize(self, lanes: Lanes, have: str, want: str, signed: bool, value: str) -> str:
        if have == want:
            return value
        if ELEMENT_BITS[want] < ELEMENT_BITS[have]:
            return lanes.convert("trunc", have, want, value)
        return lanes.convert("sext" if signed else "zext", have, want, value)

    def narrow(self, lanes: Lanes, dtype: torch.dtype, value: str) -> str:
        """A float rounded to the values of float16 or bfloat16; other dtypes as they are."""
        if dtype is torch.float16:
            return self._from_half(lanes, self._to_half(lanes, value))
        if dtype is torch.bfloat16:
            return self._from_brain(lanes, self._to_brain(lanes, value))
        return value

    def _to_brain(self, lanes: Lanes, value: str) -> str:
        """The upper half of a float's bits, rounded to nearest even; a NaN stays one."""
        bits = lanes.convert("bitcast", "float", "i32", value)
        odd = lanes.op("and", "i32", lanes.op("lshr", "i32", bits, lanes.constant("i32", 16)), lanes.constant("i32", 1))
        bias = lanes.op("add", "i32", odd, lanes.constant("i32", 0x7FFF))
        rounded = lanes.op("lshr", "i32", lanes.op("add", "i32", bits, bias), lanes.constant("i32", 16))
        is_nan = lanes.compare("fcmp uno", "float", value, value)
        kept = lanes.select(is_nan, "i32", lanes.constant("i32", 0x7FC0), rounded)
        return lanes.convert("trunc", "i32", "i16", kept)

    def _from_brain(self, lanes: Lanes, value: str) -> str:
        wide = lanes.convert("zext", "i16", "i32", value)
        bits = lanes.op("shl", "i32", wide, lanes.constant("i32", 16))
        return lanes.convert("bitcast", "i32", "float", bits)

    def _to_half(self, lanes: Lanes, value: str) -> str:
        """A float as half; by integer operations where the processor has no instruction for it."""
        if self.function.module.has_f16c:
            return lanes.convert("fptrunc", "float", "half", value)
        return lanes.convert("bitcast", "i16", "half", half.rounded(lanes, value))

    def _from_half(self, lanes: Lanes, value: str) -> str:
        if self.function.module.has_f16c:
            return lanes.convert("fpext", "half", "float", value)
        return half.widened(lanes, lanes.convert("bitcast", "half", "i16", value))

    def from_memory(self, lanes: Lanes, dtype: torch.dtype, value: str) -> str:
        """A value as it is held in a register, from how it is in memory."""
        if dtype is torch.bool:
            return lanes.compare("icmp ne", "i8", value, lanes.constant("i8", 0))
        if dtype is torch.float16:
            return self._from_half(lanes, value)
        if dtype is torch.bfloat16:
            return self._from_brain(lanes, value)
        return value

    def to_memory(self, lanes: Lanes, dtype: torch.dtype, value: str) -> str:
        """A value as it is held in memory, from how it is in a register."""
        if dtype is torch.bool:
            return lanes.convert("zext", "i1", "i8", value)
        if dtype is torch.float16:
            return self._to_half(lanes, value)
        if dtype is torch.bfloat16:
            return self._to_brain(lanes, value)
        return value

    # --- operations with conditions -------------------------------------------------------------------

    def fail_where(self, lanes: Lanes, bad: str) -> None:
        """Note a failure if any lane of the i1 lanes is set."""
        any_bad = bad
        if lanes.count > 1:
            kind = lanes.type("i1")
            any_bad = self.function.call(f"llvm.vector.reduce.or.v{lanes.count}i1", "i1", [(kind, bad)])
        flag = self.function.let(f"zext i1 {any_bad} to i32")
        known = self.function.fresh(f"load i32, ptr {self.failure}")
        self.function.effect(f"store i32 {self.function.fresh(f'or i32 {known}, {flag}')}, ptr {self.failure}")

    def bounded(self, lanes: Lanes, kind: torch.dtype, index: str, size: str) -> str:
        negative = lanes.compare("icmp slt", "i64", index, lanes.constant("i64", 0))
        wrapped = lanes.select(negative, "i64", lanes.op("add", "i64", index, size), index)
        bad = lanes.compare("icmp uge", "i64", wrapped, size)
        self.fail_where(lanes, bad)
        return lanes.select(bad, "i64", lanes.constant("i64", 0), wrapped)

    def maximum(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        return self._extreme(lanes, kind, x, y, "gt")

    def minimum(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        return self._extreme(lanes, kind, x, y, "lt")

    def _extreme(self, lanes: Lanes, kind: torch.dtype, x: str, y: str, order: str) -> str:
        """The greater or smaller; of floats a NaN if there is one."""
        element = REGISTERS[kind]
        picked = lanes.select(self._compare(lanes, order, kind, [x, y]), element, x, y)
        if not kind.is_floating_point:
            return picked
        return lanes.select(lanes.compare("fcmp uno", element, x, x), element, x, picked)

    def absolute(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        if kind.is_floating_point:
            return lanes.intrinsic("llvm.fabs", REGISTERS[kind], x)
        return x if kind in _UNSIGNED else self.maximum(lanes, kind, x, self.negated(lanes, kind, x))

    def negated(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        element = REGISTERS[kind]
        return (
            lanes.op("fneg", element, x)
            if kind.is_floating_point
            else lanes.op("sub", element, lanes.constant(element, 0), x)
        )

    def sign(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        element = REGISTERS[kind]
        zero, one = lanes.constant(element, 0), lanes.constant(element, 1)
        up = lanes.select(self._compare(lanes, "gt", kind, [x, zero]), element, one, zero)
        down = lanes.select(self._compare(lanes, "lt", kind, [x, zero]), element, one, zero)
        return lanes.op("fsub" if kind.is_floating_point else "sub", element, up, down)

    def reciprocal(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        return lanes.op("fdiv", REGISTERS[kind], lanes.constant(REGISTERS[kind], 1), x)

    def is_infinite(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        element = REGISTERS[kind]
        return lanes.compare("fcmp oeq", element, self.absolute(lanes, kind, x), lanes.constant(element, float("inf")))

    def is_nan(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        return lanes.compare("fcmp uno", REGISTERS[kind], x, x)

    def sign_bit(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        element = REGISTERS[kind]
        bits = "i64" if element == "double" else "i32"
        return lanes.compare("icmp slt", bits, lanes.convert("bitcast", element, bits, x), lanes.constant(bits, 0))

    def inverted(self, lanes: Lanes, kind: torch.dtype, x: str) -> str:
        return lanes.op("xor", REGISTERS[kind], x, lanes.constant(REGISTERS[kind], 1 if kind is torch.bool else -1))

    def shifted_left(self, lanes: Lanes, kind: torch.dtype, x: str, by: str) -> str:
        """Zero once every bit is out."""
        element = REGISTERS[kind]
        out = lanes.compare("icmp uge", element, by, lanes.constant(element, ELEMENT_BITS[element]))
        safe = lanes.select(out, element, lanes.constant(element, 0), by)
        return lanes.select(out, element, lanes.constant(element, 0), lanes.op("shl", element, x, safe))

    def shifted_right(self, lanes: Lanes, kind: torch.dtype, x: str, by: str) -> str:
        """Only the sign is left once every bit is out."""
        element = REGISTERS[kind]
        last = lanes.constant(element, ELEMENT_BITS[element] - 1)
        out = lanes.compare("icmp ugt", element, by, last)
        safe = lanes.select(out, element, last, by)
        shifted = lanes.op("lshr" if kind in _UNSIGNED else "ashr", element, x, safe)
        return lanes.select(out, element, lanes.constant(element, 0), shifted) if kind in _UNSIGNED else shifted

    # --- division -------------------------------------------------------------------------------------

    def truncated_quotient(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        if kind.is_floating_point:
            return lanes.intrinsic("llvm.trunc", REGISTERS[kind], lanes.op("fdiv", REGISTERS[kind], x, y))
        return self._integer_division(lanes, kind, x, y)[0]

    def truncated_remainder(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        if kind.is_floating_point:
            return maths.call(lanes, "fmod", REGISTERS[kind], x, y)
        return self._integer_division(lanes, kind, x, y)[1]

    def _integer_division(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> tuple[str, str]:
        """Quotient and remainder, rounded towards zero; without the cases that the processor traps on."""
        element = REGISTERS[kind]
        zero, one = lanes.constant(element, 0), lanes.constant(element, 1)
        is_zero = lanes.compare("icmp eq", element, y, zero)
        self.fail_where(lanes, is_zero)
        safe = lanes.select(is_zero, element, one, y)
        if kind in _UNSIGNED:
            return lanes.op("udiv", element, x, safe), lanes.op("urem", element, x, safe)
        flips = lanes.compare("icmp eq", element, y, lanes.constant(element, -1))
        safe = lanes.select(flips, element, one, safe)
        quotient = lanes.op("sdiv", element, x, safe)
        return (
            lanes.select(flips, element, self.negated(lanes, kind, x), quotient),
            lanes.select(flips, element, zero, lanes.op("srem", element, x, safe)),
        )

    def floored_remainder(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        return self._floored(lanes, kind, x, y)[1]

    def floored_quotient(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> str:
        return self._floored(lanes, kind, x, y)[0]

    def _floored(self, lanes: Lanes, kind: torch.dtype, x: str, y: str) -> tuple[str, str]:
        """Quotient and remainder, where the remainder has the divisor's sign."""
        element = REGISTERS[kind]
        zero, one = lanes.constant(element, 0), lanes.constant(element, 1)
        if kind in _UNSIGNED:
            return self._integer_division(lanes, kind, x, y)
        if kind.is_floating_point:
            rest = maths.call(lanes, "fmod", element, x, y)
            quotient = lanes.op("fdiv", element, lanes.op("fsub", element, x, rest), y)
            add, sub = "fadd", "fsub"
        else:
            quotient, rest = self._integer_division(lanes, kind, x, y)
            add, sub = "add", "sub"
        below = self._compare(lanes, "lt", kind, [rest, zero])
        differs = lanes.op("xor", "i1", below, self._compare(lanes, "lt", kind, [y, zero]))
        wrong = lanes.op("and", "i1", self._compare(lanes, "ne", kind, [rest, zero]), differs)
        remainder = lanes.select(wrong, element, lanes.op(add, element, rest, y), rest)
        quotient = lanes.select(wrong, element, lanes.op(sub, element, quotient, one), quotient)
        if kind.is_floating_point:
            quotient = self._settled(lanes, kind, element, quotient, x, y)
        return quotient, remainder

    def _settled(self, lanes: Lanes, kind: torch.dtype, element: str, quotient: str, x: str, y: str) -> str:
        """A floored quotient freed of rounding errors, with the sign of zero and division by zero as in C."""
        zero, one = lanes.constant(element, 0), lanes.constant(element, 1)
        floor = lanes.intrinsic("llvm.floor", element, quotient)
        above = lanes.op("fsub", element, quotient, floor)
        up = lanes.compare("fcmp ogt", element, above, lanes.constant(element, 0.5))
        whole = lanes.select(up, element, lanes.op("fadd", element, floor, one), floor)
        plain = lanes.op("fdiv", element, x, y)
        signed_zero = lanes.intrinsic("llvm.copysign", element, zero, plain)
        is_zero = lanes.compare("fcmp oeq", element, quotient, zero)
        settled = lanes.select(is_zero, element, signed_zero, whole)
        return lanes.select(lanes.compare("fcmp oeq", element, y, zero), element, plain, settled)


_Rule = Callable[..., str]

_COMPARISONS = {
    "eq": ("oeq", "eq", "eq"), "ne": ("une", "ne", "ne"), "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"), "gt": ("ogt", "sgt", "ugt"), "ge": ("oge", "sge", "uge"),
}  # fmt: skip
_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INTRINSICS = {
    "sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "fmin": "minnum",
    "fmax": "maxnum", "copysign": "copysign",
}  # fmt: skip
_INTEGER = {"add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor"}
_SPECIAL: dict[str, _Rule] = {
    "bounded": Values.bounded, "maximum": Values.maximum, "minimum": Values.minimum, "abs": Values.absolute,
    "neg": Values.negated, "sign": Values.sign, "reciprocal": Values.reciprocal, "isinf": Values.is_infinite,
    "isnan": Values.is_nan, "signbit": Values.sign_bit, "not": Values.inverted, "shl": Values.shifted_left,
    "shr": Values.shifted_right, "truncdiv": Values.truncated_quotient, "fmod": Values.truncated_remainder,
    "floordiv": Values.floored_quotient, "remainder": Values.floored_remainder,
}  # fmt: skip
