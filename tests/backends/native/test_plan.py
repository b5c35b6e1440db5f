"""Plans of the native backend: where buffers live, what may alias, threads, and errors of kernels."""

from __future__ import annotations

import threading
import warnings

import pytest
import torch

import segue
from segue import config
from segue.backends.native import loops, plan
from segue.backends.native.lower import lower
from segue.graphs.aten import AtenGraph, Buffer, Call, Number, View
from tests.backends.native.opinfo import compiled, copies
from tests.backends.native.test_native import strictly_native

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def quick():
    with config.patch(codegen_level=0):
        yield


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


def planned(function):
    """The function as a compiled one, whose graph must be native."""
    return segue.compile(function, fullgraph=True, backend=strictly_native)


def check(function, *tensors):
    """Assert results and written arguments of three calls, and that later calls leave earlier results alone."""
    ours, kept = planned(function), []
    for scale in (1, 2, 3):
        expected_tensors = [t * scale for t in copies(tensors)]
        given = copies(expected_tensors)
        expected, got = function(*expected_tensors), ours(*given)
        torch.testing.assert_close((got, given), (expected, expected_tensors))
        kept.append((got, expected))
    for got, expected in kept:
        torch.testing.assert_close(got, expected)


def planner(function, *tensors):
    """A plan under construction."""
    from torch import fx

    from segue.graphs.recorder import record

    graph = fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    graph.output(graph.call_function(lambda *given: tuple(function(*given)), tuple(places)))
    recorded = record(fx.GraphModule({}, graph), list(tensors))
    return plan._Planner(plan.compile_kernels(recorded, loops.kernels(lower(recorded))), lambda *_: ())


# --- memory -------------------------------------------------------------------------------------------------


def chain(x, w):
    for _ in range(6):
        x = (x @ w).relu()
    return (x,)


def test_temporaries_that_are_not_needed_at_once_share_memory():
    made = planner(chain, rand(16, 16), rand(16, 16))
    temporaries = made.workspace.offsets
    assert len(temporaries) >= 4
    assert made.workspace.size <= 3 * 16 * 16 * 4


def test_temporaries_that_are_needed_at_once_do_not_overlap():
    def function(x, w):
        a, b, c = x @ w, w @ x, x @ x
        return ((a.exp() @ b.exp()) + (b.exp() @ c.exp()) + a @ c,)

    made = planner(function, rand(8, 8), rand(8, 8))
    spans = [(o, o + b.size * 4, made.uses[b]) for b, o in made.workspace.offsets.items()]
    for i, (start, end, uses) in enumerate(spans):
        for other_start, other_end, other_uses in spans[:i]:
            apart = uses[1] < other_uses[0] or other_uses[1] < uses[0]
            assert apart or end <= other_start or other_end <= start


def test_addresses_of_the_workspace_are_aligned():
    made = planner(chain, rand(5, 5), rand(5, 5))
    assert all(t.data_ptr() % plan.ALIGNMENT == 0 for t in made.workspace.tensors.values())


def test_chains_of_aten_and_kernels():
    check(lambda x, w: chain(x, w)[0], rand(7, 7), rand(7, 7))


def test_constants_of_the_program():
    table = torch.arange(6.0)
    check(lambda x: x * table + torch.tensor([1.0, 2, 3, 4, 5, 6]), rand(4, 6))


# --- outputs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: (x, x),
        lambda x: (x + 1, x),
        lambda x: x[1:],
        lambda x: (x.t(), x + 1, x.view(-1)),
        lambda x: (y := x + 1, y),
        lambda x: (y := x + 1, y.t(), y[0], y.view(-1)[2:]),
        lambda x: (y := x @ x, y.t(), y + 1),
        lambda x: x.expand(2, 3, 3),
        lambda x: (x * 2).expand(2, 3, 3),
        lambda x: x.add_(1),
        lambda x: (x.add_(1), x.t(), x * 2),
    ],
)
def test_outputs_that_alias(function):
    def addresses(results):
        flat = results if isinstance(results, tuple) else (results,)
        return [[a is b for b in flat] + [a.data_ptr() == b.data_ptr() for b in flat] for a in flat]

    x = rand(3, 3)
    ours = planned(function)
    for _ in range(2):
        given, expected_given = x.clone(), x.clone()
        got, expected = ours(given), function(expected_given)
        torch.testing.assert_close((got, given), (expected, expected_given))
        assert addresses((got, given)[0]) == addresses(expected)
        first = got[0] if isinstance(got, tuple) else got
        wanted = expected[0] if isinstance(expected, tuple) else expected
        assert (first is given) == (wanted is expected_given)
        assert first.stride() == wanted.stride()


