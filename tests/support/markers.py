"""PyTorch's and Segue's own markers."""

import torch

import segue
from tests.support.construct import area

construct = area("Markers")


@segue.disable
def disabled(x):
    return x * 2


@torch.compiler.disable
def disabled_for_torch(x):
    return x * 2


@construct("`segue.graph_break`", breaks="it asks for a break")
def graph_break(x):
    x = x + 1
    segue.graph_break()
    return x * 2


@construct("`segue.disable`, `torch.compiler.disable`", breaks="they ask for a break")
def disable(x):
    return disabled(x + 1) + disabled_for_torch(x)


@construct("`segue.compile` inside")
def segue_inside(x):
    return inner(x) + 1


@segue.compile(backend="eager")
def inner(x):
    return x * 2


@construct("`torch.compiler.is_compiling`, as a guard of debugging code")
def is_compiling(x):
    y = x + 1
    if not torch.compiler.is_compiling() and y.dim() == 9:
        print("never")
    return y * 2


@construct("`torch._dynamo.graph_break`, `torch._dynamo.skip_frame`", breaks="they ask for a break")
def dynamo_break(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


@construct("`assume_constant_result`")
def assumed(x):
    return x * scale()


@segue.assume_constant_result
def scale():
    return 3
