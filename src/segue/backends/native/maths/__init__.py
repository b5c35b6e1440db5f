"""The functions of the maths library, inline: polynomials on as many lanes as the caller computes with.

A call of a library function would spill every vector register, and takes vectors of one width only. Float results are
within 2 units in the last place over the whole range, and right for infinities, NaN, signed zeros and denormals.
"""

from __future__ import annotations

from collections.abc import Callable

from segue.backends.native.maths import (
    double,
    error,
    exponential,
    gamma,
    hyperbolic,
    inverse,
    logarithm,
    power,
    trigonometric,
)
from segue.backends.native.maths.values import Binary, Unary, Value, fma
from segue.backends.native.text import Lanes

__all__ = ["FLOAT", "FLOAT2", "NAMES", "call", "fma"]

_UNARY: dict[str, Unary] = {
    "acos": inverse.acos,
    "acosh": hyperbolic.acosh,
    "asin": inverse.asin,
    "asinh": hyperbolic.asinh,
    "atan": inverse.atan,
    "atanh": hyperbolic.atanh,
    "cos": trigonometric.cos,
    "cosh": hyperbolic.cosh,
    "digamma": lambda x: gamma.digamma(x.wide()).narrow(),
    "erf": error.erf,
    "erfc": error.erfc,
    "erfinv": error.erfinv,
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "lgamma": gamma.lgamma,
    "log": logarithm.log,
    "log10": logarithm.log10,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "rsqrt": power.rsqrt,
    "sigmoid": exponential.sigmoid,
    "sin": trigonometric.sin,
    "sinh": hyperbolic.sinh,
    "sqrt": Value.sqrt,
    "tan": trigonometric.tan,
    "tanh": exponential.tanh,
}
_BINARY: dict[str, Binary] = {
    "atan2": inverse.atan2,
    "fmod": power.fmod,
    "hypot": power.hypot,
    "pow": power.power,
}


def _unary(kernel: Unary) -> Callable[[Lanes, str], str]:
    return lambda lanes, x: kernel(Value(lanes, "float", x)).name


def _binary(kernel: Binary) -> Callable[[Lanes, str, str], str]:
    return lambda lanes, x, y: kernel(Value(lanes, "float", x), Value(lanes, "float", y)).name


FLOAT: dict[str, Callable[[Lanes, str], str]] = {name: _unary(kernel) for name, kernel in _UNARY.items()}
"""The functions of one float operand."""

FLOAT2: dict[str, Callable[[Lanes, str, str], str]] = {name: _binary(kernel) for name, kernel in _BINARY.items()}
"""The functions of two."""

NAMES = frozenset(FLOAT) | frozenset(FLOAT2)
"""All functions, each there for float and double."""


def call(lanes: Lanes, name: str, element: str, *operands: str) -> str:
    """Write a function of the maths library.

    Args:
        lanes: where to write it.
        name: one of `NAMES`.
        element: `float` or `double`.
        operands: one or two.

    Returns:
        The name of the result.

    Raises:
        KeyError: for another name.

    Example:
        maths.call(lanes, "exp", "float", "%x")
    """
    if element == "double":
        return double.call(name, *(Value(lanes, "double", x) for x in operands)).name
    if name in FLOAT2:
        left, right = operands
        return FLOAT2[name](lanes, left, right)
    (operand,) = operands
    return FLOAT[name](lanes, operand)