def test_results_are_fresh_in_each_call():
    ours = planned(lambda x: x + 1)
    first = ours(torch.zeros(4))
    second = ours(torch.ones(4))
    assert first.tolist() == [1, 1, 1, 1]
    assert second.tolist() == [2, 2, 2, 2]


def test_a_result_may_be_written():
    ours = planned(lambda x: (x @ x, x + 1))
    for _ in range(2):
        product, total = ours(torch.ones(2, 2))
        assert product.tolist() == [[2, 2], [2, 2]]
        assert total.tolist() == [[2, 2], [2, 2]]
        product.zero_()
        total.zero_()


# --- arguments ----------------------------------------------------------------------------------------------


def test_written_inputs_count_a_version():
    x = torch.ones(4)
    ours = planned(lambda x: x.mul_(2) + 1)
    ours(x)
    version = x._version
    ours(x)
    assert x._version > version
    assert x.tolist() == [4, 4, 4, 4]


def test_inputs_that_are_only_read_keep_their_version():
    x = torch.ones(4)
    planned(lambda x: x * 2)(x)
    assert x._version == 0


def test_a_write_is_seen_by_autograd():
    x, w = torch.ones(3), torch.ones(3, requires_grad=True)
    ours = planned(lambda x: x.mul_(2) + 1)
    ours(torch.ones(3))
    result = (w * x).sum()
    ours(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def shifted(x, y):
    x.copy_(y.flip(0) + 1)
    return y * 2


@pytest.mark.parametrize("function", [shifted, lambda x, y: (x.add_(1), y * 2), lambda x, y: (x.add_(1), y.mul_(3))])
def test_arguments_that_overlap_in_a_later_call(function):
    ours = planned(function)
    ours(torch.arange(6.0), torch.arange(6.0))
    memory, expected_memory = torch.arange(9.0), torch.arange(9.0)
    expected = function(expected_memory[:6], expected_memory[3:])
    got = ours(memory[:6], memory[3:])
    torch.testing.assert_close((got, memory), (expected, expected_memory))


def test_the_same_tensor_twice_in_a_later_call():
    def function(x, y):
        x.add_(1)
        return x * y

    ours = planned(function)
    ours(torch.ones(3), torch.ones(3))
    x = torch.ones(3)
    assert ours(x, x).tolist() == [4, 4, 4]


def test_arguments_in_the_middle_of_their_storage():
    ours = planned(lambda x: (x[1:] * 2, x[1:], x @ x.t()))
    base = torch.arange(40.0)
    for start in (0, 4, 12):
        x = base[start : start + 12].view(3, 4)
        torch.testing.assert_close(ours(x), (x[1:] * 2, x[1:], x @ x.t()))


def test_inference_tensors():
    ours = planned(lambda x: (x.mul_(2), x + 1, x @ x))
    for _ in range(2):
        with torch.inference_mode():
            x = torch.ones(2, 2)
            got = ours(x)
            assert got[0] is x
            assert [t.tolist()[0] for t in got] == [[2, 2], [3, 3], [8, 8]]
            assert all(t.is_inference() for t in got[2:])


def test_numbers_that_change():
    ours = planned(lambda x, a, b: (x * a + b, x.clamp(max=a)))
    x = torch.arange(4.0)
    for a, b in ((2.0, 3), (2.5, -1), (0.25, 7), (3.0, 10**9)):
        torch.testing.assert_close(ours(x, a, b), (x * a + b, x.clamp(max=a)))


def test_a_number_is_an_argument_of_a_kernel_and_of_aten():
    x, y = View(Buffer("x", torch.float32, 4), (2, 2), (2, 1)), View(Buffer("y", torch.float32, 4), (2, 2), (2, 1))
    z, number = View(Buffer("z", torch.float32, 4), (2, 2), (2, 1)), Number(Buffer("n", torch.float64, 1))
    calls = [Call(aten.mul.Tensor, (x, number), {}, [y]), Call(aten.cumsum.default, (y, 0), {}, [z])]
    graph = AtenGraph([x, number], calls, [z, number], [None, None])
    made = plan.make_plan(plan.compile_kernels(graph, loops.kernels(lower(graph))), lambda *_: ())
    got, same = made(torch.ones(2, 2), 1.5)
    assert (got.tolist(), same) == ([[1.5, 1.5], [3.0, 3.0]], 1.5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: torch.cat([x, x + 1]),
        lambda x: (x.t(), x.exp().sum(1)),
        lambda x: x @ x.t(),
        lambda x: x.mul_(2),
        lambda x: torch.softmax(x, 0),
    ],
)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
def test_tensors_of_no_elements(function, sizes):
    check(function, torch.empty(sizes))


