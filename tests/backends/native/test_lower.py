"""Lowering: which rule an overload goes by, what is left to ATen, and what in-place operations read."""

import pytest
import torch

from segue.backends.native.ir import Assign, Invoke
from segue.backends.native.lower import functional, has_rule, lower
from segue.backends.native.rules import RULES
from segue.graphs.aten import AtenGraph, Buffer, Call, Number, View
from tests.backends.native.interpreter import run
from tests.backends.native.lowering import check, invoked, lowered

aten = torch.ops.aten


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


@pytest.mark.parametrize(
    ("op", "base"),
    [
        (aten.add.Tensor, aten.add.Tensor),
        (aten.add_.Tensor, aten.add.Tensor),
        (aten.add_.Scalar, aten.add.Scalar),
        (aten.add.out, aten.add.Tensor),
        (aten.exp.out, aten.exp.default),
        (aten.clamp.Tensor_out, aten.clamp.Tensor),
        (aten.max.dim_max, aten.max.dim),
        (aten.sum.IntList_out, aten.sum.dim_IntList),
        (aten.copy_.default, aten.copy.default),
        (aten.zero_.default, aten.zero.default),
        (aten.fill_.Scalar, aten.fill.Scalar),
        (aten._foreach_add_.List, aten._foreach_add.List),
        (aten._foreach_addcdiv_.ScalarList, aten._foreach_addcdiv.ScalarList),
        (aten.arange.start_out, aten.arange.start_step),
    ],
)
def test_the_functional_overload_of_an_overload(op, base):
    assert functional(op) is base
    assert has_rule(op)


@pytest.mark.parametrize("name", sorted(RULES))
def test_rules_are_of_overloads_that_exist(name):
    operation, _, overload = name.rpartition(".")
    assert overload in getattr(aten, operation).overloads()


def test_an_operation_without_a_rule_stays_a_call():
    check(lambda a, b: (a @ b).relu(), rand(3, 4), rand(4, 5), left=("mm",))
    assert not has_rule(aten.mm.default)


def test_complex_numbers_are_left_to_aten():
    loops = lowered(lambda x: x * 2, torch.complex(rand(3), rand(3)))
    assert invoked(loops) == ["mul"]


def test_an_in_place_operation_writes_its_argument():
    loops = check(lambda x, y: x.add_(y, alpha=3), rand(3, 4), rand(4))
    assert [s.target.buffer for s in loops.statements] == [loops.inputs[0].buffer]


def test_an_in_place_operation_on_a_slice_leaves_the_rest():
    def function(x):
        x[1:, ::2].mul_(2)

    check(function, rand(3, 4))


def test_an_in_place_operation_that_reads_its_argument_elsewhere_goes_through_a_temporary():
    buffer = Buffer("x", torch.float32, 5)
    x, head, tail = View(buffer, (5,), (1,)), View(buffer, (4,), (1,)), View(buffer, (4,), (1,), 1)
    loops = lower(AtenGraph([x], [Call(aten.copy_.default, (tail, head), {}, [tail], [buffer])], [x], [None]))
    assert len(loops.statements) == 2
    assert all(isinstance(s, Assign) for s in loops.statements)
    (got,) = run(loops, [torch.arange(5.0)])
    assert got.tolist() == [0, 0, 1, 2, 3]


def test_an_out_argument_that_is_read_after_it_is_written_goes_through_a_temporary():
    buffer = Buffer("x", torch.float32, 4)
    x, front, back = View(buffer, (4,), (1,)), View(buffer, (2,), (1,)), View(buffer, (2,), (1,), 2)
    call = Call(aten.cat.out, ([back, front],), {"out": x}, [x], [buffer])
    (got,) = run(lower(AtenGraph([x], [call], [x], [None])), [torch.arange(4.0)])
    assert got.tolist() == [2, 3, 0, 1]


def test_results_of_several_outs():
    check(lambda x, v, i: torch.max(x, 1, out=(v, i)), rand(3, 4), rand(3), torch.zeros(3, dtype=torch.int64))


