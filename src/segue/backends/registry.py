"""The backends by name."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from torch import fx

Backend = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]

_BACKENDS: dict[str, Backend] = {}


def register_backend(backend: Backend | None = None, *, name: str | None = None) -> Any:
    """Register a backend under a name; usable as a decorator.

    Args:
        backend: a callable `(GraphModule, list of tensors) -> callable`.
        name: its name; the function's own name by default.

    Returns:
        The backend, or a decorator when `backend` is not given.

    Raises:
        TypeError: the backend is not callable.

    Example:
        >>> import segue
        >>> @segue.register_backend
        ... def my_backend(gm, example_inputs):
        ...     return gm.forward
    """
    if backend is None:
        return lambda b: register_backend(b, name=name)
    if not callable(backend):
        raise TypeError(f"register_backend takes a callable (graph, example inputs), not {backend!r}")
    _BACKENDS[name or getattr(backend, "__name__", type(backend).__name__)] = backend
    return backend


def list_backends() -> list[str]:
    """The names that `compile(backend=...)` takes, sorted.

    Example:
        >>> import segue
        >>> "eager" in segue.list_backends()
        True
    """
    return sorted(_BACKENDS)


def lookup_backend(backend: str | Backend) -> Backend:
    """The backend that a name or callable stands for.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
        TypeError: neither a name nor a callable.
    """
    if isinstance(backend, str):
        found = _BACKENDS.get(backend)
        if found is None:
            close = difflib.get_close_matches(backend, _BACKENDS, n=1)
            suggestion = f"; did you mean {close[0]!r}?" if close else ""
            raise ValueError(f"there is no backend {backend!r}{suggestion} Known: {', '.join(list_backends())}")
        return found
    if not callable(backend):
        raise TypeError(f"backend is a name or a callable (graph, example inputs), not {backend!r}")
    return backend


def eager(gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs the captured graph as it is, operation by operation."""
    forward: Callable[..., Any] = gm.forward
    return forward


register_backend(eager)
