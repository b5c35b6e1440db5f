"""Gradients computed and functions of one's own."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.support.construct import area

construct = area("Autograd")


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class Scale(torch.autograd.Function):
    """With `setup_context`, a constant, and `needs_input_grad`."""

    @staticmethod
    def forward(x, k):
        return x * k, x + k

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, h):
        return (g * ctx.k + (0 if h is None else h)) if ctx.needs_input_grad[0] else None, None


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_non_differentiable()
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k=1.0):
        ctx.k = k
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -ctx.k * g, None


def leaf():
    return (torch.randn(4, 4, requires_grad=True),)


def layer():
    return (nn.Linear(4, 4),)


@construct("inputs that require gradients", inputs=leaf)
def input_gradients(x):
    return (x * 2).sin()


@construct("`backward` outside, gradients equal", inputs=leaf, state=layer)
def backward_outside(x, module):
    return module(x).sum()


@construct("`backward` in the function", state=layer)
def backward_inside(x, module):
    module(x).sum().backward()
    return module.weight.grad * 2


@construct("`torch.autograd.grad` in the function", state=layer)
def grad_inside(x, module):
    (g,) = torch.autograd.grad(module(x).sum(), module.weight)
    return g * 2


@construct("`torch.autograd.grad(create_graph=True)`", inputs=leaf)
def grad_of_grad(x):
    (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return (g**2).sum()


@construct("`.grad` read, written, set to `None`", state=layer)
def grad_attribute(x, module):
    module.weight.grad = torch.ones(4, 4)
    y = module.weight.grad * x
    module.weight.grad = None
    return y, module.weight.grad is None


@construct("`zero_grad`", state=lambda: (nn.Linear(4, 4),))
def zero_grad(x, module):
    module.zero_grad()
    return module(x)


@construct("`requires_grad`, `requires_grad_`, `detach`, `is_leaf`, `grad_fn`")
def flags(x):
    y = x.detach().requires_grad_()
    z = (y * 2).sum()
    return z.detach(), y.requires_grad, y.is_leaf, z.grad_fn is not None


@construct("`retain_grad`, `register_hook` of a tensor in the function", inputs=leaf)
def tensor_hooks(x):
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sum()


@construct("`autograd.Function`", inputs=leaf)
def function(x):
    return Cube.apply(x) + 1


@construct("`autograd.Function` without gradients")
def function_without(x):
    return Cube.apply(x) + 1


@construct("`autograd.Function` with `setup_context`, constants, several outputs", inputs=leaf)
def function_setup(x):
    a, b = Scale.apply(x, 3.0)
    return a + b


@construct("`autograd.Function`: straight-through estimator", inputs=leaf)
def straight_through(x):
    return StraightThrough.apply(x)


@construct("`autograd.Function`: gradient reversal", inputs=leaf)
def reversal(x):
    return Reversal.apply(x, 0.5) * 2


@construct("`checkpoint`, non-reentrant", inputs=leaf, state=layer)
def checkpointed(x, module):
    return checkpoint(lambda y: module(y).relu(), x, use_reentrant=False)


@construct("`checkpoint`, reentrant", inputs=leaf, state=layer)
def checkpointed_reentrant(x, module):
    return checkpoint(module, x, use_reentrant=True)


@construct("`checkpoint` with dropout, random state preserved", inputs=leaf)
def checkpointed_random(x):
    return checkpoint(nn.functional.dropout, x, use_reentrant=False)


@construct("`checkpoint_sequential`", inputs=leaf, state=lambda: (nn.Sequential(nn.Linear(4, 4), nn.ReLU()),))
def checkpointed_sequential(x, module):
    return checkpoint_sequential(module, 2, x, use_reentrant=False)


@construct("in-place work on what gradients flow through", inputs=leaf)
def in_place(x):
    y = x * 2
    y.add_(1).mul_(x)
    y[0] = 0
    return y


@construct("`torch.no_grad` update of parameters", state=layer)
def manual_update(x, module):
    with torch.no_grad():
        for p in module.parameters():
            p.sub_(0.1)
            p -= 0.01 * torch.ones_like(p)
    return module(x)


@construct("`torch.autograd.functional.jacobian`")
def jacobian(x):
    return torch.autograd.functional.jacobian(torch.sin, x[0])


@construct("`torch.is_grad_enabled`, `torch.is_inference_mode_enabled`")
def modes(x):
    return x + torch.is_grad_enabled() + torch.is_inference_mode_enabled()


@construct("`torch.autograd.graph.increment_version`, `_version`")
def version(x):
    before = x._version
    x.add_(1)
    return x * 2, x._version - before


@construct("a saved tensor changed afterwards raises in `backward`", inputs=leaf)
def saved_changed(x):
    y = x.exp()
    z = y.sum()
    return z, y
