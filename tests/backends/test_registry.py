"""Backends by name."""

import pytest
import torch

import segue
from segue.backends import registry


@pytest.fixture(autouse=True)
def own_names(monkeypatch) -> None:
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))


def test_a_registered_function_is_a_backend_under_its_name() -> None:
    graphs = []

    @segue.register_backend
    def counting(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    assert "counting" in segue.list_backends()
    double = segue.compile(lambda x: x * 2, backend="counting")
    assert double(torch.ones(2)).tolist() == [2.0, 2.0]
    assert len(graphs) == 1


def test_a_backend_gets_the_graph_and_real_example_inputs() -> None:
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    x = torch.ones(2)
    segue.compile(lambda t: t + 1, backend=backend)(x)
    ((gm, example_inputs),) = seen
    assert isinstance(gm, torch.fx.GraphModule)
    assert len(example_inputs) == 1 and example_inputs[0] is x


def test_a_name_of_ones_choice() -> None:
    class Backend:
        def __call__(self, gm, example_inputs):
            return gm.forward

    segue.register_backend(Backend())
    segue.register_backend(Backend(), name="mine")

    @segue.register_backend(name="yours")
    def plain(gm, example_inputs):
        return gm.forward

    assert {"Backend", "mine", "yours"} <= set(segue.list_backends())
    assert "plain" not in segue.list_backends()
    assert plain.__name__ == "plain"


def test_names_are_listed_in_order() -> None:
    segue.register_backend(lambda gm, example_inputs: gm, name="aaa")
    assert segue.list_backends() == sorted(segue.list_backends())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"backend": 3}, "takes a callable (graph, example inputs) -> callable, not 3"),
        (
            {"backend": registry.eager, "name": 3},
            "register_backend(name=...) takes a name, not 3 (int)",
        ),
        (
            {"backnd": registry.eager},
            "register_backend() has no argument 'backnd'; did you mean 'backend'?",
        ),
    ],
)
def test_what_cannot_be_registered_is_explained(arguments, says) -> None:
    with pytest.raises(TypeError) as refused:
        segue.register_backend(**arguments)
    assert says in str(refused.value)


def test_mode_and_options_go_to_the_backend_as_pytorch_passes_them() -> None:
    given = []

    def backend(gm, example_inputs, **settings):
        given.append(settings)
        return gm.forward

    for settings in (
        {},
        {"mode": "default"},
        {"mode": "max-autotune"},
        {"options": {"level": 3}},
    ):
        segue.compile(lambda x: x + 1, backend=backend, **settings)(torch.ones(2))
    assert given == [{}, {}, {"mode": "max-autotune"}, {"options": {"level": 3}}]


def test_the_eager_backend_ignores_mode_and_options() -> None:
    compiled = segue.compile(lambda x: x + 1, backend="eager", mode="max-autotune")
    assert compiled(torch.ones(1)).item() == 2.0
