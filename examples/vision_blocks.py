"""What the models of `vision_models` share: a registry, configurations, blocks, and the methods that all have."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Build = TypeVar("Build", bound=Callable[..., "VisionModel"])
BUILDERS: dict[str, Callable[..., VisionModel]] = {}


def register_model(build: Build) -> Build:
    """Let `create_model` find a builder by its name."""
    BUILDERS[build.__name__] = build
    return build


def list_models(pattern: str = "*") -> list[str]:
    """The names of the registered models that match a pattern."""
    return sorted(fnmatch.filter(BUILDERS, pattern))


def create_model(name: str, **settings: Any) -> VisionModel:
    """Build a registered model with random weights; the settings replace those of its configuration.

    Example:
        model = create_model("convnext", classes=100, drop_path=0.1)
    """
    if name not in BUILDERS:
        raise ValueError(f"unknown model {name!r}; there are: {', '.join(list_models())}")
    return BUILDERS[name](**settings)


@dataclass(frozen=True)
class Config:
    """What every model has."""

    classes: int = 10
    image: int = 32
    depths: tuple[int, ...] = (1, 2)
    widths: tuple[int, ...] = (16, 32)
    dropout: float = 0.0
    drop_path: float = 0.0

    def drop_paths(self) -> Iterator[float]:
        """The rates of stochastic depth, block by block, growing from 0 to `drop_path`."""
        yield from torch.linspace(0, self.drop_path, sum(self.depths)).tolist()


@dataclass(frozen=True)
class Feature:
    """Describes what a stage gives: its name, channels, and how many pixels of the image one of its pixels spans."""

    name: str
    channels: int
    reduction: int


# ---------------------------------------------------------------- shared blocks


class DropPath(nn.Module):
    """Drops a whole residual branch for some samples of a batch while training."""

    def __init__(self, rate: float = 0.0) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if self.rate == 0.0 or not self.training:
            return x
        kept = 1 - self.rate
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        mask = x.new_empty(shape).bernoulli_(kept)
        if kept > 0.0:
            mask.div_(kept)
        return x * mask

    def extra_repr(self) -> str:
        return f"rate={self.rate:.3f}"


class LayerScale(nn.Module):
    """A learned factor for each channel, the last dimension."""

    def __init__(self, width: int, start: float = 0.1, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
        self.gamma = nn.Parameter(start * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return x.mul_(self.gamma) if self.inplace else x * self.gamma


class LayerNorm2d(nn.LayerNorm):
    """Layer normalisation over the channels of images."""

    def forward(self, x: Tensor) -> Tensor:
        x = F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class SqueezeExcite(nn.Module):
    """Gates channels by what is in the whole image."""

    def __init__(self, width: int, ratio: float = 0.25, act: type[nn.Module] = nn.ReLU) -> None:
        super().__init__()
        squeezed = max(1, round(width * ratio))
        self.reduce = nn.Conv2d(width, squeezed, 1)
        self.act = act()
        self.expand = nn.Conv2d(squeezed, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = x.mean((2, 3), keepdim=True)
        return x * self.expand(self.act(self.reduce(pooled))).sigmoid()


class EfficientChannelAttention(nn.Module):
    """Gates channels by their neighbours; more channels look further."""

    def __init__(self, width: int) -> None:
        super().__init__()
        size = int(abs(math.log2(width) + 1) / 2) | 1
        self.conv = nn.Conv1d(1, 1, size, padding=size // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.conv(x.mean((2, 3)).unsqueeze(1)).sigmoid()
        return x * gate.view(x.shape[0], -1, 1, 1).expand_as(x)


ATTENTION: dict[str, Callable[[int], nn.Module]] = {
    "se": SqueezeExcite,
    "eca": EfficientChannelAttention,
    "": lambda width: nn.Identity(),
}


class ConvNormAct(nn.Sequential):
    """A convolution without bias, batch normalisation and an activation; `act=None` leaves the last out."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int = 1,
        stride: int = 1,
        groups: int = 1,
        act: Callable[[], nn.Module] | None = nn.ReLU,
    ) -> None:
        layers = [
            nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([] if act is None else [act()]))


class Mlp(nn.Module):
    """Two linear layers, here also over other dimensions than the last."""

    def __init__(self, width: int, hidden: int, act: Callable[[], nn.Module] = nn.GELU, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.act = act()
        self.drop = nn.Dropout(dropout)
        self.fc2 = nn.Linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(self.act(self.fc1(x)))))


