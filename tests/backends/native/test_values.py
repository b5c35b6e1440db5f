"""Operations of the loop IR in generated code, against torch, over dtypes and with a short vector at the end."""

import math

import pytest
import torch

from segue import config
from segue.backends.native import ir
from segue.backends.native.ir import Constant, Load
from segue.backends.native.values import NotGenerated
from segue.graphs.aten import Buffer
from tests.backends.native.interpreter import run
from tests.backends.native.stages import executed, of_expression

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
FLOATS = (torch.float32, torch.float64)
HALVES = (torch.float16, torch.bfloat16)
MATHS = set(ir.FLOATING.split()) - set("div sqrt floor ceil trunc round fmin fmax copysign".split())


@pytest.fixture(autouse=True)
def quick():
    with config.patch(codegen_level=0):
        yield


def values(dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """19 values, among them those where operations differ."""
    numbers = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(0, 2, (19,), generator=numbers).bool()
    if dtype.is_floating_point:
        special = torch.tensor([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, math.inf, -math.inf, math.nan])
        mixed = torch.cat([special, torch.randn(8, generator=numbers) * 3])
        return mixed[torch.randperm(19, generator=numbers)].to(dtype)
    low = 0 if dtype is torch.uint8 else -9
    ends = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype)
    return torch.cat([ends, torch.randint(low, 10, (17,), generator=numbers).to(dtype)])


def check(expr, *tensors, **tolerance):
    graph = of_expression(expr, *tensors)
    (got,), (expected,) = executed(graph, tensors), run(graph, [t.clone() for t in tensors])
    torch.testing.assert_close(got, expected, equal_nan=True, **(tolerance or {"rtol": 0, "atol": 0}))


def operand(number: int, dtype: torch.dtype) -> Load:
    return Load(Buffer(str(number), dtype, 19), (1,))


def dtypes_of(name: str) -> tuple[torch.dtype, ...]:
    if name in ir.FLOATING.split() + ir.TESTS.split():
        return FLOATS
    if name in ("shl", "shr"):
        return INTEGERS
    if name in ir.BITWISE.split():
        return (*INTEGERS, torch.bool)
    if name in ir.COMPARISON.split():
        return (*FLOATS, *INTEGERS, torch.bool)
    return (*FLOATS, *INTEGERS)


ARITY = dict.fromkeys(
    """add sub mul minimum maximum div atan2 pow hypot fmin fmax copysign floordiv truncdiv remainder fmod eq ne lt le
    gt ge and or xor shl shr""".split(),
    2,
)
CASES = [(name, dtype) for name in sorted(ir.OPERATIONS - {"cast", "where", "bounded"}) for dtype in dtypes_of(name)]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operations(name, dtype):
    tensors = [values(dtype, k) for k in range(ARITY.get(name, 1))]
    if name in ir.DIVISION.split():
        tensors[1] = torch.where(tensors[1] == 0, 3, tensors[1]) if not dtype.is_floating_point else tensors[1]
    if name in ("shl", "shr"):
        tensors[1] = tensors[1].abs() % 8
    if name == "neg" and dtype is torch.uint8:
        tensors[0] = tensors[0].clone()
    expr = ir.apply(name, *(operand(k, dtype) for k in range(len(tensors))))
    check(expr, *tensors, **({"rtol": 2e-6, "atol": 1e-6} if name in MATHS else {}))


@pytest.mark.parametrize("target", [*FLOATS, *HALVES, *INTEGERS, torch.bool])
@pytest.mark.parametrize("source", [*FLOATS, *HALVES, *INTEGERS, torch.bool])
def test_casts(source, target):
    x = values(source)
    if source.is_floating_point and not target.is_floating_point and target is not torch.bool:
        x = x.nan_to_num(0.0, 0.0, 0.0).abs()
    check(ir.cast(operand(0, source), target), x)


@pytest.mark.parametrize("dtype", [*FLOATS, *HALVES, *INTEGERS, torch.bool])
def test_a_choice(dtype):
    condition = operand(0, torch.bool)
    check(
        ir.Apply("where", (condition, operand(1, dtype), operand(2, dtype)), dtype),
        values(torch.bool),
        values(dtype, 1),
        values(dtype, 2),
    )


@pytest.mark.parametrize("dtype", HALVES)
def test_every_half_comes_back_from_float(dtype):
    bits = torch.arange(-(1 << 15), 1 << 15).to(torch.int16)
    x = bits.view(dtype)
    buffer = Buffer("0", dtype, x.numel())
    expr = ir.cast(ir.cast(Load(buffer, (1,)), torch.float32), dtype)
    (got,) = executed(of_expression(expr, x), [x])
    assert torch.equal(got.isnan(), x.isnan())
    assert torch.equal(got[~x.isnan()], x[~x.isnan()])


@pytest.mark.parametrize("dtype", HALVES)
def test_floats_round_to_the_nearest_even_half(dtype):
    near = torch.randn(4001, generator=torch.Generator().manual_seed(1)).to(dtype).float()
    following = (near.to(dtype).view(torch.int16) + 1).view(dtype).float()
    x = torch.cat([near, following, (near + following) / 2])
    expr = ir.cast(Load(Buffer("0", torch.float32, x.numel()), (1,)), dtype)
    (got,) = executed(of_expression(expr, x), [x])
    assert torch.equal(got, x.to(dtype))


def indexed(size: int, index: torch.Tensor):
    place = ir.apply("bounded", operand(0, torch.int64), Constant(size, torch.int64))
    return Load(Buffer("1", torch.float32, 19), (0,), 0, ((place, 1),))


def test_indices_count_from_the_end():
    index = torch.tensor([0, -1, 3, -4] * 4 + [1, 2, -3])
    check(indexed(4, index), index, torch.arange(19.0))


@pytest.mark.parametrize("bad", [4, -5, 2**62, -(2**63)])
def test_an_index_out_of_range_is_reported(bad):
    index = torch.tensor([0] * 18 + [bad])
    with pytest.raises(IndexError):
        executed(of_expression(indexed(4, index), index, torch.arange(19.0)), [index, torch.arange(19.0)])


@pytest.mark.parametrize("name", ir.DIVISION.split())
def test_a_division_by_zero_of_integers_is_reported(name):
    x, y = torch.ones(19, dtype=torch.int64), torch.tensor([1] * 17 + [0, 1])
    graph = of_expression(ir.apply(name, operand(0, torch.int64), operand(1, torch.int64)), x, y)
    with pytest.raises(IndexError):
        executed(graph, [x, y])


def test_an_operation_that_there_is_no_code_for():
    x = torch.ones(19, dtype=torch.int64)
    graph = of_expression(ir.apply("sqrt", operand(0, torch.int64)), x)
    with pytest.raises(NotGenerated, match="sqrt of"):
        executed(graph, [x])
