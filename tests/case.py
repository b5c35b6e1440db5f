"""The registry of the corpus: small deterministic functions with arguments for several calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: What the functions of the corpus did, in order. `tests.observation.observe` clears it.
events: list[Any] = []


@dataclass(frozen=True)
class Case:
    """One function of the corpus.

    Attributes:
        function: a plain function (not a generator, not a coroutine function).
        make_args: gives fresh argument tuples, one for each call, that take different paths.
        group: "python" (no tensors) or "tensor".
    """

    function: Callable[..., Any]
    make_args: Callable[[], list[tuple[Any, ...]]]
    group: str

    @property
    def name(self) -> str:
        return self.function.__name__


CORPUS: list[Case] = []


def case(make_args: Callable[[], list[tuple[Any, ...]]], group: str = "python") -> Callable[[F], F]:
    """Register the decorated function, unchanged, as a case of the corpus."""

    def register(function: F) -> F:
        CORPUS.append(Case(function, make_args, group))
        return function

    return register


def record(value: Any) -> Any:
    """Append `value` to `events` and return it: the simplest visible side effect."""
    events.append(value)
    return value