class Attention(nn.Module):
    """Self-attention with optional normalisation of queries and keys."""

    def __init__(self, width: int, heads: int, normalised_keys: bool = False) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width {width} is not a multiple of heads {heads}")
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        norm = nn.LayerNorm if normalised_keys else nn.Identity
        self.q_norm, self.k_norm = norm(width // heads), norm(width // heads)
        self.project = nn.Linear(width, width)

    def forward(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(self.q_norm(q), self.k_norm(k), v, attn_mask=bias)
        return self.project(y.transpose(1, 2).reshape(batch, length, width))


class RepBlock(nn.Module):
    """Parallel 3x3 and 1x1 convolutions and the identity, each normalised; `merge` makes one convolution of them."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, groups: int = 1, copies: int = 2) -> None:
        super().__init__()
        self.shape = (inputs, outputs, stride, groups)
        convolution = partial(ConvNormAct, inputs, outputs, stride=stride, groups=groups, act=None)
        self.branches = nn.ModuleList([convolution(3) for _ in range(copies)] + [convolution(1)])
        self.identity = nn.BatchNorm2d(inputs) if inputs == outputs and stride == 1 else None
        self.merged: nn.Conv2d | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.merged is not None:
            return F.relu(self.merged(x))
        y = 0 if self.identity is None else self.identity(x)
        return F.relu(sum((branch(x) for branch in self.branches), y))

    def merge(self) -> None:
        """Replace the branches by the convolution that computes the same in eval mode."""
        if self.merged is not None:
            return
        inputs, outputs, stride, groups = self.shape
        self.merged = nn.Conv2d(inputs, outputs, 3, stride, padding=1, groups=groups)
        parts = [self.folded(conv.weight, norm) for conv, norm in self.branches]
        if self.identity is not None:
            unit = torch.eye(inputs // groups).repeat(groups, 1)[..., None, None]
            parts.append(self.folded(unit, self.identity))
        with torch.no_grad():
            for parameter, terms in zip((self.merged.weight, self.merged.bias), zip(*parts, strict=True), strict=True):
                parameter.copy_(sum(terms))
        del self.branches
        self.identity = None

    @staticmethod
    def folded(kernel: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
        """A 3x3 kernel and a bias that do what a kernel without bias and the normalisation after it do."""
        scale = norm.weight / (norm.running_var + norm.eps).sqrt()
        border = (3 - kernel.shape[-1]) // 2
        return F.pad(kernel * scale.view(-1, 1, 1, 1), [border] * 4), norm.bias - norm.running_mean * scale


def checkpoint_seq(blocks: Sequence[nn.Module], x: Tensor, every: int = 1) -> Tensor:
    """Run blocks one after the other and keep only one result in so many for the backward pass."""

    def run(start: int, end: int) -> Callable[[Tensor], Tensor]:
        def forward(y: Tensor) -> Tensor:
            for block in blocks[start:end]:
                y = block(y)
            return y

        return forward

    for start in range(0, len(blocks), every):
        x = checkpoint(run(start, start + every), x, use_reentrant=False)
    return x


class VisionModel(nn.Module):
    """A stem, stages and a head.

    Subclasses set `stem`, `stages` and `norm`, and call `make_head`; `feature_info` tells what the stages give.
    """

    stem: nn.Module
    stages: nn.ModuleList
    norm: nn.Module

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.feature_info: list[Feature] = []
        self.checkpointing = False

    def make_head(self, width: int) -> None:
        """Add the head, and give the weights their start values."""
        self.head_drop = nn.Dropout(self.config.dropout)
        self.head = nn.Linear(width, self.config.classes) if self.config.classes else nn.Identity()
        self.apply(self._start)

    @staticmethod
    def _start(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            nn.init.trunc_normal_(module.weight, std=0.1)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

    def set_checkpointing(self, enable: bool = True) -> VisionModel:
        """Save memory in training: keep few results, and compute the others again."""
        self.checkpointing = enable
        return self

    def run_stage(self, stage: nn.Module, x: Tensor) -> Tensor:
        if self.checkpointing and self.training and isinstance(stage, nn.Sequential):
            return checkpoint_seq(list(stage), x, every=2)
        return stage(x)

    def outputs(self, x: Tensor) -> Iterator[Tensor]:
        """What each stage gives, in order."""
        x = self.stem(x)
        for stage in self.stages:
            x = self.run_stage(stage, x)
            yield x

    def features(self, x: Tensor) -> dict[str, Tensor]:
        """What each stage gives, by its name."""
        return {info.name: y for info, y in zip(self.feature_info, self.outputs(x), strict=True)}

    def get_intermediate_layers(self, x: Tensor, n: int | Sequence[int] = 1) -> tuple[Tensor, ...]:
        """What the last `n` stages give, or those with the given numbers."""
        wanted = set(range(len(self.stages) - n, len(self.stages)) if isinstance(n, int) else n)
        return tuple(y for i, y in enumerate(self.outputs(x)) if i in wanted)

    def forward_features(self, x: Tensor) -> Tensor:
        """All but the head."""
        *_, last = self.outputs(x)
        return self.norm(last)

    def pool(self, x: Tensor) -> Tensor:
        """One vector for each image."""
        return x.mean((2, 3))

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Pool and classify, or only pool."""
        x = self.head_drop(self.pool(x))
        return x if pre_logits else self.head(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(x))
