"""Sources: where a value that capture looked at can be found again at run time.

A source names a place in the state at a gate: a local, a stack slot, a global, or a path from one of those.  Sources
are plain data; each knows its parent and the register-program step that fetches it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

Step = tuple[Any, ...]
T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def source_class(cls: type[T]) -> type[T]:
    """A frozen dataclass that computes its hash and its text once: sources are paths, and long ones are asked often."""
    made = dataclass(frozen=True)(cls)
    made.__hash__ = _once("_hash", made.__hash__)  # type: ignore[method-assign, assignment]
    made.__str__ = _once("_text", made.__str__)  # type: ignore[method-assign]
    return made


def _once(name: str, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A method that keeps its result in the instance."""

    def cached(self: Any) -> Any:
        known = self.__dict__.get(name)
        if known is None:
            known = self.__dict__[name] = compute(self)
        return known

    return cached


class Source:
    """A place to fetch a value from; hashable, so that a place is fetched once."""

    @property
    def base(self) -> Source | None:
        """The source that this one is reached through."""
        return None

    def step(self, dst: int, base: int) -> Step:
        """The program step that fetches this place into register `dst`; `base` holds the parent."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError


@source_class
class Local(Source):
    """A slot of the frame's localsplus, or of the `level`th caller's."""

    slot: int
    name: str
    level: int = 0

    def step(self, dst: int, base: int) -> Step:
        return ("caller_local", dst, self.level, self.slot) if self.level else ("local", dst, self.slot)

    def __str__(self) -> str:
        return self.name


@source_class
class Stack(Source):
    """A slot of the frame's value stack, or of the `level`th caller's, counted from the bottom."""

    slot: int
    level: int = 0

    def step(self, dst: int, base: int) -> Step:
        return ("caller_stack", dst, self.level, self.slot) if self.level else ("stack", dst, self.slot)

    def __str__(self) -> str:
        return f"stack[{self.slot}]"


@source_class
class Closure(Source):
    """The cell of a free variable of the running function."""

    index: int
    name: str

    def step(self, dst: int, base: int) -> Step:
        return ("closure", dst, self.index)

    def __str__(self) -> str:
        return f"closure.{self.name}"


@source_class
class Globals(Source):
    """The globals of the running function."""

    def step(self, dst: int, base: int) -> Step:
        return ("globals", dst)

    def __str__(self) -> str:
        return "globals()"


@source_class
class Running(Source):
    """The running function itself, or that of the `level`th caller."""

    level: int = 0

    def step(self, dst: int, base: int) -> Step:
        return ("caller_function", dst, self.level) if self.level else ("function", dst)

    def __str__(self) -> str:
        return "function"


class Pinned(Source):
    """An object that the segment itself owns, because a guard on its owner already fixes it."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def step(self, dst: int, base: int) -> Step:
        return ("const", dst, self.obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pinned) and other.obj is self.obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __str__(self) -> str:
        return getattr(self.obj, "__qualname__", None) or f"<{type(self.obj).__name__}>"


@source_class
class Child(Source):
    """A source reached through another."""

    parent: Source

    @property
    def base(self) -> Source:
        return self.parent


@source_class
class CellContents(Child):
    """What a cell holds."""

    def step(self, dst: int, base: int) -> Step:
        return ("cell", dst, base)

    def __str__(self) -> str:
        return f"{self.parent}.cell_contents"


@source_class
class Attr(Child):
    """An attribute whose read runs no user code."""

    name: str

    def step(self, dst: int, base: int) -> Step:
        return ("attr", dst, base, self.name)

    def __str__(self) -> str:
        return f"{self.parent}.{self.name}"


@source_class
class Slot(Child):
    """A `__slots__` member."""

    name: str
    owner: type

    def step(self, dst: int, base: int) -> Step:
        return ("slot", dst, base, self.owner.__dict__[self.name], self.owner)

    def __str__(self) -> str:
        return f"{self.parent}.{self.name}"


@source_class
class InstanceDict(Child):
    """The `__dict__` of an instance or module."""

    def step(self, dst: int, base: int) -> Step:
        return ("instance_dict", dst, base)

    def __str__(self) -> str:
        return f"{self.parent}.__dict__"


@source_class
class Item(Child):
    """An item of a list or tuple."""

    index: int

    def step(self, dst: int, base: int) -> Step:
        return ("item", dst, base, self.index)

    def __str__(self) -> str:
        return f"{self.parent}[{self.index}]"


@source_class
class DictItem(Child):
    """The value of a key in a dict."""

    key: Any

    def step(self, dst: int, base: int) -> Step:
        return ("dict_get", dst, base, self.key)

    def __str__(self) -> str:
        if isinstance(self.parent, InstanceDict) and isinstance(self.key, str):
            return f"{self.parent.parent}.{self.key}"
        if isinstance(self.parent, Globals):
            return str(self.key)
        return f"{self.parent}[{self.key!r}]"


@source_class
class Computed(Child):
    """The result of a pure function of other sources, such as the sum of two symbolic numbers."""

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    """Sources, or constants wrapped in `Pinned`."""

    def __str__(self) -> str:
        inside = ", ".join(map(str, self.operands))
        return f"{getattr(self.function, '__name__', self.function)}({inside})"
