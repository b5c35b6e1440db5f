"""Rules of reductions, softmax and normalisation, against eager."""

import math

import pytest
import torch
import torch.nn.functional as F

from tests.backends.native.lowering import check, check_gradients


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


REDUCTIONS = [
    torch.sum,
    torch.mean,
    torch.amax,
    torch.amin,
    torch.var,
    torch.std,
    torch.logsumexp,
    torch.linalg.vector_norm,
    torch.any,
    torch.all,
    torch.count_nonzero,
]


@pytest.mark.parametrize("function", REDUCTIONS)
@pytest.mark.parametrize("axes", [0, -1, (0, 2), (0, 1, 2)])
def test_over_axes(function, axes):
    wrapped = function if function is not torch.linalg.vector_norm else lambda x, a: function(x, dim=a)
    check(lambda x: wrapped(x, axes), rand(3, 4, 5))
    check(lambda x: wrapped(x, axes), rand(5, 3, 4).permute(1, 2, 0))


@pytest.mark.parametrize("function", [f for f in REDUCTIONS if f is not torch.count_nonzero])
def test_axes_are_kept(function):
    check(lambda x: function(x, dim=1, keepdim=True), rand(3, 4, 5))


@pytest.mark.parametrize("name", "sum mean max min prod argmax argmin amax amin var std any all norm".split())
def test_over_everything(name):
    check(getattr(torch, name), rand(3, 4))
    check(getattr(torch, name), rand(12).reshape(3, 4).t())
    if name not in ("var", "std"):
        check(getattr(torch, name), torch.tensor(1.5))


@pytest.mark.parametrize("name", "max min argmax argmin aminmax".split())
def test_extremes_along_an_axis(name):
    function = getattr(torch, name)
    x = torch.tensor([[1.0, math.nan, 3.0, math.nan], [2.0, 2.0, -math.inf, 2.0], [0.0, -1.0, -1.0, 0.0]])
    check(lambda x: function(x, dim=1), x)
    check(lambda x: function(x, dim=0, keepdim=True), x)
    check(lambda x: function(x, dim=1), x.bfloat16())
    check(lambda x: function(x, dim=1), torch.tensor([[3, 1, 3], [-1, -1, 2]]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool, torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_of_results(dtype):
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    check(
        lambda x: (x.sum(1), x.prod(1), x.amax(0), x.any(), x.all(1), x.argmax(1)) if dtype != torch.bool else x.sum(),
        x,
    )
    check(lambda x: (x.sum(1, dtype=torch.float32), x.mean(0, dtype=torch.float64)), x)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, math.inf, -math.inf])
def test_norms(order):
    check(lambda x: torch.linalg.vector_norm(x, order, 1), rand(3, 4))
    check(lambda x: torch.norm(x, order), rand(3, 4))


def test_sums_of_parts():
    check(lambda x: torch.nansum(x, 1), torch.tensor([[1.0, math.nan], [2.0, 3.0]]))
    check(torch.trace, rand(3, 4))
    check(torch.trace, torch.arange(6).reshape(2, 3))
    check(lambda x: F.avg_pool2d(x, (3, 4)), rand(2, 3, 4))
    check(lambda x: F.adaptive_avg_pool2d(x, 1), rand(2, 3, 4))
    check(lambda x: F.avg_pool2d(x, 2), rand(2, 3, 4), left=("avg_pool2d",))
    check(lambda x, y: torch.dist(x, y, 3), rand(3, 4), rand(4))


@pytest.mark.parametrize("correction", [0, 1, 2, 5])
def test_variances(correction):
    check(lambda x: torch.var_mean(x, 1, correction=correction), rand(3, 4))
    check(lambda x: torch.std_mean(x, (0, 2), correction=correction), rand(3, 4, 5))
    check(lambda x: torch.var(x, 1, correction=correction), (rand(3, 4) + 100).bfloat16(), rtol=2e-2, atol=1e-2)


def test_logsumexp_of_infinities():
    check(lambda x: torch.logsumexp(x, 1), torch.tensor([[-math.inf, -math.inf], [math.inf, 1.0], [1e4, 1e4]]))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(axis):
    for x in (rand(3, 4, 5) * 50, rand(5, 4, 3).transpose(0, 2)):
        check(lambda x: F.softmax(x, axis), x)
        check(lambda x: F.log_softmax(x, axis), x)
        check(lambda x: F.softmin(x, axis), x)
    check(lambda x: F.softmax(x, axis), rand(3, 4, 5).bfloat16())
    check(lambda x: F.softmax(x, axis, dtype=torch.float32), rand(3, 4, 5).half())
    check_gradients(lambda x: F.softmax(x, axis), rand(3, 4, 5))
    check_gradients(lambda x: F.log_softmax(x, axis), rand(3, 4, 5))


