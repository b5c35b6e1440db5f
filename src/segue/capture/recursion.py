"""Room for capture's own calls: inlining a call takes several Python frames."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator

ROOM = 20_000

_lock = threading.Lock()
_captures = 0
_before = 0


@contextlib.contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit while any thread captures; the limit belongs to the whole process."""
    global _captures, _before
    with _lock:
        if _captures == 0:
            _before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_before, ROOM))
        _captures += 1
    try:
        yield
    finally:
        with _lock:
            _captures -= 1
            if _captures == 0:
                sys.setrecursionlimit(_before)
