"""Hyperbolic functions of float lanes and their inverses, computed in double."""

from __future__ import annotations

import math

from segue.backends.native.maths import wide
from segue.backends.native.maths.values import Value

_SINH = (1.0, 0.166666666670483699, 0.00833333327836594769, 0.000198412954319312783, 2.7552137267e-6, 2.552681066e-8)
"""sinh(x) / x as a polynomial in x^2, |x| <= 1, relative error 2^-43.5."""


def sinh(x: Value) -> Value:
    """The hyperbolic sine; the difference of exponentials would cancel around 0."""
    x = x.wide().at_least(-100.0).at_most(100.0)
    e = wide.exp(x)
    return (abs(x) < 1.0).select(x * (x * x).polynomial(_SINH), (e - 1.0 / e) * 0.5).narrow()


def cosh(x: Value) -> Value:
    """The hyperbolic cosine."""
    e = wide.exp(x.wide().at_least(-100.0).at_most(100.0))
    return ((e + 1.0 / e) * 0.5).narrow()


def asinh(x: Value) -> Value:
    """The inverse of sinh: log(x + sqrt(x^2 + 1)), as log(1 + y) of a y that does not cancel."""
    magnitude = abs(x).wide()
    square = magnitude * magnitude
    y = magnitude + square / ((square + 1.0).sqrt() + 1.0)
    return abs(x).equals(math.inf).select(x, wide.log1p(y).narrow().signed(x))


def acosh(x: Value) -> Value:
    """The inverse of cosh, NaN below 1."""
    above = x.wide() - 1.0
    result = wide.log1p(above + (above * (above + 2.0)).sqrt()).narrow()
    return (x < 1.0).select(x.like(math.nan), result)


def atanh(x: Value) -> Value:
    """The inverse of tanh, NaN beyond 1."""
    magnitude = abs(x).wide()
    return (wide.log1p((magnitude + magnitude) / (1.0 - magnitude)) * 0.5).narrow().signed(x)
