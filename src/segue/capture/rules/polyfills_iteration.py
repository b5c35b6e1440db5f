"""Python equivalents of the iterators that `iter` makes; capture inlines them.

They follow the description of `iter` in the Python documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any


def call_until(function: Callable[[], Any], sentinel: Any, /) -> Iterator[Any]:
    while True:
        value = function()
        if value is sentinel or sentinel == value:
            return
        yield value


def items_of(sequence: Any, /) -> Iterator[Any]:
    index = 0
    while True:
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item
        index += 1
