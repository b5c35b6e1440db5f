"""The inline maths agrees with PyTorch's functions of the next wider type, to the last bits and in every corner."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from segue.backends.native import maths
from segue.backends.native.jit import compile_module
from segue.backends.native.target import Target, describe, host
from segue.backends.native.text import Function, Lanes, Module

BASELINE = describe(host().triple, "x86-64", {}, 128)
"""The plainest machine; on x86 one without fused multiplication and addition."""

UNARY = sorted(maths.FLOAT)
BINARY = sorted(maths.FLOAT2)

REFERENCES: dict[str, Callable[..., torch.Tensor]] = {
    "atan2": torch.atan2,
    "fmod": torch.fmod,
    "hypot": torch.hypot,
    "pow": torch.pow,
    **{name: getattr(torch, name) for name in UNARY},
    # PyTorch's is 0 where e^-x overflows, also where the result would not be.
    "sigmoid": lambda x: torch.where(x < 0, x.exp() / (1 + x.exp()), 1 / (1 + (-x).exp())),
}

CORNERS = [0.0, 1.0, 2.0, 3.0, 0.5, 1.5, 10.0, 64.0, 1e5, 1e10, 16777215.0, 16777216.0, 1e38, 3.4028235e38]
CORNERS += [1e-45, 1e-40, 1.1754944e-38, 1e-20, 0.99999994, 1.0000001]
CORNERS += [88.72284, 88.7, 103.97, 104.5, 127.0, 128.0, 150.0]
CORNERS += [float("inf"), float("nan")]
CORNERS += [-value for value in CORNERS]

Kernel = Callable[..., np.ndarray]


@functools.cache
def kernel(name: str, element: str, count: int, target: Target, arity: int = 1) -> Kernel:
    """A function of the maths library over arrays whose size is a multiple of `count`."""
    module = Module(has_fma=target.has_fma)
    function = Function(module)
    lanes = Lanes(function, count)
    kind = lanes.type(element)

    def place(array: str, index: str) -> str:
        return function.let(f"getelementptr {element}, ptr {array}, i64 {index}")

    def body(index: str, carried: list[str]) -> list[str]:
        operands = [function.fresh(f"load {kind}, ptr {place(f'%in{i}', index)}, align 4") for i in range(arity)]
        result = maths.call(lanes, name, element, *operands)
        function.effect(f"store {kind} {result}, ptr {place('%out', index)}, align 4")
        return carried

    function.loop("0", "%n", count, [], body)
    function.effect("ret void")
    function.finish("kernel", ", ".join([*(f"ptr %in{i}" for i in range(arity)), "ptr %out", "i64 %n"]), "void")
    code = compile_module(str(module), ["kernel"], target)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)(code.address("kernel"))

    def run(*operands: np.ndarray) -> np.ndarray:
        _ = code  # mapped as long as this function is
        result = np.empty_like(operands[0])
        call(*(x.ctypes.data for x in operands), result.ctypes.data, result.size)
        return result

    return run


def expected(name: str, *operands: np.ndarray) -> np.ndarray:
    """What PyTorch computes in double, rounded to the type of the operands."""
    with np.errstate(over="ignore", invalid="ignore"):
        wide = REFERENCES[name](*(torch.from_numpy(x.astype(np.float64)) for x in operands)).numpy()
        return wide.astype(operands[0].dtype)


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """How many numbers lie between; more than any limit for a NaN against a number, or zeros of different signs."""
    integer = np.int32 if got.dtype == np.float32 else np.int64
    a, b = got.view(integer), want.view(integer)
    # Numbers of one sign are ordered as their bits are; a distance through zero adds up.
    flip = np.iinfo(integer).max
    same_sign = (a < 0) == (b < 0)
    across = np.where((got == 0) & (want == 0), flip, (a & flip).astype(float) + (b & flip).astype(float))
    distance = np.where(same_sign, np.abs((a & flip) - (b & flip)).astype(float), across)
    distance[np.isnan(got) != np.isnan(want)] = flip
    distance[np.isnan(got) & np.isnan(want)] = 0
    return distance


def check(name: str, limit: float, got: np.ndarray, want: np.ndarray, *operands: np.ndarray) -> None:
    distance = ulps(got, want)
    worst = int(np.argmax(distance))
    arguments = ", ".join(repr(x[worst]) for x in operands)
    assert distance[worst] <= limit, f"{name}({arguments}) is {want[worst]!r}, not {got[worst]!r}"


def padded(values: np.ndarray) -> np.ndarray:
    """The values, the last one repeated so that they come in groups of 16."""
    return np.pad(values, (0, -values.size % 16), mode="edge")


@functools.cache
def floats(step: int) -> np.ndarray:
    """The corners, and floats of all exponents and signs: every `step`-th pattern of bits."""
    patterns = np.arange(0, 2**32, step, dtype=np.uint32).view(np.float32)
    usual = np.random.default_rng(0).normal(size=40_000).astype(np.float32) * 3
    return padded(np.concatenate([np.array(CORNERS, np.float32), patterns, usual]))


@functools.cache
def pairs(kind: type) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of corners; numbers of all exponents; and such that a power neither overflows nor vanishes."""
    random = np.random.default_rng(0)
    corners = np.array(CORNERS, kind)
    left, right = (grid.ravel() for grid in np.meshgrid(corners, corners))
    any_left, any_right = random.integers(0, 2**32, (2, 100_000), dtype=np.uint32).view(np.float32)
    base, exponent = np.exp(random.normal(size=100_000) * 8), random.normal(size=100_000) * 8
    near_one, large = 1 + random.normal(size=50_000) * 1e-4, random.normal(size=50_000) * 2e5
    with np.errstate(invalid="ignore"):
        return (
            padded(np.concatenate([left, any_left, base, near_one], dtype=kind, casting="unsafe")),
            padded(np.concatenate([right, any_right, exponent, large], dtype=kind, casting="unsafe")),
        )