def test_foreach_goes_list_by_list():
    def function(a, b):
        torch._foreach_add_([a, b], [b, b], alpha=2)
        torch._foreach_mul_([a, b], [0.5, 3.0])
        torch._foreach_addcmul_([a, b], [b, a], [a, a], value=0.25)
        torch._foreach_lerp_([a], [b], 0.3)
        torch._foreach_sub_([a], 1.5)
        return (
            *torch._foreach_sqrt([a.abs(), b.abs()]),
            *torch._foreach_pow([a.abs()], 3),
            *torch._foreach_maximum([a, b], 0.0),
            *torch._foreach_div([a], [b]),
            *torch._foreach_neg([a]),
        )

    check(function, rand(3, 4), rand(3, 4))


def test_foreach_copy_and_zero():
    def function(a, b, c):
        torch._foreach_copy_([a, b], [b, c])
        torch._foreach_zero_([c])

    check(function, rand(3), rand(3), rand(3))


def test_foreach_norm_and_scalars_in_a_tensor():
    def function(a, b):
        total = torch.stack(torch._foreach_norm([a, b], 2.0)).norm()
        torch._foreach_div_([a, b], total)
        torch._foreach_addcdiv_([a, b], [b, a], [a.exp(), b.exp()], torch.tensor([0.5, 2.0]))

    check(function, rand(3, 4), rand(3, 4) + 1)


@pytest.mark.parametrize("foreach", [False, True])
def test_a_step_of_an_optimizer(foreach):
    def function(p, g):
        p = p.detach().requires_grad_()
        p.grad = g
        torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, foreach=foreach).step()
        return p.detach()

    check(function, rand(3, 4), rand(3, 4))


def test_nothing_is_done_for_empty_results():
    assert lowered(lambda x: (x + 1).exp(), torch.empty(0, 3)).statements == []


def test_a_reduction_of_nothing_is_left_to_aten():
    check(lambda x: x.sum(1), torch.empty(3, 0), left=("sum",))


def test_half_results_round_once_for_each_operation():
    check(lambda x, y: (x * y + x) / 3, rand(50).bfloat16(), rand(50).bfloat16(), rtol=0, atol=0)


def test_a_number_is_loaded_from_its_buffer():
    x = View(Buffer("x", torch.float32, 3), (3,), (1,))
    result = View(Buffer("y", torch.float32, 3), (3,), (1,))
    number = Number(Buffer("n", torch.float64, 1))
    graph = AtenGraph([x, number], [Call(aten.mul.Tensor, (x, number), {}, [result])], [result], [None])
    (got,) = run(lower(graph), [torch.tensor([1.0, 2.0, 3.0]), 2.5])
    assert got.tolist() == [2.5, 5.0, 7.5]


def test_an_unknown_number_where_a_rule_needs_to_know_it_is_left_to_aten():
    x = View(Buffer("x", torch.float32, 3), (3,), (1,))
    result = View(Buffer("y", torch.float32, 1), (), ())
    number = Number(Buffer("n", torch.float64, 1))
    call = Call(aten.linalg_vector_norm.default, (x, number), {}, [result])
    (statement,) = lower(AtenGraph([x, number], [call], [result], [None])).statements
    assert isinstance(statement, Invoke)


def test_temporaries_have_names_of_their_own():
    loops = lowered(lambda x: (x.var(1), torch.softmax(x, 0), x.std(0)), rand(3, 4))
    names = {s.target.buffer: s.target.buffer.name for s in loops.statements}
    assert len(set(names.values())) == len(names)


def test_a_graph_prints_as_statements():
    loops = lowered(lambda x: (x + 1).sum(1), rand(3, 4))
    assert str(loops).splitlines() == [
        "for i0<3, i1<4: b1[i0*4 + i1] = add(b0[i0*4 + i1], 1.0)",
        "for i0<3, i1<4: b2[i0] = sum over i1 of b1[i0*4 + i1]",
    ]
