"""Checks of what users pass: errors that say what was wrong and what would be right."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])


def alternatives(name: str, known: Iterable[str]) -> str:
    """How a message about an unknown name goes on: the nearest known one, and all of them."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1)
    nearest = f"did you mean {close[0]!r}? There are: " if close else "there are: "
    return f"; {nearest}{', '.join(known)}"


def checked(function: F) -> F:
    """Make a function answer an unknown keyword argument with the nearest one that it has.

    Args:
        function: a function without `**kwargs`.

    Example:
        >>> @checked
        ... def draw(*, color="red"): ...
        >>> draw(colour="blue")
        Traceback (most recent call last):
        TypeError: draw() has no argument 'colour'; did you mean 'color'? There are: color
    """
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                raise TypeError(f"{function.__name__}() has no argument {name!r}{alternatives(name, known)}")
        return function(*args, **kwargs)

    return cast(F, call)


def check_type(where: str, value: Any, expected: type | tuple[type, ...], what: str) -> None:
    """Raise a TypeError unless `value` is of an expected type.

    Args:
        where: the argument, as the message calls it: `compile(dynamic=...)`.
        value: what was passed.
        expected: the types that are right.
        what: what would be right, in words.
    """
    if not isinstance(value, expected):
        raise TypeError(f"{where} takes {what}, not {value!r} ({type(value).__name__})")


def check_choice(where: str, value: str, known: Iterable[str]) -> None:
    """Raise a ValueError unless `value` is one of the known names."""
    known = list(known)
    if value not in known:
        raise ValueError(f"{where} cannot be {value!r}{alternatives(value, known)}")