@functools.cache
def doubles() -> np.ndarray:
    """The corners, random doubles of all exponents, and usual ones."""
    random = np.random.default_rng(0)
    corners = np.array([*CORNERS, 1e300, -1e300, 5e-324, 1e-310, 709.7, 709.8, -745.1, -746.0, 1 - 2**-53])
    patterns = random.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    ranges = [random.uniform(-size, size, 10_000) for size in (1, 10, 750)]
    return padded(np.concatenate([corners, patterns, *ranges]))


@pytest.mark.parametrize("name", UNARY)
def test_floats_are_within_two_ulp_over_the_whole_range(name: str) -> None:
    x = floats(4093)
    check(name, 2, kernel(name, "float", 8, host())(x), expected(name, x), x)


@pytest.mark.parametrize("count", [1, 4, 16])
@pytest.mark.parametrize("name", UNARY)
def test_any_number_of_lanes_gives_the_same(name: str, count: int) -> None:
    x = floats(65537)
    assert np.array_equal(kernel(name, "float", count, host())(x), kernel(name, "float", 8, host())(x), equal_nan=True)


@pytest.mark.parametrize("name", UNARY)
def test_floats_of_a_plain_machine(name: str) -> None:
    x = floats(65537)
    check(name, 4, kernel(name, "float", 4, BASELINE)(x), expected(name, x), x)


