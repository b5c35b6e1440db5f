"""Logarithms of float lanes.

x = 2^e (1 + f) with 1 + f in [2/3, 4/3), so that e = 0 around 1 and nothing cancels there; log(1 + f) is a minimax
polynomial (Remez).
"""

from __future__ import annotations

import math

from segue.backends.native.maths.values import Value

_ONE, _TWO_THIRDS = 0x3F800000, 0x3F2AAAAB
_SMALLEST_NORMAL = 2.0**-126
_LG2_HIGH = 0.301025390625
_LG2_LOW = math.log10(2) - _LG2_HIGH

_LOG1P = (
    *(-0.499999360653, 0.333331981558, -0.250078202126, 0.200111695379),
    *(-0.164159353651, 0.139957819316, -0.153886733441, 0.140265012691),
)
"""(log(1 + f) - f) / f^2 on |f| <= 1/3; log(1 + f) then has a relative error of 2^-25.2."""

_LOG2 = (
    *(1.44269504604157655, -0.721346541288459994, 0.48089596955359351, -0.36078956715254454, 0.288711413528424933),
    *(-0.236786526613539616, 0.201798024299422987, -0.222221245170302121, 0.202791729816588427),
)
_LOG10 = (
    *(0.434294483454342939, -0.217146946196292944, 0.144764111629544287, -0.108608481835540135, 0.0869107955626036393),
    *(-0.0712798470797629984, 0.0607472583798552736, -0.0668952604700605496, 0.0610463935473786601),
)
"""log2(1 + f) / f and log10(1 + f) / f on |f| <= 1/3, relative error 2^-25.2."""


def log(x: Value) -> Value:
    """The natural logarithm."""
    e, f = split(x)
    r = (f * f).mul_add(f.polynomial(_LOG1P), f)
    return with_special_values(x, e.mul_add(math.log(2), r))


def log2(x: Value) -> Value:
    """The binary logarithm, exact for powers of two."""
    e, f = split(x)
    return with_special_values(x, f.mul_add(f.polynomial(_LOG2), e))


def log10(x: Value) -> Value:
    """The decimal logarithm."""
    e, f = split(x)
    result = e.mul_add(_LG2_HIGH, e.mul_add(_LG2_LOW, f * f.polynomial(_LOG10)))
    return with_special_values(x, result)


def log1p(x: Value) -> Value:
    """log(1 + x), exact in relation to the result: what 1 + x loses is added to f."""
    near = x + 1.0
    exponent, f = _split_bits(near.bits())
    # Nothing is lost for what is too large to be scaled.
    small_exponent = (exponent < 100 << 23).select(exponent, 0)
    scale = (_ONE - small_exponent).as_float()
    f = (x - (near - 1.0)).mul_add(scale, f)
    r = (f * f).mul_add(f.polynomial(_LOG1P), f)
    result = with_special_values(near, (exponent.converted("sitofp", "float") * 2.0**-23).mul_add(math.log(2), r))
    return (abs(x) < 2.0**-60).select(x, result)


def split(x: Value) -> tuple[Value, Value]:
    """The exponent e and the rest f of x = 2^e (1 + f)."""
    small = x < _SMALLEST_NORMAL
    exponent, f = _split_bits(small.select(x * 2.0**23, x).bits())
    offset = small.select(x.like(-23.0), 0.0)
    return exponent.converted("sitofp", "float").mul_add(2.0**-23, offset), f


def _split_bits(bits: Value) -> tuple[Value, Value]:
    """e times 2^23 as an integer, and f, of the normal number 2^e (1 + f)."""
    exponent = (bits - _TWO_THIRDS) & -(2**23)
    return exponent, (bits - exponent).as_float() - 1.0


def with_special_values(x: Value, result: Value) -> Value:
    """The logarithm of x, of whatever base, float or double, given what is right for finite positive x."""
    result = x.equals(math.inf).select(result.like(math.inf), result)
    result = x.equals(0.0).select(result.like(-math.inf), result)
    return x.not_at_least(0.0).select(result.like(math.nan), result)