def test_softmax_of_infinities():
    check(lambda x: F.softmax(x, 1), torch.tensor([[-math.inf, 0.0], [-math.inf, -math.inf], [math.inf, 0.0]]))


def test_safe_softmax():
    x = torch.tensor([[-math.inf, 0.0, 1.0], [-math.inf] * 3])
    check(lambda x: torch.ops.aten._safe_softmax(x, 1), x)
    check(lambda x: torch.ops.aten._safe_softmax(x, 1), x.half())


def test_layer_norm():
    check(lambda x, w, b: F.layer_norm(x, (8,), w, b), rand(3, 5, 8) + 100, rand(8), rand(8), rtol=1e-4, atol=1e-4)
    check(lambda x: F.layer_norm(x, (5, 8), eps=0.1), rand(3, 5, 8))
    check(lambda x, w: F.layer_norm(x, (8,), w), rand(3, 8).bfloat16(), rand(8).bfloat16())
    check_gradients(lambda x, w, b: F.layer_norm(x, (8,), w, b), rand(3, 5, 8), rand(8), rand(8), rtol=1e-4, atol=1e-4)
    check_gradients(lambda x: F.layer_norm(x, (5, 8)), rand(3, 5, 8))


def test_rms_norm():
    check(lambda x, w: F.rms_norm(x, (8,), w), rand(3, 5, 8), rand(8))
    check_gradients(lambda x, w: F.rms_norm(x, (8,), w), rand(3, 5, 8), rand(8), rtol=1e-4, atol=1e-4)


def test_group_norm():
    check(lambda x, w, b: F.group_norm(x, 2, w, b), rand(3, 4, 5), rand(4), rand(4))
    check(lambda x: F.group_norm(x, 2), rand(3, 4, 5, 2))
    check_gradients(lambda x, w, b: F.group_norm(x, 2, w, b), rand(3, 4, 5), rand(4), rand(4), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("sizes", [(6, 4), (3, 4, 5), (2, 4, 3, 5)])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm(sizes, training):
    def function(x, w, b, mean, variance):
        return F.batch_norm(x, mean, variance, w, b, training=training, momentum=0.3)

    check(function, rand(*sizes), rand(4), rand(4), rand(4).clone(), rand(4).abs())
    mean, variance = rand(4), rand(4).abs()
    check_gradients(
        lambda x, w, b: F.batch_norm(x, mean.clone(), variance.clone(), w, b, training=training),
        rand(*sizes),
        rand(4),
        rand(4),
        rtol=1e-4,
        atol=1e-4,
    )


def test_instance_norm():
    check(F.instance_norm, rand(2, 3, 5))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(
    "name", "mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits soft_margin_loss".split()
)
def test_losses(name, reduction):
    target = rand(3, 4).flip(0)
    function = lambda x: getattr(F, name)(x, target, reduction=reduction)
    check(function, rand(3, 4) * 3)
    if name != "soft_margin_loss":
        check_gradients(function, rand(3, 4) * 3)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_binary_cross_entropy(reduction):
    target, weight = rand(3, 4).sigmoid(), rand(4).abs()
    check_gradients(lambda x: F.binary_cross_entropy(x.sigmoid(), target, weight, reduction=reduction), rand(3, 4))
    check(
        lambda x: F.binary_cross_entropy_with_logits(x, target, weight, pos_weight=weight, reduction=reduction),
        rand(3, 4),
    )


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(reduction, weighted):
    target, weight = torch.tensor([1, 0, -100, 3]), rand(5).abs() if weighted else None
    options = {"weight": weight, "reduction": reduction}
    check_gradients(lambda x: F.cross_entropy(x, target, **options), rand(4, 5))
    check_gradients(lambda x: F.cross_entropy(x, target.view(2, 2), **options), rand(2, 5, 2))
    check_gradients(lambda x: F.cross_entropy(x, target.view(2, 1, 2), **options), rand(2, 5, 1, 2))
    check(lambda x: F.cross_entropy(x, torch.tensor(3), **options), rand(5))


def test_a_target_out_of_range_raises():
    from tests.backends.native.interpreter import run
    from tests.backends.native.lowering import lowered

    x, target = rand(2, 5), torch.tensor([1, 2])
    loops = lowered(lambda x, t: F.nll_loss(x, t), x, target)
    with pytest.raises(IndexError):
        run(loops, [x, torch.tensor([1, 5])])
    with pytest.raises(IndexError):
        run(loops, [x, torch.tensor([1, -1])])
