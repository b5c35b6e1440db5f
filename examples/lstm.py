"""An LSTM language model whose cells are written out and stepped through time in a Python loop."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class State(NamedTuple):
    """What a cell carries from one time step to the next."""

    hidden: Tensor
    memory: Tensor


class Cell(nn.Module):
    """One LSTM cell: input, forget, candidate and output gates from one linear map."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.gates = nn.Linear(inputs + width, 4 * width)

    def initial(self, batch: int) -> State:
        zeros = self.gates.weight.new_zeros(batch, self.width)
        return State(zeros, zeros)

    def forward(self, x: Tensor, state: State) -> State:
        i, f, g, o = self.gates(torch.cat([x, state.hidden], dim=1)).chunk(4, dim=1)
        memory = torch.sigmoid(f + 1.0) * state.memory + torch.sigmoid(i) * torch.tanh(g)
        return State(torch.sigmoid(o) * torch.tanh(memory), memory)


class LanguageModel(nn.Module):
    """Predicts the next token from all tokens before it.

    Example:
        model = LanguageModel(vocabulary=50)
        logits, states = model(tokens)  # (batch, time), gives (batch, time, vocabulary)
    """

    def __init__(self, vocabulary: int, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.cells = nn.ModuleList(Cell(width, width) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor, states: list[State] | None = None) -> tuple[Tensor, list[State]]:
        batch, length = tokens.shape
        states = [cell.initial(batch) for cell in self.cells] if states is None else list(states)
        embedded = self.embed(tokens)
        outputs = []
        for time in range(length):
            x = embedded[:, time]
            for layer, cell in enumerate(self.cells):
                states[layer] = cell(x, states[layer])
                x = states[layer].hidden
            outputs.append(self.head(x))
        return torch.stack(outputs, dim=1), states


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    """The mean cross entropy of every token after the first."""
    logits, _ = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
