"""Recordings replayed on real memory give, to the last bit, what the captured graph gives."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from examples.gpt import GPT, Config
from examples.lstm import LanguageModel
from examples.resnet18 import resnet18
from tests.replay import check_replay, names, recorded

torch.manual_seed(0)
ROW, SQUARE, BATCH, IMAGE = (torch.randn(s) for s in ((3, 4), (4, 4), (2, 8, 4), (2, 3, 8, 8)))
HEADS = torch.randn(2, 4, 8, 16)
INDEX = torch.tensor([0, 2, 1, 3])
WEIGHT = torch.randn(4, 6)
LINEAR, CONV, EMBED = nn.Linear(4, 5), nn.Conv2d(3, 4, 3, padding=1), nn.Embedding(10, 6)
LSTM_CELL, GRU_CELL = nn.LSTMCell(4, 5), nn.GRUCell(4, 5)
EVALUATED, TRAINED = nn.BatchNorm1d(8).eval(), nn.BatchNorm1d(8)
ATTENTION = nn.MultiheadAttention(8, 2, batch_first=True).eval()
ENCODER = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)


def transposed_in_place(x):
    y = x.clone()
    y.t_()
    y.unsqueeze_(0)
    y.add_(1)
    return y, y.squeeze(0)


def written_through_view(x):
    y = x[1]
    y.mul_(2)
    x[0].add_(y)
    return y


def given_memory(x):
    doubled, total = torch.empty(3, 4), torch.empty(3)
    torch.add(x, x, out=doubled)
    torch.sum(doubled, 1, out=total)
    return doubled, total


def written_constants(x):
    t = torch.tensor([1.0, 2.0, 3.0, 4.0])
    t.add_(x[0])
    return t, torch.tensor(3), x * torch.tensor(2.0), torch.arange(4) * x, torch.eye(3)


def written_by_index(x, i, v):
    y, z = x.clone(), x.clone()
    y[i] = v
    y[0] = 1.0
    y[:, 1] += 2
    y[i, i] = 0.0
    z.index_put_((i,), v, accumulate=True)
    z.scatter_add_(0, i[None].expand(4, 4), v)
    z.index_add_(0, i, v)
    z.masked_fill_(v > 0, 3.0)
    z[v < 0] = 5.0
    return y, z, x.scatter(1, i[:, None], 9.0), x.masked_fill(v > 0, torch.tensor(2.0)), torch.where(v > 0, x, 0.0)


def cast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return LINEAR(x) + 1, x @ WEIGHT


def lists_in_place(x, y):
    torch._foreach_mul_([x, y], 2.0)
    return x + y


def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y + 1


CASES = {
    "linear": (lambda x: (LINEAR(x), LINEAR(x[0]), LINEAR(x.transpose(0, 1))), BATCH),
    "matmul": (lambda x, w: (x @ w, x.transpose(0, 1) @ w, x @ x.mT, x @ w[:, 0], w[:, 0] @ w[:, 1]), BATCH, WEIGHT),
    "einsum": (lambda x, y: (torch.einsum("bij,bkj->bik", x, x), torch.einsum("bij,jk->ik", x, y)), BATCH, WEIGHT),
    "norms": (lambda x: (F.layer_norm(x, (4,)), F.rms_norm(x, (4,)), F.group_norm(x, 2), F.instance_norm(x)), BATCH),
    "batch norm": (lambda x: EVALUATED(x), BATCH),
    "batch norm in training": (lambda x: TRAINED(x), BATCH),
    "activations": (lambda x: (F.gelu(x), F.silu(x), F.elu(x), F.hardswish(x), F.logsigmoid(x), F.glu(x)), BATCH),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(1), F.softmin(x, 0), x.logsumexp(1)), BATCH),
    "embedding": (lambda i: EMBED(i), INDEX),
    "cross entropy": (lambda x, i: (F.cross_entropy(x, i), F.cross_entropy(x, i, label_smoothing=0.1)), SQUARE, INDEX),
    "losses": (lambda x: (F.mse_loss(x, x + 1), F.smooth_l1_loss(x, x * 2), F.cosine_similarity(x, x + 1)), ROW),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True), HEADS),
    "masked attention": (lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=q[0, 0] @ q[0, 0].T > 0), HEADS),
    "attention with dropout": (lambda q: F.scaled_dot_product_attention(q, q, q, dropout_p=0.3), HEADS),
    "attention module": (lambda x: ATTENTION(x, x, x), torch.randn(2, 5, 8)),
    "encoder in training": (lambda x: ENCODER(x), torch.randn(2, 5, 8)),
    "dropout": (lambda x: (F.dropout(x, 0.3), F.dropout(x, 0.3, False), F.alpha_dropout(x, 0.3, True)), BATCH),
    "random numbers": (lambda x: (torch.rand(3), torch.randn_like(x), x.sigmoid().bernoulli(), torch.randperm(5)), ROW),
    "drawn": (lambda x: torch.multinomial(x.softmax(-1), 2), ROW),
    "convolution": (lambda x: (F.relu(CONV(x)), F.conv_transpose2d(x, CONV.weight.transpose(0, 1))), IMAGE),
    "channels last": (lambda x: CONV(x), IMAGE.to(memory_format=torch.channels_last)),
    "pooling": (lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 3)), IMAGE),
    "interpolation": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (5, 5), mode="bilinear")), IMAGE),
    "LSTM": (nn.LSTM(4, 5, 2, batch_first=True), BATCH),
    "cells": (lambda x: (LSTM_CELL(x), GRU_CELL(x)), ROW),
    "distances": (lambda x: (torch.cdist(x, x), x.norm(), x.norm(dim=1), F.normalize(x)), BATCH),
    "reductions": (lambda x: (x.var(0), torch.var_mean(x, 1), x.max(1), x.amax(0), x.argmax(1), x.cumsum(0)), ROW),
    "sorting": (lambda x: (x.sort(1), x.topk(2), x.argsort(0), x.median(0), x.kthvalue(2, 0)), ROW),
    "padding": (lambda x: (F.pad(x, (1, 2)), F.pad(x, (1, 1), mode="circular")), BATCH),
    "moving": (lambda x: (x.roll(1, 0), x.flip(0), x.repeat(2, 1), x.rot90(), x.tril(), torch.cat([x, x], 1)), SQUARE),
    "views": (lambda x: (x.view(12), x.view(12)[2:], x.t(), x.t().reshape(-1), x.expand(2, 3, 4), x.unbind(0)), ROW),
    "folding": (lambda x: (F.fold(F.unfold(x, 2), (8, 8), 2), x.unfold(2, 2, 1)), IMAGE),
    "indexing": (lambda x, i: (x[i], x[:, i], x[None, 1:3], x.gather(0, i[None]), x[torch.tensor(1)]), SQUARE, INDEX),
    "written by index": (written_by_index, SQUARE, INDEX, torch.randn(4, 4)),
    "written through a view": (written_through_view, ROW),
    "an input returned": (lambda x: (x.add_(1), x[0], x * 2), ROW),
    "shape changed in place": (transposed_in_place, ROW),
    "out=": (given_memory, ROW),
    "constants": (written_constants, ROW),
    "lists": (lambda x: torch._foreach_add([x, x.sin()], 1.0), ROW),
    "lists in place": (lists_in_place, ROW, torch.randn(3, 4)),
    "integers": (lambda x: (x // 3, x % 3, x << 1, x & 1, ~x, x / 2, -x, x.bool()), torch.arange(6)),
    "dtypes": (lambda x: (x.half(), x.double(), x.bfloat16(), x.int()), ROW),
    "complex within": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), ROW),
    "autocast": (cast, ROW),
    "no_grad": (without_gradients, ROW),
    "strided input": (lambda x: x + 1, torch.randn(8, 6)[1:, ::2]),
    "expanded input": (lambda x: x * 2, torch.randn(1, 4).expand(3, 4)),
    "nothing in it": (lambda x: (x + 1, x.sum(), torch.cat([x, torch.ones(2, 3)])), torch.randn(0, 3)),
    "what fails on some data": (lambda x: torch.linalg.inv(x), SQUARE),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_replay_is_the_same_computation(name) -> None:
    function, *args = CASES[name]
    check_replay(function, *args)


def test_numbers_are_taken_from_each_call() -> None:
    def function(x, n, m):
        y = (x * n, x + m, n - x, x / n, n / x, x**n, x.clamp(max=n), torch.full_like(x, m), x.add(x, alpha=n))
        return y, x.fill_(m), x.masked_fill(x > m, n), torch.lerp(x, x, n), torch.addcmul(x, x, x, value=n)

    first, second = check_replay(function, ROW, 2.5, 1.25, calls=2)
    assert len(first.inputs) == 1 and len(second.inputs) == 3
    assert "2.5" not in str(second) and "3.5" not in str(second)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_models(mode) -> None:
    tokens = torch.randint(0, 50, (2, 6))
    with mode():
        check_replay(GPT(Config(layers=1)).eval(), tokens)
        check_replay(GPT(Config(layers=1, dropout=0.1)), tokens, tokens)
        check_replay(resnet18().eval(), torch.randn(1, 3, 32, 32))
        check_replay(LanguageModel(50), tokens)


def test_a_training_mode_batch_norm_writes_its_statistics() -> None:
    with torch.no_grad():
        (graph,) = check_replay(resnet18(), torch.randn(2, 3, 32, 32))
    norms = [c for c in graph.calls if "native_batch_norm" in str(c.op)]
    assert len(norms) == 20
    assert all(c.written == [v.buffer for v in c.args[3:5]] for c in norms)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_fast_paths_of_modules(mode) -> None:
    x = torch.randn(2, 5, 8)
    encoder = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with mode():
        (graph,) = check_replay(encoder, x)
        assert names(graph) == ["_transformer_encoder_layer_fwd.default"]
        (graph,) = check_replay(lambda x: ATTENTION(x, x, x, need_weights=False)[0], x)
        assert names(graph) == ["_native_multi_head_attention.default"]


def test_ambient_autocast() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert names(recorded(lambda x: x @ x, SQUARE)) == ["_to_copy.default", "_to_copy.default", "mm.default"]
