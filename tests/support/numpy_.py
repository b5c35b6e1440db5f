"""NumPy on arrays made from tensors."""

import numpy as np
import torch

from tests.support.construct import area

construct = area("NumPy")


@construct("`x.numpy()`, arithmetic, back by `torch.from_numpy`")
def arithmetic(x):
    a = x.numpy()
    return torch.from_numpy(a * 2 + 1 - a / 3) * 2


@construct("functions: `sin`, `exp`, `maximum`, `where`, `clip`, `abs`")
def functions(x):
    a = x.numpy()
    return torch.from_numpy(np.where(a > 0, np.abs(a), np.maximum(a, -1)).clip(-0.5, 1.0))


@construct("functions that ATen rounds otherwise: `sin`, `exp`, `tanh`")
def rounded(x):
    a = x.numpy()
    return torch.from_numpy(np.sin(a) + np.exp(a) + np.tanh(a))


@construct("reductions: `sum`, `mean`, `max`, `argmax`, with `axis`")
def reductions(x):
    a = x.numpy()
    return torch.from_numpy(a.max(axis=0)) + torch.from_numpy(np.argmax(a, axis=1)), a.sum(axis=1), np.mean(a)


@construct("shapes: `reshape`, `transpose`, `concatenate`, `stack`, `expand_dims`")
def shapes(x):
    a = x.numpy()
    b = np.concatenate([a, a.T]).reshape(4, 8)
    return torch.from_numpy(np.stack([b, b])) + 1, np.expand_dims(a, 0).shape, a.dtype, a.ndim


@construct("indexing and assignment")
def indexing(x):
    a = x.numpy().copy()
    a[0] = 1
    a[:, 1] += 2
    return torch.from_numpy(a[1:, ::2].copy()) * 2


@construct("factories: `zeros`, `arange`, `linspace`, `array`, `ones_like`")
def factories(x):
    a = np.arange(4, dtype=np.float32) + np.zeros(4, dtype=np.float32) + np.array([1, 2, 3, 4], dtype=np.float32)
    return x + torch.from_numpy(a) + torch.as_tensor(np.linspace(0, 1, 4))


@construct("arrays as arguments", inputs=lambda: (np.random.rand(4).astype(np.float32),))
def argument(a):
    return torch.from_numpy(a) * 2 + np.float32(3)


@construct("`matmul`, `dot`, `einsum`")
def products(x):
    a = x.numpy()
    return torch.from_numpy(a @ a) + torch.from_numpy(np.einsum("ij,jk->ik", a, a))


@construct("scalars: `np.float32`, `np.int64`, `np.pi`, `np.sqrt` of numbers")
def scalars(x):
    return x * np.pi + float(np.sqrt(4.0)) + np.float32(2.5) + int(np.int64(3)) + np.prod([2, 3])


@construct("`np.random`", breaks="the draw is made at its point in the order of effects")
def random(x):
    return x + torch.from_numpy(np.random.rand(4))


@construct("`np.asarray` of a tensor, `torch.tensor` of an array")
def conversions(x):
    return torch.tensor(np.asarray(x)) + 1


@construct("sharing: a write to the array shows in the tensor")
def sharing(x):
    y = x * 2
    a = y.numpy()
    a += 1
    return y


@construct("a result that is an array")
def result(x):
    return (x * 2).numpy() + 1


@construct(
    "`detach().cpu().numpy()` of what gradients flow through", inputs=lambda: (torch.randn(4, requires_grad=True),)
)
def detached(x):
    y = x * 2
    return y, y.detach().cpu().numpy()
