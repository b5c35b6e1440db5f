"""Inverses of the trigonometric functions of float lanes, computed in double."""

from __future__ import annotations

import math

from segue.backends.native.maths.values import Value

_ATAN = (
    *(1.0, -0.333333321338968099, 0.199999272470532652, -0.142841672556619673, 0.110945036945712572),
    *(-0.0898543868497076968, 0.0725943600761096251, -0.0545159180945995611, 0.034475812545955108),
    *(-0.0162994032305863707, 0.00492633721511716374, -0.000697953834964739387),
)
"""atan(x) / x as a polynomial in x^2, |x| <= 1, relative error 2^-33.9."""


def atan(x: Value) -> Value:
    """The arc tangent."""
    return _atan_of_positive(abs(x).wide()).narrow().signed(x)


def asin(x: Value) -> Value:
    """The arc sine, NaN beyond 1."""
    magnitude = abs(x).wide()
    cosine = ((1.0 - magnitude) * (1.0 + magnitude)).sqrt()
    return _atan_of_positive(magnitude / cosine).narrow().signed(x)


def acos(x: Value) -> Value:
    """The arc cosine, NaN beyond 1."""
    x = x.wide()
    return (_atan_of_positive(((1.0 - x) / (1.0 + x)).sqrt()) * 2.0).narrow()


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), with C's rules for zeros and infinities."""
    high, low = abs(y).wide(), abs(x).wide()
    steep = high > low
    divisor, dividend = steep.select(high, low), steep.select(low, high)
    # Zeros and infinities of both.
    equal = high.equals(0.0).select(high, high.like(1.0))
    ratio = high.equals(low).select(equal, dividend / divisor)
    angle = _atan_up_to_one(ratio)
    angle = steep.select(math.pi / 2 - angle, angle)
    angle = (x.bits() < 0).select(math.pi - angle, angle)
    return angle.narrow().signed(y)


def _atan_of_positive(x: Value) -> Value:
    steep = x > 1.0
    angle = _atan_up_to_one(steep.select(1.0 / x, x))
    return steep.select(math.pi / 2 - angle, angle)


def _atan_up_to_one(x: Value) -> Value:
    return x * (x * x).polynomial(_ATAN)
