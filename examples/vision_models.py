"""Seven small vision models, written as model libraries write them; `vision_blocks` has what they share.

python examples/vision_models.py      # what is captured of each
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from examples.vision_blocks import (
    ATTENTION,
    Attention,
    Config,
    ConvNormAct,
    DropPath,
    Feature,
    LayerNorm2d,
    LayerScale,
    Mlp,
    RepBlock,
    SqueezeExcite,
    VisionModel,
    create_model,
    list_models,
    register_model,
)

# ---------------------------------------------------------------- ConvNeXt


class ConvNextBlock(nn.Module):
    """A wide depthwise convolution, then a perceptron over the channels."""

    def __init__(self, width: int, drop_path: float) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = Mlp(width, 4 * width)
        self.scale = LayerScale(width, inplace=True)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).permute(0, 2, 3, 1)
        y = self.scale(self.mlp(self.norm(y))).permute(0, 3, 1, 2)
        return x + self.drop_path(y)


class ConvNext(VisionModel):
    """Convolutions in the shape of a transformer."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        rates = config.drop_paths()
        width, reduction = config.widths[0], 4
        self.stem = nn.Sequential(nn.Conv2d(3, width, 4, 4), LayerNorm2d(width))
        self.stages = nn.ModuleList()
        for i, (depth, outputs) in enumerate(zip(config.depths, config.widths, strict=True)):
            layers: list[nn.Module] = []
            if i > 0:
                layers += [LayerNorm2d(width), nn.Conv2d(width, outputs, 2, 2)]
                reduction *= 2
            layers += [ConvNextBlock(outputs, next(rates)) for _ in range(depth)]
            self.stages.append(nn.Sequential(*layers))
            self.feature_info.append(Feature(f"stages.{i}", outputs, reduction))
            width = outputs
        self.norm = LayerNorm2d(width)
        self.make_head(width)


@register_model
def convnext(**settings: Any) -> ConvNext:
    """A ConvNeXt of two stages."""
    return ConvNext(replace(Config(drop_path=0.1), **settings))


# ---------------------------------------------------------------- vision transformer


@dataclass(frozen=True)
class ViTConfig(Config):
    """A vision transformer's sizes; its stages are its blocks, of the first width."""

    depths: tuple[int, ...] = (1, 1, 1)
    patch: int = 8
    heads: int = 2
    registers: int = 2
    normalised_keys: bool = True


class TransformerBlock(nn.Module):
    """Attention, then a perceptron, each scaled and added to the stream."""

    def __init__(self, config: ViTConfig, drop_path: float) -> None:
        super().__init__()
        width = config.widths[0]
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, config.heads, config.normalised_keys)
        self.mlp = Mlp(width, 4 * width, dropout=config.dropout)
        self.scale1, self.scale2 = LayerScale(width), LayerScale(width)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.scale1(self.attention(self.norm1(x))))
        return x + self.drop_path(self.scale2(self.mlp(self.norm2(x))))


