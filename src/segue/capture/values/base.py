"""What capture computes with: one kind of value per module.

A value stands for an object of the program.  Its methods do what Python would do with the object, against the
capture's own state, and record guards for the facts that they use.  What a kind does not know it leaves to the
interpreter by a graph break.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture.breaks import graph_break

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

MISSING: Any = object()

_serials = itertools.count(1)
_newest = 0


def next_serial() -> int:
    """A number for a value that can change: later ones have higher numbers."""
    global _newest
    _newest = next(_serials)
    return _newest


def last_serial() -> int:
    """The highest number given so far."""
    return _newest


class Value:
    """Base of all kinds.

    `source` is where the object stands in the state at the gate (None for what capture made); `real` is that object.
    `born` is the instruction that made the value: where to break if it can not be rebuilt.
    """

    source: Source | None = None
    real: Any = MISSING
    born: Place | None = None
    serial: int = 0
    """When the value was made, by `next_serial`; kinds that can change have one."""

    def state(self) -> Any:
        """What `restore` compares with, taken before a change."""
        return None

    def restore(self, state: Any) -> bool:
        """Whether the value is again as it was when `state` was taken; traces of what was in between are dropped."""
        return False

    def python_type(self, tr: Tracer) -> type:
        """The value's exact type."""
        raise NotImplementedError

    def unsupported(self, tr: Tracer, operation: str) -> NoReturn:
        """Leave `operation` on this value to the interpreter."""
        graph_break("unsupported-operation", operation=operation, types=self.python_type(tr).__name__)

    def is_constant(self) -> bool:
        """Whether the value is a plain Python object that `concrete` can give."""
        return False

    def concrete(self, tr: Tracer) -> Any:
        """The object itself, guarded."""
        self.unsupported(tr, "using the value")

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        """The attribute from the instance itself, not its class; None if it has none."""
        return None

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        """The value of an attribute that the class computes in C."""
        graph_break("unsupported-attribute", name=name, type=self.python_type(tr).__name__, verb="read")

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        """`getattr(self, name)`."""
        from segue.capture.attributes import generic_get

        return generic_get(tr, self, name)

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        """`setattr(self, name, value)`."""
        graph_break("unsupported-attribute", name=name, type=self.python_type(tr).__name__, verb="written")

    def delete_attribute(self, tr: Tracer, name: str) -> None:
        """`delattr(self, name)`."""
        graph_break("unsupported-attribute", name=name, type=self.python_type(tr).__name__, verb="deleted")

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`self(*args, **kwargs)`."""
        from segue.capture.calls import call_through_type

        return call_through_type(tr, self, args, kwargs)

    def truth(self, tr: Tracer) -> bool:
        """`bool(self)`."""
        self.unsupported(tr, "truth value")

    def length(self, tr: Tracer) -> int:
        """`len(self)`."""
        self.unsupported(tr, "len()")

    def symbolic_length(self, tr: Tracer) -> Value | None:
        """`len(self)` as a symbolic number; None if it is not one."""
        return None

    def iterate(self, tr: Tracer) -> Value:
        """`iter(self)`."""
        self.unsupported(tr, "iteration")

    def next(self, tr: Tracer) -> Value | None:
        """`next(self)`; None at the end."""
        self.unsupported(tr, "next()")

    def get_item(self, tr: Tracer, key: Value) -> Value:
        """`self[key]`."""
        self.unsupported(tr, "subscript")

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        """`self[key] = value`."""
        self.unsupported(tr, "subscript assignment")

    def delete_item(self, tr: Tracer, key: Value) -> None:
        """`del self[key]`."""
        self.unsupported(tr, "subscript deletion")

    def contains(self, tr: Tracer, item: Value) -> bool:
        """`item in self`."""
        self.unsupported(tr, "membership test")

    def hash_key(self, tr: Tracer) -> Any:
        """A Python object that hashes and compares as this value does as a dict key."""
        self.unsupported(tr, "hash()")

    def rebuild(self, to: Rebuilder) -> int:
        """The register that holds the object after the graph."""
        to.impossible(self)


class Null(Value):
    """The NULL that CPython pushes below a callable."""

    def python_type(self, tr: Tracer) -> type:
        raise AssertionError("NULL has no type")

    def __repr__(self) -> str:
        return "NULL"


NULL = Null()


class Lazy(Value):
    """An object of the program that nobody has looked at yet: no fact of it is guarded."""

    def __init__(self, real: Any, source: Source) -> None:
        self.real = real
        self.source = source
        self.looked: Value | None = None

    def python_type(self, tr: Tracer) -> type:
        return tr.look(self).python_type(tr)

    def rebuild(self, to: Rebuilder) -> int:
        if self.looked is not None:
            return to.register(self.looked)
        assert self.source is not None
        return to.program.fetch(self.source)

    def __repr__(self) -> str:
        return f"Lazy({self.source})"


def _forward(name: str) -> None:
    def method(self: Lazy, tr: Tracer, *args: Any) -> Any:
        return getattr(tr.look(self), name)(tr, *args)

    method.__name__ = name
    setattr(Lazy, name, method)


for _name in (
    "unsupported concrete own_attribute special_attribute get_attribute set_attribute delete_attribute call truth "
    "length iterate next get_item set_item delete_item contains hash_key"
).split():
    _forward(_name)
