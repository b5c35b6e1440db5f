"""Softmax and its logarithm, and how gradients pass through them."""

from __future__ import annotations

from typing import Any

import torch

from segue.backends.native.ir import load
from segue.backends.native.rules.context import Context, NoLowering, rule
from segue.backends.native.rules.formula import Value, call
from segue.backends.native.rules.reductions import element
from segue.backends.native.rules.types import compute_dtype
from segue.backends.native.rules.views import wrapped_axes
from segue.graphs.aten import View


def shifted(context: Context, x: View, axes: tuple[int, ...], dtype: torch.dtype) -> Value:
    """The elements less the greatest of their row."""
    if not x.n_elements:
        raise NoLowering("softmax of nothing")
    v = element(x, dtype)
    top = context.reduce(v.expr, "max", axes, x.sizes)
    return v - Value(load(top, x.sizes))


@rule("_softmax")
def softmax(context: Context, outs: list[View], x: View, axis: int, *_: Any) -> None:
    axes = wrapped_axes(axis, len(x.sizes))
    powers = context.keep(call("exp", shifted(context, x, axes, compute_dtype(x.dtype))).expr, x.sizes)
    total = context.reduce(load(powers, x.sizes), "sum", axes, x.sizes)
    scale = context.keep(call("reciprocal", Value(load(total, total.sizes))).expr, total.sizes)
    context.assign(outs[0], (Value(load(powers, x.sizes)) * Value(load(scale, x.sizes))).expr)


@rule("_log_softmax")
def log_softmax(context: Context, outs: list[View], x: View, axis: int, _: bool) -> None:
    axes = wrapped_axes(axis, len(x.sizes))
    low = shifted(context, x, axes, compute_dtype(x.dtype))
    total = context.reduce(call("exp", low).expr, "sum", axes, x.sizes)
    log = context.keep(call("log", Value(load(total, total.sizes))).expr, total.sizes)
    context.assign(outs[0], (low - Value(load(log, x.sizes))).expr)


@rule("_softmax_backward_data _log_softmax_backward_data")
def softmax_backward(context: Context, outs: list[View], grad: View, y: View, axis: int, _: torch.dtype) -> None:
    if not y.n_elements:
        raise NoLowering("softmax of nothing")
    axes, g, result = wrapped_axes(axis, len(y.sizes)), element(grad), element(y)
    is_log = context.name.startswith("_log")
    total = context.reduce((g if is_log else g * result).expr, "sum", axes, y.sizes)
    t = Value(load(total, y.sizes))
    context.assign(outs[0], (g - call("exp", result) * t if is_log else (g - t) * result).expr)