# --- operations of ATen -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sort(1)[1] + 1,
        lambda x: (x.sort(1)[0] * 2, x.topk(2)[0]),
        lambda x: torch.linalg.inv(x @ x.t() + torch.eye(4)) * 2,
        lambda x: (x + 1).cumsum(0).t() @ x,
        lambda x: x.index_add_(0, torch.tensor([1, 1]), x[:2] * 2) + 1,
        lambda x: torch.complex(x, x * 2).abs(),
        lambda x: x.t().cumsum(0).exp(),
    ],
)
def test_results_of_aten_between_kernels(function):
    check(function, rand(4, 4))


def test_results_of_aten_that_nobody_uses():
    def function(w, i):
        return torch.nn.functional.embedding_bag(i, w, torch.tensor([0, 2])) + 1

    check(lambda w: function(w, torch.tensor([1, 2, 3, 4])), rand(6, 3).bfloat16())


# --- errors -------------------------------------------------------------------------------------------------


def test_an_index_out_of_range_raises_what_eager_raises():
    def function(x, i):
        return (x + 1)[i] * 2

    ours = segue.compile(function)
    x = torch.arange(4.0)
    assert ours(x, torch.tensor([0, -1])).tolist() == [2, 8]
    for bad in (4, -5):
        with pytest.raises(IndexError, match=r"out of (bounds|range)"):
            ours(x, torch.tensor([0, bad]))
    assert ours(x, torch.tensor([1, 2])).tolist() == [4, 6]


def test_division_of_integers_by_zero_raises_what_eager_raises():
    def function(x, y):
        return x // y + 1

    ours = segue.compile(function)
    assert ours(torch.tensor([7, -7]), torch.tensor([2, 2])).tolist() == [4, -3]
    for call in (function, ours):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            call(torch.tensor([7, 7]), torch.tensor([2, 0]))


def test_an_error_leaves_arguments_as_eager_leaves_them():
    def function(x, i):
        y = x[i]
        x.add_(1)
        return y

    for call in (function, segue.compile(function)):
        x = torch.zeros(3)
        call(x, torch.tensor([0]))
        with pytest.raises(IndexError):
            call(x, torch.tensor([3]))
        assert x.tolist() == [1, 1, 1]


def test_an_error_of_aten():
    ours = segue.compile(lambda x: torch.linalg.cholesky(x) * 2)
    assert ours(torch.eye(2)).tolist() == [[2, 0], [0, 2]]
    with pytest.raises(torch.linalg.LinAlgError):
        ours(-torch.eye(2))
    assert ours(torch.eye(2)).tolist() == [[2, 0], [0, 2]]


# --- at the same time ---------------------------------------------------------------------------------------


def test_calls_from_several_threads():
    ours = planned(lambda x, w: chain(x, w)[0])
    w = rand(24, 24) / 5
    ours(rand(24, 24), w)
    wrong = []

    def work(seed):
        x = torch.randn(24, 24, generator=torch.Generator().manual_seed(seed))
        expected = chain(x, w)[0]
        for _ in range(200):
            if not torch.allclose(ours(x, w), expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_plan_that_is_called_while_it_runs():
    depth = []

    def function(x):
        y = (x * 2) @ x
        z = torch.cumsum(y.exp(), 0)
        return z + 1

    run = compiled(function, [torch.eye(2)])

    class Again(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is aten.cumsum.default and not depth:
                depth.append(run(torch.eye(2) * 2)[0])
            return func(*args, **kwargs or {})

    with Again():
        (outer,) = run(torch.eye(2))
    torch.testing.assert_close(outer, function(torch.eye(2)))
    torch.testing.assert_close(depth[0], function(torch.eye(2) * 2))


@pytest.mark.parametrize(("threads", "grain"), [(1, 0), (2, 50), (0, 10), (4, 25)])
def test_units_for_a_thread(threads, grain):
    from segue.backends.native.codegen import Kernel

    assert plan._grain(Kernel("", {}, [], set(), units=100, grain=10), threads) == grain


def test_nothing_is_warned_about():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(lambda x, w: chain(x, w)[0], rand(3, 3), rand(3, 3))
