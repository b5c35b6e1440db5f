"""Python equivalents of the methods of exceptions; capture inlines them.

They follow the descriptions in the Python documentation and PEP 654.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def add_note(self: Any, note: Any, /) -> None:
    if not isinstance(note, str):
        raise TypeError(f"note must be a str, not '{type(note).__name__}'")
    if not hasattr(self, "__notes__"):
        self.__notes__ = []
    self.__notes__.append(note)


def with_traceback(self: Any, traceback: Any, /) -> Any:
    self.__traceback__ = traceback
    return self


def derive(self: Any, exceptions: Any, /) -> Any:
    return BaseExceptionGroup(self.message, exceptions)


def split(self: Any, condition: Any, /) -> tuple[Any, Any]:
    return parts(self, matcher(condition), False)


def subgroup(self: Any, condition: Any, /) -> Any:
    return parts(self, matcher(condition), False)[0]


def matcher(condition: Any) -> Callable[[Any], Any]:
    if isinstance(condition, (type, tuple)):
        return lambda exception: isinstance(exception, condition)
    if callable(condition):
        return condition
    raise TypeError("expected a function, exception type or tuple of exception types")


def parts(exception: Any, matches: Callable[[Any], Any], leaves_only: bool) -> tuple[Any, Any]:
    """What of an exception matches, and the rest."""
    is_group = isinstance(exception, BaseExceptionGroup)
    if not (is_group and leaves_only) and matches(exception):
        return exception, None
    if not is_group:
        return None, exception
    matching, rest = [], []
    for inner in exception.exceptions:
        found, other = parts(inner, matches, leaves_only)
        if found is not None:
            matching.append(found)
        if other is not None:
            rest.append(other)
    return part_of(exception, matching), part_of(exception, rest)


def part_of(group: Any, exceptions: list[Any]) -> Any:
    """A group of some of the exceptions in a group."""
    if not exceptions:
        return None
    made = group.derive(exceptions)
    if not isinstance(made, BaseExceptionGroup):
        raise TypeError("derive must return an instance of BaseExceptionGroup")
    made.__traceback__ = group.__traceback__
    made.__context__ = group.__context__
    made.__cause__ = group.__cause__
    if hasattr(group, "__notes__"):
        made.__notes__ = list(group.__notes__)
    return made


def leaves(exception: Any) -> list[Any]:
    """The exceptions in an exception that are no groups."""
    if not isinstance(exception, BaseExceptionGroup):
        return [exception]
    found = []
    for inner in exception.exceptions:
        found += leaves(inner)
    return found


def star_rest(exception: Any, raised: list[Any], left: list[Any]) -> Any:
    """What `except*` raises at its end: what its handlers raised, and what of the exception none of them handled."""
    kept = []
    for part in left:
        kept += leaves(part)
    rest = parts(exception, lambda leaf: any(leaf is other for other in kept), True)[0]
    if not raised:
        return rest
    if rest is not None:
        raised = [*raised, rest]
    return ExceptionGroup("", raised) if len(raised) > 1 else raised[0]
