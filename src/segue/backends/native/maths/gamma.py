"""The logarithm of the gamma function and its derivative, in double lanes.

Arguments below 10 are moved there by the recurrence, where Stirling's series has become precise; negative ones are
reflected.
"""

from __future__ import annotations

import math

from segue.backends.native.maths import wide
from segue.backends.native.maths.values import Value

_STEPS = 10

_LGAMMA = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""B_2n / (2n (2n - 1)) for n = 1, 2, ..."""

_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B_2n / 2n for n = 1, 2, ..."""

_SIN_PI = (
    *(math.pi, -5.16771278004984371, 2.55016403986444374, -0.599264528875019703),
    *(0.0821458793070096066, -0.00737036690619235585, 0.000465993905744359333, -0.0000211409764742559374),
)
"""sin(pi r) / r as a polynomial in r^2, |r| <= 1/2, relative error 2^-52.8."""


def lgamma(x: Value) -> Value:
    """log |gamma(x)| of floats."""
    wide_x = x.wide()
    negative = wide_x < 0.0
    positive = _lgamma_of_positive(negative.select(1.0 - wide_x, wide_x))
    reflected = wide.log(math.pi / abs(_sin_pi(wide_x - wide_x.rint()))) - positive
    result = negative.select(reflected, positive).narrow()
    result = (x.equals(1.0) | x.equals(2.0)).select(x.like(0.0), result)
    return abs(x).equals(math.inf).select(x.like(math.inf), result)


def _lgamma_of_positive(x: Value) -> Value:
    product = x
    for step in range(1, _STEPS):
        product = product * (x + float(step))
    low = x < float(_STEPS)
    z = low.select(x + float(_STEPS), x)
    inverse = 1.0 / z
    series = inverse * (inverse * inverse).polynomial(_LGAMMA)
    stirling = (z - 0.5) * wide.log(z) - z + (series + math.log(2 * math.pi) / 2)
    return stirling - wide.log(low.select(product, x.like(1.0)))


def digamma(x: Value) -> Value:
    """The derivative of lgamma, of doubles; NaN at negative integers, infinite at 0 as eager PyTorch has it."""
    negative = x < 0.0
    r = x - x.rint()
    positive = _digamma_of_positive(negative.select(1.0 - x, x))
    cotangent = _sin_pi(0.5 - abs(r)) / _sin_pi(r)
    reflected = r.equals(0.0).select(x.like(math.nan), positive - cotangent * math.pi)
    result = negative.select(reflected, positive)
    return x.equals(0.0).select(x.like(math.inf).with_sign_of(-x), result)


def _digamma_of_positive(x: Value) -> Value:
    total = x.like(0.0)
    for step in reversed(range(0, _STEPS, 2)):  # the smallest first, two as one fraction
        one, next_one = x + float(step), x + float(step + 1)
        total = total + (one + next_one) / (one * next_one)
    low = x < float(_STEPS)
    z = low.select(x + float(_STEPS), x)
    inverse = 1.0 / z
    square = inverse * inverse
    asymptotic = wide.log(z) - inverse * 0.5 - square * square.polynomial(_DIGAMMA)
    return asymptotic - low.select(total, x.like(0.0))


def _sin_pi(r: Value) -> Value:
    return r * (r * r).polynomial(_SIN_PI)
