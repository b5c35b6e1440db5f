"""Markers that users put into code, Segue's own and PyTorch's, and how each is recognised.

The only module that knows what PyTorch's markers look like.  Recognising one means looking at the function object: no
machinery of `torch._dynamo` is used.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from typing import Any

from segue import _core


def graph_break(msg: str = "") -> None:
    """Make a graph break here; in eager Python it does nothing.

    Args:
        msg: a text for the break report.

    Example:
        >>> import segue
        >>> segue.graph_break()
    """


def skip_frame(msg: str = "") -> None:
    """Run the calling function in the interpreter from here on; what it calls is still compiled.

    Args:
        msg: a text for the break report.

    Example:
        >>> import segue
        >>> segue.skip_frame()
    """


def is_graph_break(target: Any) -> bool:
    """Whether a callable is a graph break marker."""
    return target is graph_break or target is _torch_function("graph_break")


def is_skip_frame(target: Any) -> bool:
    """Whether a callable is a skip marker."""
    return target is skip_frame or target is _torch_function("skip_frame")


def _torch_function(name: str) -> Any:
    module = sys.modules.get("torch._dynamo")
    return getattr(module, name, None) if module is not None else None


@functools.cache
def _dynamo_files() -> tuple[str, ...]:
    import os

    import torch

    folder = os.path.join(os.path.dirname(torch.__file__), "_dynamo")
    return (folder + os.sep,)


def is_torch_wrapper(code: types.CodeType) -> bool:
    """Whether a code object belongs to the wrappers that PyTorch's own markers put around functions."""
    return code.co_filename.startswith(_dynamo_files())


def disabled_inside(target: Any) -> Any:
    """The function inside a `disable` wrapper (ours or PyTorch's); None if `target` is not one."""
    if isinstance(target, _core.Disabled):
        return target.__wrapped__
    if isinstance(target, types.FunctionType) and is_torch_wrapper(target.__code__):
        if getattr(target, "_torchdynamo_disable", False) and not is_nonrecursive(target):
            return getattr(target, "_torchdynamo_orig_callable", target)
    return None


def compiled_inside(target: Any) -> Any:
    """The function inside a `torch.compile` wrapper; None if `target` is not one."""
    if isinstance(target, types.FunctionType) and is_torch_wrapper(target.__code__):
        if not getattr(target, "_torchdynamo_disable", False):
            return getattr(target, "_torchdynamo_orig_callable", None)
    return None


_not_captured: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
_constant: dict[int, Any] = {}


def skip_code(code: types.CodeType) -> None:
    """Never capture frames of this code object (`disable(recursive=False)`)."""
    _not_captured.add(code)


def is_skipped(target: Any) -> bool:
    """Whether a function's own frame must not be captured, while what it calls may be."""
    if not isinstance(target, types.FunctionType):
        return False
    return target.__code__ in _not_captured or is_nonrecursive(target)


def is_nonrecursive(target: types.FunctionType) -> bool:
    """Whether PyTorch's `disable(recursive=False)` marked the function."""
    return getattr(target, "_torchdynamo_disable", False) and not getattr(
        target, "_torchdynamo_disable_recursive", True
    )


def assume_constant(target: Any) -> None:
    """Remember that a function gives the same result for the same constants."""
    _constant[id(target)] = target


def has_constant_result(target: Any) -> bool:
    """Whether the user said that the function's result is constant."""
    return id(target) in _constant or getattr(target, "_dynamo_marked_constant", False)


def constant_result(target: Any, args: list[Any]) -> Any:
    """Call a function whose result the user declared constant."""
    return target(*args)


def is_compiling_query(target: Any) -> bool:
    """Whether a callable asks if code is being compiled."""
    import segue

    return target is segue.is_compiling or target is _torch_function("is_compiling")
