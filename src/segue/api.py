"""The public functions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

import torch

from segue import _core, callables, markers
from segue import stance as stances
from segue.arguments import check_type, checked
from segue.backends.registry import Backend
from segue.capture import operations
from segue.frames.compiler import COMPILERS
from segue.options import Options

F = TypeVar("F")
C = TypeVar("C", bound=Callable[..., Any])

_core.setup_torch(torch)


# --- compiling ------------------------------------------------------------------------------------


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
@checked
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Backend | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """Compile a PyTorch program: its tensor work runs as graphs, the rest as ordinary Python.

    Nothing is compiled before the first call.  What comes back behaves as `model` does.

    Args:
        model: what to compile; without it, a decorator is returned.

            * A function, method, lambda or other callable: the compiled one is returned.
            * An `nn.Module`: a twin is returned that is of the module's class and shares all its
              state; calling it runs compiled code, calling the module itself does not.
              `twin.forward` is the plain method.
            * A class: the calls of its instances are compiled.  This changes the class in place.
            * Something compiled already, by Segue or by `torch.compile`: what is inside is compiled
              anew with these options.
            * Something disabled: it is returned as it is.
        fullgraph: raise `GraphBreakError` at the first graph break instead of leaving it to the
            interpreter.
        dynamic: accepted; sizes of tensors are fixed in a graph for now.
        backend: what compiles the graphs: a name (see `list_backends`) or a callable
            `(torch.fx.GraphModule, list of tensors) -> callable`.  Default: `config.backend`.
        mode: one of PyTorch's modes, handed to the backend unless it is `"default"`.
        options: settings handed to the backend.
        disable: compile nothing: `model` itself is returned.

    Returns:
        The compiled form of `model`, or a decorator.

    Raises:
        TypeError: `model` cannot be called, or an argument is unknown or of the wrong type.
        ValueError: there is no such backend or mode.
        segue.errors.GraphBreakError: with `fullgraph`, for a generator or coroutine function;
            otherwise it is raised by the call that breaks.

    Example:
        >>> import segue, torch
        >>> @segue.compile
        ... def f(x):
        ...     return torch.sin(x) + 1
        >>> f(torch.zeros(2))
        tensor([1., 1.])
        >>> net = segue.compile(torch.nn.Linear(2, 2), fullgraph=True)
        >>> isinstance(net, torch.nn.Linear)
        True
    """
    check_type("compile(disable=...)", disable, bool, "True or False")
    given = Options(fullgraph, dynamic, backend, mode, options)

    def make(target: Any) -> Any:
        return target if disable else callables.compiled(target, given)

    return make if model is None else make(model)


@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
@overload
def disable(fn: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[F], F]: ...
@checked
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of compiled code; calling it there is a graph break.

    Args:
        fn: a function, method, class, `nn.Module` or other callable; without it, a decorator is
            returned. A class is changed in place: making and calling its instances runs in the
            interpreter.
        recursive: True: nothing in the function or below it is compiled.  False: only its own frame
            is not; the functions that it calls are.  That marks the code of a Python function, so
            all closures made by one `def` are marked together.
        reason: a text for readers of the program.

    Returns:
        The disabled function, or a decorator.

    Raises:
        TypeError: not callable, or with `recursive=False` not a Python function.

    Example:
        >>> import segue, torch
        >>> @segue.disable
        ... def log(x):
        ...     print(x)
        >>> @segue.compile
        ... def f(x):
        ...     log("half way")
        ...     return x * 2
        >>> f(torch.ones(1))
        half way
        tensor([2.])
    """
    check_type("disable(recursive=...)", recursive, bool, "True or False")
    check_type("disable(reason=...)", reason, (str, type(None)), "a text")

    def make(target: Any) -> Any:
        return callables.disabled(target, reason) if recursive else callables.not_captured(target)

    return make if fn is None else make(fn)


def is_compiling() -> bool:
    """Whether this code is being captured into a graph: True there, False in the interpreter.

    Example:
        >>> import segue, torch
        >>> def f(x):
        ...     return x + 1 if segue.is_compiling() else x
        >>> f(torch.zeros(1)), segue.compile(f)(torch.zeros(1))
        (tensor([0.]), tensor([1.]))
    """
    return False


def reset() -> None:
    """Forget everything that was compiled in this process; compiled functions compile again.

    Example:
        >>> import segue
        >>> segue.reset()
    """
    for compiler in list(COMPILERS):
        compiler.reset()


# --- what capture takes on trust ------------------------------------------------------------------


