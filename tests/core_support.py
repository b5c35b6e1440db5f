"""A compiler for the tests of the C core: it does what the test says."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from segue import _core

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
