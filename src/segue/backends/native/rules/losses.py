"""Losses: a value for each element, then none, their mean or their sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from segue.backends.native.ir import Index, load
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.formula import Value, call, where
from segue.backends.native.rules.indexing import point_at, strictly_bounded
from segue.backends.native.rules.types import compute_dtype, promoted
from segue.backends.native.rules.views import drop, insert, narrow
from segue.graphs.aten import View, product

NONE, MEAN, SUM = 0, 1, 2


def common_sizes(tensors: list[View]) -> tuple[int, ...]:
    """What tensors broadcast to."""
    return tuple(torch.broadcast_shapes(*(t.sizes for t in tensors)))


def assign_reduced(context: Context, out: View, v: Value, sizes: tuple[int, ...], reduction: int) -> None:
    """Store the elements, their mean or their sum."""
    if reduction == NONE:
        return context.assign(out, v.expr)
    if not product(sizes):
        raise NoLowering("a loss of nothing")
    axes = tuple(range(len(sizes)))
    if reduction == SUM:
        return context.reduce_into(out, v.expr, "sum", axes, sizes)
    total = context.reduce(v.expr, "sum", axes, sizes)
    context.assign(out, (Value(load(drop(total, axes), ())) / product(sizes)).expr)


def loss(names: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register formula(x, target, *parameters), for overloads with the arguments x, target, reduction, *parameters."""

    def register(formula: Callable[..., Value]) -> Callable[..., Value]:
        def lower(context: Context, outs: list[View], x: View, target: View, reduction: int, *parameters: Any) -> None:
            sizes, dtype = common_sizes([x, target]), compute_dtype(promoted((x, target)))
            values = [Value(value(a, sizes, dtype)) for a in (x, target, *parameters)]
            assign_reduced(context, outs[0], formula(*values), sizes, reduction)

        rule(names)(lower)
        return formula

    return register


@loss("mse_loss")
def mse(x: Value, target: Value) -> Value:
    return (x - target) * (x - target)


@loss("smooth_l1_loss")
def smooth_l1(x: Value, target: Value, beta: Value) -> Value:
    distance = abs(x - target)
    return where(distance < beta, 0.5 * distance * distance / beta, distance - 0.5 * beta)


@loss("huber_loss")
def huber(x: Value, target: Value, delta: Value) -> Value:
    distance = abs(x - target)
    return where(distance <= delta, 0.5 * distance * distance, delta * (distance - 0.5 * delta))


@loss("soft_margin_loss")
def soft_margin(x: Value, target: Value) -> Value:
    return call("log1p", call("exp", -target * x))


@rule("binary_cross_entropy")
def binary_cross_entropy(
    context: Context, outs: list[View], x: View, target: View, weight: View | None, reduction: int
) -> None:
    p, t = (Value(value(v, x.sizes, compute_dtype(x.dtype))) for v in (x, target))
    v = (t - 1) * call("maximum", call("log1p", -p), -100) - t * call("maximum", call("log", p), -100)
    v = v if weight is None else v * Value(value(weight, x.sizes, v.dtype))
    assign_reduced(context, outs[0], v, x.sizes, reduction)


@rule("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    context: Context, outs: list[View], x: View, target: View, weight: Any, positive: Any, reduction: int
) -> None:
    tensors = [v for v in (x, target, weight, positive) if v is not None]
    sizes, dtype = common_sizes(tensors), compute_dtype(promoted(tensors))
    z, t = (Value(value(v, sizes, dtype)) for v in (x, target))
    log_sigmoid = call("minimum", z, 0) - call("log1p", call("exp", -abs(z)))
    if positive is not None:
        log_sigmoid = ((Value(value(positive, sizes, dtype)) - 1) * t + 1) * log_sigmoid
    v = (1 - t) * z - log_sigmoid
    v = v if weight is None else v * Value(value(weight, sizes, dtype))
    assign_reduced(context, outs[0], v, sizes, reduction)


