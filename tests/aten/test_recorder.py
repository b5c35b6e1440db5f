"""What a recording looks like, and which graphs cannot be recorded."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import fx, nn

from segue.graphs.aten import AtenGraph, Number, View
from segue.graphs.recorder import Unrecordable, needs_gradient, record
from tests.replay import captured, names, recorded

ROW = torch.arange(12.0).reshape(3, 4)


def traced(function, *examples) -> AtenGraph:
    """The recording of a function, untouched by capture."""

    def run(*inputs):
        result = function(*inputs)
        return result if isinstance(result, tuple) else (result,)

    graph = fx.Graph()
    nodes = [graph.placeholder(f"a{i}") for i in range(len(examples))]
    graph.output(graph.call_function(run, tuple(nodes)))
    return record(fx.GraphModule(nn.Module(), graph), list(examples))


def test_views_are_arithmetic_on_one_buffer() -> None:
    graph = recorded(lambda x: (x.t()[1:, 2], x.view(2, 6), x + 1), ROW)
    (x,) = graph.inputs
    assert names(graph) == ["add.Tensor"]
    assert graph.outputs[0] == View(x.buffer, (3,), (1,), 9)
    assert graph.outputs[1] == View(x.buffer, (2, 6), (6, 1), 0)
    assert (x.buffer.name, x.buffer.size, x.buffer.dtype) == ("x", 12, torch.float32)


def test_an_input_with_gaps_is_a_view_of_the_memory_that_it_spans() -> None:
    graph = recorded(lambda x: x + 1, torch.zeros(8, 6)[1:5, ::2])
    assert graph.inputs == [View(graph.inputs[0].buffer, (4, 3), (6, 2), 0)]
    assert graph.inputs[0].buffer.size == 3 * 6 + 2 * 2 + 1


def test_what_is_written() -> None:
    def function(x):
        y = x * 2
        y[0].add_(1)
        torch.neg(x, out=y)
        x.t().mul_(y.t())
        return y

    graph = recorded(function, ROW)
    x, y = graph.inputs[0].buffer, graph.calls[0].results[0].buffer
    assert names(graph) == ["mul.Tensor", "add_.Tensor", "neg.out", "mul_.Tensor"]
    assert [c.written for c in graph.calls] == [[], [y], [y], [x]]
    assert graph.calls[1].results == [View(y, (4,), (1,), 0)]


def test_an_output_may_be_the_very_input() -> None:
    graph = traced(lambda x, y: (y.add_(1), x + 1, x.view(3, 4), x), ROW, ROW.clone())
    x, y = graph.inputs
    assert graph.same_as_input == [1, None, None, 0]
    assert [graph.outputs[i] for i in (0, 2, 3)] == [y, x, x]


def test_a_constant_is_read_where_it_is_and_copied_where_it_is_written() -> None:
    def function(x):
        read, written = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
        written.mul_(2)
        return x + read + written

    graph = recorded(function, torch.zeros(2))
    assert names(graph) == ["clone.default", "mul_.Tensor", "add.Tensor", "add.Tensor"]
    source, read = graph.calls[0].args[0].buffer, graph.calls[2].args[1].buffer
    assert source.constant.tolist() == [3.0, 4.0] and read.constant.tolist() == [1.0, 2.0]
    assert graph.calls[1].written[0].constant is None


def test_a_tensor_of_the_module_is_a_constant() -> None:
    module = nn.Module()
    module.scale = nn.Parameter(torch.tensor([2.0, 3.0]))
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.mul, (x, graph.get_attr("scale"))),))
    recording = record(fx.GraphModule(module, graph), [torch.ones(2)])
    assert recording.calls[0].args[1].buffer.constant is module.scale


def test_unused_operations_are_left_out_unless_they_could_be_noticed() -> None:
    def function(x, i):
        x.sin(), torch.zeros(3), x @ x.T, x.softmax(0)
        torch.rand(2), x[i], i // 2
        return x.cos()

    ((gm, examples),) = captured(function, ROW, torch.tensor([0, 1]))
    assert set(names(record(gm, examples))) == {"rand.default", "index.Tensor", "floor_divide.default", "cos.default"}


def test_numbers_among_the_inputs() -> None:
    graph = traced(lambda x, n, m: x * n + m, ROW, 2.5, 3)
    _, n, m = graph.inputs
    assert isinstance(n, Number) and isinstance(m, Number)
    assert (n.buffer.dtype, m.buffer.dtype) == (torch.float64, torch.int64)
    assert [c.args[1] for c in graph.calls] == [n, m]


def test_a_number_may_be_an_output() -> None:
    graph = traced(lambda x, n: n, ROW, 2.5)
    assert graph.outputs == [graph.inputs[1]]


def in_inference_mode(x):
    with torch.inference_mode():
        return x + 1


UNRECORDABLE = {
    "inference mode": (in_inference_mode, (ROW,), "inference mode within the graph"),
    "a number in a shape": (lambda x, n: x.expand(n, 3, 4), (ROW, 5), "RuntimeError"),
    "a number as index": (lambda x, n: x[n], (ROW, 1), "IndexError"),
    "a number as end of a slice": (lambda x, n: x[:n], (ROW, 2), "a Python number decides"),
    "a number that is computed with": (lambda x, n: x * (n * 2), (ROW, 2.5), "a Python number decides"),
    "a number that is compared": (lambda x, n: x.sin() if n > 0 else x.cos(), (ROW, 2.5), "a Python number decides"),
    "a bool": (lambda x, b: x.sum(0, keepdim=b), (ROW, True), "an input of type bool"),
    "a string": (lambda x, s: x, (ROW, "s"), "an input of type str"),
    "a sparse input": (lambda x: x.to_dense(), (torch.eye(3).to_sparse(),), "layout torch.sparse_coo"),
    "a sparse result": (lambda x: x.to_sparse(), (ROW,), "UnsupportedOperator"),
    "an mkldnn result": (lambda x: x.to_mkldnn(), (ROW,), "UnsupportedOperator"),
    "a quantised input": (
        lambda x: x.dequantize(), (torch.quantize_per_tensor(ROW, 1.0, 0, torch.quint8),), "quantised"),
    "a meta input": (lambda x: x + 1, (ROW.to("meta"),), "a tensor on meta"),
    "a result elsewhere": (lambda x: x.to("meta"), (ROW,), "on meta"),
    "memory read as another dtype": (lambda x: x.view(torch.int32) + 1, (ROW,), "is used as torch.int32"),
    "a complex view": (lambda x: torch.view_as_complex(x.view(6, 2)) * 2, (ROW,), "is used as torch.complex64"),
    "a pending conjugation": (lambda x: x.conj() + 1, (ROW.to(torch.complex64),), "pending conjugation"),
    "a shape that depends on data": (lambda x: x.nonzero(), (ROW,), "depends on data"),
    "a value that is looked at": (lambda x: x.sum().item(), (ROW,), "depends on data"),
    "an input with another shape": (lambda x: x.t_(), (ROW.clone(),), "an input gets another shape"),
    "a storage that grows": (lambda x: (x + 1).resize_(30), (ROW,), "a storage is resized"),
    "an input with other memory": (lambda x: x.set_(torch.zeros(3, 4)), (ROW.clone(),), "an input gets another shape"),
    "a container": (lambda x: [x, x], (ROW,), "an output that is a container"),
    "grad mode left changed": (lambda x: torch._C._set_grad_enabled(False), (ROW,), "thread state"),
    "an operator that fails": (lambda x: x @ x, (ROW,), "RuntimeError"),
    "strides of the storage": (lambda x: x.as_strided((2,), (1,), 1), (ROW,), "as_strided"),
    "a subclass": (lambda x: x + 1, (ROW.as_subclass(type("Own", (torch.Tensor,), {})),), "a tensor of class Own"),
    "inputs that share memory": (lambda x, y: y.add_(1), (lambda x: (x, x[1:]))(ROW.clone()), "shares memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNRECORDABLE)
def test_unrecordable(name) -> None:
    function, examples, reason = UNRECORDABLE[name]
    before = torch.is_grad_enabled()
    with pytest.raises(Unrecordable, match=reason):
        traced(function, *examples)
    assert torch.is_grad_enabled() == before


def test_inputs_that_share_memory_may_be_read() -> None:
    x = ROW.clone()
    assert names(traced(torch.add, x, x[:1])) == ["add.Tensor"]


def test_a_higher_order_operator_is_unrecordable() -> None:
    from torch._higher_order_ops.cond import cond_op

    with pytest.raises(Unrecordable):
        traced(lambda x: cond_op(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)), ROW)


def test_a_custom_operator_is_a_call() -> None:
    with torch.library._scoped_library("segue_test_recorder", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        graph = traced(torch.ops.segue_test_recorder.twice.default, ROW)
        assert [str(c.op) for c in graph.calls] == ["segue_test_recorder.twice.default"]


def test_no_kernel_runs_and_nothing_is_written() -> None:
    x, state = ROW.clone(), torch.get_rng_state()
    with torch.no_grad():
        traced(lambda x: F.dropout(x.mul_(2), 0.5), x)
    assert torch.equal(x, ROW) and torch.equal(state, torch.get_rng_state())


def mutate(x, w):
    x.mul_(w)
    return x * 1


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, w: x * w, True),
        (lambda x, w: (x * w).detach(), False),
        (lambda x, w: x * 2, False),
        (mutate, True),
    ],
)
def test_needs_gradient(function, expected) -> None:
    ((gm, _),) = captured(function, ROW.clone(), nn.Parameter(torch.ones(4)))
    assert needs_gradient(gm) is expected


def test_a_step_of_an_optimizer_needs_no_gradient() -> None:
    def step(w, g):
        with torch.no_grad():
            w.sub_(g * 0.1)

    ((gm, _),) = captured(step, nn.Parameter(torch.ones(4)), torch.ones(4))
    assert needs_gradient(gm) is False


def test_sympy_is_not_imported() -> None:
    program = """
import sys, torch
from torch import fx, nn
from segue.graphs.recorder import record
graph = fx.Graph()
x = graph.placeholder("x")
graph.output((graph.call_function(nn.functional.gelu, (graph.call_function(torch.matmul, (x, x)),)),))
assert len(record(fx.GraphModule(nn.Module(), graph), [torch.ones(3, 3)]).calls) == 2
assert not {"sympy", "torch._dynamo", "torch._inductor"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path)})
