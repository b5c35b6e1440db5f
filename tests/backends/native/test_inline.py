"""Inlining: what is put into its consumer, what is not, and the hazards of moving a read past a write."""

import pytest
import torch
from torch.nn import functional

from segue.backends.native import ir
from segue.backends.native.inline import cost, without_dead
from segue.backends.native.ir import Assign, Constant, Invoke, Load
from segue.graphs.aten import Buffer, View
from tests.backends.native.stages import checked, inlined, texts


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def lines(function, *tensors):
    return texts(checked(inlined, function, *tensors))


def test_a_chain_becomes_one_statement():
    assert lines(lambda x: (x + 1).exp() * 2, rand(3, 4)) == [
        "for i0<3, i1<4: b3[i0*4 + i1] = mul(exp(add(b0[i0*4 + i1], 1.0)), 2.0)"
    ]


def test_a_producer_goes_into_a_reduction():
    assert lines(lambda x: (x * 2 + 1).sum(1), rand(3, 4)) == [
        "for i0<3, i1<4: b3[i0] = sum over i1 of add(mul(b0[i0*4 + i1], 2.0), 1.0)"
    ]


def both(make):
    def function(x):
        y = make(x)
        return y - 1, y * 3

    return function


def test_cheap_work_is_repeated_for_each_of_its_readers():
    assert len(lines(both(lambda x: x + 1), rand(3, 4))) == 2


def test_heavy_work_with_two_readers_is_done_once():
    assert len(lines(both(torch.exp), rand(3, 4))) == 3


def test_work_on_a_row_is_not_repeated_for_each_element():
    found = lines(lambda x, y: x.exp() + y, rand(4), rand(3, 4))
    assert found == [
        "for i0<4: b2[i0] = exp(b0[i0])",
        "for i0<3, i1<4: b3[i0*4 + i1] = add(b2[i1], b1[i0*4 + i1])",
    ]


def test_a_row_that_is_only_copied_is_read_where_it_lies():
    assert len(lines(lambda x, y: x.clone() + y, rand(4), rand(3, 4))) == 1


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.t(),
        lambda t: t[1:, ::2],
        lambda t: t.flatten(),
        lambda t: t.view(2, 2, 2, 3).permute(3, 1, 0, 2),
        lambda t: t.flip(0, 1),
        lambda t: t.unsqueeze(1).expand(4, 5, 6)[:, 3],
        lambda t: t[2],
    ],
)
def test_a_view_between_producer_and_consumer(view):
    assert len(lines(lambda x: view(x + 1).exp(), rand(4, 6))) == 1


def test_a_view_whose_axes_cross_those_of_the_producer_keeps_it_in_memory():
    assert len(lines(lambda x: (x + 1).view(2, 6).t().exp(), rand(3, 4))) == 2


def test_a_gather_takes_the_producer_at_the_computed_index():
    assert lines(lambda x, i: (x + 1).exp()[i], rand(5, 4), torch.tensor([1, 0, 4])) == [
        "for i0<3, i1<4: b4[i0*4 + i1] = exp(add(b0[i1 + (bounded(b1[i0], 5))*4], 1.0))"
    ]


# --- pieces -------------------------------------------------------------------------------------------------


def test_the_consumer_of_a_concatenation_is_cut_into_its_pieces():
    assert lines(lambda x, y: torch.cat([x + 1, y * 2], 1).exp(), rand(3, 4), rand(3, 2)) == [
        "for i0<3, i1<4: b5[i0*6 + i1] = exp(add(b0[i0*4 + i1], 1.0))",
        "for i0<3, i1<2: b5[i0*6 + i1 + 4] = exp(mul(b1[i0*2 + i1], 2.0))",
    ]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenations_along_each_axis(axis):
    sizes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    sizes[1][axis], sizes[2][axis] = 1, 2
    tensors = [rand(*s) for s in sizes]
    assert len(lines(lambda *t: torch.cat([x + 1 for x in t], axis).relu() * 2, *tensors)) == 3


