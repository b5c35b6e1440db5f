"""Training: gradients, hooks, state that a forward changes, optimizers, and random numbers, as eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import segue
from tests.case import events, record
from tests.graphs import Graphs

X = torch.linspace(-1, 1, 12).view(3, 4)


class Net(nn.Module):
    """Linear layers, dropout, batch norm, and a break in the middle if asked for."""

    def __init__(self, breaks: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.breaks = breaks
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 2)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        y = torch.tanh(self.first(x))
        self.seen += x.shape[0]
        self.mean.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        if self.breaks:
            segue.graph_break()
        y = self.drop(self.norm(y))
        return self.last(y)


@pytest.fixture(params=[False, True], ids=["whole", "broken"])
def breaks(request) -> bool:
    return request.param


def gradients(function: Callable[..., Any], *args: torch.Tensor) -> list[Any]:
    """The value of a function and the gradients of its sum."""
    inputs = [a.detach().clone().requires_grad_(a.is_floating_point()) for a in args]
    value = function(*inputs)
    value.sum().backward()
    return [value.detach(), *(i.grad for i in inputs)]


def assert_same_gradients(function: Callable[..., Any], *args: torch.Tensor, graphs: int | None = None) -> Graphs:
    backend = Graphs()
    compiled = segue.compile(function, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(gradients(compiled, *args), gradients(function, *args))
    if graphs is not None:
        assert backend.count == graphs, backend.graphs
    return backend


# --- gradients ------------------------------------------------------------------------------------


def straight(x):
    return torch.cos(torch.sin(x) * x)


def broken(x):
    y = torch.sin(x) * x
    segue.graph_break()
    return torch.cos(y) * y


def in_a_loop(x):
    y = x
    for step in range(5):
        y = torch.tanh(y) * (step + 1)
        segue.graph_break()
    return y * x


def in_a_try(x):
    y = torch.sin(x)
    try:
        segue.graph_break()
        y = torch.tanh(y)
        raise KeyError("k")
    except KeyError:
        y = y * x
    return torch.cos(y)


def branching(x):
    y = torch.sin(x)
    if y.sum() > 5:
        return torch.exp(y)
    return torch.cos(y) * x


def partly_detached(x):
    y = torch.sin(x)
    z = y.detach() * x
    segue.graph_break()
    return z + y * x.detach()


def partly_without_grad(x):
    with torch.no_grad():
        scale = torch.sin(x)
        segue.graph_break()
        scale = scale * 2
    return torch.cos(x) * scale


def in_place(x):
    y = torch.sin(x)
    y.mul_(2)
    segue.graph_break()
    y += x
    return y * y


def assigned(x):
    y = torch.zeros_like(x)
    y[0] = torch.sin(x[0])
    segue.graph_break()
    y[1:] = x[1:] * 2
    return y * x


def integer_and_float(x):
    index = torch.arange(3).flip(0)
    return x[index] * torch.sin(x)


@pytest.mark.parametrize(
    "f",
    [
        straight,
        broken,
        in_a_loop,
        in_a_try,
        branching,
        partly_detached,
        partly_without_grad,
        in_place,
        assigned,
        integer_and_float,
    ],
    ids=lambda f: f.__name__,
)
def test_gradients_of_inputs(f) -> None:
    assert assert_same_gradients(f, X).count >= 1


def test_gradients_of_several_inputs_and_outputs() -> None:
    def f(x, y, k):
        a = torch.sin(x) * y
        segue.graph_break()
        return a.sum() + (torch.cos(y) * k).sum()

    assert_same_gradients(f, X, X + 1, torch.tensor(3), graphs=2)


def test_inputs_with_and_without_gradients() -> None:
    """requires_grad may change from call to call, input by input."""

    def f(x, w):
        y = torch.sin(x) @ w
        segue.graph_break()
        return torch.cos(y)

    compiled = segue.compile(f, backend=Graphs())
    w = torch.randn(4, 2)
    for needs in [(True, True), (True, False), (False, True), (False, False), (True, True)]:
        mine, theirs = ([t.clone().requires_grad_(n) for t, n in zip((X, w), needs, strict=True)] for _ in range(2))
        got, expected = compiled(*mine), f(*theirs)
        assert got.requires_grad == expected.requires_grad
        if any(needs):
            got.sum().backward()
            expected.sum().backward()
        torch.testing.assert_close(
            [t.grad for t in mine if t.grad is not None], [t.grad for t in theirs if t.grad is not None]
        )
        assert [t.grad is None for t in mine] == [t.grad is None for t in theirs]


def test_gradients_of_gradients() -> None:
    def f(x):
        y = torch.sin(x) * x
        segue.graph_break()
        return (y * y).sum()

    def second(function):
        x = X.clone().requires_grad_()
        (g,) = torch.autograd.grad(function(x), x, create_graph=True)
        g.pow(2).sum().backward()
        return x.grad

    torch.testing.assert_close(second(segue.compile(f, backend=Graphs())), second(f))


def test_grad_inside_the_compiled_function() -> None:
    def f(x):
        y = (torch.sin(x) * x).sum()
        (g,) = torch.autograd.grad(y, x)
        return torch.cos(g)

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(2):
        x = X.clone().requires_grad_()
        torch.testing.assert_close(compiled(x), f(x))


def test_backward_inside_the_compiled_function() -> None:
    model = Net()
    twin = copy.deepcopy(model)

    def step(net, x):
        net.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        return loss.detach()

    compiled = segue.compile(step, backend=Graphs())
    for _ in range(3):
        torch.testing.assert_close(compiled(twin, X), step(model, X))
        assert_same_state(twin, model)


# --- modules --------------------------------------------------------------------------------------


def assert_same_state(got: nn.Module, expected: nn.Module) -> None:
    """Parameters, buffers and gradients."""
    torch.testing.assert_close(dict(got.state_dict()), dict(expected.state_dict()))
    for (name, a), (_, b) in zip(got.named_parameters(), expected.named_parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None), name
        torch.testing.assert_close(a.grad, b.grad)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_training_loop_with_a_compiled_forward(optimizer, breaks) -> None:
    model = Net(breaks)
    twin = copy.deepcopy(model)
    graphs = Graphs()
    forwards = (model, segue.compile(twin, backend=graphs))
    optimizers = [OPTIMIZERS[optimizer](m.parameters()) for m in (model, twin)]
    target = torch.tensor([0, 1, 1])
    for _ in range(5):
        losses = []
        for forward, steps in zip(forwards, optimizers, strict=True):
            steps.zero_grad()
            loss = nn.functional.cross_entropy(forward(X), target)
            loss.backward()
            steps.step()
            losses.append(loss.item())
        assert losses[0] == losses[1]
        assert_same_state(twin, model)
    assert graphs.count == (2 if breaks else 1)


def test_a_whole_training_step_is_compiled_with_its_optimizer(breaks) -> None:
    """The optimizer's step may break; what it does is eager's."""

    def train(model, steps, x, target):
        steps.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        steps.step()
        return loss.detach()

    model = Net(breaks)
    twin = copy.deepcopy(model)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (model, twin)]
    compiled = segue.compile(train, backend=Graphs())
    target = torch.tensor([0, 1, 1])
    for _ in range(4):
        expected = train(model, optimizers[0], X, target)
        torch.testing.assert_close(compiled(twin, optimizers[1], X, target), expected)
        assert_same_state(twin, model)


def test_buffers_in_training_and_eval(breaks) -> None:
    model = Net(breaks)
    twin = copy.deepcopy(model)
    compiled = segue.compile(twin, backend=Graphs())
    for training in (True, True, False, True, False, False):
        model.train(training)
        twin.train(training)
        torch.testing.assert_close(compiled(X), model(X))
        assert_same_state(twin, model)


def test_in_place_change_of_a_parameter(breaks) -> None:
    class Clamped(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.linspace(-2, 2, 4))

        def forward(self, x):
            with torch.no_grad():
                self.weight.clamp_(-1, 1)
                if breaks:
                    segue.graph_break()
                self.weight.mul_(0.5)
            return x * self.weight

    model, twin = Clamped(), Clamped()
    compiled = segue.compile(twin, backend=Graphs())
    for _ in range(3):
        got, expected = compiled(X), model(X)
        torch.testing.assert_close(got, expected)
        got.sum().backward()
        expected.sum().backward()
        assert_same_state(twin, model)


def test_replaced_parameters_and_buffers_are_seen() -> None:
    model = Net()
    compiled = segue.compile(model, backend=Graphs())
    compiled(X)
    model.first.weight = nn.Parameter(torch.ones(8, 4))
    model.mean = torch.ones(8)
    model.last.bias.data = torch.zeros(2)
    twin = copy.deepcopy(model)
    torch.testing.assert_close(compiled(X), twin(X))
    assert_same_state(model, twin)


def test_frozen_parameters() -> None:
    model = Net()
    twin = copy.deepcopy(model)
    compiled = segue.compile(twin, backend=Graphs())
    for frozen in (False, True, False):
        for module in (model, twin):
            module.zero_grad()
            module.first.requires_grad_(not frozen)
        compiled(X).sum().backward()
        model(X).sum().backward()
        assert_same_state(twin, model)


# --- hooks ----------------------------------------------------------------------------------------


def hooked(kind: str, model: nn.Module) -> None:
    """Put a hook of some kind on a model."""
    first = model.first
    if kind == "forward":
        first.register_forward_hook(lambda m, args, out: record(tuple(out.shape)) and out * 2)
    elif kind == "forward pre":
        first.register_forward_pre_hook(lambda m, args: (record("pre") and args[0] + 1,))
    elif kind == "full backward":
        first.register_full_backward_hook(lambda m, before, after: record([tuple(g.shape) for g in after]) and None)
    elif kind == "tensor of a parameter":
        first.weight.register_hook(lambda g: record(tuple(g.shape)) and g * 3)
    elif kind == "accumulated":
        first.weight.register_post_accumulate_grad_hook(lambda p: record(tuple(p.grad.shape)) and None)


@pytest.mark.parametrize(
    "kind",
    ["forward", "forward pre", "full backward", "tensor of a parameter", "accumulated"],
)
@pytest.mark.parametrize("later", [False, True])
def test_hooks(kind, later, breaks) -> None:
    """Added before the first call, or after it."""
    model = Net(breaks)
    twin = copy.deepcopy(model)
    compiled = segue.compile(twin, backend=Graphs())
    if later:
        compiled(X), model(X)
    hooked(kind, model)
    hooked(kind, twin)
    for _ in range(2):
        logs = []
        for forward in (model, compiled):
            events.clear()
            forward(X).sum().backward()
            logs.append(list(events))
        assert logs[1] == logs[0] != []
        assert_same_state(twin, model)


def test_a_hook_on_a_tensor_inside() -> None:
    def f(x):
        y = torch.sin(x)
        y.register_hook(lambda g: record(tuple(g.shape)) and g * 2)
        return torch.cos(y)

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(2):
        events.clear()
        expected = gradients(f, X)
        torch.testing.assert_close(gradients(compiled, X), expected)
        assert events == [(3, 4), (3, 4)]


def test_a_function_with_its_own_backward() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.tanh(x)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            record(round(grad.sum().item(), 3))
            return 2 * grad * (1 - torch.tanh(x) ** 2)

    def f(x):
        return torch.cos(Doubled.apply(torch.sin(x)))

    assert_same_gradients(f, X)


def test_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    def block(x):
        return torch.tanh(x) * x

    def f(x):
        return torch.cos(checkpoint(block, torch.sin(x), use_reentrant=False))

    assert_same_gradients(f, X)


def test_accumulated_gradients(breaks) -> None:
    model = Net(breaks)
    twin = copy.deepcopy(model)
    compiled = segue.compile(twin, backend=Graphs())
    for _ in range(3):
        model(X).sum().backward()
        compiled(X).sum().backward()
    assert_same_state(twin, model)


# --- random numbers -------------------------------------------------------------------------------


def dropped(x):
    return nn.functional.dropout(x, 0.5) * 3


def dropped_around_a_break(x):
    y = nn.functional.dropout(torch.sin(x), 0.5)
    segue.graph_break()
    return nn.functional.dropout(y, 0.2) + torch.rand_like(y)


def drawn(x):
    return x + torch.randn(3, 4) + torch.rand(4) + torch.randint(0, 9, (3, 1))


def drawn_in_a_loop(x):
    for _ in range(4):
        x = x + torch.randn(4)
        segue.graph_break()
        if torch.rand(()) < 0.5:
            continue
        x = torch.bernoulli(torch.sigmoid(x))
    return x


def filled_in_place(x):
    y = torch.empty_like(x).normal_().add_(x)
    nn.init.uniform_(y[0])
    return y * torch.multinomial(torch.ones(4), 4)


def shuffled(x):
    return x[:, torch.randperm(4)] * torch.randn(1)


def of_its_own_generator(x):
    generator = torch.Generator().manual_seed(3)
    return x + torch.randn(4, generator=generator) + torch.randn(4)


def seeded_inside(x):
    torch.manual_seed(11)
    y = torch.rand_like(x)
    segue.graph_break()
    return y + torch.rand_like(x)


@pytest.mark.parametrize(
    "f",
    [
        dropped,
        dropped_around_a_break,
        drawn,
        drawn_in_a_loop,
        filled_in_place,
        shuffled,
        of_its_own_generator,
        seeded_inside,
    ],
    ids=lambda f: f.__name__,
)
def test_the_same_random_numbers_under_the_same_seed(f) -> None:
    compiled = segue.compile(f, backend=Graphs())
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        expected, following = f(X), torch.rand(3)
        torch.manual_seed(seed)
        assert compiled(X).equal(expected)
        assert torch.rand(3).equal(following)


def test_dropout_in_training(breaks) -> None:
    model = Net(breaks, dropout=0.5)
    twin = copy.deepcopy(model)
    compiled = segue.compile(twin, backend=Graphs())
    for seed in range(3):
        for forward in (model, compiled):
            torch.manual_seed(seed)
            forward(X).sum().backward()
        assert_same_state(twin, model)


def test_random_numbers_of_python() -> None:
    import random

    def f(x):
        y = x * random.random()
        segue.graph_break()
        return torch.sin(y) + random.randint(1, 6)

    compiled = segue.compile(f, backend=Graphs())
    for seed in (1, 2, 3):
        random.seed(seed)
        expected, following = f(X), random.random()
        random.seed(seed)
        torch.testing.assert_close(compiled(X), expected)
        assert random.random() == following
