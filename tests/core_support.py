"""A compiler for the tests of the C core: it does what the test says."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from segue import _core
from segue.frames.state import FunctionState

_core.setup_torch(torch)


class Scripted:
    """A compiler that knows some states and answers misses with a function."""

    def __init__(self, answer: Callable[..., Any] = lambda *miss: None) -> None:
        self.states: dict[types.CodeType, Any] = {}
        self.answer = answer
        self.misses: list[tuple[Any, ...]] = []
        self.unstable: list[tuple[Any, ...]] = []

    def admit(self, function: types.FunctionType) -> Any:
        return self.states.get(function.__code__)

    def miss(self, *miss: Any) -> Any:
        self.misses.append(miss)
        return self.answer(*miss)

    def report_unstable(self, *report: Any) -> None:
        self.unstable.append(report)


class Recorder(Scripted):
    """Admits the functions of the core's tests; records which calls reach their entry gates."""

    def __init__(self, *, versions: bool = True, answer: Callable[..., Any] | None = None) -> None:
        super().__init__(answer or (lambda *miss: None))
        self.versions = versions

    def admit(self, function: types.FunctionType) -> Any:
        code = function.__code__
        if "test_core" not in code.co_filename:
            return None
        if code not in self.states:
            self.states[code] = state = FunctionState(code)
            if self.versions:
                state.refresh()
        return self.states[code]

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """Function name and arguments of each miss at an entry."""
        return [
            (function.__name__, *locals[: function.__code__.co_argcount])
            for gate, function, locals, _ in self.misses
            if gate is gate.state.entry
        ]

    @property
    def names(self) -> list[str]:
        return [name for name, *_ in self.calls]
