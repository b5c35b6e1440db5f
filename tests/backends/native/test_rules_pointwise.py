"""Rules of pointwise operations, against eager: promotion, special values, shapes, every dtype."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.backends.native.lowering import check, check_gradients

SPECIAL = torch.tensor(
    [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 1e30, -1e30, 88.0, 1e-30]
)
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.int8,
]


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def small(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    values = torch.randint(0, 5, sizes, generator=torch.Generator().manual_seed(sum(sizes)))
    return (values - 2 if dtype.is_signed else values).to(dtype)


def named(name: str):
    return getattr(torch, name, None) or getattr(F, name)


@pytest.mark.parametrize(
    "name",
    """
    exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv sqrt
    rsqrt reciprocal sigmoid lgamma digamma floor ceil trunc round neg abs sign sgn frac isnan isinf isposinf isneginf
    signbit logical_not nan_to_num square deg2rad rad2deg sinc logit angle relu gelu silu mish hardtanh hardsigmoid
    hardswish leaky_relu elu celu selu softplus logsigmoid softshrink hardshrink relu6 softsign tanhshrink
    """.split(),
)
def test_functions_of_one_tensor(name):
    function = named(name)
    check(function, SPECIAL)
    check(function, rand(3, 4, 2).permute(2, 0, 1)[:, ::2])
    check(function, torch.tensor(0.25))
    check(function, rand(2, 5).bfloat16(), atol=1e-2, rtol=2e-2)


@pytest.mark.parametrize(
    "name",
    """
    add sub mul div maximum minimum fmax fmin atan2 hypot copysign xlogy logaddexp logaddexp2 pow remainder fmod
    floor_divide heaviside eq ne lt le gt ge logical_and logical_or logical_xor
    """.split(),
)
def test_functions_of_two_tensors(name):
    function = named(name)
    check(function, rand(3, 1, 4), rand(5, 1))
    check(function, SPECIAL[:, None], SPECIAL[None, :])
    check(function, torch.tensor(1.5), torch.tensor(-0.5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", "add sub mul div maximum minimum eq lt ge logical_and".split())
def test_each_dtype_with_tensors_and_numbers(name, dtype):
    function, x = named(name), small(dtype, 3, 4)
    check(function, x, small(dtype, 4))
    check(lambda x: function(x, torch.tensor(2)), x)
    if name not in ("maximum", "minimum", "logical_and"):
        check(lambda x: function(x, 2), x)
        check(lambda x: function(x, 1.7), x)


@pytest.mark.parametrize("first", [torch.bool, torch.int8, torch.int64, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("second", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.float32])
def test_mixed_dtypes_and_scalars(first, second):
    x, y = small(torch.int64, 3, 4).to(first), small(torch.int64, 4).to(second)
    check(torch.add, x, y)
    check(torch.mul, x, y[0])
    check(torch.div, x[0, 0], y)
    check(lambda x, y: torch.where(x > 0, x, y), x, y)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_division_modes(mode, dtype):
    x, y = torch.arange(-6, 6).to(dtype), torch.tensor([[3], [-4], [5]]).to(dtype)
    check(lambda x, y: torch.div(x, y, rounding_mode=mode), x, y)
    check(lambda x: torch.div(x, -3, rounding_mode=mode), x)


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_remainders_of_integers(name):
    check(named(name), torch.arange(-6, 6), torch.tensor([[3], [-4]]))
    check(lambda x: named(name)(x, -4), torch.arange(-6, 6))


def test_powers():
    for exponent in (2, 3, 0.5, -0.5, -1, -2, 1, 0, 2.5):
        check(lambda x, e=exponent: torch.pow(x, e), SPECIAL)
    check(lambda x: torch.pow(2.0, x), rand(4))
    for exponent in (0, 1, 2, 3, 7, 16):
        check(lambda x, e=exponent: torch.pow(x, e), torch.arange(-3, 4, dtype=torch.int8))
    check(torch.pow, torch.arange(-3, 4)[:, None], torch.arange(-3, 4)[None], left=("pow",))
    check(lambda x: torch.pow(x, 17), torch.arange(-3, 4), left=("pow",))


def test_bool_arithmetic():
    x, y = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])
    for function in (torch.add, torch.mul, torch.maximum, torch.minimum, torch.bitwise_xor, torch.lt, torch.ge):
        check(function, x, y)


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8])
def test_shifts_by_too_much(name, dtype):
    check(named(name), torch.tensor([1, 5, 100], dtype=dtype)[:, None], torch.tensor([0, 3, 31, 40], dtype=dtype))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.clamp(x, -0.5, 0.5),
        lambda x: torch.clamp(x, min=0),
        lambda x: torch.clamp(x, max=torch.tensor(0.25)),
        lambda x: torch.clamp(x, x.flip(0), x),
        lambda x: x.clamp_min(0.1).clamp_max_(0.3),
        lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0),
        lambda x: torch.round(x, decimals=2),
        lambda x: torch.round(x * 100, decimals=-1),
        lambda x: torch.lerp(x, x + 1, 0.7),
        lambda x: torch.lerp(x, x + 1, x.abs()),
        lambda x: torch.addcmul(x, x, x, value=0.5),
        lambda x: torch.addcdiv(x, x, x.abs() + 1, value=0.5),
        lambda x: torch.rsub(x, 2, alpha=3),
        lambda x: x.masked_fill(x > 0, -1.5),
        lambda x: x.masked_fill_(x > 0, torch.tensor(2.5)),
        lambda x: F.threshold(x, 0.1, 20.0),
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: F.elu(x, 0.5),
        lambda x: F.softplus(x, 2.0, 0.5),
        lambda x: F.hardtanh(x, -0.1, 0.2),
        lambda x: torch.ldexp(x, torch.tensor(3)),
        lambda x: 1 / x + 2**x - (3 - x),
    ],
)
def test_parameters(function):
    check(function, rand(6))
    check(function, SPECIAL[3:10])


def test_integers_clamp_with_floats():
    check(lambda x: torch.clamp(x, 1, 3), torch.arange(5))
    check(lambda x: torch.clamp(x, 0.5, 3.5), torch.arange(5))


def test_glu_and_prelu():
    check(lambda x: F.glu(x, 1), rand(3, 4, 2))
    check(F.prelu, rand(3, 4, 2), rand(4))


@pytest.mark.parametrize(
    "name",
    """
    relu sigmoid tanh silu mish gelu hardtanh hardsigmoid hardswish leaky_relu elu celu selu softplus logsigmoid
    softshrink hardshrink relu6 glu
    """.split(),
)
def test_gradients_of_activations(name):
    check_gradients(named(name), rand(3, 8) * 3)


def test_gradients_of_gelu_by_tanh_and_of_prelu():
    check_gradients(lambda x: F.gelu(x, approximate="tanh"), rand(3, 8))
    check_gradients(F.prelu, rand(3, 4), rand(4))
