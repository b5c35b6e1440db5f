"""What capture computes with: one kind of value per module.

A value stands for an object of the program.  Its methods do what Python would do with the object, against the
capture's own state, and record guards for the facts that they use.  What a kind does not know it leaves to the
interpreter by a graph break.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture.breaks import Raised, graph_break

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

MISSING: Any = object()

_HEAP_TYPE = 1 << 9


def is_heap_type(cls: type) -> bool:
    """Whether a class is made while programs run: its attributes can change, and its instances have their own."""
    return bool(cls.__flags__ & _HEAP_TYPE)


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

    def built_in(self) -> Value:
        """What the methods of built-in containers act on: the value itself, unless its class derives from one."""
        return self

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

    def find_attribute(self, tr: Tracer, name: str) -> Value | None:
        """`getattr(self, name)`; None if that raises an AttributeError."""
        try:
            return self.get_attribute(tr, name)
        except Raised as r:
            if not issubclass(r.value.cls, AttributeError):
                raise
        return None

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

    def special(self, tr: Tracer, name: str, operation: str, *args: Value) -> Value:
        """Call a special method of the value's class."""
        from segue.capture.attributes import class_attribute, special_method

        method = special_method(tr, self, name)
        if method is None or self.is_constant():  # what a known object does in C, its kind of value would say
            found = class_attribute(tr, self.python_type(tr), name)
            if tr.is_pure(found) and name not in ("__iter__", "__next__"):
                return tr.fold(found, [self, *args], {})
            if not hasattr(found, "__code__") or method is None:
                self.unsupported(tr, operation)
        return tr.call(method, list(args), {})

    def truth(self, tr: Tracer) -> bool:
        """`bool(self)`."""
        from segue.capture.attributes import special_method

        for name in ("__bool__", "__len__"):
            method = special_method(tr, self, name)
            if method is not None:
                return tr.truth(tr.call(method, [], {}))
        return True

    def length(self, tr: Tracer) -> int:
        """`len(self)`."""
        from segue.capture.attributes import class_attribute

        cls = self.python_type(tr)
        if class_attribute(tr, cls, "__len__") is MISSING:
            tr.raise_error(TypeError, f"object of type '{cls.__name__}' has no len()")
        return tr.index_of(tr.look(self.special(tr, "__len__", "len()")))

    def symbolic_length(self, tr: Tracer) -> Value | None:
        """`len(self)` as a symbolic number; None if it is not one."""
        return None

    def iterate(self, tr: Tracer) -> Value:
        """`iter(self)`."""
        from segue.capture.attributes import class_attribute

        cls = self.python_type(tr)
        by_items = class_attribute(tr, cls, "__iter__") is MISSING and class_attribute(tr, cls, "__getitem__")
        if by_items and hasattr(by_items, "__code__"):
            from segue.capture.rules.generators import iterate_by_items

            return iterate_by_items(tr, self)
        return self.special(tr, "__iter__", "iteration")

    def next(self, tr: Tracer) -> Value | None:
        """`next(self)`; None at the end."""
        try:
            return self.special(tr, "__next__", "next()")
        except Raised as r:
            if issubclass(r.value.cls, StopIteration):
                return None
            raise

    def get_item(self, tr: Tracer, key: Value) -> Value:
        """`self[key]`."""
        return self.special(tr, "__getitem__", "subscript", key)

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        """`self[key] = value`."""
        self.special(tr, "__setitem__", "subscript assignment", key, value)

    def delete_item(self, tr: Tracer, key: Value) -> None:
        """`del self[key]`."""
        self.special(tr, "__delitem__", "subscript deletion", key)

    def contains(self, tr: Tracer, item: Value) -> bool:
        """`item in self`."""
        from segue.capture.attributes import special_method
        from segue.capture.operators import same_or_equal

        if special_method(tr, self, "__contains__") is not None:
            return tr.truth(self.special(tr, "__contains__", "membership test", item))
        return any(same_or_equal(tr, each, item) for each in tr.unpack(self))

    def hash_key(self, tr: Tracer) -> Any:
        """A Python object that hashes and compares as this value does as a dict key."""
        self.unsupported(tr, "hash()")

    def rebuild(self, to: Rebuilder) -> int:
        """The register that holds the object after the graph."""
        to.impossible(self)


class ContainerValue(Value):
    """Base of lists, tuples, dicts and sets."""

    cls: type
    owner: Value | None = None
    """The instance of a user's class whose built-in part this is."""

    def python_type(self, tr: Tracer) -> type:
        return self.cls

    def rebuild(self, to: Rebuilder) -> int:
        if self.owner is not None:
            return to.register(self.owner)
        if self.source is not None:
            return to.program.fetch(self.source)
        return self.build(to)

    def build(self, to: Rebuilder) -> int:
        """The register of a new container that capture made."""
        raise NotImplementedError


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