class PatchEmbed(nn.Module):
    """Cuts images into patches and puts a class token and registers before them."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        width, self.side = config.widths[0], config.image // config.patch
        self.project = nn.Conv2d(3, width, config.patch, config.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.registers = nn.Parameter(torch.randn(1, config.registers, width) * 0.02) if config.registers else None
        self.positions = nn.Parameter(torch.randn(1, self.side**2, width) * 0.02)

    def positions_for(self, height: int, width: int) -> Tensor:
        """The position embeddings, resampled if the image has another size than in training."""
        if (height, width) == (self.side, self.side):
            return self.positions
        grid = self.positions.reshape(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid.float(), size=(height, width), mode="bicubic", antialias=True)
        return grid.to(self.positions.dtype).flatten(2).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.project(x)
        height, width = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2) + self.positions_for(height, width)
        prefix = [token for token in (self.class_token, self.registers) if token is not None]
        return torch.cat([token.expand(x.shape[0], -1, -1) for token in prefix] + [x], dim=1)


class VisionTransformer(VisionModel):
    """Transformer blocks over patches of the image."""

    def __init__(self, config: ViTConfig) -> None:
        super().__init__(config)
        rates = config.drop_paths()
        self.prefix = 1 + config.registers
        self.stem = PatchEmbed(config)
        self.stages = nn.ModuleList(
            nn.Sequential(*(TransformerBlock(config, next(rates)) for _ in range(depth))) for depth in config.depths
        )
        self.feature_info += [
            Feature(f"blocks.{i}", config.widths[0], config.patch) for i, _ in enumerate(config.depths)
        ]
        self.norm = nn.LayerNorm(config.widths[0])
        self.make_head(config.widths[0])

    def get_intermediate_layers(
        self, x: Tensor, n: int | Sequence[int] = 1, norm: bool = False, reshape: bool = False
    ) -> tuple[Tensor, ...]:
        """As for every model, the patches only; `norm` normalises them, `reshape` makes images of them."""
        height, width = (size // self.config.patch for size in x.shape[-2:])
        layers = super().get_intermediate_layers(x, n)
        found = tuple((self.norm(y) if norm else y)[:, self.prefix :] for y in layers)
        if not reshape:
            return found
        return tuple(y.reshape(-1, height, width, y.shape[-1]).permute(0, 3, 1, 2).contiguous() for y in found)

    def pool(self, x: Tensor) -> Tensor:
        return x[:, 0]


@register_model
def vit(**settings: Any) -> VisionTransformer:
    """A vision transformer with registers and normalised queries and keys."""
    return VisionTransformer(replace(ViTConfig(drop_path=0.1), **settings))


# ---------------------------------------------------------------- inverted residuals


class MBConv(nn.Module):
    """Expands the channels, convolves each by itself, gates them and projects them back."""

    def __init__(
        self, inputs: int, outputs: int, stride: int, expand: int, size: int, attention: str, drop_path: float
    ) -> None:
        super().__init__()
        middle = inputs * expand
        self.shortcut = stride == 1 and inputs == outputs
        self.expand = ConvNormAct(inputs, middle, act=nn.SiLU) if expand != 1 else nn.Identity()
        self.conv = ConvNormAct(middle, middle, size, stride, groups=middle, act=nn.SiLU)
        self.attention = ATTENTION[attention](middle)
        self.project = ConvNormAct(middle, outputs, act=None)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(self.attention(self.conv(self.expand(x))))
        return x + self.drop_path(y) if self.shortcut else y


def decode_blocks(text: str) -> Iterator[dict[str, Any]]:
    """Read a stage's description such as "n2 k5 s2 e4 eca": two blocks of kernel 5, stride 2, expansion 4."""
    settings: dict[str, Any] = {"attention": "", "size": 3, "stride": 1, "expand": 1}
    names, count = {"k": "size", "s": "stride", "e": "expand"}, 1
    for word in text.split():
        if word in ATTENTION:
            settings["attention"] = word
        elif word.startswith("n"):
            count = int(word[1:])
        else:
            settings[names[word[0]]] = int(word[1:])
    for i in range(count):
        yield settings | ({"stride": 1} if i else {})


class EfficientNet(VisionModel):
    """Inverted residual blocks; one line of text describes a stage."""

    def __init__(self, config: Config, stages: Sequence[str]) -> None:
        super().__init__(config)
        rates = config.drop_paths()
        width, reduction = 8, 2
        self.stem = ConvNormAct(3, width, 3, 2, act=nn.SiLU)
        self.stages = nn.ModuleList()
        for i, (text, outputs) in enumerate(zip(stages, config.widths, strict=True)):
            blocks = []
            for settings in decode_blocks(text):
                blocks.append(MBConv(width, outputs, **settings, drop_path=next(rates)))
                reduction *= settings["stride"]
                width = outputs
            self.stages.append(nn.Sequential(*blocks))
            self.feature_info.append(Feature(f"blocks.{i}", width, reduction))
        self.norm = ConvNormAct(width, 2 * width, act=nn.SiLU)
        self.make_head(2 * width)


@register_model
def efficientnet(**settings: Any) -> EfficientNet:
    """Three stages: with squeeze-and-excitation, with efficient channel attention, with neither."""
    config = Config(depths=(1, 2, 2), widths=(8, 16, 24), drop_path=0.1)
    return EfficientNet(replace(config, **settings), ["n1 se", "n2 k5 s2 e4 eca", "n2 s2 e4"])


# ---------------------------------------------------------------- mixer


@dataclass(frozen=True)
class MixerConfig(Config):
    """A mixer's sizes; its stages are of the first width."""

    patch: int = 8
    ratios: tuple[float, float] = (0.5, 4.0)


class MixerBlock(nn.Module):
    """A perceptron over the patches, then one over the channels."""

    def __init__(self, patches: int, width: int, ratios: tuple[float, float], drop_path: float) -> None:
        super().__init__()
        hidden = [int(width * ratio) for ratio in ratios]
        norm = partial(nn.LayerNorm, eps=1e-6)
        self.norm1, self.norm2 = norm(width), norm(width)
        self.tokens, self.channels = Mlp(patches, hidden[0]), Mlp(width, hidden[1])
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.tokens(self.norm1(x).mT).mT)
        return x + self.drop_path(self.channels(self.norm2(x)))


