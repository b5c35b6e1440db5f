"""Fusing: which statements share a nest, in which passes of it they run, and what keeps them apart."""

import pytest
import torch
from torch.nn import functional

from segue.backends.native.fuse import Nest
from segue.backends.native.ir import Invoke
from segue.backends.native.lower import lower
from tests.backends.native.stages import fused, graph_of, nests


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def shape(nest):
    return list(nest.sizes[: nest.n_outer]), list(nest.sizes[nest.n_outer :])


def passes(nest):
    """For each statement: what it writes, and its pass ('r' for what runs once a row after it)."""
    return [(m.statement.target.buffer.name, f"{m.step}{'r' * m.is_row(nest)}") for m in nest.members]


def test_layer_norm_gelu_and_a_sum_are_one_nest():
    def function(x, w, b):
        return functional.gelu(functional.layer_norm(x, (8,), w, b)).sum(-1)

    (nest,) = nests(function, rand(6, 8), rand(8), rand(8))
    assert shape(nest) == ([6], [8])
    assert nest.n_passes == 3


@pytest.mark.parametrize(("axis", "expected"), [(-1, ([6], [8])), (0, ([8], [6]))])
def test_softmax_is_one_nest_of_three_passes(axis, expected):
    (nest,) = nests(lambda x: torch.softmax(x, axis), rand(6, 8))
    assert shape(nest) == expected
    assert nest.n_passes == 3


def test_normalising_columns_is_one_nest():
    (nest,) = nests(lambda x: (x - x.mean(0)) / x.std(0), rand(6, 8))
    assert shape(nest) == ([8], [6])


def test_siblings_that_read_the_same_elements_share_a_nest():
    (nest,) = nests(lambda x: (x + 1, x.exp()), rand(6, 8))
    assert len(nest.members) == 2


def test_siblings_that_share_nothing_are_apart():
    assert len(nests(lambda x, y: (x + 1, y.exp()), rand(6, 8), rand(6, 8))) == 2


def test_reductions_over_different_axes_are_apart():
    found = nests(lambda x: (x.sum(1), x.sum(0)), rand(6, 8))
    assert [shape(n) for n in found] == [([6], [8]), ([8], [6])]


def test_a_reader_at_another_index_is_apart():
    def function(x):
        y = x.exp()
        return y, y.flip(0) * 2

    assert len(nests(function, rand(6, 8))) == 2


def test_a_reduction_to_one_number_is_a_nest_of_one_row():
    (nest,) = nests(lambda x: (x - x.max()).exp(), rand(6, 8))
    assert shape(nest) == ([], [6, 8])


def test_a_reduction_of_a_view_with_other_axes_joins_what_it_reads():
    def function(x):
        y = x.exp()
        return y, y.view(3, 2, 8).sum((1, 2))

    (nest,) = nests(function, rand(6, 8))
    assert shape(nest) == ([3], [2, 8])


def test_an_operation_of_aten_stands_between():
    units = fused(lower(graph_of(lambda x, y: ((x + 1) @ y).relu().sum(1), rand(6, 8), rand(8, 5))))
    assert [type(u) for u in units] == [Nest, Invoke, Nest]


def test_what_does_not_depend_on_an_operation_of_aten_may_join_a_nest_before_it():
    def function(x, y):
        z = x.exp()
        return x @ y, z * 2, z

    assert len(nests(function, rand(6, 8), rand(8, 5))) == 1


# --- passes -------------------------------------------------------------------------------------------------


def test_what_a_reduction_gives_is_known_after_its_pass():
    (nest,) = nests(lambda x: x / x.sum(1, keepdim=True).clamp_min(1e-3), rand(6, 8))
    steps = [step for _, step in passes(nest)]
    assert steps == sorted(steps, key=lambda s: (int(s[:-1] if s.endswith("r") else s), s))
    assert steps[0] == "0"
    assert steps[-1] == "1"


def test_reductions_that_do_not_depend_on_each_other_share_a_pass():
    (nest,) = nests(lambda x: (x.sum(1), x.amax(1), x.mean(1)), rand(6, 8))
    assert nest.n_passes == 1


# --- anti-dependences ---------------------------------------------------------------------------------------


def test_a_write_after_a_read_at_the_same_index_joins():
    def function(x):
        y = x.sum(1)
        x.add_(1)
        return y

    (nest,) = nests(function, rand(6, 8))
    assert passes(nest) == [("b1", "0"), ("b0", "0")]


def test_a_write_after_a_read_at_another_index_is_apart():
    def function(x):
        y = x.flip(0) * 2
        x.add_(1)
        return y

    first, second = nests(function, rand(6, 8))
    assert [passes(first)[0][0], passes(second)[0][0]] == ["b2", "b0"]


def test_a_write_of_what_a_later_pass_still_reads_waits_for_it():
    def function(x):
        y = torch.softmax(x, 1)
        x.zero_()
        return y

    for nest in nests(function, rand(6, 8)):
        steps = dict(passes(nest))
        if "b0" in steps:
            readers = [m.step for m in nest.members if "b0[" in str(nest).split("\n")[1 + nest.members.index(m)]]
            assert int(steps["b0"]) >= max(readers)


def test_nothing_joins_past_a_unit_that_it_depends_on():
    def function(x):
        y = x + 1
        z = y.flip(0).exp()
        y.mul_(2)
        return y, z

    found = nests(function, rand(6, 8))
    order = [name for nest in found for name, _ in passes(nest)]
    assert len(found) == 2
    assert len(order) == len(set(order))


def test_an_expanded_target_is_not_shared():
    def function(x):
        wide = x.expand(2, 5)
        y = wide * wide
        wide.zero_()
        return y

    assert len(nests(function, rand(5))) == 2


# --- local buffers ------------------------------------------------------------------------------------------


def test_what_only_one_nest_uses_is_local():
    (nest,) = nests(lambda x: torch.softmax(x, 1), rand(6, 8))
    outputs = [m.statement.target.buffer for m in nest.members if m.statement.target.buffer not in nest.local]
    assert len(outputs) == 1


def test_what_another_nest_or_the_program_uses_is_not():
    def function(x):
        y = x.exp()
        return y + 1, y.flip(0) * 2

    first, _ = nests(function, rand(6, 8))
    assert not first.local


def test_a_nest_prints_its_passes():
    (nest,) = nests(lambda x: x.exp() - x.exp().sum(1, keepdim=True), rand(6, 8))
    assert str(nest).startswith("nest [6] × [8]\n  0 ")
