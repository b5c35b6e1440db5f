"""The functions on double lanes: the exponential inline, most others by the vector library that libtorch carries.

SLEEF's functions take four doubles; the C library's are called lane by lane for fewer, where the target lacks what
SLEEF needs, and for what SLEEF does less well.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Sequence

from segue.backends.native.maths import error, gamma
from segue.backends.native.maths.values import Value
from segue.backends.native.text import Lanes

_GROUP = 4
_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
_ROUND = 1.5 * 2**52
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10

_EXP = (
    *(0.50000000000000109, 0.166666666666664058, 0.0416666666665273723, 0.00833333333349789383),
    *(0.00138888889444695184, 0.000198412695011796687, 0.0000248014921356259825, 2.75575893165809809e-6),
    *(2.76306211328957023e-7, 2.49997353816541744e-8),
)
"""(e^r - 1 - r) / r^2 on |r| <= 0.3475; e^r then has a relative error of 2^-57.9."""

_SLEEF = {
    **dict.fromkeys("acos asin atan atanh atan2 cos cosh erf exp2 expm1 lgamma".split(), "u10"),
    **dict.fromkeys("log log10 log1p log2 pow sin sinh tan tanh".split(), "u10"),
    "erfc": "u15",
    "hypot": "u05",
}
"""SLEEF's name for the precision of its best version: the error in tenths of an ulp.

Not here: asinh and acosh, which overflow too early, and fmod, which fails where the quotient overflows.
"""


def exp(x: Value) -> Value:
    """e^x, as `exponential.exp` does it."""
    x = x.at_least(-746.0).at_most(710.0)
    shifted = x.mul_add(1 / math.log(2), _ROUND + 2046)
    n = shifted - (_ROUND + 2046)
    r = n.mul_add(-_LN2_LOW, n.mul_add(-_LN2_HIGH, x))
    biased = shifted.bits()
    half = (biased >> 1) << 52
    rest = (biased << 52) - half
    return ((r * r).mul_add(r.polynomial(_EXP), r) + 1.0) * half.as_float() * rest.as_float()


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), as `exponential.sigmoid` does it."""
    e = exp(x.at_most(40.0))
    return e / (e + 1.0)


def erfinv(x: Value) -> Value:
    """The inverse of erf, by one step of Halley's method from what is good for floats."""
    magnitude = abs(x)
    y = error.approximate_erfinv(magnitude, error.WIDE_ERFINV_TAIL)
    # Near 1 the difference of complements is the precise one.
    near = magnitude < 0.5
    excess = near.select(library("erf", y) - magnitude, (1.0 - magnitude) - library("erfc", y))
    step = excess * exp(y * y) * (math.sqrt(math.pi) / 2)
    y = y - step / y.mul_add(step, 1.0)
    return magnitude.equals(1.0).select(x.like(math.inf), y).signed(x)


_INLINE: dict[str, Callable[[Value], Value]] = {
    "digamma": gamma.digamma,
    "erfinv": erfinv,
    "exp": exp,
    "rsqrt": lambda x: 1.0 / x.sqrt(),
    "sigmoid": sigmoid,
    "sqrt": Value.sqrt,
}


def call(name: str, *operands: Value) -> Value:
    """A function of one or two doubles."""
    return _INLINE[name](*operands) if name in _INLINE else library(name, *operands)


def library(name: str, *operands: Value) -> Value:
    """A function of a library, by as few calls as it takes."""
    lanes = operands[0].lanes
    has_sleef = _IS_X86 and lanes.function.module.has_fma
    if lanes.count % _GROUP or name not in _SLEEF or not has_sleef:
        names = [_one(lanes, name, [x.lane(i) for x in operands]) for i in range(lanes.count)]
        return Value.of_lanes(lanes, "double", names)
    parts = [
        _one(Lanes(lanes.function, _GROUP), f"Sleef_{name}d{_GROUP}_{_SLEEF[name]}", [_part(x, i) for x in operands])
        for i in range(0, lanes.count, _GROUP)
    ]
    return Value(lanes, "double", _joined(lanes, parts))


def _one(lanes: Lanes, name: str, operands: Sequence[str]) -> str:
    kind = lanes.type("double") if name.startswith("Sleef") else "double"
    return lanes.function.call(name, kind, [(kind, o) for o in operands])


def _part(x: Value, start: int) -> str:
    """The group of lanes from `start`."""
    if x.lanes.count == _GROUP:
        return x.name
    kind = x.lanes.type("double")
    return x.lanes.function.let(f"shufflevector {kind} {x.name}, {kind} poison, {_indices(start, _GROUP)}")


def _joined(lanes: Lanes, parts: list[str]) -> str:
    """All groups in one vector, by halves."""
    count = _GROUP
    while len(parts) > 1:
        kind, indices = Lanes(lanes.function, count).type("double"), _indices(0, 2 * count)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [lanes.function.let(f"shufflevector {kind} {a}, {kind} {b}, {indices}") for a, b in pairs]
        count *= 2
    return parts[0]


def _indices(start: int, count: int) -> str:
    return f"<{count} x i32> <{', '.join(f'i32 {start + i}' for i in range(count))}>"
