"""Markers that users put into code, Segue's own and PyTorch's, and how each is recognised.

The only module that knows what PyTorch's markers look like.  Recognising one means looking at the
function object: no machinery of `torch._dynamo` is used, and it is not imported.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import nn

from segue import _core
from segue.arguments import check_type


def graph_break(msg: str = "") -> None:
    """Make a graph break here; in eager Python it does nothing.

    Args:
        msg: a text for readers of the program.

    Example:
        >>> import segue, torch
        >>> @segue.compile
        ... def f(x):
        ...     x = x + 1
        ...     segue.graph_break()
        ...     return x + 2
        >>> f(torch.zeros(1))
        tensor([3.])
    """


def skip_frame(msg: str = "") -> None:
    """Run the calling function in the interpreter from here on; what it calls is still compiled.

    The function runs in the interpreter in later calls too.  In eager Python it does nothing.

    Args:
        msg: a text for readers of the program.

    Example:
        >>> import segue, torch
        >>> @segue.compile
        ... def f(x):
        ...     segue.skip_frame()
        ...     return x + 2
        >>> f(torch.zeros(1))
        tensor([2.])
    """


# --- breaks and skips -----------------------------------------------------------------------------


def is_graph_break(target: Any) -> bool:
    """Whether a callable is a graph break marker."""
    return target is graph_break or target is _torch_function("graph_break")


def is_skip_frame(target: Any) -> bool:
    """Whether a callable is a skip marker."""
    return target is skip_frame or target is _torch_function("skip_frame")


def is_compiling_query(target: Any) -> bool:
    """Whether a callable asks if code is being compiled."""
    import segue

    return target is segue.is_compiling or target is _torch_function("is_compiling")


def _torch_function(name: str) -> Any:
    module = sys.modules.get("torch._dynamo")
    return getattr(module, name, None) if module is not None else None


# --- PyTorch's wrappers ---------------------------------------------------------------------------


@functools.cache
def _dynamo_folder() -> str:
    return os.path.join(os.path.dirname(torch.__file__), "_dynamo") + os.sep


def is_torch_wrapper(code: types.CodeType) -> bool:
    """Whether a code object is of `torch._dynamo`, as the wrappers of PyTorch's markers are."""
    return code.co_filename.startswith(_dynamo_folder())


def _is_torch_function(target: Any) -> bool:
    return isinstance(target, types.FunctionType) and is_torch_wrapper(target.__code__)


def compiled_inside(target: Any) -> Any:
    """The function inside a `torch.compile` wrapper; None if `target` is not one."""
    if _is_torch_function(target) and not getattr(target, "_torchdynamo_disable", False):
        return getattr(target, "_torchdynamo_orig_callable", None)
    return None


def compiled_module_inside(module: nn.Module) -> nn.Module | None:
    """The module inside the one that `torch.compile(module)` gives; None if `module` is not one."""
    cls = type(module)
    if cls.__module__ != "torch._dynamo.eval_frame" or cls.__name__ != "OptimizedModule":
        return None
    if type(module.dynamo_ctx).__name__ == "DisableContext":
        return None
    inner = module._orig_mod
    assert isinstance(inner, nn.Module)
    return inner


# --- disabled functions ---------------------------------------------------------------------------

_reasons: dict[int, tuple[Any, str]] = {}
_not_captured: dict[int, types.CodeType] = {}

_OWN = frozenset(
    os.path.join(os.path.dirname(__file__), *path.split("/"))
    for path in (
        "api.py",
        "arguments.py",
        "backends/registry.py",
        "callables.py",
        "config.py",
        "options.py",
        "report/explain.py",
        "stance.py",
    )
)
"""Files of Segue whose functions change the compiler's own state: calls of them break."""


def disabled_inside(target: Any) -> Any:
    """The function that runs with compiling off when `target` is called; None if captured.

    That is the function inside a `disable` wrapper (ours or PyTorch's), or `target` itself if it is
    a function of `torch._dynamo` or of Segue's own interface.
    """
    if isinstance(target, _core.Disabled):
        return target.__wrapped__
    if not isinstance(target, types.FunctionType) or is_compiling_query(target):
        return None
    if target.__code__.co_filename in _OWN:
        return target
    if not is_torch_wrapper(target.__code__) or is_nonrecursive(target):
        return None
    if compiled_inside(target) is not None:
        return None
    return getattr(target, "_torchdynamo_orig_callable", target)


def note_reason(target: Any, reason: str | None) -> None:
    """Remember why the user disabled a callable, for the break report."""
    if reason is not None:
        target.disable_reason = reason


def reason_of(target: Any) -> str | None:
    """Why the user disabled a callable, if said."""
    found = vars(target).get("disable_reason") or getattr(target, "_torchdynamo_disable_msg", None)
    return found if isinstance(found, str) else None


def skip_code(code: types.CodeType) -> None:
    """Never capture frames of this code object (`disable(recursive=False)`)."""
    if id(code) not in _not_captured:
        _not_captured[id(code)] = code
        _core.forget_answers()


def is_skipped(target: Any) -> bool:
    """Whether a function's own frame must not be captured, while what it calls may be."""
    if not isinstance(target, types.FunctionType):
        return False
    return id(target.__code__) in _not_captured or is_nonrecursive(target)


def is_nonrecursive(target: types.FunctionType) -> bool:
    """Whether PyTorch's `disable(recursive=False)` marked the function."""
    return getattr(target, "_torchdynamo_disable", False) and not getattr(
        target, "_torchdynamo_disable_recursive", True
    )


# --- functions that capture takes on trust --------------------------------------------------------

_constant: dict[int, Any] = {}


def assume_constant(target: Any) -> None:
    """Remember that a function gives the same result for the same constants."""
    _constant[id(target)] = target


def has_constant_result(target: Any) -> bool:
    """Whether the user said that the function's result is constant."""
    if id(target) in _constant:
        return True
    # other objects may answer by code of their own
    is_function = isinstance(target, types.FunctionType | types.MethodType)
    return is_function and getattr(target, "_dynamo_marked_constant", False) is True


def constant_result(target: Any, args: list[Any]) -> Any:
    """Call a function whose result the user declared constant."""
    return target(*args)


def is_allowed_by_torch(target: Any) -> bool:
    """Whether `torch.compiler.allow_in_graph` was given this callable."""
    rules = sys.modules.get("torch._dynamo.trace_rules")
    return rules is not None and id(target) in rules._allowed_callable_ids


# --- sizes ----------------------------------------------------------------------------------------


def mark_sizes(where: str, mark: str, tensor: Any, index: Any, facts: Any) -> None:
    """Note on a tensor what the user said of some of its dimensions.

    Raises:
        TypeError: not a tensor, or no index; IndexError: the tensor has no such dimension.
    """
    check_type(where, tensor, torch.Tensor, "a tensor")
    marks: dict[int, Any] = dict(getattr(tensor, mark, {}))
    for i in index if isinstance(index, Sequence) else [index]:
        if type(i) is not int:
            raise TypeError(f"{where} takes the index of a dimension or several, not {index!r}")
        if not -tensor.dim() <= i < tensor.dim():
            raise IndexError(f"{where}: a tensor of {tensor.dim()} dimensions has no dimension {i}")
        marks[i % tensor.dim()] = facts
    setattr(tensor, mark, marks)


@contextlib.contextmanager
def dynamo_off() -> Iterator[None]:
    """Keep `torch.compile`, when it runs above compiled code on this thread, away from Segue's own frames."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    from torch._C._dynamo.eval_frame import set_eval_frame

    before = set_eval_frame(None)
    try:
        yield
    finally:
        set_eval_frame(before)
