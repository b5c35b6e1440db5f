"""The backends by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from torch import fx

from segue.arguments import alternatives, check_type, checked

Backend = Callable[..., Callable[..., Any]]
"""`(fx.GraphModule, list of example inputs) -> callable`, with `mode` and `options` if given."""

B = TypeVar("B", bound=Backend)

_BACKENDS: dict[str, Backend] = {}


@overload
def register_backend(backend: B, *, name: str | None = None) -> B: ...
@overload
def register_backend(backend: None = None, *, name: str | None = None) -> Callable[[B], B]: ...
@checked
def register_backend(backend: Any = None, *, name: str | None = None) -> Any:
    """Register a backend under a name; usable as a decorator.

    Args:
        backend: a callable `(torch.fx.GraphModule, list of tensors) -> callable`.
        name: its name; the function's own name by default.  A name that is taken changes hands.

    Returns:
        The backend, or a decorator when `backend` is not given.

    Raises:
        TypeError: the backend is not callable, or the name is not a string.

    Example:
        >>> import segue
        >>> @segue.register_backend
        ... def my_backend(gm, example_inputs):
        ...     return gm.forward
        >>> @segue.register_backend(name="quiet")
        ... def another(gm, example_inputs):
        ...     return gm.forward
    """
    check_type("register_backend(name=...)", name, (str, type(None)), "a name")
    if backend is None:
        return lambda b: register_backend(_callable(b), name=name)
    own_name: str = getattr(backend, "__name__", type(backend).__name__)
    _BACKENDS[name or own_name] = _callable(backend)
    return backend


def _callable(backend: Any) -> Any:
    if not callable(backend):
        raise TypeError(f"register_backend takes a callable (graph, example inputs) -> callable, not {backend!r}")
    return backend


def list_backends() -> list[str]:
    """The names that `compile(backend=...)` takes, sorted.

    Returns:
        The names.

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
            raise ValueError(f"there is no backend {backend!r}{alternatives(backend, list_backends())}")
        return found
    if not callable(backend):
        raise TypeError(
            f"compile(backend=...) takes a name or a callable (graph, example inputs) -> callable, "
            f"not {backend!r} ({type(backend).__name__})"
        )
    return backend


def eager(gm: fx.GraphModule, example_inputs: list[Any], **settings: Any) -> Callable[..., Any]:
    """Runs the captured graph as it is; `mode` and `options` change nothing."""
    forward: Callable[..., Any] = gm.forward
    return forward


def inductor(gm: fx.GraphModule, example_inputs: list[Any], **settings: Any) -> Callable[..., Any]:
    """Compiles with PyTorch's TorchInductor, which it imports; `mode` and `options` are as for `torch.compile`."""
    from segue.backends.inductor import compile_graph

    return compile_graph(gm, example_inputs, **settings)


register_backend(eager)
register_backend(inductor)
