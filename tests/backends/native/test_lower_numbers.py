"""Numbers that are inputs of a graph: the lowered graph computes with the value of the call."""

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from segue.backends.native.lower import lower
from segue.graphs.recorder import record
from tests.backends.native.interpreter import run
from tests.backends.native.lowering import invoked


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def graph_of(function) -> fx.GraphModule:
    """A graph of one call of a function of a tensor and a number."""
    graph = fx.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    graph.output((graph.call_function(function, (x, n)),))
    return fx.GraphModule({}, graph)


FUNCTIONS = [
    lambda x, n: x + n,
    lambda x, n: n - x,
    lambda x, n: x * n + 1,
    lambda x, n: x / n,
    lambda x, n: torch.add(x, x, alpha=n),
    lambda x, n: torch.addcmul(x, x, x, value=n),
    lambda x, n: torch.lerp(x, x + 1, n),
    lambda x, n: torch.clamp(x, 0.1, n),
    lambda x, n: torch.clamp_min(x, n),
    lambda x, n: x.abs() ** n,
    lambda x, n: n**x,
    lambda x, n: x > n,
    lambda x, n: torch.where(x > 0, x, n),
    lambda x, n: x.masked_fill(x > 0, n),
    lambda x, n: torch.full((3,), n),
    lambda x, n: torch.full_like(x, n),
    lambda x, n: F.leaky_relu(x, n),
    lambda x, n: F.elu(x, n),
    lambda x, n: F.threshold(x, n, 0.5),
    lambda x, n: F.softplus(x, n),
    lambda x, n: F.layer_norm(x, (4,), eps=n),
    lambda x, n: x.clone().fill_(n),
    lambda x, n: x.bfloat16() * n,
    lambda x, n: x.bfloat16() < n,
    lambda x, n: x.clone().mul_(n).add_(x, alpha=n),
    lambda x, n: torch._foreach_mul([x], n)[0],
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_float(function):
    loops = lower(record(graph_of(function), [rand(3, 4), 0.5]))
    assert invoked(loops) == []
    for n in (0.5, 1.25):
        (got,) = run(loops, [rand(3, 4), n])
        torch.testing.assert_close(got, function(rand(3, 4), n))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x + n,
        lambda x, n: x.long() * n,
        lambda x, n: torch.clamp(x.long(), max=n),
        lambda x, n: torch.full_like(x, n),
        lambda x, n: x.masked_fill(x > 0, n),
    ],
)
def test_an_integer(function):
    loops = lower(record(graph_of(function), [rand(3, 4) * 5, 3]))
    assert invoked(loops) == []
    for n in (3, -2):
        (got,) = run(loops, [rand(3, 4) * 5, n])
        torch.testing.assert_close(got, function(rand(3, 4) * 5, n))