@rule("nll_loss_forward nll_loss2d_forward")
def nll_loss(
    context: Context, outs: list[View], x: View, target: View, weight: View | None, reduction: int, ignored: Any
) -> None:
    """Of [n, classes, ...] and [n, ...], or of [classes] and a scalar."""
    if not isinstance(ignored, int) or not target.n_elements:
        raise NoLowering("an index that is not known")
    sizes, dtype, class_axis = target.sizes, compute_dtype(x.dtype), min(1, len(x.sizes) - 1)
    if class_axis == 0 and sizes != ():
        target, sizes = drop(narrow(target, 0, 0, 1), (0,)), ()
    label = Value(value(target, sizes, torch.int64))
    taken = label.ne(ignored)
    row = strictly_bounded(where(taken, label, 0).expr, x.sizes[class_axis])
    axes = iter(range(len(sizes)))
    chosen = point_at(x, sizes, [row if a == class_axis else next(axes) for a in range(len(x.sizes))])
    factor = Value(value(1.0, sizes, dtype))
    if weight is not None:
        factor = Value(point_at(weight, sizes, [row])).to(dtype)
    factor = where(taken, factor, 0)
    v = where(taken, -Value(chosen).to(dtype) * factor, 0)
    if reduction == NONE:
        context.assign(outs[1], value(0.0, outs[1].sizes, outs[1].dtype))
        return context.assign(outs[0], v.expr)
    every = tuple(range(len(sizes)))
    total, weights = (drop(context.reduce(e.expr, "sum", every, sizes), every) for e in (v, factor))
    result = Value(load(total, ()))
    context.assign(outs[0], (result / Value(load(weights, ())) if reduction == MEAN else result).expr)
    context.assign(outs[1], load(weights, ()))


# --- gradients --------------------------------------------------------------------------------------------


@rule("mse_loss_backward")
def mse_backward(context: Context, outs: list[View], grad: View, x: View, target: View, reduction: int) -> None:
    sizes, dtype = outs[0].sizes, compute_dtype(outs[0].dtype)
    g, a, b = (Value(value(v, sizes, dtype)) for v in (grad, x, target))
    scale = 2 / product(sizes) if reduction == MEAN else 2.0
    context.assign(outs[0], (g * (a - b) * scale).expr)


@rule("nll_loss_backward nll_loss2d_backward")
def nll_loss_backward(
    context: Context,
    outs: list[View],
    grad: View,
    x: View,
    target: View,
    weight: View | None,
    reduction: int,
    ignored: Any,
    total_weight: View,
) -> None:
    if not isinstance(ignored, int) or len(x.sizes) < 2:
        raise NoLowering("an index that is not known, or one sample")
    out = outs[0]
    sizes, dtype = out.sizes, compute_dtype(out.dtype)
    label = Value(value(insert(target, (1,)), sizes, torch.int64))
    g = Value(value(insert(grad, (1,)) if grad.sizes else grad, sizes, dtype))
    g = g / Value(value(total_weight, sizes, dtype)) if reduction == MEAN else g
    if weight is not None:
        g = g * Value(value(insert(weight, range(1, len(sizes) - 1)), sizes, dtype))
    hit = label.eq(Value(Index(1))) & label.ne(ignored)
    context.assign(out, where(hit, -g, 0).expr)


@rule("smooth_l1_loss_backward huber_loss_backward")
def smooth_l1_backward(
    context: Context, outs: list[View], grad: View, x: View, target: View, reduction: int, bound: Any
) -> None:
    sizes, dtype = outs[0].sizes, compute_dtype(outs[0].dtype)
    g, a, b, limit = (Value(value(v, sizes, dtype)) for v in (grad, x, target, bound))
    difference, is_huber = a - b, context.name.startswith("huber")
    steep = limit if is_huber else Value(value(1.0, sizes, dtype))
    within = difference if is_huber else difference / limit
    slope = where(difference <= -limit, -steep, where(difference >= limit, steep, within))
    scale = 1 / product(sizes) if reduction == MEAN else 1.0
    context.assign(outs[0], (slope * g * scale).expr)


@rule("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    context: Context, outs: list[View], grad: View, x: View, target: View, weight: View | None, reduction: int
) -> None:
    sizes, dtype = outs[0].sizes, compute_dtype(outs[0].dtype)
    g, p, t = (Value(value(v, sizes, dtype)) for v in (grad, x, target))
    result = g * (p - t) / call("maximum", (1 - p) * p, 1e-12)
    result = result if weight is None else result * Value(value(weight, sizes, dtype))
    context.assign(outs[0], (result / product(sizes) if reduction == MEAN else result).expr)
