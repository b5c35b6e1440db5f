"""Powers, roots and remainders of float lanes."""

from __future__ import annotations

import math

from segue.backends.native.maths.exponential import exp2_between
from segue.backends.native.maths.logarithm import split, with_special_values
from segue.backends.native.maths.values import Value

_LOG2_WIDE = (
    *(1.4426950408923316, -0.721347519569456488, 0.48089834396130578, -0.360673978594897583, 0.288539441721129984),
    *(-0.240433661227450493, 0.206075975050941463, -0.180806049778154314, 0.160891190064677814),
    *(-0.137461214009337717, 0.123563160339783656, -0.166104946428791996, 0.157540646160856415),
)
"""log2(1 + f) / f on |f| <= 1/3, relative error 2^-35.9: the exponent of a power may be 150, and counts to 2^-26."""


def rsqrt(x: Value) -> Value:
    """The inverse of the square root."""
    return 1.0 / x.sqrt()


def hypot(x: Value, y: Value) -> Value:
    """The length of (x, y); infinite if either is, even if the other is NaN."""
    wide_x, wide_y = x.wide(), y.wide()
    length = wide_x.mul_add(wide_x, wide_y * wide_y).sqrt().narrow()
    infinite = abs(x).equals(math.inf) | abs(y).equals(math.inf)
    return infinite.select(x.like(math.inf), length)


def power(x: Value, y: Value) -> Value:
    """x^y, as C defines it for infinities, zeros and negative numbers; the logarithm is taken in double."""
    magnitude = abs(x)
    exponent, f = split(magnitude)
    f = f.wide()
    log2 = with_special_values(magnitude, f.mul_add(f.polynomial(_LOG2_WIDE), exponent.wide()))
    product = y.wide() * log2
    # 1^y and x^0 are 1, also for infinities and NaN.
    product = (magnitude.equals(1.0) | y.equals(0.0)).select(product.like(0.0), product)
    product = product.at_least(-151.0).at_most(129.0)
    n = product.rint()
    result = exp2_between((product - n).narrow(), n.narrow())
    half = y * 0.5
    whole = y.rint().equals(y)
    odd = whole & ~half.rint().equals(half)
    sign = odd.select(x.bits() & (1 << 31), 0)
    result = (result.bits() | sign).as_float()
    undefined = ~whole & (x < 0.0) & (x > -math.inf)
    return undefined.select(x.like(math.nan), result)
