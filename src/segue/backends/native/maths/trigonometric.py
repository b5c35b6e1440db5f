"""Sines, cosines and tangents of float lanes.

The argument is reduced to x = k pi + r as Cody and Waite do: pi is a sum of numbers whose products with k are exact
enough, up to |x| = 10^5. Beyond, x = m 2^e with an integer m of 24 bits, and x / pi modulo 2 is m times
(2^e / pi modulo 2), which a table gives for every e. This is the idea of Payne and Hanek; doubles are wide enough for
it to need no integers. It sits behind a branch that no usual argument takes.
"""

from __future__ import annotations

import functools
import math

from segue.backends.native.maths.exponential import ROUND
from segue.backends.native.maths.values import Value, where_any
from segue.backends.native.text import literal

_LARGE = 1e5
_ROUND_WIDE = 1.5 * 2**52

_PI = (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15)
"""pi as a sum of floats."""

_PI_HIGH, _PI_LOW = 3.1415926534682512, 1.2154201013012384e-10
"""pi as a sum of doubles, the first of 34 bits."""

_INVERSE_PI = 0x517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D5EF5DE2B0DB92371D
"""1 / pi, times 2^288."""

_SIN = (-0.16666661202907562, 0.00833308044821024, -0.00019809605146292597, 2.6044833703053882e-6)
"""(sin(r) / r - 1) / r^2 as a polynomial in r^2, |r| <= pi/2 + 0.004.

Of the nearly best polynomials this is one that gives 1 for pi/2 in float arithmetic, so that cos 0 is 1.
"""

_TAN_P = (1.00000000002238094, -0.11136208512269513, 0.00107519910072477789)
_TAN_Q = (1.0, -0.444695416776606021, 0.0159736512556822726)
"""tan r = r P(r^2) / Q(r^2) on |r| <= pi/4, relative error 2^-35.4."""


def sin(x: Value) -> Value:
    """The sine; adding to r loses the sign of zero."""
    return x.equals(0.0).select(x, _sin_of_reduced(*_reduce(x, 0.0)))


def cos(x: Value) -> Value:
    """The cosine, as a sine: x = (k - 1/2) pi + r has the cosine (-1)^k sin r."""
    return _sin_of_reduced(*_reduce(x, 0.5))


def tan(x: Value) -> Value:
    """The tangent: with x = k pi/2 + r, that of r or the negative of its inverse."""
    r, k = _reduce_wide(x, 0.5, 0.0)
    square = r * r
    p, q = r * square.polynomial(_TAN_P), square.polynomial(_TAN_Q)
    odd = (k & 1).equals(1)
    return (odd.select(-q, p) / odd.select(p, q)).narrow()


def _sin_of_reduced(r: Value, k: Value) -> Value:
    square = r * r
    sine = r.mul_add(square * square.polynomial(_SIN), r)
    return (sine.bits() ^ (k << 31)).as_float()


def _reduce(x: Value, offset: float) -> tuple[Value, Value]:
    """r and the low bits of k, of x = (k - offset) pi + r."""
    if not x.lanes.function.module.has_fma:
        r, k = _reduce_wide(x, 1.0, offset)
        return r.narrow(), k
    quotient = x.mul_add(1 / math.pi, offset) + ROUND if offset else x.mul_add(1 / math.pi, ROUND)
    k = quotient - ROUND - offset if offset else quotient - ROUND
    r = x
    for part in _PI:
        r = k.mul_add(-part, r)
    return _where_large(x, 1.0, offset, r, quotient.bits())


def _reduce_wide(x: Value, step: float, offset: float) -> tuple[Value, Value]:
    """r as double and the low bits of k, of x = (k - offset) step pi + r."""
    wide = x.wide()
    quotient = wide.mul_add(1 / (step * math.pi), offset) + _ROUND_WIDE
    k = quotient - _ROUND_WIDE - offset
    r = wide - k * (step * _PI_HIGH) - k * (step * _PI_LOW)
    return _where_large(x, step, offset, r, quotient.bits().converted("trunc", "i32"))


def _where_large(x: Value, step: float, offset: float, r: Value, k: Value) -> tuple[Value, Value]:
    """r, a float or double, and k, with those of large arguments replaced by the right ones."""
    large = abs(x) >= _LARGE

    def replacements() -> tuple[Value, Value]:
        far, k_far = _reduce_large(x, step, offset)
        return large.select(far.narrow() if r.element == "float" else far, r), large.select(k_far, k)

    r_all, k_all = where_any(large, (r, k), replacements)
    return r_all, k_all


# --- large arguments --------------------------------------------------------------------------------------

_FIRST_EXPONENT = 143
"""The biased exponent of the least float that counts as large, or less."""

_TABLE = "segue.inverse_pi"


def _reduce_large(x: Value, step: float, offset: float) -> tuple[Value, Value]:
    """What `_reduce_wide` gives, for lanes that are large."""
    mantissa = ((x.bits() & -0x7F800001) | 0x4B000000).as_float().wide()
    high, low = _look_up(((x.bits() >> 23) & 0xFF) - _FIRST_EXPONENT)
    product = mantissa * high
    quotient = (product + mantissa * low) * (1 / step) + offset + _ROUND_WIDE
    k = (quotient - _ROUND_WIDE - offset) * step
    # The first difference is exact: the table's upper parts have 29 bits.
    r = ((product - k) + mantissa * low) * math.pi
    return r, quotient.bits().converted("trunc", "i32")


def _look_up(index: Value) -> tuple[Value, Value]:
    """The table's entries, for every lane; whatever there is for an index below 0."""
    lanes, function = index.lanes, index.lanes.function
    function.module.declarations[_TABLE] = _table()
    index = (index > 0).select(index, 0.0)
    columns = []
    for column in range(2):
        values = []
        for lane in range(lanes.count):
            place = f"getelementptr [2 x double], ptr @{_TABLE}, i32 {index.lane(lane)}, i32 {column}"
            values.append(function.let(f"load double, ptr {function.let(place)}"))
        columns.append(Value.of_lanes(lanes, "double", values))
    return columns[0], columns[1]


@functools.cache
def _table() -> str:
    """2^e / pi modulo 2 for the exponents e of large floats, as sums of two doubles; NaN for infinity."""
    rows = []
    for exponent in range(_FIRST_EXPONENT, 255):
        # Times 2^295, as 2^(exponent - 150) / 2^288 = 2^(exponent - 143) / 2^295.
        value = (_INVERSE_PI << (exponent - 143)) % (1 << 296)
        high, low = value >> 267, value % (1 << 267)
        rows.append((high / 2**28, low / 2**295))
    rows.append((math.nan, math.nan))
    entries = ", ".join(f"[2 x double] [double {literal('double', h)}, double {literal('double', w)}]" for h, w in rows)
    return f"@{_TABLE} = private unnamed_addr constant [{len(rows)} x [2 x double]] [{entries}]"
