"""The error function and its relatives."""

from __future__ import annotations

from segue.backends.native.maths.exponential import expm1_between
from segue.backends.native.maths.values import Value

_ERF = (
    *(0.1283791728, 0.636619280912, 0.102779168903, -0.019159519163, -0.000145719446769),
    *(0.00164957409485, -0.000621729903297, 0.000114077164064, -8.80537273565e-6),
)
"""-log(1 - erf x) / x - 1 on [0, 3.93]; the erf of it has a relative error of 2^-27.6 (Remez)."""


def erf(x: Value) -> Value:
    """The error function, as 1 - e^-x(1 + P(x)), which loses nothing around 0; it rounds to 1 beyond 3.93."""
    magnitude = abs(x).at_most(3.93)
    return abs(expm1_between(-magnitude.polynomial(_ERF).mul_add(magnitude, magnitude))).signed(x)
