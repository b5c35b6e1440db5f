"""Control flow as operators, and on tensors."""

import torch
from torch._higher_order_ops import associative_scan, scan, while_loop

from tests.support.construct import area

construct = area("Control flow operators")


@construct("`torch.cond` on a tensor")
def cond(x):
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (x,))


@construct("`torch.cond` on a Python bool")
def cond_bool(x):
    return torch.cond(x.shape[0] > 3, lambda y: y.sin(), lambda y: y.cos(), (x,))


@construct("`torch.cond` that closes over tensors and a module", state=lambda: (torch.nn.Linear(4, 4),))
def cond_closure(x, module):
    scale = x.abs().max()
    return torch.cond(x.sum() > 0, lambda y: module(y) * scale, lambda y: module(y) / scale, (x,))


@construct("`torch.cond` with several results")
def cond_results(x):
    a, b = torch.cond(x.sum() > 0, lambda y: (y.sin(), y + 1), lambda y: (y.cos(), y - 1), (x,))
    return a + b


@construct("nested `torch.cond`")
def cond_nested(x):
    def inner(y):
        return torch.cond(y.mean() > 0.1, torch.sin, torch.cos, (y,))

    return torch.cond(x.sum() > 0, inner, torch.tan, (x,))


@construct("`while_loop`")
def loop(x):
    def goes_on(i, y):
        return i < 3

    def step(i, y):
        return i + 1, y * 1.5

    return while_loop(goes_on, step, (torch.tensor(0), x))


@construct("`scan`")
def scanned(x):
    return scan(lambda carry, row: (carry + row, carry * row), torch.zeros(4), x)


@construct("`associative_scan`")
def associatively_scanned(x):
    return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")


@construct("`map` of the higher-order operators")
def mapped(x):
    from torch._higher_order_ops.map import map as map_

    return map_(lambda row, k: row.sin() * k, x, torch.tensor(2.0))


@construct("`torch.where` in place of a branch")
def where(x):
    return torch.where(x.sum() > 0, x.sin(), x.cos())


@construct("`if` on a tensor", breaks="the interpreter decides on a tensor's value")
def tensor_if(x):
    y = x * 2
    if y.sum() > 0:
        return y.sin()
    return y.cos()


@construct("`while` on a tensor", breaks="the interpreter decides on a tensor's value")
def tensor_while(x):
    y = x.abs()
    while y.max() > 0.5:
        y = y / 2
    return y + 1


@construct("`and`, `or`, `not` on tensors", breaks="the interpreter decides on a tensor's value")
def tensor_truth(x):
    return x + (1 if x.sum() > 0 and not x.mean() > 5 else 2)
