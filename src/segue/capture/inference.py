"""Entering inference mode from a graph, so that it can be left again if the graph fails.

PyTorch has no function that sets inference mode, only objects that enter and leave it.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch


class _Entered(threading.local):
    """The objects through which graphs (and captures) of this thread have entered a mode, oldest first."""

    def __init__(self) -> None:
        self.contexts: list[weakref.ref[Any]] = []


_entered = _Entered()


def enter_inference_mode(mode: bool) -> Any:
    """Enter (or, within one, suspend) inference mode; gives the object that ends it."""
    context = torch._C._InferenceMode(mode)
    context.__enter__()
    _entered.contexts.append(weakref.ref(context))
    return context


def leave_inference_mode(context: Any) -> None:
    """End what `enter_inference_mode` has begun."""
    _entered.contexts = [r for r in _entered.contexts if r() is not None and r() is not context]
    context.__exit__(None, None, None)


def modes_entered() -> int:
    """How many were entered and are still alive."""
    _entered.contexts = [r for r in _entered.contexts if r() is not None]
    return len(_entered.contexts)


def leave_modes(entered: int) -> None:
    """Leave all that were entered since `modes_entered` gave this number."""
    for reference in reversed(_entered.contexts[entered:]):
        context = reference()
        if context is not None:
            leave_inference_mode(context)
