"""Schedules: along which axis vectors run, what a unit of work is, and that the parts of a nest do all of it."""

import itertools

import pytest
import torch

from segue.backends.native.ir import Reduce
from segue.backends.native.lower import lower
from segue.backends.native.schedule import (
    BLOCK,
    SCRATCH_BYTES,
    Loops,
    schedule,
    with_parallel_reductions,
)
from segue.graphs.aten import product
from tests.backends.native.interpreter import run
from tests.backends.native.stages import graph_of, inlined, nests

LANES = 8


def scheduled(function, *tensors) -> list[Loops]:
    return [loops for nest in nests(function, *tensors) for loops in schedule(nest, LANES)]


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def test_a_row_is_worked_through_by_vectors():
    (loops,) = scheduled(lambda x: x.sum(1), rand(100, 64))
    assert not loops.across
    assert (loops.units, loops.unit_cost) == (100, 64)


def test_a_reduction_of_columns_goes_across():
    main, rest = scheduled(lambda x: x.sum(0), rand(100, 200))
    assert main.across
    assert rest.across
    assert main.nest.sizes[main.vector_axis] * main.units + rest.nest.sizes[rest.vector_axis] == 200


def test_a_reduction_of_a_middle_axis_goes_across():
    (loops,) = scheduled(lambda x: x.sum(1), rand(7, 9, 64))
    assert loops.across


def test_a_few_columns_are_not_worth_a_vector():
    (loops,) = scheduled(lambda x: x.sum(0), rand(100, 3))
    assert not loops.across


def test_positions_are_counted_in_the_order_of_memory():
    (loops,) = scheduled(lambda x: x.argmax(), rand(12, 30))
    assert not loops.across
    assert loops.nest.sizes[-1] % 30 == 0


def test_neighbouring_axes_that_are_one_run_of_memory_are_one():
    (loops,) = scheduled(lambda x: x + 1, rand(10, 6, 7))
    assert loops.nest.sizes == (420,)


def test_axes_with_gaps_between_them_stay_apart():
    (loops,) = scheduled(lambda x: x[:, :6] + 1, rand(10, 7))
    assert loops.nest.sizes == (10, 6)


def test_the_index_of_an_axis_keeps_it():
    (loops,) = scheduled(lambda x: x.tril(), rand(10, 7))
    assert loops.nest.sizes == (10, 7)


def test_axes_are_in_the_order_of_memory():
    (loops,) = scheduled(lambda x: x.permute(2, 0, 1) + 1, rand(5, 6, 7))
    assert loops.nest.sizes == (210,)


@pytest.mark.parametrize("n", [2 * BLOCK + 1, 100_003, 8 * BLOCK])
def test_a_long_pointwise_nest_is_cut_into_blocks(n):
    parts = scheduled(lambda x: x + 1, rand(n))
    assert sum(product(p.nest.sizes) for p in parts) == n
    assert all(p.nest.sizes[-1] <= 2 * BLOCK for p in parts)


def test_scalars():
    (loops,) = scheduled(lambda x: x + 1, torch.tensor(1.0))
    assert loops.nest.sizes == (1,)


def test_parts_cover_every_index_once():
    for sizes in ((37, 100), (3, 517), (64, 70), (300, 200)):
        for function in (lambda x: x.sum(0), lambda x: x.t().contiguous(), lambda x: torch.softmax(x, 0)):
            parts = scheduled(function, rand(*sizes))
            assert sum(product(p.nest.sizes) for p in parts) == product(sizes)


def test_places_that_are_written_by_parts_are_all_and_different():
    parts = scheduled(lambda x, y: x.t() + y, rand(35, 67), rand(67, 35))
    written = []
    for part in parts:
        (member,) = part.nest.members
        target = member.statement.target
        for index in itertools.product(*map(range, part.nest.sizes)):
            written.append(target.offset + sum(i * s for i, s in zip(index, target.strides, strict=True)))
    assert sorted(written) == list(range(35 * 67))


# --- temporaries --------------------------------------------------------------------------------------------


def test_a_row_of_a_temporary_stays_in_the_frame():
    (loops,) = scheduled(lambda x: torch.softmax(x, 1), rand(100, 64))
    assert list(loops.scratch.values()) == [(0, 1)]


def test_across_rows_a_temporary_has_a_place_for_each_lane():
    for loops in scheduled(lambda x: torch.softmax(x, 0), rand(100, 64)):
        (strides,) = loops.scratch.values()
        assert strides[loops.vector_axis] == 1
        assert strides[-1] == loops.nest.sizes[loops.vector_axis]


def test_a_long_row_of_a_temporary_goes_to_memory():
    (loops,) = scheduled(lambda x: torch.softmax(x, 1), rand(4, SCRATCH_BYTES // 4 + 1))
    assert not loops.scratch


# --- threads ------------------------------------------------------------------------------------------------


def test_little_work_is_for_one_thread():
    (loops,) = scheduled(lambda x: x.sum(1), rand(20, 64))
    assert loops.grain == 0


def test_much_work_is_for_several():
    (loops,) = scheduled(lambda x: torch.softmax(x, 1), rand(4000, 64))
    assert 0 < loops.grain < loops.units


def in_two_steps(function, *tensors):
    graph = inlined(lower(graph_of(function, *tensors)))
    return graph, with_parallel_reductions(graph.statements, LANES)


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: (x * 2).sum(), (1000, 1000)),
        (lambda x: x.amax(0), (100_000, 16)),
        (lambda x: x.sum(1), (2, 100_000)),
        (lambda x: x.sum((0, 2)), (500, 2, 500)),
    ],
)
def test_a_long_reduction_to_few_results_is_done_in_two_steps(function, sizes):
    x = rand(*sizes)
    graph, (first, second) = in_two_steps(function, x)
    assert isinstance(first, Reduce)
    assert isinstance(second, Reduce)
    parts = first.target.buffer.size // second.target.buffer.size
    assert parts >= 8
    graph.statements = [first, second]
    torch.testing.assert_close(run(graph, [x])[0], function(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: x.sum(), (100, 100)),
        (lambda x: x.sum(1), (1000, 1000)),
        (lambda x: x.argmax(), (1000, 1000)),
        (lambda x: x.sum(), (1_000_003,)),
    ],
)
def test_other_reductions_are_done_in_one(function, sizes):
    _, statements = in_two_steps(function, rand(*sizes))
    assert len(statements) == 1


def test_loops_print_how_they_run():
    (loops,) = scheduled(lambda x: x.sum(1), rand(100, 64))
    assert str(loops).splitlines()[-1] == "  vectors of 8 along axis 1, 4 at once; 100 units of 64, grain 0"
