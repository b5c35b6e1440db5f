"""Powers, roots and remainders of float lanes."""

from __future__ import annotations

import math

from segue.backends.native.maths.exponential import ROUND, exp2_of_sum
from segue.backends.native.maths.logarithm import split, with_special_values
from segue.backends.native.maths.values import Value, where_any

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


def fmod(x: Value, y: Value) -> Value:
    """What remains of x after whole multiples of y, exactly, with the sign of x.

    Quotients of up to 29 bits take one division in double. Larger ones, up to 2^277, are taken off in pieces of 28 bits
    behind a branch.
    """
    dividend, divisor = abs(x).wide(), abs(y).wide()
    far = (dividend >= divisor * 2.0**28) & (divisor > 0.0) & (dividend < math.inf)

    def replacements() -> list[Value]:
        lanes, kind = x.lanes, x.lanes.type("double")

        def piece(_: str, carried: list[str]) -> list[str]:
            rest, multiple = (Value(lanes, "double", name) for name in carried)
            return [far.select(_remainder(rest, multiple), rest).name, (multiple * 2.0**-28).name]

        carried = [(kind, dividend.name), (kind, (divisor * 2.0**252).name)]
        return [Value(lanes, "double", lanes.function.loop("0", "9", 1, carried, piece)[0])]

    (dividend,) = where_any(far, [dividend], replacements)
    rest = (dividend < divisor).select(dividend, _remainder(dividend, divisor))
    return rest.narrow().signed(x)


def _remainder(x: Value, y: Value) -> Value:
    """The remainder of non-negative values whose quotient and divisor have 53 bits together."""
    rest = x - (x / y).trunc() * y
    # The quotient may have been rounded up to the next integer.
    return (rest < 0.0).select(rest + y, rest)


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
    shifted = product.narrow() + (ROUND + 254)
    n = shifted - (ROUND + 254)
    result = exp2_of_sum((product - n.wide()).narrow(), shifted)
    half = y * 0.5
    whole = y.rint().equals(y)
    odd = whole & ~half.rint().equals(half)
    sign = odd.select(x.bits() & (1 << 31), 0)
    result = (result.bits() | sign).as_float()
    undefined = ~whole & (x < 0.0) & (x > -math.inf)
    return undefined.select(x.like(math.nan), result)
