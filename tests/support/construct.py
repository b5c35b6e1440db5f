"""The registry of constructs: small functions written as a user writes them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])


def matrix() -> tuple[Any, ...]:
    """The input of most constructs."""
    return (torch.randn(4, 4),)


def nothing() -> tuple[Any, ...]:
    """No state."""
    return ()


@dataclass(frozen=True)
class Construct:
    """One row of the table.

    Attributes:
        area: the section it stands in.
        name: what it shows.
        function: the program, called with the inputs and then the state.
        inputs: makes the inputs of a call; random numbers differ from call to call.
        state: makes what lives on from call to call: modules, objects.
        breaks: why it breaks by design; None if it is to be captured in one graph.
    """

    area: str
    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]] = matrix
    state: Callable[[], tuple[Any, ...]] = nothing
    breaks: str | None = None

    def __str__(self) -> str:
        return f"{self.area}: {self.name}"


CONSTRUCTS: list[Construct] = []

NEW_NAMES = "the first call adds a name to those that are listed: two segments"
NEW_CLASS = "each call makes a new class, with code of the program running in the class statement"
"""Why class statements break."""

AREAS = (
    "statements generators contexts classes inheritance special_methods containers records enums exceptions builtins_ "
    "strings functools_ itertools_ standard_library output tensors random_ numpy_ modules nn_modules autograd "
    "transforms control_flow custom_ops markers"
).split()
"""The modules of this package that define constructs, in the order of the page."""


def load() -> list[Construct]:
    """All constructs."""
    for name in AREAS:
        importlib.import_module(f"tests.support.{name}")
    return CONSTRUCTS


def area(title: str) -> Callable[..., Callable[[F], F]]:
    """The decorator that registers functions as constructs of an area.

    Example:
        construct = area("Generators")

        @construct("a generator's return value")
        def returned(x): ...
    """

    def construct(name: str, **details: Any) -> Callable[[F], F]:
        def register(function: F) -> F:
            CONSTRUCTS.append(Construct(title, name, function, **details))
            return function

        return register

    return construct
