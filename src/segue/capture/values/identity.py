"""Identities and user-defined equality: what stands for such objects as keys of dicts and sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value
from segue.guards.source import Computed, Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer


class IdValue(Value):
    """`id(target)`: a number that is compared and looked up without being known."""

    def __init__(self, target: Value) -> None:
        self.target = target

    def __repr__(self) -> str:
        return f"Id({self.target})"

    def python_type(self, tr: Tracer) -> type:
        return int

    def truth(self, tr: Tracer) -> bool:
        return True

    def concrete(self, tr: Tracer) -> Any:
        """The number itself, guarded: the object has to be the same at each run."""
        target = self.target
        if target.real is MISSING:
            graph_break("opaque-call", function="id() of a new object")
        if target.source is not None and not isinstance(target.source, Pinned):
            tr.guard_value(Computed(target.source, id, (target.source,)), id(target.real))
        return id(target.real)

    def hash_key(self, tr: Tracer) -> Any:
        return IdKey(self)

    def rebuild(self, to: Rebuilder) -> int:
        return to.program.call(id, to.register(self.target))


class IdKey:
    """An identity as a key: two are equal if they are that of one object."""

    def __init__(self, value: IdValue) -> None:
        self.value = value
        target = value.target
        self._object: Any = target if target.real is MISSING else target.real

    def __hash__(self) -> int:
        return id(self._object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdKey) and other._object is self._object


class EqualityKey:
    """An object whose class defines `__eq__` and `__hash__`, as a key: these methods are captured when it is used."""

    def __init__(self, tr: Tracer, value: Value, hashed: int) -> None:
        self._tr = tr
        self._value = value
        self._hash = hashed

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        from segue.capture.values.known import PRIMITIVES

        if isinstance(other, EqualityKey):
            return self._equals(other._value)
        if isinstance(other, PRIMITIVES):
            return self._equals(self._tr.constant(other))
        graph_break("unsupported-operation", operation="lookup", types=self._value.python_type(self._tr).__name__)

    def _equals(self, other: Value) -> bool:
        from segue.capture.operators import compare

        tr, value = self._tr, self._value
        if other is value:
            return True
        what = f"{value.python_type(tr).__name__}.__eq__()"
        return tr.truth(tr.without_effects(lambda: compare(tr, "==", value, other), what))


def settled(tr: Tracer, key: Any, in_set: bool = False) -> Any:
    """A key for a dict or set of the program, which holds objects: numbers for identities."""
    if isinstance(key, IdKey):
        if in_set and key.value.target.real is MISSING:  # the program's set does not hold that of a new object
            return key
        return key.value.concrete(tr)
    if isinstance(key, EqualityKey):
        graph_break("unsupported-operation", operation="lookup by user-defined equality", types="a dict of the program")
    if type(key) is tuple:
        return tuple([settled(tr, k, in_set) for k in key])
    return key


class _Hashed:
    """An object with a given hash, to hash what contains it."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __hash__(self) -> int:
        return self._value


def hash_of(tr: Tracer, value: Value) -> int:
    """`hash(value)` as a number that does not differ from run to run."""
    from segue.capture.attributes import class_attribute
    from segue.capture.values.known import Known
    from segue.capture.values.mapping import SetValue
    from segue.capture.values.sequence import TupleValue

    value = tr.look(value)
    if isinstance(value, TupleValue) and class_attribute(tr, value.cls, "__hash__") is tuple.__hash__:
        return hash(tuple(_Hashed(hash_of(tr, item)) for item in value.items(tr)))
    if isinstance(value, SetValue) and value.cls is frozenset:
        return hash(frozenset(value.hash_key(tr)))
    cls = value.python_type(tr)
    method = class_attribute(tr, cls, "__hash__")
    if method is None:
        tr.raise_error(TypeError, f"unhashable type: '{cls.__name__}'")
    if hasattr(method, "__code__"):
        given = tr.without_effects(lambda: tr.call(tr.pinned(method), [value], {}), f"{cls.__name__}.__hash__()")
        return hash(_Hashed(tr.index_of(given)))
    if isinstance(value, Known):
        return hash(value.concrete(tr))
    if value.source is not None and method is object.__hash__:
        number = hash(value.real)
        tr.guard_value(Computed(value.source, hash, (value.source,)), number)
        return number
    graph_break("opaque-call", function=f"hash() of {cls.__name__}")
