"""The example programs are right by themselves, without Segue."""

import inspect

import pytest
import torch
from torch import nn

from examples import digits, gpt, lstm, message_passing, resnet18, vision_blocks, vision_models
from examples.message_passing import Batch, Data, GraphClassifier

TOKENS = torch.arange(24).reshape(2, 12) % 7


def train(model, loss, steps, lr):
    """Minimise `loss()` and return its values."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def test_examples_are_ordinary_user_code() -> None:
    for module in (digits, gpt, lstm, message_passing, resnet18, vision_blocks, vision_models):
        assert "segue" not in inspect.getsource(module).lower()
    assert len(inspect.getsource(gpt).splitlines()) < 150


def test_resnet18_has_the_shape_of_the_original() -> None:
    model = resnet18.resnet18(num_classes=1000)
    assert sum(p.numel() for p in model.parameters()) == 11_689_512
    assert sum(isinstance(m, nn.Conv2d) for m in model.modules()) == 20
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, 1000)


def test_resnet18_learns() -> None:
    model = resnet18.resnet18()
    images, labels = torch.randn(4, 3, 32, 32), torch.arange(4)
    losses = train(model, lambda: nn.functional.cross_entropy(model(images), labels), 6, 1e-3)
    assert losses[-1] < 0.5 * losses[0]


def test_gpt_learns_a_sequence_and_continues_it() -> None:
    model = gpt.GPT(gpt.Config(vocabulary=7, context=16, layers=2))
    assert model.head.weight is model.tokens.weight
    losses = train(model, lambda: model(TOKENS[:, :-1], TOKENS[:, 1:])[1], 60, 3e-3)
    assert losses[-1] < 0.1 * losses[0]
    continued = model.generate(TOKENS[:, :3], 6)
    assert continued.tolist() == TOKENS[:, :9].tolist()


def test_gpt_looks_only_back() -> None:
    model = gpt.GPT(gpt.Config()).eval()
    logits, loss = model(TOKENS)
    changed = TOKENS.clone()
    changed[:, 8:] = 3
    assert loss is None
    assert logits.shape == (2, 12, 96)
    torch.testing.assert_close(model(changed)[0][:, :8], logits[:, :8])


def test_gpt_draws_the_same_tokens_for_the_same_seed() -> None:
    model = gpt.GPT(gpt.Config())
    drawn = []
    for _ in range(2):
        torch.manual_seed(1)
        drawn.append(model.generate(TOKENS, 4, temperature=1.0).tolist())
    assert drawn[0] == drawn[1]


def test_gpt_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="65 tokens do not fit the context of 64"):
        gpt.GPT(gpt.Config())(torch.zeros(1, 65, dtype=torch.long))
    with pytest.raises(ValueError, match="not a multiple"):
        gpt.GPT(gpt.Config(width=10, heads=4))


def test_lstm_learns() -> None:
    model = lstm.LanguageModel(vocabulary=7)
    losses = train(model, lambda: lstm.loss_of(model, TOKENS), 60, 1e-2)
    assert losses[-1] < 0.1 * losses[0]


def test_lstm_state_carries_over() -> None:
    model = lstm.LanguageModel(vocabulary=7)
    whole, _ = model(TOKENS)
    first, states = model(TOKENS[:, :5])
    second, _ = model(TOKENS[:, 5:], states)
    assert whole.shape == (2, 12, 7)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)


def test_lstm_cell_agrees_with_pytorch() -> None:
    cell, reference = lstm.Cell(3, 5), nn.LSTMCell(3, 5)
    with torch.no_grad():
        reference.weight_ih.copy_(cell.gates.weight[:, :3])
        reference.weight_hh.copy_(cell.gates.weight[:, 3:])
        reference.bias_ih.copy_(cell.gates.bias)
        reference.bias_hh.zero_()
        reference.bias_hh[5:10] = 1.0  # the forget gate's head start
    x = torch.randn(4, 3)
    hidden, memory = torch.randn(4, 5), torch.randn(4, 5)
    torch.testing.assert_close(tuple(cell(x, lstm.State(hidden, memory))), reference(x, (hidden, memory)))


def test_digits_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    result = digits.main(epochs=3)
    printed = capsys.readouterr().out
    assert result.accuracy > 0.9
    assert sum(result.losses[-5:]) < 0.5 * sum(result.losses[:5])
    assert len(result.losses) == 3 * 23
    assert printed.count("is skipped") == 3
    assert printed.count("  step ") == 9
    assert result.seconds > 0


def test_digits_compiles_the_functions_it_is_told_to_and_repeats_exactly() -> None:
    compiled = []

    def compile(function):
        compiled.append(function.__name__)
        return function

    first, second = digits.main(compile=compile, epochs=1), digits.main(epochs=1)
    assert compiled == ["train_epoch", "evaluate"]
    assert (first.losses, first.accuracy) == (second.losses, second.accuracy)


# --- vision models --------------------------------------------------------------------------------


@pytest.fixture(params=vision_models.list_models())
def vision(request) -> vision_models.VisionModel:
    return vision_models.create_model(request.param, drop_path=0.0)


def test_vision_models_are_registered_by_name() -> None:
    assert len(vision_models.list_models()) == 7
    assert vision_models.list_models("*net") == ["efficientnet", "repnet"]
    assert isinstance(vision_models.create_model("convnext", classes=3).head, nn.Linear)
    with pytest.raises(ValueError, match=r"unknown model 'vgg'; there are: convnext, efficientnet"):
        vision_models.create_model("vgg")


def test_vision_models_tell_of_their_features(vision) -> None:
    images = torch.randn(2, 3, 32, 32)
    features = vision.eval().features(images)
    assert list(features) == [info.name for info in vision.feature_info]
    for info, y in zip(vision.feature_info, features.values(), strict=True):
        pixels = (32 // info.reduction) ** 2
        assert y.numel() == 2 * info.channels * (pixels + getattr(vision, "prefix", 0))
        assert info.channels in y.shape
    assert vision(images).shape == (2, 10)
    assert torch.equal(vision.forward_head(vision.forward_features(images)), vision(images))
    *_, last = vision.get_intermediate_layers(images, 2)
    assert torch.equal(last, list(features.values())[-1][:, getattr(vision, "prefix", 0) :])


def test_vision_models_learn(vision) -> None:
    images, labels = torch.randn(4, 3, 32, 32), torch.arange(4)
    losses = train(vision, lambda: nn.functional.cross_entropy(vision(images), labels), 12, 1e-2)
    assert losses[-1] < 0.5 * losses[0]


def test_checkpointing_changes_no_gradient(vision) -> None:
    images = torch.randn(2, 3, 32, 32)
    found = []
    for enable in (False, True):
        vision.zero_grad()
        vision.set_checkpointing(enable)(images).square().sum().backward()
        found.append({name: p.grad for name, p in vision.named_parameters()})
    torch.testing.assert_close(found[1], found[0])


def test_drop_path_keeps_the_mean() -> None:
    drop = vision_blocks.DropPath(0.25)
    y = drop(torch.ones(4000, 2, 2))
    assert set(y.unique().tolist()) == {0.0, torch.tensor(4 / 3).item()}
    assert torch.equal(y, y[:, :1, :1].expand_as(y))
    torch.testing.assert_close(y.mean(), torch.tensor(1.0), rtol=0, atol=0.05)
    assert torch.equal(drop.eval()(y), y)


def test_merged_branches_compute_the_same() -> None:
    model = vision_models.create_model("repnet")
    images = torch.randn(8, 3, 32, 32)
    model(images)  # moves the running statistics
    expected = model.eval()(images)
    n_parameters = len(list(model.parameters()))
    assert len(list(model.merge().parameters())) < n_parameters / 3
    torch.testing.assert_close(model(images), expected, rtol=1e-4, atol=1e-4)


def test_windows_are_put_together_again() -> None:
    x = torch.randn(2, 8, 12, 3)
    windows = vision_models.window_partition(x, 4)
    assert windows.shape == (12, 16, 3)
    assert torch.equal(windows[1].view(4, 4, 3), x[0, :4, 4:8])
    assert torch.equal(vision_models.window_reverse(windows, 4, 8, 12), x)


def test_a_shifted_window_does_not_see_across_the_border() -> None:
    model = vision_models.create_model("swin", depths=(2,), widths=(16,), heads=(2,)).eval()
    images = torch.randn(1, 3, 32, 32)
    changed = images.clone()
    changed[..., :2] = 0.0  # the leftmost column of patches
    differ = (model.features(images)["layers.0"] - model.features(changed)["layers.0"]).abs().amax((0, 1, 3)) > 0
    assert differ[:8].any() and not differ[8:].any()


def test_vit_takes_images_of_other_sizes() -> None:
    model = vision_models.create_model("vit").eval()
    (y,) = model.get_intermediate_layers(torch.randn(2, 3, 48, 40), norm=True, reshape=True)
    assert y.shape == (2, 16, 6, 5)
    with pytest.raises(AssertionError, match="32 pixels high and wide"):
        vision_models.create_model("mixer")(torch.randn(2, 3, 48, 40))


# --- message passing ------------------------------------------------------------------------------


@pytest.fixture
def two_graphs() -> list[Data]:
    torch.manual_seed(0)
    return [message_passing.random_graph(4, 9), message_passing.random_graph(6, 15)]


def test_data_is_a_store_of_attributes() -> None:
    data = Data(x=torch.ones(3, 2), edge_index=torch.tensor([[0, 1], [1, 2]]))
    data.y = 5
    data["z"] = torch.zeros(1)
    del data.z
    assert data.keys() == ["x", "edge_index", "y"]
    assert data["y"] == data.y == 5 and "z" not in data
    assert repr(data) == "Data(x=[3, 2], edge_index=[2, 2], y=5)"
    assert (data.num_nodes, Data(edge_index=data.edge_index).num_nodes) == (3, 3)
    assert data.apply(lambda x: x + 1, "x").x.sum() == 12
    with pytest.raises(AttributeError, match="Data has no 'z'; it has: x, edge_index, y"):
        _ = data.z
    with pytest.raises(AttributeError, match="'num_nodes' is computed"):
        data.num_nodes = 1


@pytest.mark.parametrize("layer", message_passing.LAYERS)
def test_a_batch_is_its_graphs(layer, two_graphs) -> None:
    model = GraphClassifier(layer, 5, pools=("sum", "mean", "max")).eval()
    batch = Batch.of(two_graphs)
    assert batch.batch.tolist() == [0] * 4 + [1] * 6
    torch.testing.assert_close(model(batch), torch.cat([model(graph) for graph in two_graphs]))


@pytest.mark.parametrize("layer", message_passing.LAYERS)
def test_the_order_of_edges_does_not_matter(layer, two_graphs) -> None:
    model, (_, graph) = GraphClassifier(layer, 5).eval(), two_graphs
    shuffled = Data(x=graph.x, edge_index=graph.edge_index[:, torch.randperm(15)])
    torch.testing.assert_close(model(shuffled), model(graph))


@pytest.mark.parametrize("layer", message_passing.LAYERS)
def test_graph_classifiers_learn(layer, two_graphs) -> None:
    model, batch, labels = GraphClassifier(layer, 5), Batch.of(two_graphs), torch.tensor([0, 2])
    losses = train(model, lambda: nn.functional.cross_entropy(model(batch), labels), 30, 1e-2)
    assert losses[-1] < 0.5 * losses[0]


def test_gcn_agrees_with_its_formula(two_graphs) -> None:
    layer, graph = message_passing.GCNConv(5, 4), two_graphs[0]
    adjacent = torch.eye(4)
    for source, target in graph.edge_index.T.tolist():
        adjacent[target, source] += 1
    root = torch.diag(adjacent.sum(1) ** -0.5)
    expected = root @ adjacent @ root @ graph.x @ layer.linear.weight.T
    torch.testing.assert_close(layer(graph.x, graph.edge_index), expected)


def test_reductions_agree_with_loops() -> None:
    values, index = torch.randn(9, 2), torch.tensor([0, 2, 2, 0, 3, 3, 3, 0, 2])  # nothing for 1
    functions = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}
    for reduce, function in functions.items():
        found = message_passing.scatter(values, index, 4, reduce)
        for i in range(4):
            rows = values[index == i]
            torch.testing.assert_close(found[i], function(rows, 0) if len(rows) else torch.zeros(2))
    weights = message_passing.softmax(values, index, 4)
    torch.testing.assert_close(message_passing.scatter(weights, index, 4)[[0, 2, 3]], torch.ones(3, 2))
    with pytest.raises(ValueError, match="unknown reduction 'median'"):
        message_passing.scatter(values, index, 4, "median")


def test_a_message_gets_what_it_names(two_graphs) -> None:
    class Differences(message_passing.MessagePassing):
        def message(self, x_i, x_j, scale, edge_index, shift=1.0):
            assert torch.equal(edge_index, graph.edge_index)
            return scale * (x_j - x_i) + shift

    class Wrong(message_passing.MessagePassing):
        def message(self, z_j):
            return z_j

    graph = two_graphs[0]
    found = Differences().propagate(graph.edge_index, x=graph.x, scale=2.0)
    expected = torch.zeros(4, 5)
    for source, target in graph.edge_index.T.tolist():
        expected[target] += 2 * (graph.x[source] - graph.x[target]) + 1
    torch.testing.assert_close(found, expected)
    with pytest.raises(TypeError, match="message of Wrong wants 'z_j', which propagate was not given"):
        Wrong().propagate(graph.edge_index, x=graph.x)
