"""Exponentials of float lanes and what is built on them.

The argument is reduced as Cody and Waite do: x = n ln 2 + r with |r| <= ln(2)/2, ln 2 being split so that n times its
upper part is exact. e^r is a minimax polynomial (Remez), and 2^n is made of bits. Adding 1.5 * 2^23 to a number rounds
it to an integer, which then stands in the low bits of the sum: no conversion to integers is needed.
"""

from __future__ import annotations

import math

from segue.backends.native.maths.values import Value

ROUND = 1.5 * 2**23
LN2_HIGH, LN2_LOW = 0.693145751953125, 1.42860682030941723e-6

_EXP = (0.499999941143, 0.166664287848, 0.0416680167062, 0.00837437130977, 0.00138433924573)
"""(e^r - 1 - r) / r^2 on |r| <= 0.3475; e^r then has a relative error of 2^-28.9."""

_EXPM1 = (0.499999981286, 0.166665423474, 0.041667205244, 0.00836669213588, 0.0013882478118)
"""(e^r - 1 - r) / r^2 on |r| <= 0.3475; e^r - 1 then has a relative error of 2^-26.2."""

_EXP2 = (1.0, 0.693147203112445, 0.240226478794372972, 0.0555033185442, 0.0096184399505, 0.001339913303, 0.00015353142)
"""2^r on |r| <= 0.501, relative error 2^-28.9."""


def exp(x: Value) -> Value:
    """e^x, by 17 instructions."""
    return _scaled_exp(x.at_least(-104.0).at_most(89.0))


def exp2(x: Value) -> Value:
    """2^x."""
    x = x.at_least(-151.0).at_most(129.0)
    shifted = x + (ROUND + 254)
    return exp2_of_sum(x - (shifted - (ROUND + 254)), shifted)


def exp2_of_sum(r: Value, shifted: Value) -> Value:
    """2^(n + r) for |r| <= 1/2 and an integer n of [-151, 129], which is given with ROUND + 254 added."""
    return _times_power_of_two(r.polynomial(_EXP2), shifted)


def expm1(x: Value) -> Value:
    """e^x - 1; it rounds to -1 below -18."""
    clamped = x.at_least(-20.0).at_most(89.0)
    # With half the scale, for the scale itself may be out of range where the result is not.
    shifted, r = _reduce(clamped, 126)
    scale = (shifted.bits() << 23).as_float()
    half = _expm1_of_reduced(r).mul_add(scale, scale - 0.5)
    return (abs(x) < 2.0**-60).select(x, half + half)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), as e^x / (1 + e^x), which keeps its precision down to where it becomes 0."""
    # At 20 it is 1 - 2e-9, thus 1; e^x is not to overflow.
    e = _scaled_exp(x.at_least(-104.0).at_most(20.0))
    return e / (e + 1.0)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent, as (e^2x - 1) / (e^2x + 1); it rounds to 1 beyond 9.02."""
    magnitude = abs(x).at_most(9.02)
    t = expm1_between(magnitude + magnitude)
    return (t / (t + 2.0)).signed(x)


def expm1_between(x: Value) -> Value:
    """e^x - 1 of values within about [-87, 88], exact in relation to the result."""
    shifted, r = _reduce(x, 127)
    scale = (shifted.bits() << 23).as_float()
    return _expm1_of_reduced(r).mul_add(scale, scale - 1.0)


def _reduce(x: Value, bias: int) -> tuple[Value, Value]:
    """A float with n + bias in its low bits, and r of x = n ln 2 + r."""
    shifted = x.mul_add(1 / math.log(2), ROUND + bias)
    n = shifted - (ROUND + bias)
    return shifted, n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x))


def _expm1_of_reduced(r: Value) -> Value:
    return (r * r).mul_add(r.polynomial(_EXPM1), r)


def _scaled_exp(x: Value) -> Value:
    """e^x of clamped values. 2^n is applied in two steps, for it may be out of range where the result is not."""
    # With n + 254 in the low bits, half of them and their rest are both biased exponents.
    shifted, r = _reduce(x, 254)
    return _times_power_of_two((r * r).mul_add(r.polynomial(_EXP), r) + 1.0, shifted)


def _times_power_of_two(x: Value, shifted: Value) -> Value:
    """x 2^n for n in [-254, 257], which is given with ROUND + 254 added."""
    biased = shifted.bits()
    half = (biased >> 1) << 23
    rest = (biased << 23) - half
    return x * half.as_float() * rest.as_float()
