"""The error function and its relatives."""

from __future__ import annotations

from segue.backends.native.maths.values import Value

_ERF_P = (
    *(1.12837916752, 0.18558765935, 0.0542632641367, 0.00385137117806),
    *(0.00037533386073, 4.56356529342e-6, -1.26097104238e-8),
)
_ERF_Q = (1.0, 0.497806146897, 0.114024650586, 0.0154512186892, 0.00130211745113, 6.19553401912e-5)
"""erf x = x P(x^2) / Q(x^2) on |x| <= 3.925, relative error 2^-27.8 (rational Remez)."""


def erf(x: Value) -> Value:
    """The error function; it rounds to 1 beyond 3.925."""
    x = x.at_least(-3.925).at_most(3.925)
    square = x * x
    return x * square.polynomial(_ERF_P) / square.polynomial(_ERF_Q)
