"""Arithmetic, comparisons, logic and elementary functions."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from segue.backends.native.ir import HALVES, Apply, Constant, load
from segue.backends.native.rules.context import Context, NoLowering, fitting, rule, value
from segue.backends.native.rules.elementwise import assign_formula, pointwise
from segue.backends.native.rules.formula import Value, call, clamp, where
from segue.backends.native.rules.types import compute_dtype, promoted
from segue.graphs.aten import View

BOTH = "{0}.Tensor {0}.Scalar"


def named(name: str) -> Callable[..., Value]:
    """The formula that is one operation of the IR."""
    return lambda *args: call(name, *args)


FLOATING = """
exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv sqrt
rsqrt reciprocal sigmoid lgamma digamma
"""
for _name in FLOATING.split():
    pointwise(_name, floats=True)(named(_name))
for _name in "floor ceil trunc round".split():
    pointwise(_name)(lambda x, name=_name: call(name, x) if x.is_float else x)
for _name in "eq ne lt le gt ge".split():
    pointwise(BOTH.format(_name))(named(_name))

pointwise("atan2", floats=True)(named("atan2"))
pointwise("hypot")(named("hypot"))
pointwise("copysign.Tensor copysign.Scalar", floats=True)(named("copysign"))
pointwise(BOTH.format("remainder") + " remainder.Scalar_Tensor")(named("remainder"))
pointwise(BOTH.format("fmod"))(named("fmod"))
pointwise("floor_divide floor_divide.Scalar", exact=True)(named("floordiv"))
pointwise(BOTH.format("div") + "", floats=True, exact=True)(named("div"))


# --- arithmetic -------------------------------------------------------------------------------------------


@pointwise("add.Tensor add.Scalar")
def add(x: Value, y: Value, alpha: Value) -> Value:
    return x | (y & alpha) if x.dtype is torch.bool else x + scaled(y, alpha)


@pointwise("sub.Tensor sub.Scalar")
def sub(x: Value, y: Value, alpha: Value) -> Value:
    return x - scaled(y, alpha)


@pointwise("rsub.Tensor rsub.Scalar")
def rsub(x: Value, y: Value, alpha: Value) -> Value:
    return y - scaled(x, alpha)


def scaled(x: Value, factor: Value) -> Value:
    """The product; nothing to do for 1."""
    return x if factor.number == 1 else x * factor


@pointwise("mul.Tensor mul.Scalar", exact=True)
def mul(x: Value, y: Value) -> Value:
    return x & y if x.dtype is torch.bool else x * y


@rule("div.Tensor_mode div.Scalar_mode")
def div(context: Context, outs: list[View], x: Any, y: Any, mode: str | None) -> None:
    """ATen truncates a quotient of halves after rounding it, but for a divisor that is a number."""
    common = promoted((x, y))
    rounds = mode == "trunc" and common in HALVES and isinstance(y, View) and y.sizes != ()

    def formula(a: Value, b: Value, _: str | None) -> Value:
        if rounds:
            return call("trunc", (a / b).to(common).to(a.dtype))
        return call({None: "div", "trunc": "truncdiv", "floor": "floordiv"}[mode], a, b)

    assign_formula(context, outs[0], formula, (x, y, mode), floats=mode is None, exact=True)


@pointwise("pow.Tensor_Tensor pow.Scalar pow.Tensor_Scalar")
def power(x: Value, y: Value) -> Value:
    if not x.is_float:
        return integer_power(x, y)
    special = SPECIAL_POWERS.get(y.number) if y.number is not None else None
    return call("pow", x, y) if special is None else special(x)


SPECIAL_POWERS: dict[float, Callable[[Value], Value]] = {
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    0.5: lambda x: call("sqrt", x),
    -0.5: lambda x: call("rsqrt", x),
    -1.0: lambda x: call("reciprocal", x),
    -2.0: lambda x: call("reciprocal", x * x),
    1.0: lambda x: x,
}


MOST_FACTORS = 16


def integer_power(x: Value, y: Value) -> Value:
    """Products of squares for a small exponent that is known; a negative one is an error in ATen."""
    exponent = y.number
    if exponent is None or not 0 <= exponent <= MOST_FACTORS:
        raise NoLowering("a power of integers")
    factors, square, rest = [], x, int(exponent)
    while rest:
        if rest & 1:
            factors.append(square)
        square, rest = square * square, rest >> 1
    return functools.reduce(operator.mul, factors) if factors else Value(Constant(1, x.dtype))


@pointwise("neg")
def neg(x: Value) -> Value:
    return -x


@pointwise("abs")
def absolute(x: Value) -> Value:
    return x if x.dtype in (torch.uint8, torch.bool) else abs(x)


@pointwise("sign sgn")
def sign(x: Value) -> Value:
    return x if x.dtype is torch.bool else call("sign", x)


@pointwise("frac")
def frac(x: Value) -> Value:
    return x - call("trunc", x)


@pointwise("round.decimals")
def round_to(x: Value, decimals: int) -> Value:
    if not x.is_float:
        raise NoLowering("round with decimals is of floats")
    scale = float(10 ** abs(decimals))
    return call("round", x * scale) / scale if decimals >= 0 else call("round", x / scale) * scale


@pointwise("addcmul")
def addcmul(x: Value, a: Value, b: Value, factor: Value) -> Value:
    return x + scaled(a, factor) * b


@pointwise("addcdiv")
def addcdiv(x: Value, a: Value, b: Value, factor: Value) -> Value:
    return x + scaled(a, factor) / b


@pointwise("lerp.Tensor lerp.Scalar")
def lerp(start: Value, end: Value, weight: Value) -> Value:
    if not start.is_float:
        raise NoLowering("lerp is of floats")
    difference = end - start
    from_start, from_end = start + weight * difference, end - difference * (1 - weight)
    if weight.number is not None:
        return from_start if abs(weight.number) < 0.5 else from_end
    return where(abs(weight) < 0.5, from_start, from_end)


@pointwise("deg2rad", floats=True)
def deg2rad(x: Value) -> Value:
    return x * (math.pi / 180)


@pointwise("rad2deg", floats=True)
def rad2deg(x: Value) -> Value:
    return x * (180 / math.pi)


@pointwise("ldexp.Tensor", floats=True)
def ldexp(x: Value, exponent: Value) -> Value:
    return x * call("exp2", exponent)


@pointwise("conj_physical")
def conj_physical(x: Value) -> Value:
    return x


@pointwise("angle", floats=True)
def angle(x: Value) -> Value:
    return where(call("isnan", x), x, (x < 0).to(x.dtype) * math.pi)


# --- extremes ---------------------------------------------------------------------------------------------


@pointwise("maximum")
def maximum(x: Value, y: Value) -> Value:
    return x | y if x.dtype is torch.bool else call("maximum", x, y)


@pointwise("minimum")
def minimum(x: Value, y: Value) -> Value:
    return x & y if x.dtype is torch.bool else call("minimum", x, y)


@pointwise("fmax")
def fmax(x: Value, y: Value) -> Value:
    return call("fmax", x, y) if x.is_float else maximum(x, y)


@pointwise("fmin")
def fmin(x: Value, y: Value) -> Value:
    return call("fmin", x, y) if x.is_float else minimum(x, y)


@pointwise("clamp clamp.Tensor")
def clamp_between(x: Value, low: Value | None, high: Value | None) -> Value:
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


@pointwise("clamp_min clamp_min.Tensor")
def clamp_min(x: Value, low: Value) -> Value:
    return maximum(x, low)


@pointwise("clamp_max clamp_max.Tensor")
def clamp_max(x: Value, high: Value) -> Value:
    return minimum(x, high)


# --- logic ------------------------------------------------------------------------------------------------


@pointwise("bitwise_and.Tensor bitwise_and.Scalar bitwise_and.Scalar_Tensor")
def bitwise_and(x: Value, y: Value) -> Value:
    return x & y


@pointwise("bitwise_or.Tensor bitwise_or.Scalar bitwise_or.Scalar_Tensor")
def bitwise_or(x: Value, y: Value) -> Value:
    return x | y


@pointwise("bitwise_xor.Tensor bitwise_xor.Scalar bitwise_xor.Scalar_Tensor")
def bitwise_xor(x: Value, y: Value) -> Value:
    return x ^ y


@pointwise("bitwise_not")
def bitwise_not(x: Value) -> Value:
    return ~x


SHIFTS = "bitwise_{0}_shift.Tensor bitwise_{0}_shift.Tensor_Scalar bitwise_{0}_shift.Scalar_Tensor"


@pointwise(SHIFTS.format("left") + " __lshift__.Scalar __lshift__.Tensor")
def shift_left(x: Value, by: Value) -> Value:
    bits = torch.iinfo(x.dtype).bits
    outside = (by < 0) | (by >= bits)
    return where(outside, 0, call("shl", x, clamp(by, 0, bits - 1)))


@pointwise(SHIFTS.format("right") + " __rshift__.Scalar __rshift__.Tensor")
def shift_right(x: Value, by: Value) -> Value:
    last = torch.iinfo(x.dtype).bits - 1
    outside = (by < 0) | (by > last)
    shifted = call("shr", x, where(outside, last, by))
    return where(outside, 0, shifted) if x.dtype is torch.uint8 else shifted


def truth(x: Value) -> Value:
    """Whether it is not 0."""
    return x if x.dtype is torch.bool else x.ne(0)


@rule("logical_and logical_or logical_xor logical_not")
def logical(context: Context, outs: list[View], *args: View) -> None:
    truths = [truth(Value(value(a, outs[0].sizes))) for a in args]
    name = str(context.name).removeprefix("logical_")
    context.assign(outs[0], call(name, *truths).expr)


# --- tests and choices ------------------------------------------------------------------------------------


def no_such(x: Value) -> Value:
    """False, for integers."""
    return x.ne(x)


@pointwise("isnan")
def isnan(x: Value) -> Value:
    return call("isnan", x) if x.is_float else no_such(x)


@pointwise("isinf")
def isinf(x: Value) -> Value:
    return call("isinf", x) if x.is_float else no_such(x)


@pointwise("isposinf")
def isposinf(x: Value) -> Value:
    return x.eq(math.inf) if x.is_float else no_such(x)


@pointwise("isneginf")
def isneginf(x: Value) -> Value:
    return x.eq(-math.inf) if x.is_float else no_such(x)


@pointwise("signbit")
def signbit(x: Value) -> Value:
    if x.is_float:
        return call("signbit", x)
    return no_such(x) if x.dtype is torch.bool else x < 0


@rule("nan_to_num")
def nan_to_num(context: Context, outs: list[View], x: View, nan: Any, high: Any, low: Any) -> None:
    out = outs[0]
    if not x.dtype.is_floating_point:
        return context.copy(out, x)
    limits, dtype = torch.finfo(x.dtype), compute_dtype(x.dtype)
    pairs = [(nan, 0.0), (high, limits.max), (low, limits.min)]
    nan_to, high_to, low_to = (Value(value(d if a is None else a, out.sizes, dtype)) for a, d in pairs)
    v = Value(value(x, out.sizes))
    finite = where(v.eq(math.inf), high_to, where(v.eq(-math.inf), low_to, v))
    context.assign(out, where(call("isnan", v), nan_to, finite).expr)


@rule("where.self")
def where_self(context: Context, outs: list[View], condition: View, x: View, y: View) -> None:
    common, sizes = promoted((x, y)), outs[0].sizes
    chosen = truth(Value(value(condition, sizes))).expr
    context.assign(outs[0], Apply("where", (chosen, value(x, sizes, common), value(y, sizes, common)), common))


@rule("masked_fill.Scalar masked_fill.Tensor")
def masked_fill(context: Context, outs: list[View], x: View, mask: View, fill: Any) -> None:
    sizes = outs[0].sizes
    filled = fitting(fill, sizes, x.dtype)
    context.assign(outs[0], Apply("where", (load(mask, sizes), filled, load(x, sizes)), x.dtype))


# --- special functions ------------------------------------------------------------------------------------


@pointwise("xlogy.Tensor xlogy.Scalar_Self xlogy.Scalar_Other", floats=True)
def xlogy(x: Value, y: Value) -> Value:
    return where(call("isnan", y), y, where(x.eq(0), 0, x * call("log", y)))


@pointwise("special_xlog1py special_xlog1py.self_scalar special_xlog1py.other_scalar", floats=True)
def xlog1py(x: Value, y: Value) -> Value:
    return where(call("isnan", y), y, where(x.eq(0), 0, x * call("log1p", y)))


@pointwise("special_entr", floats=True)
def entr(x: Value) -> Value:
    inside = where(x.eq(0), 0, where(x > 0, -x * call("log", x), -math.inf))
    return where(call("isnan", x), x, inside)


def log_add(x: Value, y: Value, exp: str, log_of_one_more: Callable[[Value], Value]) -> Value:
    same_infinity = call("isinf", x) & x.eq(y)
    high = call("maximum", x, y)
    return where(same_infinity, x, high + log_of_one_more(call(exp, -abs(x - y))))


@pointwise("logaddexp")
def logaddexp(x: Value, y: Value) -> Value:
    if not x.is_float:
        raise NoLowering("logaddexp is of floats")
    return log_add(x, y, "exp", lambda e: call("log1p", e))


@pointwise("logaddexp2", floats=True)
def logaddexp2(x: Value, y: Value) -> Value:
    return log_add(x, y, "exp2", lambda e: call("log1p", e) * (1 / math.log(2)))


@pointwise("heaviside")
def heaviside(x: Value, at_zero: Value) -> Value:
    return where(x.eq(0), at_zero, (x > 0).to(x.dtype))


@pointwise("sinc", floats=True)
def sinc(x: Value) -> Value:
    angle = x * math.pi
    return where(x.eq(0), 1, call("sin", angle) / angle)


@pointwise("logit", floats=True)
def logit(x: Value, eps: Value | None) -> Value:
    p = x if eps is None else clamp(x, eps, 1 - eps)
    return call("log", p / (1 - p))