@pytest.mark.parametrize(("pad", "n"), [((2, 3), 3), ((1, 1), 3), ((1, 0, 1, 1), 4), ((0, 0, 1, 2), 3)])
def test_padding(pad, n):
    assert len(lines(lambda x: functional.pad(x + 1, pad).relu(), rand(7, 5))) == n


def test_a_reduction_over_pieces_reads_them_from_memory():
    found = lines(lambda x, y: torch.cat([x + 1, y * 2], 1).sum(1), rand(3, 4), rand(3, 2))
    assert len(found) == 3


# --- hazards ------------------------------------------------------------------------------------------------


def test_an_operand_that_is_overwritten_in_between():
    def function(x):
        y = x + 1
        x.mul_(2)
        return y.exp()

    assert len(lines(function, rand(3, 4))) == 3


def test_an_operand_that_is_overwritten_after_the_last_reader_does_not_matter():
    def function(x):
        y = (x + 1).exp()
        x.mul_(2)
        return y

    assert len(lines(function, rand(3, 4))) == 2


def test_a_write_of_what_the_producer_reads_elsewhere():
    def function(x):
        y = x + 1
        x.copy_(y.t())
        return x * 1

    assert len(lines(function, rand(3, 3))) == 3


def test_a_write_of_what_the_producer_reads_at_the_same_index():
    def function(x):
        y = x + 1
        x.copy_(y * 3)
        return x * 1

    assert len(lines(function, rand(3, 3))) == 2


def test_a_producer_that_is_partly_overwritten():
    def function(x):
        y = x + 1
        y[1:].mul_(2)
        return y * 3

    assert len(lines(function, rand(3, 4))) == 3


def test_writes_through_another_view():
    def function(x):
        y = x + 1
        z = y.view(-1)
        z[::3] = 7
        return y.exp()

    checked(inlined, function, rand(3, 4))


def test_an_operation_of_aten_writes_an_operand_in_between():
    def function(x, y):
        z = x + 1
        x.index_add_(0, torch.tensor([0, 0]), y)
        return z * 2

    assert len(lines(function, rand(3, 4), rand(2, 4))) >= 3


def test_a_chain_of_hazards():
    def function(x, y):
        a = x + y
        x.add_(a)
        b = x * a
        y.copy_(b.flip(0))
        return a + b, y + x

    checked(inlined, function, rand(3, 4), rand(3, 4))


# --- limits and dead code -----------------------------------------------------------------------------------


def test_expressions_do_not_grow_without_end():
    def function(x):
        for _ in range(200):
            x = (x + 1).relu()
        return x

    statements = checked(inlined, function, rand(4))
    sizes = [sum(1 for _ in ir.walk(s.expr)) for s in statements]
    assert 1 < len(statements) < 10
    assert max(sizes) <= 200


def test_doubling_does_not_explode():
    def function(x):
        for _ in range(40):
            x = x + x
        return x

    statements = checked(inlined, function, rand(4) * 1e-9)
    assert sum(sum(1 for _ in ir.walk(s.expr)) for s in statements) < 500


def test_what_nobody_reads_goes():
    x, y, z = (Buffer(n, torch.float32, 3) for n in "xyz")
    first = Assign(View(y, (3,), (1,)), Load(x, (1,)))
    second = Assign(View(z, (3,), (1,)), Load(y, (1,)))
    assert without_dead([first, second], {x, z}) == [first, second]
    assert without_dead([first, second], {x, y}) == [first]
    assert without_dead([first, second], {x}) == []


def test_operations_of_aten_stay():
    found = checked(inlined, lambda x, y: (x @ y).relu(), rand(3, 4), rand(4, 5))
    assert [isinstance(s, Invoke) for s in found] == [True, False]


def test_the_cost_of_an_expression():
    x = Load(Buffer("x", torch.float32, 3), (1,))
    assert cost(x) == 0
    assert cost(ir.apply("add", x, Constant(1.0, torch.float32))) == 1
    assert cost(ir.cast(x, torch.float64)) == 0
    assert cost(ir.apply("exp", x)) > 4
