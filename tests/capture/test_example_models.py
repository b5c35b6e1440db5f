"""The models of `examples/`: eager's outputs, gradients and buffers, one graph, no break."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

import segue
from examples import message_passing, vision_models
from examples.message_passing import Batch, GraphClassifier, random_graph
from tests.graphs import Graphs

IMAGES = (2, 3, 32, 32)
SIZES = (4, 7)


def graphs_of(sizes: tuple[int, ...]) -> Batch:
    return Batch.of([random_graph(nodes, 3 * nodes) for nodes in sizes])


def graph_classifier(layer: str) -> nn.Module:
    return GraphClassifier(layer, 5, width=8, pools=("sum", "mean", "max"))


MODELS: dict[str, tuple[Callable[..., nn.Module], Callable[[], Any]]] = {
    **{
        name: (partial(vision_models.create_model, name), lambda: torch.randn(IMAGES))
        for name in vision_models.list_models()
    },
    **{
        f"graph {name}": (lambda name=name: graph_classifier(name), lambda: graphs_of(SIZES))
        for name in message_passing.LAYERS
    },
}


@pytest.fixture(params=MODELS)
def model(request) -> tuple[nn.Module, Callable[[], Any]]:
    make, inputs = MODELS[request.param]
    return make(), inputs


def seeded(function: Callable[..., Any], *args: Any) -> Any:
    torch.manual_seed(3)
    return function(*args)


def assert_one_graph(function: Callable[..., Any], *args: Any) -> None:
    """The function does eagerly and compiled the same, in one graph that no operation is outside of."""
    expected = function(*args)
    seen = segue.explain(function, backend=Graphs())(*args)
    torch.testing.assert_close(seen.result, expected)
    assert [str(e) for e in seen.breaks] == []
    assert (seen.graph_count, seen.coverage) == (1, 1.0)


def test_in_eval_mode_without_gradients(model) -> None:
    module, inputs = model
    with torch.no_grad():
        assert_one_graph(module.eval(), inputs())


def test_in_training_mode(model) -> None:
    plain, inputs = model
    twin = copy.deepcopy(plain)
    graphs = Graphs()
    compiled = segue.compile(twin, backend=graphs)
    for _ in range(3):
        given, outputs = inputs(), []
        for module in (plain, compiled):
            module.zero_grad()
            outputs.append(seeded(module, given))
            outputs[-1].square().mean().backward()
        torch.testing.assert_close(outputs[1], outputs[0])
        for (name, a), (_, b) in zip(plain.named_parameters(), twin.named_parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None), name
            torch.testing.assert_close(b.grad, a.grad)
        torch.testing.assert_close(twin.state_dict(), plain.state_dict())
    assert (graphs.count, graphs.runs) == (1, 3)


@pytest.mark.parametrize("name", vision_models.list_models())
def test_other_methods_of_vision_models(name) -> None:
    module = vision_models.create_model(name).eval()
    images = torch.randn(IMAGES)
    with torch.no_grad():
        assert_one_graph(module.features, images)
        assert_one_graph(module.get_intermediate_layers, images, (1,))


@pytest.mark.parametrize("name", vision_models.list_models())
def test_checkpointing(name) -> None:
    module = vision_models.create_model(name, drop_path=0.0).set_checkpointing()
    twin, images, graphs = copy.deepcopy(module), torch.randn(IMAGES), Graphs()
    for m in (module, segue.compile(twin, backend=graphs)):
        m(images).square().sum().backward()
    for a, b in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad)
    assert graphs.count == 1


@torch.no_grad()
def test_images_of_other_sizes_and_merged_branches() -> None:
    vit = vision_models.create_model("vit").eval()
    assert_one_graph(vit, torch.randn(2, 3, 48, 40))
    assert_one_graph(lambda x: vit.get_intermediate_layers(x, 2, norm=True, reshape=True), torch.randn(IMAGES))
    assert_one_graph(vision_models.create_model("swin").eval(), torch.randn(2, 3, 48, 64))
    assert_one_graph(vision_models.create_model("repnet").eval().merge(), torch.randn(IMAGES))


def test_graphs_of_other_sizes() -> None:
    module, backend = graph_classifier("gat").eval(), Graphs()
    compiled = segue.compile(module, backend=backend)
    for sizes in ((4, 7), (8, 3), (6, 9), (2, 9)):
        batch = graphs_of(sizes)
        torch.testing.assert_close(compiled(batch), module(batch))
    assert backend.runs == 4
    assert backend.count == 2  # three of the batches have the same number of nodes


def test_graphs_are_joined_in_a_graph() -> None:
    graphs = [random_graph(nodes, 3 * nodes) for nodes in SIZES]
    assert_one_graph(lambda graphs: dict(Batch.of(graphs)), graphs)
