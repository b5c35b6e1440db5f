"""One model of the zoo, and the small inputs that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import Tensor, nn

BATCH, LENGTH, VOCABULARY, SIDE = 2, 8, 100, 32
SAMPLES = 1600
"""A tenth of a second of sound at 16 kHz."""

Inputs = dict[str, Any]
Settings = dict[str, Any]

TOWERS: Settings = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
}
"""An encoder and a decoder, small."""


@dataclass(frozen=True)
class Entry:
    """A model class with a configuration that makes it small.

    Attributes:
        name: what it is called on the command line.
        family: the part of the zoo it stands in.
        class_name: its class in `transformers`.
        settings: what its configuration is given; a function if parts of it are configurations themselves.
        inputs: makes the keyword arguments of `forward` for a configuration.
        generates: whether it has a `generate` worth running.
        static_cache: whether `generate` takes `cache_implementation="static"`.
    """

    name: str
    family: str
    class_name: str
    settings: Settings | Callable[[], Settings]
    inputs: Callable[[Any], Inputs]
    generates: bool = False
    static_cache: bool = True

    def make(self) -> tuple[nn.Module, Inputs]:
        """The model with random weights, in evaluation mode, and arguments for its `forward`; the same every time."""
        torch.manual_seed(0)
        model_class = getattr(transformers, self.class_name)
        settings = self.settings() if callable(self.settings) else self.settings
        config = model_class.config_class(**settings)
        model = model_class(config).eval()
        return model, self.inputs(config)


def token_ids(length: int = LENGTH, start: int = 5) -> Tensor:
    """Tokens, none of them a special one."""
    return torch.randint(start, VOCABULARY - 5, (BATCH, length))


def tokens(_: Any) -> Inputs:
    """Tokens with a mask, as a tokenizer gives them."""
    ids = token_ids()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def tokens_alone(_: Any) -> Inputs:
    """Tokens for models without attention."""
    return {"input_ids": token_ids()}


def two_texts(_: Any) -> Inputs:
    """Tokens for an encoder and for a decoder."""
    ids = token_ids()
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "decoder_input_ids": token_ids(6)}


def images(config: Any) -> Inputs:
    """Images of the size and the number of channels that the configuration asks for."""
    side = getattr(config, "image_size", None) or SIDE
    height, width = side if isinstance(side, (list, tuple)) else (side, side)
    return {"pixel_values": torch.randn(BATCH, getattr(config, "num_channels", 3), height, width)}


def sound(_: Any) -> Inputs:
    """Raw sound."""
    return {"input_values": torch.randn(BATCH, SAMPLES)}
