"""Softmax and its logarithm, and how gradients pass through them."""

from __future__ import annotations

import math
from typing import Any

import torch

from segue.backends.native.ir import load
from segue.backends.native.rules.context import Context, NoLowering, rule
from segue.backends.native.rules.formula import Value, call, where
from segue.backends.native.rules.reductions import element
from segue.backends.native.rules.types import compute_dtype
from segue.backends.native.rules.views import wrapped_axes
from segue.graphs.aten import View


def greatest(context: Context, x: View, axes: tuple[int, ...], dtype: torch.dtype) -> Value:
    """The greatest element of each row, for each of its elements."""
    if not x.n_elements:
        raise NoLowering("softmax of nothing")
    return Value(load(context.reduce(element(x, dtype).expr, "max", axes, x.sizes), x.sizes))


@rule("_softmax _safe_softmax")
def softmax(context: Context, outs: list[View], x: View, axis: int, *_: Any) -> None:
    """The safe one gives 0 for rows of -inf."""
    axes, dtype = wrapped_axes(axis, len(x.sizes)), compute_dtype(outs[0].dtype)
    top = greatest(context, x, axes, dtype)
    powers = context.keep(call("exp", element(x, dtype) - top).expr, x.sizes)
    total = context.reduce(load(powers, x.sizes), "sum", axes, x.sizes)
    scale = context.keep(call("reciprocal", Value(load(total, total.sizes))).expr, total.sizes)
    result = Value(load(powers, x.sizes)) * Value(load(scale, x.sizes))
    context.assign(outs[0], (where(top.eq(-math.inf), 0, result) if context.name == "_safe_softmax" else result).expr)


@rule("_log_softmax")
def log_softmax(context: Context, outs: list[View], x: View, axis: int, _: bool) -> None:
    axes, dtype = wrapped_axes(axis, len(x.sizes)), compute_dtype(outs[0].dtype)
    low = element(x, dtype) - greatest(context, x, axes, dtype)
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
