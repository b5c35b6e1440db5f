"""A small GPT: token and position embeddings, pre-norm transformer blocks, tied output weights."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The sizes of a model."""

    vocabulary: int = 96
    context: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 64
    dropout: float = 0.0


class CausalSelfAttention(nn.Module):
    """Every position attends to itself and to those before it."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        if config.width % config.heads:
            raise ValueError(f"width {config.width} is not a multiple of heads {config.heads}")
        self.heads = config.heads
        self.dropout = config.dropout
        self.project_in = nn.Linear(config.width, 3 * config.width)
        self.project_out = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project_in(x).split(width, dim=2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.project_out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a two-layer perceptron, each on a normalised copy of the stream."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = CausalSelfAttention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only language model.

    Example:
        model = GPT(Config())
        logits, loss = model(tokens, targets)
        longer = model.generate(tokens, 20)
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(self.init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith("project_out.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.layers))

    @staticmethod
    def init_weights(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Give the logits of every next token, and the loss if the targets are known."""
        length = tokens.shape[1]
        if length > self.config.context:
            raise ValueError(f"{length} tokens do not fit the context of {self.config.context}")
        positions = torch.arange(length, device=tokens.device)
        x = self.drop(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float = 0.0) -> Tensor:
        """Append `count` tokens: the likeliest ones, or drawn ones at a temperature above 0."""
        for _ in range(count):
            logits, _ = self(tokens[:, -self.config.context :])
            last = logits[:, -1]
            if temperature == 0.0:
                token = last.argmax(dim=-1, keepdim=True)
            else:
                token = torch.multinomial((last / temperature).softmax(dim=-1), 1)
            tokens = torch.cat([tokens, token], dim=1)
        return tokens
