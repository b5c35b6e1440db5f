"""Exponentials and logarithms of double lanes, precise enough that float functions may cancel and amplify.

They are for values within about the range of float, and for the functions that are seldom worth more effort.
"""

from __future__ import annotations

import math

from segue.backends.native.maths.logarithm import with_special_values
from segue.backends.native.maths.values import Value

_ROUND = 1.5 * 2**52
_BIAS = 1023
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_SQRT_HALF = 0x3FE6A09E667F3BCD
_EXPONENT = 0xFFF << 52

_EXP = (
    *(1.0, 1.0, 0.500000000043536787, 0.166666667863325062, 0.0416666643716390473),
    *(0.00833328125733365572, 0.00138892000189434394, 0.000199093001962470389, 0.000024707964489570273),
)
"""e^r on |r| <= 0.3475, relative error 2^-39.6."""

_LOG = (
    *(0.666666666666666607, 0.400000000000064718, 0.285714285690129726, 0.22222222657894306),
    *(0.181817747694271814, 0.153871302512775898, 0.132492212525087429, 0.132595373883433616),
)
"""(log((1 + s) / (1 - s)) / s - 2) / s^2 as a polynomial in s^2, |s| <= 0.172; the logarithm then has 2^-66."""


def exp(x: Value) -> Value:
    """e^x for |x| < 700."""
    shifted = x.mul_add(1 / math.log(2), _ROUND + _BIAS)
    n = shifted - (_ROUND + _BIAS)
    r = n.mul_add(-_LN2_LOW, n.mul_add(-_LN2_HIGH, x))
    return r.polynomial(_EXP) * (shifted.bits() << 52).as_float()


def log(x: Value) -> Value:
    """The natural logarithm of zero, normal numbers, infinity and NaN."""
    bits = x.bits()
    biased = bits - (_SQRT_HALF - (_BIAS << 52))
    e = ((biased >> 52) | 0x4330000000000000).as_float() - (2.0**52 + _BIAS)
    f = (bits - ((biased & _EXPONENT) - (_BIAS << 52))).as_float() - 1.0
    s = f / (f + 2.0)
    square = s * s
    r = (s * square).mul_add(square.polynomial(_LOG), s + s)
    return with_special_values(x, e.mul_add(_LN2_HIGH, e.mul_add(_LN2_LOW, r)))


def log1p(x: Value) -> Value:
    """log(1 + x), exact in relation to the result."""
    near = x + 1.0
    return with_special_values(near, log(near) + (x - (near - 1.0)) / near)
