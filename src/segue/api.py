"""The public functions."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from segue import _core, config
from segue.backends.registry import lookup_backend
from segue.frames.compiler import Compiler

_core.setup_torch(torch)


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = None, mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False) -> Any:
    compiler = Compiler(lookup_backend(backend or config.backend), fullgraph)
    if isinstance(model, types.FunctionType):
        return _core.Entry(model, compiler)
    if isinstance(model, torch.nn.Module):
        return _core.Entry(type(model).__call__, compiler, (model,))
    return _core.Entry(model, compiler)


def is_compiling() -> bool:
    return False


def disable(fn: Callable[..., Any]) -> Any:
    return _core.Disabled(fn)


def _todo(*a: Any, **k: Any) -> Any:
    raise NotImplementedError

allow_in_graph = assume_constant_result = explain = install = mark_dynamic = mark_static = reset = set_stance = uninstall = _todo
