"""Sums, products, extremes, moments and norms over axes."""

from __future__ import annotations

import math
from typing import Any

import torch

from segue.backends.native.ir import Expr, load
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.formula import Value, call, where
from segue.backends.native.rules.pointwise import truth
from segue.backends.native.rules.types import accumulator, compute_dtype, promoted
from segue.backends.native.rules.views import insert, wrapped_axes
from segue.graphs.aten import View, product

Axes = tuple[int, ...]


def not_empty(x: View) -> None:
    """Reductions of nothing are left to ATen."""
    if not x.n_elements:
        raise NoLowering("a reduction of nothing")


def element(x: View, dtype: torch.dtype | None = None) -> Value:
    """A tensor's element in the space of its own sizes."""
    return Value(value(x, x.sizes, dtype))


def reduce_to(context: Context, out: View, x: View, expr: Expr, combine: str, axes: Axes) -> None:
    not_empty(x)
    context.reduce_into(out, expr, combine, axes, x.sizes)


@rule("sum sum.dim_IntList prod prod.dim_int")
def sums(context: Context, outs: list[View], x: View, *args: Any) -> None:
    axes = wrapped_axes(args[0] if len(args) > 1 else None, len(x.sizes))
    dtype = accumulator(outs[0].dtype)
    source = element(x, outs[0].dtype).to(dtype) if outs[0].dtype is not torch.bool else element(x, dtype)
    reduce_to(context, outs[0], x, source.expr, context.name, axes)


@rule("mean mean.dim")
def mean(context: Context, outs: list[View], x: View, *args: Any) -> None:
    axes = wrapped_axes(args[0] if len(args) > 1 else None, len(x.sizes))
    not_empty(x)
    total = context.reduce(element(x, compute_dtype(outs[0].dtype)).expr, "sum", axes, x.sizes)
    count = product([x.sizes[a] for a in axes])
    assign_statistic(context, outs[0], Value(load(total, total.sizes)) / count, axes, total.sizes)


def assign_statistic(context: Context, out: View, result: Value, axes: Axes, sizes: tuple[int, ...]) -> None:
    """Store a value that has one element along the axes; the result may lack them."""
    context.assign(out if len(out.sizes) == len(sizes) else insert(out, axes), result.expr)


@rule("nansum")
def nansum(context: Context, outs: list[View], x: View, axes: Any, _: bool, __: Any) -> None:
    v = element(x, accumulator(outs[0].dtype))
    source = where(call("isnan", v), 0, v) if v.is_float else v
    reduce_to(context, outs[0], x, source.expr, "sum", wrapped_axes(axes, len(x.sizes)))


@rule("trace")
def trace(context: Context, outs: list[View], x: View) -> None:
    diagonal = View(x.buffer, (min(x.sizes),), (sum(x.strides),), x.offset)
    reduce_to(context, outs[0], diagonal, element(diagonal, accumulator(outs[0].dtype)).expr, "sum", (0,))


