"""Hooks that the program sets on all modules are not run for captured graphs."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import segue
from tests.graphs import Graphs

MODULE = nn.Linear(4, 4)


def test_a_global_hook_sees_the_programs_modules_only():
    seen = []

    def function(x):
        return MODULE(x) + 1

    def called(f):
        seen.clear()
        handle = register_module_forward_hook(lambda module, args, output: (seen.append(type(module)), output * 2)[1])
        try:
            return f(torch.ones(2, 4)), list(seen)
        finally:
            handle.remove()

    compiled = segue.compile(function, backend=Graphs())
    for _ in range(2):
        got, expected = called(compiled), called(function)
        assert torch.equal(got[0], expected[0])
        assert got[1] == expected[1] == [nn.Linear]
        assert torch.equal(compiled(torch.ones(2, 4)), function(torch.ones(2, 4)))
