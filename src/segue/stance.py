"""The stance: what the whole process does, for the time being, instead of compiling as usual."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from segue import _core
from segue.arguments import check_choice, check_type, checked

F = TypeVar("F", bound=Callable[..., Any])

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile")

_current = "default"


def current() -> str:
    """The stance that holds now."""
    return _current


def _take(stance: str) -> str:
    """Change the stance; returns the one before."""
    global _current
    before, _current = _current, stance
    _core.set_paused(stance == "force_eager")
    return before


class Stance:
    """A stance taken by `set_stance`; as a context manager or decorator it is given up again."""

    def __init__(self, stance: str) -> None:
        self._stance = stance
        self._before = _take(stance)

    def __repr__(self) -> str:
        return f"set_stance({self._stance!r})"

    def __enter__(self) -> None:
        _take(self._stance)

    def __exit__(self, *error: object) -> None:
        _take(self._before)

    def __call__(self, function: F) -> F:
        """Hold the stance during every call of `function`, and only then."""
        _take(self._before)
        stance = self._stance

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            before = _take(stance)
            try:
                return function(*args, **kwargs)
            finally:
                _take(before)

        return cast(F, call)


@checked
def set_stance(stance: str = "default") -> Stance:
    """Set what the process does at compiled functions: as a function, context manager or decorator.

    Args:
        stance: one of

            * `"default"`: compile as usual;
            * `"force_eager"`: run everything in the interpreter, as if nothing were compiled;
            * `"eager_on_recompile"`: run what is compiled already; where nothing fits, run in the
              interpreter and compile nothing new;
            * `"fail_on_recompile"`: raise where code that has a graph needs another one.

    Returns:
        The stance, already taken.  Used in `with` or as a decorator it ends with the block or with
        each call.

    Raises:
        TypeError, ValueError: not the name of a stance.
        segue.errors.RecompileError: later, from a compiled call under `"fail_on_recompile"`.

    Example:
        >>> import segue, torch
        >>> double = segue.compile(lambda x: x * 2)
        >>> with segue.set_stance("force_eager"):
        ...     double(torch.ones(2))
        tensor([2., 2.])
    """
    check_type("set_stance(stance)", stance, str, "the name of a stance")
    check_choice("set_stance(stance)", stance, STANCES)
    return Stance(stance)