@checked
def allow_in_graph(fn: C) -> C:
    """Put calls of a function into the graph as they are, without looking into it.

    The function must compute tensors from its arguments and nothing else, and must work on
    PyTorch's fake tensors.

    Args:
        fn: the function, or a list or tuple of functions.

    Returns:
        `fn`.

    Raises:
        TypeError: not callable, or a bound method.

    Example:
        >>> import segue, torch
        >>> @segue.allow_in_graph
        ... def scaled(x):
        ...     return x * 2
        >>> segue.compile(lambda x: scaled(x) + 1, fullgraph=True)(torch.ones(1))
        tensor([3.])
    """
    for target in fn if isinstance(fn, (list, tuple)) else [fn]:
        operations.allow(_lasting("allow_in_graph", target))
    return fn


@checked
def assume_constant_result(fn: C) -> C:
    """Promise that a function gives the same result whenever it is called with the same constants.

    Capture then calls it once and uses the result as a constant.

    Args:
        fn: the function.

    Returns:
        `fn`.

    Raises:
        TypeError: not callable, or a bound method.

    Example:
        >>> import segue, torch
        >>> @segue.assume_constant_result
        ... def scale():
        ...     return 3
        >>> segue.compile(lambda x: x * scale(), fullgraph=True)(torch.ones(1))
        tensor([3.])
    """
    markers.assume_constant(_lasting("assume_constant_result", fn))
    return fn


def _lasting(where: str, target: Any) -> Any:
    """A callable that can be recognised when it is met again."""
    if not callable(target):
        raise TypeError(f"{where} takes a function, not {target!r} ({type(target).__name__})")
    if hasattr(target, "__self__") and not isinstance(target.__self__, type(sys)):
        raise TypeError(
            f"{where} takes a function, not the bound method {target!r}: "
            "each access makes another object; wrap the call in a function"
        )
    return target


# --- sizes ----------------------------------------------------------------------------------------


@checked
def mark_dynamic(
    t: torch.Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """Say that a dimension of a tensor will change from call to call.

    It is noted on the tensor and has no effect yet: sizes are fixed in a graph for now.

    Args:
        t: the tensor.
        index: the dimension, or several.
        min, max: the smallest and the largest size that it will have.

    Raises:
        TypeError: not a tensor, or not an index.
        IndexError: the tensor has no such dimension.
        ValueError: its size now is not between `min` and `max`.

    Example:
        >>> import segue, torch
        >>> x = torch.ones(8, 3)
        >>> segue.mark_dynamic(x, 0, min=1, max=64)
    """
    for name, bound in (("min", min), ("max", max)):
        check_type(f"mark_dynamic({name}=...)", bound, (int, type(None)), "a size or None")
    low, high = 0 if min is None else min, sys.maxsize if max is None else max
    markers.mark_sizes("mark_dynamic", "_segue_dynamic", t, index, (low, high))
    for i in index if isinstance(index, Sequence) else [index]:
        if not low <= t.shape[i] <= high:
            raise ValueError(f"mark_dynamic: dimension {i} has size {t.shape[i]}, not between {low} and {high}")


@checked
def mark_static(t: torch.Tensor, index: int | Sequence[int] | None = None) -> None:
    """Say that a dimension of a tensor will not change from call to call.

    It is noted on the tensor and has no effect yet: sizes are fixed in a graph for now.

    Args:
        t: the tensor.
        index: the dimension, or several; all of them by default.

    Raises:
        TypeError: not a tensor, or not an index.
        IndexError: the tensor has no such dimension.

    Example:
        >>> import segue, torch
        >>> segue.mark_static(torch.ones(8, 3), 1)
    """
    check_type("mark_static", t, torch.Tensor, "a tensor")
    every = range(t.dim())
    markers.mark_sizes("mark_static", "_segue_static", t, every if index is None else index, True)


# --- standing in for torch.compile ----------------------------------------------------------------

_INSTALLED: tuple[tuple[Any, str, Any], ...] = (
    (torch, "compile", compile),
    (torch.compiler, "set_stance", stances.set_stance),
    (torch.compiler, "reset", reset),
)
_replaced: list[tuple[Any, str, Any]] = []


def install() -> None:
    """Make `torch.compile` be `segue.compile`, for programs that are not to be changed.

    `torch.compiler.set_stance` and `torch.compiler.reset` become Segue's too.
    `nn.Module.compile()` and `torch.compiler.compile` call `torch.compile`, so they compile with
    Segue as well.  Calling it again does nothing.

    Example:
        >>> import segue, torch
        >>> segue.install()
        >>> torch.compile is segue.compile
        True
        >>> segue.uninstall()
    """
    if _replaced:
        return
    for owner, name, ours in _INSTALLED:
        _replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, ours)


def uninstall() -> None:
    """Undo `install`; what was compiled in between stays.  Calling it again does nothing.

    Example:
        >>> import segue
        >>> segue.uninstall()
    """
    while _replaced:
        owner, name, original = _replaced.pop()
        setattr(owner, name, original)
