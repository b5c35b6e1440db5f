"""How gradients pass through layer, group and batch normalisation.

With x̂ = (x - mean) * inverse and g = grad * weight, over the n elements that share a mean:
grad of x = inverse * (g - sum(g) / n - x̂ * sum(g * x̂) / n).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from segue.backends.native.ir import load
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.formula import Value
from segue.backends.native.rules.normalisation import channels, inverse_deviation
from segue.backends.native.rules.reductions import element
from segue.backends.native.rules.types import compute_dtype
from segue.backends.native.rules.views import insert, split
from segue.graphs.aten import View, product

Axes = tuple[int, ...]


def input_gradient(context: Context, out: View, g: Value, xhat: Value, inverse: Value, axes: Axes) -> None:
    """Store the gradient of the normalised tensor; axes are those that share a mean."""
    sizes, count = out.sizes, product([out.sizes[a] for a in axes])
    sums = [context.reduce(e.expr, "sum", axes, sizes) for e in (g, g * xhat)]
    of_g, of_product = (Value(load(s, sizes)) / count for s in sums)
    context.assign(out, (inverse * (g - of_g - xhat * of_product)).expr)


def parameter_gradients(
    context: Context, outs: Sequence[View | None], grad: Value, xhat: Value, axes: Axes, sizes: tuple[int, ...]
) -> None:
    """Store the gradients of weight and bias, those wanted; axes are those that share a parameter."""
    for out, terms in zip(outs, (grad * xhat, grad), strict=True):
        if out is not None:
            context.reduce_into(out, terms.expr, "sum", axes, sizes)


def spread(statistic: View, x: View) -> Value:
    """A statistic or parameter at each element of x."""
    return Value(value(statistic, x.sizes, compute_dtype(x.dtype)))


@rule("native_layer_norm_backward")
def layer_norm_backward(
    context: Context, outs: list[View | None], grad: View, x: View, shape: Sequence[int], *args: Any
) -> None:
    mean, inverse, weight, _bias, _mask = args
    if not x.n_elements:
        raise NoLowering("normalisation of nothing")
    rank = len(x.sizes)
    rows, axes = tuple(range(rank - len(shape))), tuple(range(rank - len(shape), rank))
    scale = spread(inverse, x)
    g, xhat = element(grad), (element(x) - spread(mean, x)) * scale
    parameter_gradients(context, outs[1:], g, xhat, rows, x.sizes)
    if outs[0] is not None:
        input_gradient(context, outs[0], g if weight is None else g * spread(weight, x), xhat, scale, axes)


@rule("native_group_norm_backward")
def group_norm_backward(context: Context, outs: list[View | None], grad: View, x: View, *args: Any) -> None:
    mean, inverse, weight, _n, c, _size, groups, _mask = args
    if not x.n_elements:
        raise NoLowering("normalisation of nothing")
    parts = (groups, c // groups)
    grouped, grad = split(x, 1, parts), split(grad, 1, parts)
    rank = len(grouped.sizes)
    mean, inverse = (insert(v, range(2, rank)) for v in (mean, inverse))
    scale = spread(inverse, grouped)
    g, xhat = element(grad), (element(grouped) - spread(mean, grouped)) * scale
    wanted = [None if out is None else insert(split(out, 0, parts), (0, *range(3, rank))) for out in outs[1:]]
    parameter_gradients(context, wanted, g, xhat, (0, *range(3, rank)), grouped.sizes)
    if outs[0] is not None:
        if weight is not None:
            g = g * spread(insert(split(weight, 0, parts), range(2, rank - 1)), grouped)
        input_gradient(context, split(outs[0], 1, parts), g, xhat, scale, tuple(range(2, rank)))


@rule("native_batch_norm_backward")
def batch_norm_backward(context: Context, outs: list[View | None], grad: View, x: View, *args: Any) -> None:
    weight, running_mean, running_variance, mean, inverse, training, eps, _mask = args
    if not x.n_elements:
        raise NoLowering("normalisation of nothing")
    if training:
        mean, inverse = channels(mean, x), channels(inverse, x)
    else:
        mean, inverse = channels(running_mean, x), inverse_deviation(context, channels(running_variance, x), eps)
    axes = tuple(a for a in range(len(x.sizes)) if a != 1)
    scale = spread(inverse, x)
    g, xhat = element(grad), (element(x) - spread(mean, x)) * scale
    parameter_gradients(context, outs[1:], g, xhat, axes, x.sizes)
    if outs[0] is None:
        return
    g = g if weight is None else g * spread(channels(weight, x), x)
    if training:
        input_gradient(context, outs[0], g, xhat, scale, axes)
    else:
        context.assign(outs[0], (g * scale).expr)
