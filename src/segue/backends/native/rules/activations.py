"""Activation functions, and how gradients pass through them."""

from __future__ import annotations

import math
from typing import Any

from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.elementwise import assign_formula, pointwise
from segue.backends.native.rules.formula import Value, call, clamp, where
from segue.backends.native.rules.pointwise import maximum, minimum
from segue.backends.native.rules.views import narrow, wrapped
from segue.graphs.aten import View


def sigmoid(x: Value) -> Value:
    return call("sigmoid", x)


def softplus_of(x: Value) -> Value:
    """log(1 + exp(x)), which does not overflow."""
    return call("maximum", x, 0) + call("log1p", call("exp", -abs(x)))


@pointwise("relu")
def relu(x: Value) -> Value:
    return call("maximum", x, 0)


@pointwise("gelu")
def gelu(x: Value, approximate: str) -> Value:
    if approximate == "tanh":
        return 0.5 * x * (1 + call("tanh", tanh_argument(x)))
    return x * 0.5 * (1 + call("erf", x * math.sqrt(0.5)))


def tanh_argument(x: Value) -> Value:
    return math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))


@pointwise("silu")
def silu(x: Value) -> Value:
    return x / (1 + call("exp", -x))


@pointwise("mish")
def mish(x: Value) -> Value:
    return x * call("tanh", softplus_of(x))


@pointwise("hardtanh")
def hardtanh(x: Value, low: Value, high: Value) -> Value:
    return minimum(maximum(x, low), high)


@pointwise("hardsigmoid")
def hardsigmoid(x: Value) -> Value:
    return clamp(x + 3, 0, 6) / 6


@pointwise("hardswish")
def hardswish(x: Value) -> Value:
    return x * clamp(x + 3, 0, 6) / 6


@pointwise("leaky_relu")
def leaky_relu(x: Value, slope: Value) -> Value:
    if not x.is_float:
        raise NoLowering("leaky_relu is of floats")
    return where(x > 0, x, x * slope)


@pointwise("elu")
def elu(x: Value, alpha: Value, scale: Value, input_scale: Value) -> Value:
    return where(x < 0, call("expm1", x * input_scale) * (alpha * scale), x * scale)


@pointwise("celu")
def celu(x: Value, alpha: Value) -> Value:
    return where(x <= 0, call("expm1", x / alpha) * alpha, x)


@pointwise("selu")
def selu(x: Value) -> Value:
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return where(x <= 0, call("expm1", x) * (alpha * scale), x * scale)


@pointwise("softplus")
def softplus(x: Value, beta: Value, threshold: Value) -> Value:
    scaled = x * beta
    return where(scaled > threshold, x, call("log1p", call("exp", scaled)) / beta)


@rule("log_sigmoid_forward")
def log_sigmoid(context: Context, outs: list[View], x: View) -> None:
    out, small = outs
    v = Value(value(x, out.sizes))
    power = call("exp", -abs(v))
    context.assign(out, (call("minimum", v, 0) - call("log1p", power)).expr)
    if small.sizes == out.sizes:
        context.assign(small, power.expr)


@pointwise("threshold")
def threshold(x: Value, limit: Value, otherwise: Value) -> Value:
    return where(x <= limit, otherwise, x)


@pointwise("_prelu_kernel")
def prelu(x: Value, weight: Value) -> Value:
    return where(x > 0, x, x * weight)


@pointwise("softshrink")
def softshrink(x: Value, bound: Value) -> Value:
    return where(x > bound, x - bound, where(x < -bound, x + bound, x * 0))


@pointwise("hardshrink")
def hardshrink(x: Value, bound: Value) -> Value:
    return where(abs(x) <= bound, 0, x)


@rule("glu")
def glu(context: Context, outs: list[View], x: View, axis: int) -> None:
    axis, half = wrapped(axis, len(x.sizes)), outs[0].sizes[wrapped(axis, len(x.sizes))]
    first, second = (Value(value(narrow(x, axis, start, half), outs[0].sizes)) for start in (0, half))
    context.assign(outs[0], (first * sigmoid(second)).expr)


# --- gradients --------------------------------------------------------------------------------------------


@pointwise("threshold_backward")
def threshold_backward(grad: Value, x: Value, limit: Value) -> Value:
    return where(x <= limit, 0, grad)


