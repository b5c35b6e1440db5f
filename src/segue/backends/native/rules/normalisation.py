"""Layer, group, batch and root-mean-square normalisation."""

from __future__ import annotations

from typing import Any

from segue.backends.native.ir import load
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.formula import Value, call
from segue.backends.native.rules.reductions import element, mean_and_squares
from segue.backends.native.rules.types import compute_dtype
from segue.backends.native.rules.views import insert, split
from segue.graphs.aten import View, product

Axes = tuple[int, ...]


def statistics(context: Context, x: View, axes: Axes, eps: Any) -> tuple[View, View, View]:
    """The mean, the variance and 1 / sqrt(variance + eps) over axes, which keep one element."""
    if not x.n_elements:
        raise NoLowering("normalisation of nothing")
    dtype, count = compute_dtype(x.dtype), product([x.sizes[a] for a in axes])
    mean, squares = mean_and_squares(context, x, axes, dtype)
    variance = context.keep((Value(load(squares, squares.sizes)) / count).expr, squares.sizes)
    return mean, variance, inverse_deviation(context, variance, eps)


def inverse_deviation(context: Context, variance: View, eps: Any) -> View:
    v = Value(value(variance, variance.sizes))
    return context.keep(call("rsqrt", v + Value(value(eps, variance.sizes, v.dtype))).expr, variance.sizes)


def normalised(x: View, mean: View, inverse: View, weight: View | None, bias: View | None) -> Value:
    """(x - mean) * inverse * weight + bias, of tensors that broadcast to x."""
    dtype = compute_dtype(x.dtype)
    result = (element(x) - Value(value(mean, x.sizes, dtype))) * Value(value(inverse, x.sizes, dtype))
    result = result if weight is None else result * Value(value(weight, x.sizes, dtype))
    return result if bias is None else result + Value(value(bias, x.sizes, dtype))


def keep_statistic(context: Context, out: View | None, statistic: View) -> None:
    """Store a statistic as a result, if the result has its shape but for axes of one element."""
    if out is None or not out.n_elements:
        return
    sizes = [n for n in statistic.sizes if n != 1]
    if [n for n in out.sizes if n != 1] != sizes:
        raise NoLowering(f"a statistic of {statistic.sizes} as {out.sizes}")
    strides = [s for n, s in zip(statistic.sizes, statistic.strides, strict=True) if n != 1]
    remaining = iter(strides)
    matched = tuple(next(remaining) if n != 1 else 0 for n in out.sizes)
    context.copy(out, View(statistic.buffer, out.sizes, matched, statistic.offset))


@rule("native_layer_norm")
def layer_norm(
    context: Context, outs: list[View], x: View, shape: Any, weight: View | None, bias: View | None, eps: Any
) -> None:
    rank = len(x.sizes)
    axes = tuple(range(rank - len(shape), rank))
    mean, _, inverse = statistics(context, x, axes, eps)
    context.assign(outs[0], normalised(x, mean, inverse, weight, bias).expr)
    keep_statistic(context, outs[1], mean)
    keep_statistic(context, outs[2], inverse)


@rule("_fused_rms_norm")
def rms_norm(context: Context, outs: list[View], x: View, shape: Any, weight: View | None, eps: Any) -> None:
    if eps is None or not x.n_elements:
        raise NoLowering("eps is not given")
    rank, dtype = len(x.sizes), compute_dtype(x.dtype)
    axes, v = tuple(range(rank - len(shape), rank)), element(x)
    squares = context.reduce((v * v).expr, "sum", axes, x.sizes)
    mean = context.keep((Value(load(squares, squares.sizes)) / product(shape)).expr, squares.sizes)
    inverse = inverse_deviation(context, mean, eps)
    result = v * Value(load(inverse, x.sizes))
    context.assign(outs[0], (result if weight is None else result * Value(value(weight, x.sizes, dtype))).expr)
    keep_statistic(context, outs[1], inverse)


@rule("native_group_norm")
def group_norm(
    context: Context, outs: list[View], x: View, weight: Any, bias: Any, n: int, c: int, _: int, groups: int, eps: Any
) -> None:
    parts = (groups, c // groups)
    grouped = split(x, 1, parts)
    after = tuple(range(2, len(grouped.sizes) - 1))
    by_channel = [None if v is None else insert(split(v, 0, parts), [a + 1 for a in after]) for v in (weight, bias)]
    mean, _variance, inverse = statistics(context, grouped, tuple(range(2, len(grouped.sizes))), eps)
    context.assign(split(outs[0], 1, parts), normalised(grouped, mean, inverse, *by_channel).expr)
    for out, statistic in zip(outs[1:], (mean, inverse), strict=True):
        context.copy(out, View(statistic.buffer, out.sizes, (groups, 1), 0))


@rule("native_batch_norm _native_batch_norm_legit")
def batch_norm(context: Context, outs: list[View], x: View, *args: Any) -> None:
    weight, bias, running_mean, running_variance, training, momentum, eps = args
    if training:
        batch_norm_training(context, outs, x, weight, bias, running_mean, running_variance, momentum, eps)
    else:
        batch_norm_evaluation(context, outs, x, weight, bias, running_mean, running_variance, momentum, eps)


@rule("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(context: Context, outs: list[View], x: View, *args: Any) -> None:
    weight, bias, _training, momentum, eps = args
    batch_norm_training(context, outs, x, weight, bias, None, None, momentum, eps)


@rule("_native_batch_norm_legit_no_training")
def batch_norm_evaluation(context: Context, outs: list[View], x: View, *args: Any) -> None:
    weight, bias, mean, variance, _momentum, eps = args
    if any(out.n_elements for out in outs[1:]):
        raise NoLowering("statistics of an evaluation")
    scale, shift = (None if v is None else channels(v, x) for v in (weight, bias))
    inverse = inverse_deviation(context, channels(variance, x), eps)
    context.assign(outs[0], normalised(x, channels(mean, x), inverse, scale, shift).expr)


def batch_norm_training(
    context: Context,
    outs: list[View],
    x: View,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    momentum: Any,
    eps: Any,
) -> None:
    axes = tuple(a for a in range(len(x.sizes)) if a != 1)
    now, spread, inverse = statistics(context, x, axes, eps)
    scale, shift = (None if v is None else channels(v, x) for v in (weight, bias))
    context.assign(outs[0], normalised(x, now, inverse, scale, shift).expr)
    keep_statistic(context, outs[1], now)
    keep_statistic(context, outs[2], inverse)
    count = product([x.sizes[a] for a in axes])
    if variance is not None:
        if count == 1:
            raise NoLowering("the variance of one element")
        blend(context, variance, spread, momentum, count / (count - 1))
    if mean is not None:
        blend(context, mean, now, momentum, 1.0)


def blend(context: Context, running: View, now: View, momentum: Any, factor: float) -> None:
    """running = running * (1 - momentum) + now * factor * momentum"""
    current = View(now.buffer, running.sizes, (1,), 0)
    new, old = (Value(value(v, running.sizes)) for v in (current, running))
    weight = Value(value(momentum, running.sizes, new.dtype))
    old = old.to(new.dtype)
    context.assign(running, (new * factor * weight + old * (1 - weight)).expr)


def channels(vector: View, x: View) -> View:
    """A vector along axis 1 of x."""
    return insert(vector, (0, *range(2, len(x.sizes))))
