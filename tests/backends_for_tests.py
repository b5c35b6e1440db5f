"""The comparison of a compiled function with the plain one, by a backend that counts its graphs."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable
from typing import Any

import segue
from tests.graphs import Graphs
from tests.observation import Observation, difference, frames_of, observe


def assert_same(
    function: Callable[..., Any],
    *args: Any,
    calls: int = 2,
    graphs: int | None = None,
    sees: str = "",
    never: str = "",
    **options: Any,
) -> Graphs:
    """Call `function` plain and compiled, each time with a fresh copy of `args`, and compare all that can be seen.

    Args:
        args: the arguments; each call gets its own deep copy.
        calls: how often.
        graphs: the exact number of graphs, when it is determined.
        sees: names of operations that must be in a graph, separated by spaces.
        never: names of operations that must not be in a graph.
        options: for `segue.compile`.

    Returns:
        the backend, for further questions.
    """
    return assert_same_calls(function, [args] * calls, graphs=graphs, sees=sees, never=never, **options)


def assert_same_calls(
    function: Callable[..., Any],
    calls: Iterable[tuple[Any, ...]],
    *,
    graphs: int | None = None,
    sees: str = "",
    never: str = "",
    **options: Any,
) -> Graphs:
    """As `assert_same`, with the arguments of each call given."""
    backend = Graphs()
    compiled = segue.compile(function, backend=backend, **options)
    handled = sys.exception()
    for number, args in enumerate(calls):
        expected, got = watch(function, copy.deepcopy(args)), watch(compiled, copy.deepcopy(args))
        found = difference(expected, got)
        assert found is None, f"call {number}: {found}"
        assert sys.exception() is handled, f"call {number} leaves an exception as handled"
    for name in sees.split():
        assert backend.seen(name), f"{name} is in no graph: {backend.graphs}"
    for name in never.split():
        assert not backend.seen(name), f"{name} is in a graph: {backend.graphs}"
    if graphs is not None:
        assert backend.count == graphs, backend.graphs
    return backend


def watch(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Observation, tuple[Any, ...]]:
    """What can be seen of a call, and the traceback of the exception that leaves it, with those behind it."""
    tracebacks: list[Any] = []

    def call(*args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as error:
            tracebacks.extend(tracebacks_of(error))
            raise

    return observe(call, args), tuple(tracebacks)


def tracebacks_of(error: BaseException | None) -> list[tuple[tuple[str, int], ...]]:
    """The frames of the test files in the traceback of an exception and of those behind it: (function, line)."""
    found = []
    while error is not None:
        found.append(frames_of(error, lambda path: path.name.startswith("test_")))
        error = error.__context__
    return found