@pointwise("sigmoid_backward")
def sigmoid_backward(grad: Value, y: Value) -> Value:
    return grad * ((1 - y) * y)


@pointwise("tanh_backward")
def tanh_backward(grad: Value, y: Value) -> Value:
    return grad * (1 - y * y)


@pointwise("silu_backward")
def silu_backward(grad: Value, x: Value) -> Value:
    s = sigmoid(x)
    return grad * s * (1 + x * (1 - s))


@pointwise("mish_backward")
def mish_backward(grad: Value, x: Value) -> Value:
    s, t = sigmoid(x), call("tanh", softplus_of(x))
    return grad * (t + x * s * (1 - t * t))


@pointwise("gelu_backward")
def gelu_backward(grad: Value, x: Value, approximate: str) -> Value:
    if approximate != "tanh":
        density = call("exp", x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return grad * (0.5 * (1 + call("erf", x * math.sqrt(0.5))) + x * density)
    t = call("tanh", tanh_argument(x))
    slope = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * (x * x))
    return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * slope)


@pointwise("hardtanh_backward")
def hardtanh_backward(grad: Value, x: Value, low: Value, high: Value) -> Value:
    return where((x <= low) | (x >= high), 0, grad)


@pointwise("hardsigmoid_backward")
def hardsigmoid_backward(grad: Value, x: Value) -> Value:
    return where((x > -3) & (x < 3), grad * (1 / 6), 0)


@pointwise("hardswish_backward")
def hardswish_backward(grad: Value, x: Value) -> Value:
    return where(x < -3, 0, where(x <= 3, grad * (x / 3 + 0.5), grad))


@rule("leaky_relu_backward")
def leaky_relu_backward(context: Context, outs: list[View], grad: View, x: View, slope: Any, of_result: bool) -> None:
    assign_formula(context, outs[0], lambda g, v, s, _: where(v > 0, g, g * s), (grad, x, slope, of_result))


@pointwise("elu_backward")
def elu_backward(grad: Value, alpha: Value, scale: Value, input_scale: Value, of_result: bool, y: Value) -> Value:
    factor = alpha * scale
    if of_result:
        return where(y <= 0, grad * input_scale * (y + factor), grad * scale)
    return where(y <= 0, grad * input_scale * factor * call("exp", y * input_scale), grad * scale)


@pointwise("softplus_backward")
def softplus_backward(grad: Value, x: Value, beta: Value, threshold: Value) -> Value:
    scaled = x * beta
    return where(scaled > threshold, grad, grad * sigmoid(scaled))


@pointwise("log_sigmoid_backward")
def log_sigmoid_backward(grad: Value, x: Value, _: Value) -> Value:
    return grad * sigmoid(-x)


@pointwise("softshrink_backward hardshrink_backward")
def shrink_backward(grad: Value, x: Value, bound: Value) -> Value:
    return where((x >= -bound) & (x <= bound), 0, grad)


@rule("_prelu_kernel_backward")
def prelu_backward(context: Context, outs: list[View], grad: View, x: View, weight: View) -> None:
    if outs[0].sizes != outs[1].sizes:
        raise NoLowering("results of several shapes")
    g, v, w = (Value(value(a, outs[0].sizes)) for a in (grad, x, weight))
    context.assign(outs[0], where(v > 0, g, w * g).expr)
    context.assign(outs[1], where(v > 0, 0, v * g).expr)


@rule("glu_backward")
def glu_backward(context: Context, outs: list[View], grad: View, x: View, axis: int) -> None:
    axis, half = wrapped(axis, len(x.sizes)), grad.sizes[wrapped(axis, len(x.sizes))]
    g = Value(value(grad, grad.sizes))
    first, second = (Value(value(narrow(x, axis, start, half), grad.sizes)) for start in (0, half))
    s = sigmoid(second)
    context.assign(narrow(outs[0], axis, 0, half), (g * s).expr)
    context.assign(narrow(outs[0], axis, half, half), (g * first * s * (1 - s)).expr)


@rule("native_dropout_backward")
def dropout_backward(context: Context, outs: list[View], grad: View, mask: View, scale: Any) -> None:
    sizes = outs[0].sizes
    g = Value(value(grad, sizes))
    if not g.is_float:
        raise NoLowering("gradients that are not floats")
    kept = Value(value(mask, sizes, g.dtype))
    context.assign(outs[0], (g * kept * Value(value(scale, sizes, g.dtype))).expr)
