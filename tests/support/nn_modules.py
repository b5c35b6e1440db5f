"""Every module class of torch.nn, in training and in evaluation."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn, rand, randint, randn

from tests.support.construct import area

construct = area("torch.nn: every module")

Inputs = Callable[[], tuple[Any, ...]]


def sized(*sizes: int) -> Inputs:
    """Inputs: one tensor of random numbers."""
    return lambda: (randn(sizes),)


def pairs(*sizes: int) -> Inputs:
    """Inputs: two tensors of one size."""
    return lambda: (randn(sizes), randn(sizes))


def classes(*sizes: int) -> Inputs:
    """Inputs: scores, and a class for each sample."""
    return lambda: (randn(sizes), randint(sizes[1], (sizes[0], *sizes[2:])))


def signs() -> torch.Tensor:
    """Labels of 1 and -1."""
    return torch.where(rand(3) > 0.5, 1.0, -1.0)


def unpooled(n: int) -> Inputs:
    """Inputs: pooled values and where they come from."""

    def make() -> tuple[Any, ...]:
        pool = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)
        return pool(randn(1, 2, *[4] * n))

    return make


VECTOR, ROWS, SEQUENCE, IMAGE, VOLUME = sized(8), sized(3, 8), sized(2, 4, 8), sized(2, 4, 8, 8), sized(1, 4, 4, 4, 4)
BY_DIMENSION = {1: SEQUENCE, 2: IMAGE, 3: VOLUME}

ACTIVATIONS = (
    "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU "
    "SiLU Sigmoid Softplus Softshrink Softsign Tanh Tanhshrink Dropout AlphaDropout Flatten"
).split()

TABLE: dict[str, tuple[Callable[[], nn.Module], Inputs]] = {
    **{name: (getattr(nn, name), ROWS) for name in ACTIVATIONS},
    **{name: (lambda name=name: getattr(nn, name)(dim=1), ROWS) for name in ("LogSoftmax", "Softmax", "Softmin")},
    **{f"BatchNorm{n}d": (lambda n=n: getattr(nn, f"BatchNorm{n}d")(4), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"InstanceNorm{n}d": (lambda n=n: getattr(nn, f"InstanceNorm{n}d")(4), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"LazyBatchNorm{n}d": (getattr(nn, f"LazyBatchNorm{n}d"), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"LazyInstanceNorm{n}d": (getattr(nn, f"LazyInstanceNorm{n}d"), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"Conv{n}d": (lambda n=n: getattr(nn, f"Conv{n}d")(4, 2, 3), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"LazyConv{n}d": (lambda n=n: getattr(nn, f"LazyConv{n}d")(2, 3), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{
        f"{lazy}ConvTranspose{n}d": (
            lambda n=n, lazy=lazy: getattr(nn, f"{lazy}ConvTranspose{n}d")(*[4][: not lazy], 2, 3),
            BY_DIMENSION[n],
        )
        for n in BY_DIMENSION
        for lazy in ("", "Lazy")
    },
    **{
        f"{kind}Pool{n}d": (lambda n=n, kind=kind: getattr(nn, f"{kind}Pool{n}d")(2), BY_DIMENSION[n])
        for kind in ("Avg", "Max", "AdaptiveAvg", "AdaptiveMax")
        for n in BY_DIMENSION
    },
    **{f"LPPool{n}d": (lambda n=n: getattr(nn, f"LPPool{n}d")(2, 2), BY_DIMENSION[n]) for n in BY_DIMENSION},
    **{f"MaxUnpool{n}d": (lambda n=n: getattr(nn, f"MaxUnpool{n}d")(2), unpooled(n)) for n in BY_DIMENSION},
    **{
        f"{kind}Pad{n}d": (lambda n=n, kind=kind: getattr(nn, f"{kind}Pad{n}d")(1), BY_DIMENSION[n])
        for kind in ("Circular", "Reflection", "Replication", "Zero")
        for n in BY_DIMENSION
    },
    **{
        f"ConstantPad{n}d": (lambda n=n: getattr(nn, f"ConstantPad{n}d")(1, 2.5), BY_DIMENSION[n]) for n in BY_DIMENSION
    },
    **{f"Dropout{n}d": (getattr(nn, f"Dropout{n}d"), BY_DIMENSION[n]) for n in BY_DIMENSION},
    "AdaptiveLogSoftmaxWithLoss": (lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 10, [4]), classes(3, 8)),
    "BCELoss": (nn.BCELoss, lambda: (rand(3), rand(3))),
    "BCEWithLogitsLoss": (nn.BCEWithLogitsLoss, pairs(3)),
    "Bilinear": (lambda: nn.Bilinear(8, 8, 3), pairs(3, 8)),
    "CTCLoss": (
        nn.CTCLoss,
        lambda: (randn(6, 2, 5).log_softmax(2), randint(1, 5, (2, 3)), torch.tensor([6, 6]), torch.tensor([3, 2])),
    ),
    "ChannelShuffle": (lambda: nn.ChannelShuffle(2), IMAGE),
    "CosineEmbeddingLoss": (nn.CosineEmbeddingLoss, lambda: (randn(3, 8), randn(3, 8), signs())),
    "CosineSimilarity": (nn.CosineSimilarity, pairs(3, 8)),
    "CrossEntropyLoss": (nn.CrossEntropyLoss, classes(3, 8)),
    "CrossMapLRN2d": (lambda: nn.CrossMapLRN2d(2), IMAGE),
    "DataParallel": (lambda: nn.DataParallel(nn.Linear(8, 3)), ROWS),
    "Identity": (lambda: nn.Sequential(nn.Identity(1, unused=True), nn.ReLU()), ROWS),
    "Embedding": (lambda: nn.Embedding(10, 4), lambda: (randint(10, (3, 5)),)),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(10, 4), lambda: (randint(10, (3, 5)),)),
    "FeatureAlphaDropout": (nn.FeatureAlphaDropout, IMAGE),
    "Fold": (lambda: nn.Fold(4, 2, stride=2), sized(2, 8, 4)),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), IMAGE),
    "FractionalMaxPool3d": (lambda: nn.FractionalMaxPool3d(2, output_size=2), VOLUME),
    "GRU": (lambda: nn.GRU(8, 3, num_layers=2, batch_first=True), SEQUENCE),
    "GRUCell": (lambda: nn.GRUCell(8, 3), ROWS),
    "GaussianNLLLoss": (nn.GaussianNLLLoss, lambda: (randn(3), randn(3), rand(3))),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
    "HingeEmbeddingLoss": (nn.HingeEmbeddingLoss, lambda: (randn(3), signs())),
    "HuberLoss": (nn.HuberLoss, pairs(3)),
    "KLDivLoss": (lambda: nn.KLDivLoss(reduction="batchmean"), lambda: (randn(3, 4).log_softmax(1), rand(3, 4))),
    "L1Loss": (nn.L1Loss, pairs(3)),
    "LSTM": (lambda: nn.LSTM(8, 3, bidirectional=True, batch_first=True), SEQUENCE),
    "LSTMCell": (lambda: nn.LSTMCell(8, 3), ROWS),
    "LayerNorm": (lambda: nn.LayerNorm(8), ROWS),
    "LazyLinear": (lambda: nn.LazyLinear(3), ROWS),
    "Linear": (lambda: nn.Linear(8, 3), ROWS),
    "LinearCrossEntropyLoss": (lambda: nn.LinearCrossEntropyLoss(8, 5), lambda: (randn(3, 8), randint(5, (3,)))),
    "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), IMAGE),
    "MSELoss": (nn.MSELoss, pairs(3)),
    "MarginRankingLoss": (nn.MarginRankingLoss, lambda: (randn(3), randn(3), signs())),
    "ModuleDict": (lambda: Choosing(nn.ModuleDict({"a": nn.Linear(8, 8), "b": nn.ReLU()})), ROWS),
    "ModuleList": (lambda: Stacked(nn.ModuleList([nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)])), ROWS),
    "MultiLabelMarginLoss": (
        nn.MultiLabelMarginLoss,
        lambda: (randn(2, 4), torch.tensor([[3, 0, -1, 1], [0, -1, 1, 2]])),
    ),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss, lambda: (randn(3, 4), randint(2, (3, 4)).float())),
    "MultiMarginLoss": (nn.MultiMarginLoss, classes(3, 4)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2, batch_first=True), lambda: (randn(2, 4, 8),) * 3),
    "NLLLoss": (nn.NLLLoss, classes(3, 4)),
    "NLLLoss2d": (nn.NLLLoss2d, classes(2, 3, 4, 4)),
    "PairwiseDistance": (nn.PairwiseDistance, pairs(3, 8)),
    "ParameterDict": (lambda: Scaled(nn.ParameterDict({"scale": nn.Parameter(randn(8)), "bias": randn(8)})), ROWS),
    "ParameterList": (lambda: Summed(nn.ParameterList([nn.Parameter(randn(8)) for _ in range(3)])), ROWS),
    "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGE),
    "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), IMAGE),
    "PoissonNLLLoss": (nn.PoissonNLLLoss, lambda: (randn(3), rand(3))),
    "RMSNorm": (lambda: nn.RMSNorm(8), ROWS),
    "RNN": (lambda: nn.RNN(8, 3), SEQUENCE),
    "RNNCell": (lambda: nn.RNNCell(8, 3), ROWS),
    "Sequential": (lambda: nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2))), ROWS),
    "SmoothL1Loss": (nn.SmoothL1Loss, pairs(3)),
    "SoftMarginLoss": (nn.SoftMarginLoss, lambda: (randn(3), signs())),
    "Softmax2d": (nn.Softmax2d, IMAGE),
    "SyncBatchNorm": (lambda: nn.SyncBatchNorm(4).eval(), IMAGE),
    "Threshold": (lambda: nn.Threshold(0.1, 2.0), ROWS),
    "Transformer": (
        lambda: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
        lambda: (randn(2, 3, 8), randn(2, 4, 8)),
    ),
    "TransformerDecoder": (
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2),
        lambda: (randn(2, 3, 8), randn(2, 4, 8)),
    ),
    "TransformerDecoderLayer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        lambda: (randn(2, 3, 8), randn(2, 4, 8)),
    ),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2),
        SEQUENCE,
    ),
    "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), SEQUENCE),
    "TripletMarginLoss": (nn.TripletMarginLoss, lambda: (randn(3, 8), randn(3, 8), randn(3, 8))),
    "TripletMarginWithDistanceLoss": (
        nn.TripletMarginWithDistanceLoss,
        lambda: (randn(3, 8), randn(3, 8), randn(3, 8)),
    ),
    "Unflatten": (lambda: nn.Unflatten(1, (2, 4)), ROWS),
    "Unfold": (lambda: nn.Unfold(2), IMAGE),
    "Upsample": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "UpsamplingBilinear2d": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), IMAGE),
    "UpsamplingNearest2d": (lambda: nn.UpsamplingNearest2d(scale_factor=2), IMAGE),
}

NOT_CALLED = {"Container", "Module", "RNNBase", "RNNCellBase"}
"""Base classes and what is deprecated: there is nothing to call."""


class Stacked(nn.Module):
    def __init__(self, layers: nn.ModuleList) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x) + k
        return x + self.layers[0](x) + len(self.layers) + sum(m(x) for m in self.layers[1:])


class Choosing(nn.Module):
    def __init__(self, choices: nn.ModuleDict) -> None:
        super().__init__()
        self.choices = choices

    def forward(self, x):
        for name, layer in self.choices.items():
            x = layer(x) + len(name)
        return self.choices["a"](x) + ("b" in self.choices) + len(self.choices), list(self.choices)


class Summed(nn.Module):
    def __init__(self, weights: nn.ParameterList) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, x):
        for k, weight in enumerate(self.weights):
            x = x * weight + k
        return x + self.weights[0] + len(self.weights) + self.weights[-1]


class Scaled(nn.Module):
    def __init__(self, weights: nn.ParameterDict) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, x):
        y = x * self.weights["scale"] + self.weights.bias
        for name, weight in self.weights.items():
            y = y + weight * len(name)
        return y, "scale" in self.weights, list(self.weights.keys())


def called(*inputs: Any) -> Any:
    """The inputs come first, the module last."""
    *values, module = inputs
    return module(*values)


def evaluating(make: Callable[[], nn.Module]) -> Callable[[], tuple[Any, ...]]:
    return lambda: (make().eval(),)


def training(make: Callable[[], nn.Module]) -> Callable[[], tuple[Any, ...]]:
    return lambda: (make(),)


BREAKS = {
    "AdaptiveLogSoftmaxWithLoss": "it looks for the rows of each cluster: shapes depend on data",
    "GaussianNLLLoss": "it looks whether a variance is negative",
}

for _name, (_make, _inputs) in sorted(TABLE.items()):
    construct(f"`{_name}`", inputs=_inputs, state=training(_make), breaks=BREAKS.get(_name))(called)

for _name in "BatchNorm2d Dropout MultiheadAttention TransformerEncoder RReLU InstanceNorm1d".split():
    _make, _inputs = TABLE[_name]
    construct(f"`{_name}`, in evaluation", inputs=_inputs, state=evaluating(_make))(called)
