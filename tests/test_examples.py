"""The example programs are right by themselves, without Segue."""

import inspect

import pytest
import torch
from torch import nn

from examples import digits, gpt, lstm, resnet18

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
    for module in (digits, gpt, lstm, resnet18):
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