@pytest.mark.parametrize("target", [host(), BASELINE], ids=["host", "baseline"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_floats(name: str, target: Target) -> None:
    x, y = pairs(np.float32)
    check(name, 2, kernel(name, "float", 4, target, 2)(x, y), expected(name, x, y), x, y)


@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize("name", BINARY)
def test_any_number_of_lanes_gives_the_same_of_two_floats(name: str, count: int) -> None:
    x, y = pairs(np.float32)
    got, want = (kernel(name, "float", n, host(), 2)(x, y) for n in (count, 4))
    assert np.array_equal(got, want, equal_nan=True)


EXACT = {
    "exp": {0.0: 1.0},
    "exp2": {float(k): 2.0**k for k in range(-149, 128)},
    "log": {1.0: 0.0},
    "log2": {2.0**k: float(k) for k in range(-149, 128)},
    "log10": {10.0**k: float(k) for k in range(11)},
    "lgamma": {1.0: 0.0, 2.0: 0.0},
    "cos": {0.0: 1.0, 1e-30: 1.0, 1e-5: 1.0},
    "cosh": {0.0: 1.0},
    "erf": {4.0: 1.0, float("inf"): 1.0},
    "tanh": {10.0: 1.0, float("inf"): 1.0},
    "sigmoid": {0.0: 0.5, 100.0: 1.0},
}


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("target", [host(), BASELINE], ids=["host", "baseline"])
def test_round_results_are_exact(name: str, target: Target) -> None:
    x = padded(np.array(list(EXACT[name]), np.float32))
    got = kernel(name, "float", 4, target)(x)[: len(EXACT[name])]
    assert got.tolist() == np.array(list(EXACT[name].values()), np.float32).tolist()


@pytest.mark.parametrize("name", ["pow", "hypot"])
def test_small_integers_give_exact_results(name: str) -> None:
    x, y = (grid.ravel().astype(np.float32) for grid in np.meshgrid(np.arange(8.0), np.arange(6.0)))
    assert np.array_equal(kernel(name, "float", 8, host(), 2)(x, y), expected(name, x, y))


# --- doubles ----------------------------------------------------------------------------------------------

COMPARABLE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "cosh": lambda x: np.abs(x) < 709.7,  # SLEEF's, thus PyTorch's, overflows too early
    "sinh": lambda x: np.abs(x) < 709.7,
    "lgamma": lambda x: x > 0,  # no two libraries agree next to its roots
    "digamma": lambda x: x > 10,  # below, a sum is taken off a logarithm
}
"""Where libraries agree to a few ulp, for the functions for which that is not everywhere."""


def comparable_doubles(name: str) -> np.ndarray:
    x = doubles()
    return padded(x[COMPARABLE[name](x)]) if name in COMPARABLE else x


@pytest.mark.parametrize("name", UNARY)
def test_doubles_agree_with_pytorch(name: str) -> None:
    x = comparable_doubles(name)
    check(name, 2, kernel(name, "double", 4, host())(x), expected(name, x), x)


@pytest.mark.parametrize("name", UNARY)
def test_doubles_of_a_plain_machine(name: str) -> None:
    x = comparable_doubles(name)
    check(name, 5, kernel(name, "double", 4, BASELINE)(x), expected(name, x), x)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_doubles(name: str) -> None:
    x, y = pairs(np.float64)
    if name == "fmod":  # PyTorch gives up where the quotient overflows
        x, y = (operand[: len(CORNERS) ** 2 // 16 * 16] for operand in (x, y))
    check(name, 2, kernel(name, "double", 8, host(), 2)(x, y), expected(name, x, y), x, y)


def test_fmod_of_doubles_is_that_of_c() -> None:
    x, y = (operand[operand.size // 2 :] for operand in pairs(np.float64))
    x, y = x[:50_000], y[:50_000]
    check("fmod", 0, kernel("fmod", "double", 4, host(), 2)(x, y), np.fmod(x, y), x, y)


@pytest.mark.parametrize("name", ["digamma", "lgamma"])
def test_gamma_functions_of_all_doubles(name: str) -> None:
    x = doubles()
    x = padded(x[~(np.abs(np.nan_to_num(x) + 1) < 1e-6)])  # PyTorch's reflection is imprecise next to a pole
    got = kernel(name, "double", 1, host())(x)
    np.testing.assert_allclose(got, expected(name, x), rtol=1e-10, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("count", [1, 8, 16])
@pytest.mark.parametrize("name", UNARY)
def test_any_number_of_lanes_of_doubles(name: str, count: int) -> None:
    x = comparable_doubles(name)
    limit = 5 if count == 1 else 0  # the C library serves single lanes
    check(name, limit, kernel(name, "double", count, host())(x), kernel(name, "double", 4, host())(x), x)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no reference of more than double precision")
@pytest.mark.parametrize("name", ["exp", "sigmoid"])
def test_inline_doubles_are_within_one_ulp(name: str) -> None:
    x = np.random.default_rng(1).uniform(-700, 700, 100_000)
    wide = x.astype(np.longdouble)
    want = np.exp(wide) if name == "exp" else 1 / (1 + np.exp(-wide))
    error = np.abs(kernel(name, "double", 4, host())(x).astype(np.longdouble) - want)
    assert np.max(error / np.spacing(want.astype(np.float64))) < (1 if name == "exp" else 2)


# --- how they are written ---------------------------------------------------------------------------------


def test_every_function_is_there_for_both_elements() -> None:
    assert frozenset(UNARY) | frozenset(BINARY) == maths.NAMES
    for name in maths.NAMES:
        for element in ("float", "double"):
            kernel(name, element, 4, host(), 2 if name in BINARY else 1)


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(KeyError):
        maths.call(Lanes(Function(Module()), 4), "zeta", "float", "%x")


@pytest.mark.parametrize("name", sorted({*UNARY, *BINARY} - {"fmod", "sin", "cos", "tan"}))
def test_float_code_has_neither_calls_nor_branches(name: str) -> None:
    module = Module()
    function = Function(module)
    maths.call(Lanes(function, 8), name, "float", *["%x", "%y"][: 2 if name in BINARY else 1])
    assert all(declared.startswith("llvm.") for declared in module.declarations)
    assert function.block == "entry"


@pytest.mark.parametrize("name", UNARY)
def test_without_fma_there_is_none(name: str) -> None:
    module = Module(has_fma=False)
    maths.call(Lanes(Function(module), 8), name, "float", "%x")
    assert not any(declared.startswith("llvm.fma") for declared in module.declarations)
