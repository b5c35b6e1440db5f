"""The backend `inductor`: graphs that PyTorch's TorchInductor compiles."""

import subprocess
import sys

import pytest
import torch
from torch import fx

import segue
from segue.backends.inductor import compile_graph
from segue.errors import BackendError, GraphDeclined


def test_the_name_imports_nothing() -> None:
    paths = [p for p in sys.path if p]
    text = f"import sys; sys.path[:0] = {paths!r}; import segue; segue.compile(backend='inductor')(lambda x: x + 1)"
    check = "; assert 'torch._inductor' not in sys.modules and 'inductor' in segue.list_backends()"
    subprocess.run([sys.executable, "-c", text + check], check=True)


def test_inference_with_a_mode_and_an_output_that_is_an_input() -> None:
    def f(x, y):
        return torch.relu(x * y + 1).sum(-1), x

    x, y = torch.randn(4, 8), torch.randn(8)
    compiled = segue.compile(f, backend="inductor", mode="reduce-overhead")
    with torch.no_grad():
        total, same = compiled(x, y)
        torch.testing.assert_close(total, f(x, y)[0])
    assert same is x


def test_training_and_a_mutated_input() -> None:
    def f(x, weight, seen):
        seen.add_(x.detach().mean(0))
        return torch.tanh(x @ weight).sum() * 2

    x, weight = torch.randn(4, 3), torch.randn(3, 5)
    results = []
    for function in (f, segue.compile(f, backend="inductor", options={"max_fusion_size": 8})):
        leaf, seen = weight.clone().requires_grad_(), torch.zeros(3)
        loss = function(x, leaf, seen)
        loss.backward()
        results.append((loss.detach(), leaf.grad, seen))
    torch.testing.assert_close(results[1], results[0])


def test_written_inputs_that_overlap() -> None:
    """Also when what is there was compiled for separate ones."""

    def f(a, b):
        a.add_(1)
        b.mul_(3)
        y = a + b
        return y, y[1:], b.view(2, 2)

    def observed(function, at):
        x = torch.arange(8.0)
        y, part, view = function(x[:4], x[at : at + 4])
        part.zero_()
        view.add_(1)
        return x, y

    for order in ((4, 2, 4), (2, 4)):
        compiled = segue.compile(f, backend="inductor")
        for at in order:
            torch.testing.assert_close(observed(compiled, at), observed(f, at))


def test_an_unknown_option_is_an_error() -> None:
    compiled = segue.compile(lambda x: x + 1, backend="inductor", options={"max_fusion_sise": 8})
    with pytest.raises(BackendError, match=r"no option 'max_fusion_sise'; did you mean .*'max_fusion_size'"):
        compiled(torch.ones(2))


def graph_of(*nodes) -> fx.GraphModule:
    graph = fx.Graph()
    inputs = [graph.placeholder(name) for name in "xy"]
    for function, arguments in nodes:
        graph.call_function(function, arguments)
    graph.output((graph.call_function(torch.add, tuple(inputs)),))
    return fx.GraphModule(torch.nn.Module(), graph)


def test_graphs_with_numbers_or_lasting_state_run_as_they_are() -> None:
    with pytest.raises(GraphDeclined, match="Python number"):
        compile_graph(graph_of(), [torch.ones(2), 3])
    autocast = graph_of((torch.set_autocast_enabled, ("cpu", True)))
    with pytest.raises(GraphDeclined, match="set_autocast_enabled"):
        compile_graph(autocast, [torch.ones(2), torch.ones(2)])
