"""Logarithms of float lanes.

x = 2^e (1 + f) with 1 + f in [2/3, 4/3), so that e = 0 around 1 and nothing cancels there; log(1 + f) is a minimax
polynomial (Remez).
"""

from __future__ import annotations

import math

from segue.backends.native.maths.values import Value

_TWO_THIRDS = 0x3F2AAAAB
_SMALLEST_NORMAL = 2.0**-126

_LOG1P = (
    *(-0.499999360653, 0.333331981558, -0.250078202126, 0.200111695379),
    *(-0.164159353651, 0.139957819316, -0.153886733441, 0.140265012691),
)
"""(log(1 + f) - f) / f^2 on |f| <= 1/3; log(1 + f) then has a relative error of 2^-25.2."""


def log(x: Value) -> Value:
    """The natural logarithm."""
    e, f = split(x)
    r = (f * f).mul_add(f.polynomial(_LOG1P), f)
    return with_special_values(x, e.mul_add(math.log(2), r))


def split(x: Value) -> tuple[Value, Value]:
    """The exponent e and the rest f of x = 2^e (1 + f)."""
    small = x < _SMALLEST_NORMAL
    bits = small.select(x * 2.0**23, x).bits()
    # The exponent times 2^23, as an integer and then as a float.
    exponent = (bits - _TWO_THIRDS) & -(2**23)
    f = (bits - exponent).as_float() - 1.0
    offset = small.select(x.like(-23.0), 0.0)
    return exponent.converted("sitofp", "float").mul_add(2.0**-23, offset), f


def with_special_values(x: Value, result: Value) -> Value:
    """The logarithm of x, of whatever base, float or double, given what is right for finite positive x."""
    result = x.equals(math.inf).select(result.like(math.inf), result)
    result = x.equals(0.0).select(result.like(-math.inf), result)
    return x.not_at_least(0.0).select(result.like(math.nan), result)
