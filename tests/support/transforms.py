"""torch.func: transforms of functions."""

import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

from tests.support.construct import area

construct = area("torch.func")


def loss(w, x):
    return ((x @ w).tanh() ** 2).sum()


@construct("`vmap`")
def vmapped(x):
    return vmap(lambda row: row.sin() * row.sum())(x)


@construct("`vmap` with `in_dims`, `out_dims`, several arguments")
def vmapped_dims(x):
    return vmap(torch.dot, in_dims=(0, 1))(x, x), vmap(lambda a, k: a * k, in_dims=(0, None), out_dims=1)(x, 2.0)


@construct("nested `vmap`")
def nested_vmap(x):
    return vmap(vmap(torch.sin))(x) + vmap(lambda a: vmap(lambda b: (a * b).sum())(x))(x)


@construct("`vmap` with randomness", state=lambda: ())
def vmap_random(x):
    return vmap(lambda row: row + torch.rand(4), randomness="different")(x)


@construct("`vmap` over a dictionary of tensors")
def vmap_tree(x):
    return vmap(lambda table: table["a"] * table["b"])({"a": x, "b": x.cos()})


@construct("`grad`")
def gradient(x):
    return grad(loss)(x, x.t()), grad(lambda w: w.sin().sum())(x)


@construct("`grad` with `argnums`, `has_aux`")
def gradient_more(x):
    a, b = grad(loss, argnums=(0, 1))(x, x.cos())
    c, aux = grad(lambda w: (w.sum() ** 2, w * 2), has_aux=True)(x)
    return a + b + c, aux


@construct("`grad_and_value`")
def gradient_and_value(x):
    return grad_and_value(loss)(x, x)


@construct("`grad` of `grad`")
def second_gradient(x):
    return grad(lambda w: grad(lambda v: (v**3).sum())(w).sum())(x)


@construct("`vmap` of `grad`: gradients for each sample")
def per_sample(x):
    return vmap(grad(lambda w, row: (w @ row).sin().sum()), in_dims=(None, 0))(x, x)


@construct("`jvp`")
def forward_mode(x):
    return jvp(torch.sin, (x,), (torch.ones_like(x),))


@construct("`vjp`")
def reverse_mode(x):
    out, pull = vjp(torch.sin, x)
    return out, pull(torch.ones_like(out))


@construct("`jacrev`, `jacfwd`, `hessian`")
def jacobians(x):
    row = x[0]
    return jacrev(torch.sin)(row), jacfwd(torch.sin)(row), hessian(lambda v: (v**3).sum())(row)


@construct("`linearize`")
def linearised(x):
    out, push = linearize(torch.sin, x)
    return out + push(torch.ones_like(x))


@construct("`functional_call`", state=lambda: (nn.Linear(4, 4), {"weight": torch.randn(4, 4), "bias": torch.zeros(4)}))
def functional(x, module, weights):
    return functional_call(module, weights, (x,)) + functional_call(module, weights, x)


@construct("`functional_call` under `grad`", state=lambda: (nn.Linear(4, 4),))
def functional_gradient(x, module):
    weights = dict(module.named_parameters())
    return grad(lambda w: functional_call(module, w, (x,)).sum())(weights)


@construct("`stack_module_state` and `vmap`: ensembles", state=lambda: ([nn.Linear(4, 4) for _ in range(3)],))
def ensemble(x, modules):
    weights, buffers = torch.func.stack_module_state(modules)
    return vmap(lambda w, b: functional_call(modules[0], (w, b), (x,)))(weights, buffers)


@construct("`functionalize`")
def functionalised(x):
    return torch.func.functionalize(lambda y: y.clone().add_(1))(x)


@construct("`torch.vmap` as a decorator")
def decorated(x):
    @torch.vmap
    def inner(row):
        return row.softmax(0)

    return inner(x)


@construct("forward-mode AD by `torch.autograd.forward_ad`")
def dual_numbers(x):
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        y = forward_ad.make_dual(x, torch.ones_like(x)).sin()
        return forward_ad.unpack_dual(y).tangent
