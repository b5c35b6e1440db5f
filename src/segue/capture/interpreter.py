"""The interpreter's settings while a capture runs: room for its own calls, and no garbage collection."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator

ROOM = 20_000

_lock = threading.Lock()
_captures = 0
_limit_before = 0
_collects_before = False


def limit() -> int:
    """The recursion limit of the program."""
    with _lock:
        return _limit_before if _captures else sys.getrecursionlimit()


def collects() -> bool:
    """Whether the program's garbage collector is on."""
    with _lock:
        return _collects_before if _captures else gc.isenabled()


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Raise Python's recursion limit and pause the collector while any thread captures.

    Both belong to the whole process.  Inlining a call takes several Python frames; a collection could run finalisers of
    the program in the middle of a capture, and would look at a hundred thousand objects that live on.
    """
    _enter()
    try:
        yield
    finally:
        _leave()


def _enter() -> None:
    global _captures, _limit_before, _collects_before
    with _lock:
        if _captures == 0:
            _limit_before, _collects_before = sys.getrecursionlimit(), gc.isenabled()
            sys.setrecursionlimit(max(_limit_before, ROOM))
            gc.disable()
        _captures += 1


def _leave() -> None:
    global _captures
    with _lock:
        _captures -= 1
        if _captures == 0:
            sys.setrecursionlimit(_limit_before)
            if _collects_before:
                gc.enable()
