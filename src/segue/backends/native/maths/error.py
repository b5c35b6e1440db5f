"""The error function and its relatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

from segue.backends.native.maths import wide
from segue.backends.native.maths.exponential import expm1_between
from segue.backends.native.maths.values import Value

_ERF = (
    *(0.1283791728, 0.636619280912, 0.102779168903, -0.019159519163, -0.000145719446769),
    *(0.00164957409485, -0.000621729903297, 0.000114077164064, -8.80537273565e-6),
)
"""-log(1 - erf x) / x - 1 on [0, 3.93]; the erf of it has a relative error of 2^-27.6 (Remez)."""

_ERFC = (
    *(1.25300805894634635, -0.135621112702095025, -0.0475623842639811112, 0.129645415028980607),
    *(-0.119271620766125485, 0.068305940246657855, -0.0237877512716741192, 0.00252982739681383261),
    *(0.00195041516108410585, -0.000741621164902260697, -0.000183065575618526124, 0.0000352040520009397779),
)
"""erfc(x) e^(x^2) (1 + 2x) as a polynomial in (x - 3) / (x + 3), 0 <= x <= 10.2, relative error 2^-30.6."""

_ERFINV_CENTRE = (
    *(0.886226927451587, 0.23201355600712, 0.0115503355140902, -0.0023385405261948, -0.000122002742846822),
    *(4.04868791434918e-5, 5.83559190616873e-6, -2.49787362701269e-6, 3.09796141857708e-7, -1.71613043970244e-8),
    3.35539392661212e-10,
)
"""erfinv(x) / x as a polynomial in w = -log(1 - x^2) <= 5 (the variable is Giles's), relative error 2^-28.7."""

_ERFINV_TAIL = (
    *(-3.921026732677359, 16.000593167102965, -23.173227526914693, 19.736888485867325, -10.587252019544849),
    *(3.7932991821015845, -0.92674049415690848, 0.15317331124024041, -0.01644102174243762, 0.0010369202201075693),
    -2.9219351611674845e-5,
)
"""The same in sqrt(w), 5 <= w <= 16.7, which is as near to 1 as floats come; relative error 2^-29.3."""

WIDE_ERFINV_TAIL = (
    *(3.1081604808529708, -5.0328702801603524, 4.9236983249855574, -2.3328677916282497, 0.70449233718924363),
    *(-0.13999539848591842, 0.018231836755180299, -0.0014938220980472797, 6.9475695630285828e-5),
    -1.3857393321695414e-6,
)
"""The same for 5 <= w <= 37.5, where doubles end; relative error 2^-20.4."""


def erf(x: Value) -> Value:
    """The error function, as 1 - e^-x(1 + P(x)), which loses nothing around 0; it rounds to 1 beyond 3.93."""
    magnitude = abs(x).at_most(3.93)
    return abs(expm1_between(-magnitude.polynomial(_ERF).mul_add(magnitude, magnitude))).signed(x)


def erfc(x: Value) -> Value:
    """1 - erf x, exact in relation to the result; computed in double."""
    magnitude = abs(x).at_most(10.2).wide()
    t = (magnitude - 3.0) / (magnitude + 3.0)
    result = t.polynomial(_ERFC) * wide.exp(-(magnitude * magnitude)) / (magnitude + magnitude + 1.0)
    return (x < 0.0).select(2.0 - result, result).narrow()


def erfinv(x: Value) -> Value:
    """The inverse of erf, NaN beyond 1; computed in double."""
    magnitude = abs(x)
    result = approximate_erfinv(magnitude.wide(), _ERFINV_TAIL).narrow()
    return magnitude.equals(1.0).select(x.like(math.inf), result).signed(x)


def approximate_erfinv(x: Value, tail: Sequence[float]) -> Value:
    """The inverse of erf of non-negative doubles below 1."""
    w = -wide.log((1.0 - x) * (1.0 + x))
    return x * (w < 5.0).select(w.polynomial(_ERFINV_CENTRE), w.sqrt().polynomial(tail))
