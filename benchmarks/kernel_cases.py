"""The kernels that are timed: plain PyTorch functions, and inputs that fit the L1 cache, the L2 cache, or neither."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

SIZES = ("small", "medium", "large")


@dataclass(frozen=True)
class Case:
    """One function with its inputs.

    Example:
        case = CASES["softmax"]
        case.function(*case.inputs("small"))
    """

    name: str
    function: Callable[..., Any]
    make: Callable[..., tuple[Any, ...]]
    small: tuple[int, ...]
    medium: tuple[int, ...]
    large: tuple[int, ...]
    bandwidth: bool = False
    """Pointwise and bound by memory at the large size: compared with a copy."""
    mutates: bool = False
    """Writes into its inputs: every variant gets its own."""

    def inputs(self, size: str) -> tuple[Any, ...]:
        """The same values at every call."""
        torch.manual_seed(0)
        return self.make(*getattr(self, size))


def tensors_of(value: Any) -> Iterator[Tensor]:
    """The tensors of nested tuples and lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors_of(item)


def bytes_of(value: Any) -> int:
    """The bytes of all tensors of nested tuples and lists."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_of(value))


# Makers of inputs


def one(*shape: int) -> tuple[Tensor]:
    return (torch.randn(shape),)


def two(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(shape), torch.randn(shape)


def three(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(shape), torch.randn(shape), torch.randn(shape)


def with_row(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, columns), torch.randn(columns)


def with_two_rows(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(rows, columns), torch.randn(columns), torch.randn(columns)


def two_with_two_rows(rows: int, columns: int) -> tuple[Tensor, ...]:
    return *two(rows, columns), torch.randn(columns), torch.randn(columns)


def with_mask(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, columns), torch.rand(rows, columns) < 0.7


def rotary_inputs(batch: int, heads: int, length: int, width: int) -> tuple[Tensor, Tensor, Tensor]:
    frequencies = 10000 ** (-torch.arange(0, width, 2) / width)
    angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    return torch.randn(batch, heads, length, width), angles.cos(), angles.sin()


def norm_inputs(channels: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return torch.randn(channels), torch.rand(channels) + 0.5, torch.randn(channels), torch.randn(channels)


def image_with_norm(batch: int, channels: int, height: int, width: int) -> tuple[Tensor, ...]:
    return torch.randn(batch, channels, height, width), *norm_inputs(channels)


def convolution_inputs(batch: int, inputs: int, outputs: int, side: int) -> tuple[Tensor, ...]:
    kernel = torch.randn(outputs, inputs, 3, 3) / math.sqrt(9 * inputs)
    return torch.randn(batch, inputs, side, side), kernel, *norm_inputs(outputs)


def adam_inputs(width: int) -> tuple[list[Tensor], ...]:
    shapes = [(width, width), (width,)] * 5
    params, grads, means = ([torch.randn(shape) for shape in shapes] for _ in range(3))
    return params, grads, means, [torch.rand(shape) for shape in shapes]


def classes(rows: int, count: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, count), torch.randint(count, (rows,))


def token_inputs(vocabulary: int, batch: int, length: int, width: int) -> tuple[Tensor, ...]:
    tokens = torch.randint(vocabulary, (batch, length))
    return tokens, torch.randn(vocabulary, width), torch.randn(length, width), torch.randn(width), torch.randn(width)


def point_sets(first: int, second: int, width: int) -> tuple[Tensor, Tensor]:
    return torch.randn(first, width), torch.randn(second, width)


def integers(rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    a, b = (torch.randint(-1000, 1000, (rows, columns)) for _ in range(2))
    return a, b, torch.randn(rows, columns)


def weight(outputs: int, inputs: int) -> Tensor:
    return torch.randn(outputs, inputs) / math.sqrt(inputs)


def mlp_inputs(rows: int, width: int, hidden: int) -> tuple[Tensor, ...]:
    return (
        torch.randn(rows, width),
        weight(hidden, width),
        torch.randn(hidden),
        weight(width, hidden),
        torch.randn(width),
    )


def attention_inputs(batch: int, length: int, heads: int, width: int) -> tuple[Any, ...]:
    x = torch.randn(batch, length, width)
    return x, torch.randn(width), torch.randn(width), weight(3 * width, width), weight(width, width), heads


# The functions


def relu_sum(x: Tensor, y: Tensor) -> Tensor:
    return torch.relu(x * y + 1).sum()


def multiply_add(x: Tensor, y: Tensor) -> Tensor:
    return x * y + 1


def blend(x: Tensor, y: Tensor, share: Tensor) -> Tensor:
    return x * share + y * (1 - share)


def leaky_clamp(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.1 * x).clamp(max=1.5)


def gelu_erf(x: Tensor) -> Tensor:
    return F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return (scores * 0.125).masked_fill(~mask, -1e9).softmax(-1)


def norm_gelu_sum(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x, x.shape[-1:], weight, bias)).sum(-1)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    return F.gelu(x + bias)


def residual_norm(x: Tensor, residual: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    stream = x + residual
    return stream, F.layer_norm(stream, x.shape[-1:], weight, bias)


def rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def batch_norm_relu(x: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(F.batch_norm(x, mean, variance, weight, bias))


def adam(params: list[Tensor], grads: list[Tensor], means: list[Tensor], squares: list[Tensor]) -> None:
    rate, beta1, beta2, epsilon, step = 1e-3, 0.9, 0.999, 1e-8, 10
    correction1, correction2 = 1 - beta1**step, math.sqrt(1 - beta2**step)
    for param, grad, mean, square in zip(params, grads, means, squares, strict=True):
        mean.mul_(beta1).add_(grad, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        param.addcdiv_(mean, square.sqrt() / correction2 + epsilon, value=-rate / correction1)


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets)


def embedding_norm(tokens: Tensor, table: Tensor, positions: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(F.embedding(tokens, table) + positions, table.shape[-1:], weight, bias)


def column_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(0), x.var(0)


def transpose_add(x: Tensor, y: Tensor) -> Tensor:
    return x.t() + y


def pairwise_distance(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y[None]).square().sum(-1).sqrt()


def argmax(x: Tensor) -> Tensor:
    return x.argmax(-1)


def integer_mix(a: Tensor, b: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    keep = ((a & 3) == 0) | (x > 0.5)
    return torch.where(keep, a * 3 + (b >> 1), a ^ b), keep


def swiglu(x: Tensor) -> Tensor:
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


def mlp(x: Tensor, weight1: Tensor, bias1: Tensor, weight2: Tensor, bias2: Tensor) -> Tensor:
    return F.linear(F.gelu(F.linear(x, weight1, bias1)), weight2, bias2)


def attention(x: Tensor, weight: Tensor, bias: Tensor, project: Tensor, out: Tensor, heads: int) -> Tensor:
    batch, length, width = x.shape
    normed = F.layer_norm(x, (width,), weight, bias)
    parts = F.linear(normed, project).view(batch, length, 3, heads, width // heads)
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return x + F.linear(y.transpose(1, 2).reshape(batch, length, width), out)


def conv_norm_relu(x: Tensor, kernel: Tensor, mean: Tensor, variance: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(F.batch_norm(F.conv2d(x, kernel, padding=1), mean, variance, weight, bias))


def cumulative_loss(prediction: Tensor, target: Tensor) -> Tensor:
    total = prediction.new_zeros(())
    for part, wanted in zip(prediction.chunk(4), target.chunk(4), strict=True):
        total = total + F.mse_loss(part, wanted) + F.l1_loss(part, wanted) + F.smooth_l1_loss(part, wanted)
    return total


_S, _M, _L = (8, 128), (160, 256), (4000, 2000)
"""One tensor of float32: 4 KiB, 160 KiB, 31 MiB."""

CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("multiply_add", multiply_add, two, _S, (100, 256), _L, bandwidth=True),
        Case("blend", blend, three, _S, (80, 256), _L, bandwidth=True),
        Case("leaky_clamp", leaky_clamp, one, _S, _M, _L, bandwidth=True),
        Case("gelu_erf", gelu_erf, one, _S, _M, _L, bandwidth=True),
        Case("gelu_tanh", gelu_tanh, one, _S, _M, _L, bandwidth=True),
        Case("relu_sum", relu_sum, two, _S, _M, _L),
        Case("bias_gelu", bias_gelu, with_row, _S, _M, _L),
        Case("layer_norm", layer_norm, with_two_rows, _S, _M, _L),
        Case("rms_norm", rms_norm, with_row, _S, _M, _L),
        Case("norm_gelu_sum", norm_gelu_sum, with_two_rows, _S, (320, 256), (8000, 2000)),
        Case("residual_norm", residual_norm, two_with_two_rows, (4, 128), (80, 256), _L),
        Case("softmax", softmax, one, _S, _M, _L),
        Case("masked_softmax", masked_softmax, with_mask, _S, (140, 256), _L),
        Case("cross_entropy", cross_entropy, classes, (16, 128), (80, 1000), (500, 32000)),
        Case("embedding_norm", embedding_norm, token_inputs, (16, 2, 8, 64), (256, 2, 64, 160), (15000, 16, 900, 512)),
        Case("rotary", rotary, rotary_inputs, (1, 2, 16, 32), (1, 8, 64, 64), (8, 16, 960, 64)),
        Case("batch_norm_relu", batch_norm_relu, image_with_norm, (1, 8, 8, 16), (2, 32, 25, 25), (16, 64, 88, 88)),
        Case("adam", adam, adam_inputs, (12,), (64,), (1200,), mutates=True),
        Case("column_moments", column_moments, one, (64, 32), (320, 256), (32000, 500)),
        Case("transpose_add", transpose_add, two, (32, 32), (176, 176), (2800, 2800)),
        Case("pairwise_distance", pairwise_distance, point_sets, (16, 24, 32), (128, 160, 64), (512, 512, 64)),
        Case("argmax", argmax, one, (16, 128), (320, 256), (8000, 2000)),
        Case("integer_mix", integer_mix, integers, (4, 64), (50, 256), (2000, 2000)),
        Case("swiglu", swiglu, one, (8, 256), (120, 512), (4000, 4000)),
        Case("mlp", mlp, mlp_inputs, (4, 16, 64), (32, 64, 256), (128, 512, 2048)),
        Case("attention", attention, attention_inputs, (1, 8, 2, 16), (1, 64, 4, 64), (2, 128, 8, 512)),
        Case("conv_norm_relu", conv_norm_relu, convolution_inputs, (1, 4, 8, 8), (1, 32, 32, 32), (2, 64, 64, 56)),
        Case("cumulative_loss", cumulative_loss, two, (16, 64), (160, 256), _L),
    )
}
"""All cases by name."""