@rule("avg_pool1d avg_pool2d avg_pool3d")
def average_pool(context: Context, outs: list[View], x: View, kernel: Any, stride: Any, padding: Any, *_: Any) -> None:
    """Where one window covers all of the input."""
    n = {"avg_pool1d": 1, "avg_pool2d": 2, "avg_pool3d": 3}[context.name]
    window = tuple(kernel) * (n // len(kernel))
    if window != x.sizes[-n:] or any(padding) or product(outs[0].sizes[-n:]) != 1:
        raise NoLowering("several windows")
    mean(context, outs, x, list(range(len(x.sizes) - n, len(x.sizes))), True)


# --- extremes ---------------------------------------------------------------------------------------------


@rule("amax amin max min")
def extreme(context: Context, outs: list[View], x: View, axes: Any = None, _: bool = False) -> None:
    reduce_extreme(context, outs[0], x, context.name.removeprefix("a"), wrapped_axes(axes, len(x.sizes)))


@rule("aminmax")
def aminmax(context: Context, outs: list[View], x: View, axis: int | None, _: bool) -> None:
    for out, combine in zip(outs, ("min", "max"), strict=True):
        reduce_extreme(context, out, x, combine, wrapped_axes(axis, len(x.sizes)))


@rule("max.dim min.dim")
def extreme_and_index(context: Context, outs: list[View], x: View, axis: int, _: bool) -> None:
    axes = wrapped_axes(axis, len(x.sizes))
    reduce_extreme(context, outs[0], x, context.name, axes)
    reduce_extreme(context, outs[1], x, f"arg{context.name}", axes)


@rule("argmax argmin")
def arg_extreme(context: Context, outs: list[View], x: View, axis: int | None, _: bool) -> None:
    reduce_extreme(context, outs[0], x, context.name, wrapped_axes(axis, len(x.sizes)))


def reduce_extreme(context: Context, out: View, x: View, combine: str, axes: Axes) -> None:
    source = element(x)
    if x.dtype is torch.bool:
        combine = {"max": "any", "min": "all"}.get(combine, combine)
        source = source.to(torch.uint8) if combine.startswith("arg") else source
    reduce_to(context, out, x, source.expr, combine, axes)


@rule("any any.dim any.dims all all.dim all.dims")
def any_or_all(context: Context, outs: list[View], x: View, axes: Any = None, _: bool = False) -> None:
    reduce_to(context, outs[0], x, truth(element(x)).expr, context.name, wrapped_axes(axes, len(x.sizes), False))


@rule("count_nonzero count_nonzero.dim_IntList")
def count_nonzero(context: Context, outs: list[View], x: View, axes: Any = None) -> None:
    source = truth(element(x)).to(torch.int64)
    reduce_to(context, outs[0], x, source.expr, "sum", wrapped_axes(axes, len(x.sizes)))


# --- moments ----------------------------------------------------------------------------------------------


def mean_and_squares(context: Context, x: View, axes: Axes, dtype: torch.dtype) -> tuple[View, View]:
    """The mean and the sum of squared deviations from it, with one element along the axes."""
    count = product([x.sizes[a] for a in axes])
    total = context.reduce(element(x, dtype).expr, "sum", axes, x.sizes)
    mean = context.keep((Value(load(total, total.sizes)) / count).expr, total.sizes)
    deviation = element(x, dtype) - Value(load(mean, x.sizes))
    return mean, context.reduce((deviation * deviation).expr, "sum", axes, x.sizes)


@rule("var.correction std.correction var_mean.correction std_mean.correction")
def variance(context: Context, outs: list[View], x: View, axes: Any, correction: Any, _: bool) -> None:
    not_empty(x)
    if isinstance(correction, View):
        raise NoLowering("a correction that is not known")
    chosen = wrapped_axes(axes, len(x.sizes))
    mean, squares = mean_and_squares(context, x, chosen, compute_dtype(x.dtype))
    count = product([x.sizes[a] for a in chosen])
    divisor = max(0, count - value_of(correction))
    result = Value(load(squares, squares.sizes)) / divisor
    result = call("sqrt", result) if context.name.startswith("std") else result
    assign_statistic(context, outs[0], result, chosen, mean.sizes)
    if len(outs) == 2:
        assign_statistic(context, outs[1], Value(load(mean, mean.sizes)), chosen, mean.sizes)


def value_of(correction: Any) -> float:
    if correction is None:
        return 1
    if not isinstance(correction, (int, float)):
        raise NoLowering("a correction that is not known")
    return correction


# --- norms and log of sums --------------------------------------------------------------------------------


@rule("linalg_vector_norm")
def vector_norm(context: Context, outs: list[View], x: View, order: Any, axes: Any, *_: Any) -> None:
    norm(context, outs[0], x, order, wrapped_axes(axes, len(x.sizes)))


@rule("norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype norm.ScalarOpt_dtype")
def norm_over(context: Context, outs: list[View], x: View, order: Any, axes: Any = None, *_: Any) -> None:
    axes = axes if isinstance(axes, (list, tuple)) else None
    norm(context, outs[0], x, 2 if order is None else order, wrapped_axes(axes, len(x.sizes)))


def norm(context: Context, out: View, x: View, order: Any, axes: Axes) -> None:
    not_empty(x)
    if not isinstance(order, (int, float)):
        raise NoLowering("the order of a norm is not known")
    v = abs(element(x, compute_dtype(out.dtype)))
    if math.isinf(order):
        return reduce_to(context, out, x, v.expr, "max" if order > 0 else "min", axes)
    if order in (0, 1):
        terms = v if order else v.ne(0).to(v.dtype)
        return reduce_to(context, out, x, terms.expr, "sum", axes)
    total = context.reduce((v * v if order == 2 else call("pow", v, order)).expr, "sum", axes, x.sizes)
    t = Value(load(total, total.sizes))
    assign_statistic(context, out, call("sqrt", t) if order == 2 else call("pow", t, 1 / order), axes, total.sizes)


@rule("dist")
def distance(context: Context, outs: list[View], x: View, y: View, order: Any) -> None:
    sizes = tuple(torch.broadcast_shapes(x.sizes, y.sizes))
    dtype = compute_dtype(promoted((x, y)))
    difference = context.keep((Value(value(x, sizes, dtype)) - Value(value(y, sizes, dtype))).expr, sizes)
    norm(context, outs[0], difference, order, tuple(range(len(sizes))))


@rule("logsumexp")
def logsumexp(context: Context, outs: list[View], x: View, axes: Any, _: bool) -> None:
    not_empty(x)
    chosen, dtype = wrapped_axes(axes, len(x.sizes)), compute_dtype(outs[0].dtype)
    top = context.reduce(element(x, dtype).expr, "max", chosen, x.sizes)
    highest = Value(load(top, top.sizes))
    shift = context.keep(where(abs(highest).eq(math.inf), 0, highest).expr, top.sizes)
    powers = call("exp", element(x, dtype) - Value(load(shift, x.sizes)))
    total = context.reduce(powers.expr, "sum", chosen, x.sizes)
    result = call("log", Value(load(total, total.sizes))) + Value(load(shift, total.sizes))
    assign_statistic(context, outs[0], result, chosen, total.sizes)