class Mixer(VisionModel):
    """Perceptrons only."""

    def __init__(self, config: MixerConfig) -> None:
        super().__init__(config)
        rates, width = config.drop_paths(), config.widths[0]
        patches = (config.image // config.patch) ** 2
        project = nn.Conv2d(3, width, config.patch, config.patch)
        self.stem = nn.Sequential(project, nn.Flatten(2), nn.Unflatten(2, (patches, 1)), nn.Flatten(2))
        self.stages = nn.ModuleList()
        for i, depth in enumerate(config.depths):
            blocks = (MixerBlock(patches, width, config.ratios, next(rates)) for _ in range(depth))
            self.stages.append(nn.Sequential(*blocks))
            self.feature_info.append(Feature(f"blocks.{i}", width, config.patch))
        self.norm = nn.LayerNorm(width)
        self.make_head(width)

    def outputs(self, x: Tensor) -> Iterator[Tensor]:
        size = self.config.image
        torch._assert(x.shape[-2:] == (size, size), f"images must be {size} pixels high and wide")
        yield from super().outputs(x)

    def pool(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


@register_model
def mixer(**settings: Any) -> Mixer:
    """An MLP-Mixer."""
    return Mixer(replace(MixerConfig(drop_path=0.1), **settings))


# ---------------------------------------------------------------- residual network


class Bottleneck(nn.Module):
    """A grouped convolution between two small ones, gated; the shortcut averages before it changes channels."""

    def __init__(self, inputs: int, outputs: int, stride: int, groups: int, drop_path: float) -> None:
        super().__init__()
        middle = outputs // 2
        self.conv1 = ConvNormAct(inputs, middle)
        self.conv2 = ConvNormAct(middle, middle, 3, stride, groups)
        self.conv3 = ConvNormAct(middle, outputs, act=None)
        self.attention = SqueezeExcite(outputs)
        self.drop_path = DropPath(drop_path)
        self.act = nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            pool = nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False) if stride > 1 else nn.Identity()
            self.shortcut = nn.Sequential(pool, ConvNormAct(inputs, outputs, act=None))
        nn.init.zeros_(self.conv3[1].weight)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for layer in (self.conv1, self.conv2, self.conv3, self.attention, self.drop_path):
            y = layer(y)
        y += x if self.shortcut is None else self.shortcut(x)
        return self.act(y)


class ResNeXt(VisionModel):
    """Bottlenecks after a stem of three convolutions."""

    def __init__(self, config: Config, groups: int = 4) -> None:
        super().__init__(config)
        rates, width = config.drop_paths(), config.widths[0]
        convolutions = (ConvNormAct(i, o, 3, s) for i, o, s in ((3, 8, 2), (8, 8, 1), (8, width, 1)))
        self.stem = nn.Sequential(*convolutions, nn.MaxPool2d(3, 2, padding=1))
        self.stages = nn.ModuleList()
        for i, (depth, outputs) in enumerate(zip(config.depths, config.widths, strict=True)):
            blocks = nn.Sequential()
            for j in range(depth):
                stride = 2 if i > 0 and j == 0 else 1
                blocks.add_module(f"block{j}", Bottleneck(width, outputs, stride, groups, next(rates)))
                width = outputs
            self.stages.append(blocks)
            self.feature_info.append(Feature(f"layer{i + 1}", outputs, 4 * 2**i))
        self.norm = nn.Identity()
        self.make_head(width)


@register_model
def resnext(**settings: Any) -> ResNeXt:
    """A ResNeXt with the stem and the shortcuts of ResNet-D and squeeze-and-excitation."""
    return ResNeXt(replace(Config(drop_path=0.1), **settings))


# ---------------------------------------------------------------- shifted windows


@dataclass(frozen=True)
class SwinConfig(Config):
    """The sizes of a transformer over windows."""

    depths: tuple[int, ...] = (2, 2)
    patch: int = 2
    window: int = 4
    heads: tuple[int, ...] = (2, 4)


def window_partition(x: Tensor, size: int) -> Tensor:
    """Cut (batch, height, width, channels) into windows: (batch * windows, size * size, channels)."""
    batch, height, width, channels = x.shape
    x = x.view(batch, height // size, size, width // size, size, channels)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)


def window_reverse(windows: Tensor, size: int, height: int, width: int) -> Tensor:
    """Put windows together again."""
    x = windows.view(-1, height // size, width // size, size, size, windows.shape[-1])
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, height, width, windows.shape[-1])


class WindowAttention(Attention):
    """Attention in a window, with a learned bias for each pair of relative positions."""

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__(width, heads)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None, :] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1], persistent=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        bias = self.bias[self.index.view(-1)].view(*self.index.shape, -1).permute(2, 0, 1).unsqueeze(0)
        if mask is not None:
            bias = bias + mask.repeat(x.shape[0] // mask.shape[0], 1, 1).unsqueeze(1)
        return super().forward(x, bias)


class WindowBlock(nn.Module):
    """Attention in windows, shifted by half a window in every other block, then a perceptron."""

    def __init__(self, width: int, heads: int, window: int, shift: int, drop_path: float) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = WindowAttention(width, heads, window)
        self.mlp = Mlp(width, 2 * width)
        self.drop_path = DropPath(drop_path)

    def mask(self, x: Tensor) -> Tensor | None:
        """What a shifted window must not see: what comes from the other side of the image."""
        if not self.shift:
            return None
        _, height, width, _ = x.shape
        region = torch.zeros(1, height, width, 1, device=x.device)
        cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        number = 0
        for rows in cuts:
            for columns in cuts:
                region[:, rows, columns] = number
                number += 1
        numbers = window_partition(region, self.window).squeeze(-1)
        differ = numbers[:, :, None] != numbers[:, None, :]
        return torch.zeros_like(differ, dtype=x.dtype).masked_fill_(differ, -100.0)

    def attend(self, x: Tensor) -> Tensor:
        _, height, width, _ = x.shape
        if self.shift:
            x = torch.roll(x, shifts=(-self.shift, -self.shift), dims=(1, 2))
        y = self.attention(window_partition(x, self.window), self.mask(x))
        y = window_reverse(y, self.window, height, width)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.attend(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class PatchMerging(nn.Module):
    """Joins each 2 x 2 patches."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * inputs)
        self.reduce = nn.Linear(4 * inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x[:, i::2, j::2] for j in range(2) for i in range(2)]
        return self.reduce(self.norm(torch.cat(parts, dim=-1)))


class Swin(VisionModel):
    """A transformer over shifted windows; its features have their channels last."""

    def __init__(self, config: SwinConfig) -> None:
        super().__init__(config)
        rates, width = config.drop_paths(), config.widths[0]
        self.stem = nn.Conv2d(3, width, config.patch, config.patch)
        self.stages = nn.ModuleList()
        for i, (depth, outputs, heads) in enumerate(zip(config.depths, config.widths, config.heads, strict=True)):
            merge = [PatchMerging(width, outputs)] if i else []
            shifts = (j % 2 * (config.window // 2) for j in range(depth))
            blocks = (WindowBlock(outputs, heads, config.window, shift, next(rates)) for shift in shifts)
            self.stages.append(nn.Sequential(*merge, *blocks))
            self.feature_info.append(Feature(f"layers.{i}", outputs, config.patch * 2**i))
            width = outputs
        self.norm = nn.LayerNorm(width)
        self.make_head(width)

    def outputs(self, x: Tensor) -> Iterator[Tensor]:
        x = self.stem(x).permute(0, 2, 3, 1)
        for stage in self.stages:
            x = self.run_stage(stage, x)
            yield x

    def pool(self, x: Tensor) -> Tensor:
        return x.mean(dim=(1, 2))


@register_model
def swin(**settings: Any) -> Swin:
    """A Swin transformer of two stages."""
    return Swin(replace(SwinConfig(drop_path=0.1), **settings))


# ---------------------------------------------------------------- branches that become one convolution


class RepNet(VisionModel):
    """Depthwise and pointwise blocks of branches."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        width = 8
        self.stem = RepBlock(3, width, 2)
        self.stages = nn.ModuleList()
        for i, (depth, outputs) in enumerate(zip(config.depths, config.widths, strict=True)):
            blocks: list[nn.Module] = []
            for j in range(depth):
                blocks += [RepBlock(width, width, 1 if j else 2, groups=width), RepBlock(width, outputs)]
                width = outputs
            self.stages.append(nn.Sequential(*blocks))
            self.feature_info.append(Feature(f"stage{i}", outputs, 4 * 2**i))
        self.norm = nn.Identity()
        self.make_head(width)

    def merge(self) -> RepNet:
        """Make one convolution of each block, in place."""
        for module in list(self.modules()):
            if isinstance(module, RepBlock):
                module.merge()
        return self


@register_model
def repnet(**settings: Any) -> RepNet:
    """A network of re-parameterisable blocks, as MobileOne and RepVGG have them."""
    return RepNet(replace(Config(), **settings))


if __name__ == "__main__":
    from examples.table import show

    torch.manual_seed(0)
    show({name: (create_model(name), (torch.randn(2, 3, 32, 32),)) for name in list_models()})
