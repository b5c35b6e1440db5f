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

_EXP = (1.0, 1.0, 0.499999941143, 0.166664287848, 0.0416680167062, 0.00837437130977, 0.00138433924573)
"""e^r on |r| <= 0.3475, relative error 2^-28.9."""

_EXPM1 = (0.499999981286, 0.166665423474, 0.041667205244, 0.00836669213588, 0.0013882478118)
"""(e^r - 1 - r) / r^2 on |r| <= 0.3475; e^r - 1 then has a relative error of 2^-26.2."""

_TANH_P = (0.999999999823, 0.137584271014, 0.00397432822511, 3.08579791844e-5, 4.82833177962e-8)
_TANH_Q = (1.0, 0.470917596156, 0.0276135464139, 0.000414598740761, 1.56166457098e-6, 6.88786254942e-10)
"""tanh x = x P(x^2) / Q(x^2) on |x| <= 9.02, relative error 2^-27.9; all are positive, so nothing cancels."""


def exp(x: Value) -> Value:
    """e^x, by 17 instructions."""
    return _scaled_exp(x.at_least(-104.0).at_most(89.0))


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), as e^x / (1 + e^x), which keeps its precision down to where it becomes 0."""
    # At 20 it is 1 - 2e-9, thus 1; e^x is not to overflow.
    e = _scaled_exp(x.at_least(-104.0).at_most(20.0))
    return e / (e + 1.0)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent, as a rational function; it rounds to 1 beyond 9.02."""
    x = x.at_least(-9.02).at_most(9.02)
    square = x * x
    return x * square.polynomial(_TANH_P) / square.polynomial(_TANH_Q)


def _scaled_exp(x: Value) -> Value:
    """e^x of clamped values. 2^n is applied in two steps, for it may be out of range where the result is not."""
    # With n + 254 in the low bits, half of them and their rest are both biased exponents.
    shifted = x.mul_add(1 / math.log(2), ROUND + 254)
    n = shifted - (ROUND + 254)
    r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x))
    biased = shifted.bits()
    half = (biased >> 1) << 23
    rest = (biased << 23) - half
    return r.polynomial(_EXP) * half.as_float() * rest.as_float()
