"""Calls of modules and reads of what they register take a short way, with the outcome of PyTorch's own code."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import segue
from segue.capture.rules.modules import _call_of_forward
from segue.frames.code import Code


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.factor = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("offset", torch.ones(3))
        self.register_buffer("nothing", None)

    def forward(self, x):
        x = self.inner(x) * self.factor + self.offset
        return x if self.nothing is None else x + self.nothing


def hooked(module, add, hook):
    getattr(module, add)(hook)
    return module


def own_forward(module):
    module.inner.forward = lambda x: x + 5
    return module


class Sliced(nn.Linear):
    def __call__(self, x):
        return super().__call__(x)[..., :1].expand(2, 3)


class Overridden(nn.Linear):
    def _call_impl(self, x):
        return self.forward(x) + 100


class Everything(nn.Linear):
    def __getattribute__(self, name):
        return super().__getattribute__(name)


class Named(nn.Linear):
    _forward_hooks = {0: lambda module, args, result: result + 7}


def replaced(cls):
    module = Scale()
    module.inner = cls(3, 3)
    return module


MODULES = {
    "plain": Scale,
    "forward hook": lambda: hooked(Scale(), "register_forward_hook", lambda m, args, result: result * 3),
    "forward hook inside": lambda: (m := Scale(), hooked(m.inner, "register_forward_hook", lambda m, a, r: r * 3))[0],
    "forward pre-hook": lambda: hooked(Scale(), "register_forward_pre_hook", lambda m, args: (args[0] + 1,)),
    "forward of the instance": lambda: own_forward(Scale()),
    "__call__": lambda: replaced(Sliced),
    "_call_impl": lambda: replaced(Overridden),
    "__getattribute__": lambda: replaced(Everything),
    "a class attribute": lambda: replaced(Named),
    "something in nothing": lambda: (m := Scale(), m.register_buffer("nothing", torch.ones(3)))[0],
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_give_eagers_result(name) -> None:
    torch.manual_seed(0)
    module, x = MODULES[name](), torch.randn(2, 3)
    compiled = segue.compile(lambda x: module(x) + 1, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x), module(x) + 1, rtol=0, atol=0)


def test_changes_after_the_capture_are_seen() -> None:
    module, x = Scale(), torch.randn(2, 3)
    compiled = segue.compile(lambda x: module(x), backend="eager")

    def check():
        torch.testing.assert_close(compiled(x), module(x), rtol=0, atol=0)

    check()
    hook = module.inner.register_forward_hook(lambda m, args, result: result * 3)
    check()
    hook.remove()
    check()
    everywhere = nn.modules.module.register_module_forward_hook(lambda m, args, result: result - 1)
    check()
    everywhere.remove()
    check()
    module.inner.forward = lambda x: x
    check()
    del module.inner.forward
    module.factor = nn.Parameter(torch.zeros(3))
    check()
    module.nothing = torch.ones(3)
    check()
    del module.offset
    for run in (compiled, module):
        with pytest.raises(AttributeError, match="'Scale' object has no attribute 'offset'"):
            run(x)
    module.offset = 4.0
    check()


def test_the_short_way_knows_this_pytorch() -> None:
    code = Code.of(nn.Module._call_impl.__code__)
    start = _call_of_forward(code)
    assert start is not None
    names = [i.opname for i in code.instructions[start : start + 8]]
    assert names[-2:] == ["CALL_FUNCTION_EX", "RETURN_VALUE"]
    assert code.shapes[start] == ()
