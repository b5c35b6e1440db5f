"""Lists, tuples, slices."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.values.base import MISSING, ContainerValue, Value, next_serial
from segue.capture.values.symbolic import SymbolicValue, compute_symbolic
from segue.guards.source import Computed, Item, Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source


def symbolic_item(tr: Tracer, container: ContainerValue, key: SymbolicValue) -> Value:
    """`container[key]` for a symbolic number: fetched anew at each run, so that one segment serves all of them."""
    source = container.source
    if container.owner is not None:  # the operators of its class are not those of the built-in part
        return container.get_item(tr, tr.constant(key.concrete(tr)))
    if source is not None and id(container) not in tr.written:
        try:
            found = container.real[key.real]
        except (IndexError, KeyError, TypeError):
            if isinstance(container, SequenceValue) and type(key.real) is int and key.real >= len(container.real):
                length = Computed(source, len, (source,))
                tr.program.check("true", Computed(key.source, operator.ge, (key.source, length)))
                tr.raise_error(IndexError, f"{container.noun} index out of range")
            return container.get_item(tr, tr.constant(key.concrete(tr)))
        return tr.wrap(found, Computed(key.source, operator.getitem, (source, key.source)))
    if source is not None and not tr.limits.fullgraph:
        container.unsupported(tr, "reading a symbolic index after a write")
    return container.get_item(tr, tr.constant(key.concrete(tr)))


class SequenceValue(ContainerValue):
    """What lists and tuples share: items in order."""

    noun: str
    """What messages call it."""

    def items(self, tr: Tracer) -> list[Value]:
        """The items; looking at all of them guards the length."""
        raise NotImplementedError

    def truth(self, tr: Tracer) -> bool:
        return bool(self.items(tr))

    def length(self, tr: Tracer) -> int:
        return len(self.items(tr))

    def iterate(self, tr: Tracer) -> Value:
        from segue.capture.values.iterator import SequenceIterator

        return SequenceIterator(self, born=tr.here)

    def like(self, items: list[Value]) -> Value:
        """A new value of the same basic kind, as slicing and concatenation give."""
        raise NotImplementedError

    def get_item(self, tr: Tracer, key: Value) -> Value:
        key = tr.look(key)
        if isinstance(key, SymbolicValue):
            return symbolic_item(tr, self, key)
        items = self.items(tr)
        if isinstance(key, SliceValue):
            return self.like(items[key.concrete(tr)])
        index = self._index(tr, key)
        if not -len(items) <= index < len(items):
            tr.raise_error(IndexError, f"{self.noun} index out of range")
        return items[index]

    def _index(self, tr: Tracer, key: Value) -> int:
        from segue.capture.attributes import class_attribute

        cls = key.python_type(tr)
        if class_attribute(tr, cls, "__index__") is MISSING:
            tr.raise_error(TypeError, f"{self.noun} indices must be integers or slices, not {cls.__name__}")
        return tr.index_of(key)

    def contains(self, tr: Tracer, item: Value) -> bool:
        from segue.capture.operators import same_or_equal

        return any(same_or_equal(tr, candidate, item) for candidate in self.items(tr))


class TupleValue(SequenceValue):
    """A tuple, `torch.Size`, a named tuple or another tuple class."""

    noun = "tuple"

    def __init__(
        self,
        items: list[Value],
        cls: type = tuple,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self._items = items
        self.cls = cls
        self.source = source
        self.real = real

    def __repr__(self) -> str:
        return f"Tuple({self._items})"

    def items(self, tr: Tracer) -> list[Value]:
        return self._items

    def like(self, items: list[Value]) -> Value:
        return TupleValue(items, torch.Size if self.cls is torch.Size else tuple)

    def is_constant(self) -> bool:
        return self.cls in (tuple, torch.Size) and all(i.is_constant() for i in self._items)

    def concrete(self, tr: Tracer) -> Any:
        if self.cls not in (tuple, torch.Size):
            self.unsupported(tr, "using the value")
        return self.cls(tr.look(i).concrete(tr) for i in self._items)

    def hash_key(self, tr: Tracer) -> Any:
        return tuple(tr.look(i).hash_key(tr) for i in self._items)

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        fields = getattr(self.cls, "__match_args__", ())
        if name in fields:
            return self._items[fields.index(name)]
        return super().special_attribute(tr, descriptor, name)

    def build(self, to: Rebuilder) -> int:
        items = [to.register(i) for i in self._items]
        built = to.program.build("tuple", tuple(items))
        if self.cls is tuple:
            return built
        if hasattr(self.cls, "_make"):
            return to.program.call(self.cls._make, built)
        if self.cls is torch.Size or self.cls.__module__ == "torch.return_types":
            return to.program.call(self.cls, built)
        return to.program.call(tuple.__new__, to.program.constant(self.cls), built)


class ListValue(SequenceValue):
    """A list; one that the program owns is read only where it is looked into."""

    noun = "list"

    def __init__(
        self,
        items: list[Value] | None,
        cls: type = list,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.cls = cls
        self.source = source
        self.real = real
        self._items = items
        self._appended: list[Value] = []
        self._popped = 0
        self._original: list[Value] = []
        self.serial = next_serial()

    def state(self) -> Any:
        return None if self._items is None else list(self._items)

    def restore(self, state: Any) -> bool:
        items = self._items
        return state is not None and items is not None and list(map(id, items)) == list(map(id, state))

    def __repr__(self) -> str:
        return f"List({self._items if self._items is not None else self.source})"

    def items(self, tr: Tracer) -> list[Value]:
        if self._items is None:
            assert self.source is not None
            n = list.__len__(self.real)
            tr.guard_length(self.source, n)
            self._original = [tr.wrap(list.__getitem__(self.real, i), Item(self.source, i)) for i in range(n)]
            self._items = [*self._original[: n - self._popped], *self._appended]
        return self._items

    def like(self, items: list[Value]) -> Value:
        return ListValue(items)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        key = tr.look(key)
        if self._items is None and not self._popped and key.is_constant() and not isinstance(key, SliceValue):
            index = self._index(tr, key)
            if 0 <= index < list.__len__(self.real):
                assert self.source is not None
                return tr.bound(tr.wrap(list.__getitem__(self.real, index), Item(self.source, index)))
        return super().get_item(tr, key)

    def truth(self, tr: Tracer) -> bool:
        if self._items is not None or self.source is None or self._popped or self.owner is not None:
            return bool(self.items(tr))
        return bool(self._appended) or tr.guard_truth(self.source, bool(self.real))

    def pop_last(self, tr: Tracer) -> Value | None:
        """`list.pop()` on a list that nothing else was asked of; None if that cannot be told."""
        if self._items is not None or self._appended or self.source is None or self.owner is not None:
            return None
        if self._popped >= len(self.real):
            return None
        length = Computed(self.source, len, (self.source,))
        self._popped += 1
        tr.mutated(self)
        tr.program.check("true", Computed(self.source, operator.ge, (length, Pinned(self._popped))))
        place = Computed(self.source, operator.getitem, (self.source, Pinned(-self._popped)))
        return tr.wrap(self.real[-self._popped], place)

    def symbolic_length(self, tr: Tracer) -> Value | None:
        if self._items is not None or self.source is None or self._popped or self.owner is not None:
            return None
        before = tr.symbolic_length(self.source, len(self.real))
        if before is None or not self._appended:
            return before
        return compute_symbolic(tr, operator.add, before, tr.constant(len(self._appended)))

    def only_grows(self) -> bool:
        """Whether nothing was asked of the program's list, and nothing done to it but appending."""
        return self.source is not None and self._items is None and not self._popped

    def append(self, tr: Tracer, item: Value) -> None:
        """`list.append`, which needs no fact of the list."""
        tr.mutated(self)
        (self._appended if self._items is None else self._items).append(item)

    def replace(self, tr: Tracer, items: list[Value]) -> None:
        """Give the list new contents."""
        kept = set(map(id, items))
        for item in self.items(tr):
            if id(item) not in kept:
                tr.dropping(item)
        tr.mutated(self)
        self._items = items

    def take_out(self, tr: Tracer) -> list[Value]:
        """The contents, which the list no longer has."""
        items = self.items(tr)
        tr.mutated(self)
        self._items = []
        return items

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        key = tr.look(key)
        if isinstance(key, SymbolicValue) and self.source is not None and not tr.limits.fullgraph:
            self.unsupported(tr, "assignment to a symbolic index")
        items = list(self.items(tr))
        if isinstance(key, SliceValue):
            try:
                items[key.concrete(tr)] = tr.unpack(value)
            except ValueError as e:
                tr.raise_error(ValueError, str(e))
        else:
            index = self._index(tr, key)
            if not -len(items) <= index < len(items):
                tr.raise_error(IndexError, "list assignment index out of range")
            items[index] = value
        self.replace(tr, items)

    def delete_item(self, tr: Tracer, key: Value) -> None:
        key = tr.look(key)
        items = list(self.items(tr))
        place = key.concrete(tr) if isinstance(key, SliceValue) else self._index(tr, key)
        try:
            del items[place]
        except IndexError:
            tr.raise_error(IndexError, "list assignment index out of range")
        self.replace(tr, items)

    def hash_key(self, tr: Tracer) -> Any:
        tr.raise_error(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def build(self, to: Rebuilder) -> int:
        return to.fill(self, "list", self._items or [])

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effects that give the program's own list its new contents."""
        assert self.source is not None
        target = to.program.fetch(self.source)
        if self._items is None:
            for _ in range(self._popped):
                to.program.call(list.pop, target)
            added = self._appended
        elif self._items[: len(self._original)] == self._original:
            added = self._items[len(self._original) :]
        else:
            whole = to.program.constant(slice(None))
            items = to.program.build("list", tuple(to.register(i) for i in self._items))
            to.program.call(list.__setitem__, target, whole, items)
            return
        for item in added:
            to.program.call(list.append, target, to.register(item))


class SliceValue(Value):
    """A slice of values."""

    def __init__(self, start: Value, stop: Value, step: Value, source: Source | None = None) -> None:
        self.parts = (start, stop, step)
        self.source = source

    def __repr__(self) -> str:
        return f"Slice{self.parts}"

    def python_type(self, tr: Tracer) -> type:
        return slice

    def is_constant(self) -> bool:
        return all(p.is_constant() for p in self.parts)

    def concrete(self, tr: Tracer) -> Any:
        parts = [tr.look(p) for p in self.parts]
        return slice(*(tr.index_of(p) if isinstance(p, SymbolicValue) else p.concrete(tr) for p in parts))

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        return self.parts[("start", "stop", "step").index(name)]

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        return to.program.build("slice", *(to.register(p) for p in self.parts))
