"""Reductions in generated code against torch: each combination, dtype and length, along and across rows."""

import math

import pytest
import torch

from segue import config
from segue.backends.native.combine import identity
from segue.backends.native.ir import Load, LoopGraph, Reduce
from segue.graphs.aten import Buffer, View
from tests.backends.native.interpreter import run
from tests.backends.native.stages import executed


@pytest.fixture(autouse=True)
def quick():
    with config.patch(codegen_level=0):
        yield


def graph_of(x: torch.Tensor, combine: str, axis: int) -> LoopGraph:
    source = Buffer("x", x.dtype, x.numel())
    kept = [n for a, n in enumerate(x.shape) if a != axis]
    result = Buffer("y", torch.int64 if combine.startswith("arg") else x.dtype, math.prod(kept))
    strides = [0] * x.ndim
    step = 1
    for a in reversed(range(x.ndim)):
        if a != axis:
            strides[a], step = step, step * x.shape[a]
    reduce = Reduce(View(result, tuple(x.shape), tuple(strides)), Load(source, x.stride()), combine, frozenset({axis}))
    return LoopGraph([View(source, tuple(x.shape), x.stride())], [View(result, (result.size,), (1,))], [reduce])


def check(x: torch.Tensor, combine: str, axis: int) -> None:
    graph = graph_of(x, combine, axis)
    (got,), (expected,) = executed(graph, [x]), run(graph, [x.clone()])
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def small(dtype: torch.dtype, *sizes: int) -> torch.Tensor:
    numbers = torch.Generator().manual_seed(sum(sizes))
    if dtype is torch.bool:
        return torch.rand(sizes, generator=numbers) > 0.9
    return torch.randint(0, 4, sizes, generator=numbers).to(dtype)


NUMBERS = (torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8)
CASES = [(c, d) for c in "sum prod max min argmax argmin".split() for d in NUMBERS]
CASES += [(c, torch.bool) for c in ("any", "all", "max", "min")]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("combine", "dtype"), CASES)
def test_combinations(combine, dtype, axis):
    check(small(dtype, 5, 19), combine, axis)


@pytest.mark.parametrize("combine", ["sum", "argmax"])
@pytest.mark.parametrize("axis", [0, 1])
def test_each_length(combine, axis):
    for n in (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 63, 64, 65, 100):
        check(small(torch.float32, 3, n), combine, axis)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("combine", ["max", "min", "argmax", "argmin"])
@pytest.mark.parametrize("places", [[0], [3], [18], [2, 11], []])
def test_a_nan_is_the_most_extreme_and_the_first_one_counts(combine, axis, places):
    x = small(torch.float32, 19, 19)
    for place in places:
        x[place, place] = math.nan
        x[place, (place + 5) % 19] = math.nan
    check(x, combine, axis)


@pytest.mark.parametrize("combine", ["argmax", "argmin"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, 2.0])
def test_the_first_of_equal_ones_counts(combine, value):
    x = torch.full((4, 37), value)
    graph = graph_of(x, combine, 1)
    (got,) = executed(graph, [x])
    assert got.tolist() == [0, 0, 0, 0]


def test_integers_wrap():
    x = torch.full((3, 21), 100, dtype=torch.uint8)
    (got,) = executed(graph_of(x, "sum", 1), [x])
    assert got.tolist() == [21 * 100 % 256] * 3


@pytest.mark.parametrize(
    ("combine", "dtype", "expected"),
    [
        ("sum", torch.float32, 0),
        ("prod", torch.int64, 1),
        ("max", torch.float32, -math.inf),
        ("min", torch.int8, 127),
        ("argmax", torch.int64, -(2**63)),
        ("max", torch.bool, False),
        ("min", torch.bool, True),
        ("any", torch.bool, 0),
        ("all", torch.bool, 1),
    ],
)
def test_what_nothing_gives(combine, dtype, expected):
    assert identity(combine, dtype) == expected
