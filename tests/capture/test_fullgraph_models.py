"""Whole models under `fullgraph=True`: one graph each, outputs and gradients as eager."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

import segue
from examples import gpt, lstm, resnet18
from tests.graphs import Graphs

TOKENS = torch.arange(16).reshape(2, 8) % 7


@dataclass(frozen=True)
class Model:
    """A model with its inputs and the tensors of its output."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Any, ...]]
    outputs: Callable[[Any], list[torch.Tensor]]


def transformer(dropout: float = 0.0, **settings: Any) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, dropout=dropout, batch_first=True, **settings)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def with_losses(result: tuple[torch.Tensor, torch.Tensor | None]) -> list[torch.Tensor]:
    logits, loss = result
    return [logits] if loss is None else [logits, loss]


MODELS = {
    "transformer": Model(transformer, lambda: (torch.randn(2, 5, 16),), lambda y: [y]),
    "transformer with all defaults": Model(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 4),
        lambda: (torch.randn(5, 2, 16),),
        lambda y: [y],
    ),
    "transformer, norm first, gelu": Model(
        lambda: transformer(norm_first=True, activation="gelu"),
        lambda: (torch.randn(2, 5, 16),),
        lambda y: [y],
    ),
    "transformer with dropout": Model(lambda: transformer(0.1), lambda: (torch.randn(2, 5, 16),), lambda y: [y]),
    "lstm": Model(
        lambda: lstm.LanguageModel(7, width=8),
        lambda: (TOKENS,),
        lambda y: [y[0], *(t for state in y[1] for t in state)],
    ),
    "resnet18": Model(resnet18.resnet18, lambda: (torch.randn(2, 3, 32, 32),), lambda y: [y]),
    "gpt": Model(
        lambda: gpt.GPT(gpt.Config(vocabulary=7, context=16, width=16, heads=2)),
        lambda: (TOKENS,),
        with_losses,
    ),
    "gpt with targets and dropout": Model(
        lambda: gpt.GPT(gpt.Config(vocabulary=7, context=16, width=16, heads=2, dropout=0.1)),
        lambda: (TOKENS, TOKENS.roll(1, 1)),
        with_losses,
    ),
}


@pytest.fixture(params=MODELS)
def model(request) -> Model:
    return MODELS[request.param]


def seeded(function: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(3)
    return function(*args)


def states(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def test_the_encoder_has_four_layers_and_the_gpt_few_lines() -> None:
    assert len(transformer().layers) == 4
    with open(gpt.__file__) as source:
        assert len(source.readlines()) < 150


@pytest.mark.parametrize("grad", [True, False], ids=["grad", "no_grad"])
def test_in_eval_mode(model, grad) -> None:
    plain = model.make().eval()
    graphs = Graphs()
    compiled = segue.compile(plain, backend=graphs, fullgraph=True)
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            inputs = model.inputs()
            expected, got = plain(*inputs), compiled(*inputs)
            assert type(got) is type(expected)
            torch.testing.assert_close(model.outputs(got), model.outputs(expected), rtol=1e-5, atol=1e-6)
    assert graphs.count == 1
    assert graphs.runs == 3


def test_in_training_mode(model) -> None:
    plain = model.make().train()
    twin = copy.deepcopy(plain)
    graphs = Graphs()
    compiled = segue.compile(twin, backend=graphs, fullgraph=True)
    for _ in range(3):
        inputs = model.inputs()
        outputs = []
        for module in (plain, compiled):
            module.zero_grad()
            found = model.outputs(seeded(module, *inputs))
            sum(t.float().square().mean() for t in found).backward()
            outputs.append(found)
        torch.testing.assert_close(outputs[1], outputs[0])
        for (name, a), (_, b) in zip(plain.named_parameters(), twin.named_parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None), name
            torch.testing.assert_close(b.grad, a.grad)
        torch.testing.assert_close(states(twin), states(plain))
    assert graphs.count == 1
    assert graphs.runs == 3


def test_train_and_eval_are_a_graph_each(model) -> None:
    module = model.make()
    graphs = Graphs()
    compiled = segue.compile(module, backend=graphs, fullgraph=True)
    inputs = model.inputs()
    for mode in (True, False, True, False):
        compiled.train(mode)
        seeded(compiled, *inputs)
    assert graphs.count <= 2
    assert graphs.runs == 4


def test_losses_of_a_training_loop_are_eagers() -> None:
    losses = []
    for compile in (lambda f: f, lambda f: segue.compile(f, backend=Graphs(), fullgraph=True)):
        torch.manual_seed(0)
        module = gpt.GPT(gpt.Config(vocabulary=7, context=16, width=16, heads=2, layers=2))
        forward = compile(module)
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        found = []
        for _ in range(5):
            optimizer.zero_grad()
            _, loss = forward(TOKENS[:, :-1], TOKENS[:, 1:])
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        losses.append(found)
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]


def test_generate_through_a_compiled_gpt_uses_the_compiled_forward() -> None:
    module = gpt.GPT(gpt.Config(vocabulary=7, context=16, width=16, heads=2, layers=2)).eval()
    graphs = Graphs()
    compiled = segue.compile(module, backend=graphs)
    assert compiled.generate(TOKENS[:, :3], 4).equal(module.generate(TOKENS[:, :3], 4))
    assert graphs.runs >= 4
