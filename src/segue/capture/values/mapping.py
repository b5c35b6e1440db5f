"""Dicts, their views, sets."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, ContainerValue, Value, next_serial
from segue.capture.values.identity import settled
from segue.capture.values.sequence import symbolic_item
from segue.capture.values.symbolic import SymbolicValue
from segue.guards.source import Computed, DictItem

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source


class DictValue(ContainerValue):
    """A dict, read key by key: a key that nobody asks for has no guard.

    Only iteration, length and the like look at the dict as a whole (`load`), which guards its keys.  The instance
    dict of an object, a module's globals and a user's dict are all this one kind.
    """

    def __init__(
        self,
        entries: dict[Any, tuple[Value, Value]] | None,
        cls: type = dict,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.cls = cls
        self.source = source
        self.real = real
        self.whole = entries is not None
        self.entries: dict[Any, tuple[Value, Value]] = entries or {}
        self._deleted: dict[Any, None] = {}
        self._written: dict[Any, None] = {}
        self.factory: Value | None = None
        """The `default_factory`, if it was given or asked for."""
        self.serial = next_serial()

    def __repr__(self) -> str:
        return f"Dict({self.entries if self.whole else self.source})"

    def state(self) -> Any:
        return dict(self.entries), dict(self._deleted), dict(self._written)

    def restore(self, state: Any) -> bool:
        entries, deleted, written = state
        changed = self._written.keys() - written.keys() | (entries.keys() & self.entries.keys())
        if self._deleted != deleted or not entries.keys() <= self.entries.keys():
            return False
        for key in changed:
            value = self.entries[key][1]
            before = entries[key][1] if key in entries else None
            if before is None and self.source is not None and dict.__contains__(self.real, key):
                if value.source == DictItem(self.source, key):  # read here for the first time
                    continue
            if not _same(value, before):
                return False
        if self.whole and self.source is None and self.entries.keys() != entries.keys():
            return False
        self._written = written
        return True

    def load(self, tr: Tracer) -> dict[Any, tuple[Value, Value]]:
        """All entries in order, as hash key → (key, value)."""
        if self.whole:
            return self.entries
        assert self.source is not None
        keys = tuple(_c_keys(self.real))
        if not all(_plain_key(k) for k in keys):
            graph_break("unsupported-operation", operation="iteration", types="dict with keys of other types")
        tr.program.check("dict_keys", self.source, keys)
        loaded: dict[Any, tuple[Value, Value]] = {}
        for key in keys:
            if key not in self._deleted:
                entry = self.entries.get(key)
                # the key that is stored, which may be another object than the equal one that was looked up
                loaded[key] = (tr.pinned(key), entry[1]) if entry is not None else self._read(tr, key)
        for key in self._written:
            if key not in loaded and key in self.entries:
                loaded[key] = self.entries[key]
        self.entries = loaded
        self.whole = True
        return loaded

    def _read(self, tr: Tracer, key: Any) -> tuple[Value, Value]:
        assert self.source is not None
        return tr.pinned(key), tr.wrap(dict.__getitem__(self.real, key), DictItem(self.source, key))

    def _own_key(self, tr: Tracer, key: Any) -> Any:
        """A hash key as the dict has it: the program's own has objects."""
        return key if self.source is None or type(key) is str else settled(tr, key)

    def find(self, tr: Tracer, key: Any) -> Value | None:
        """The value of a hash key; None if the dict does not have it."""
        key = self._own_key(tr, key)
        entry = self.entries.get(key)
        if entry is None and not self.whole and key not in self._deleted:
            if isinstance(key, Value) or not dict.__contains__(self.real, key):
                if not isinstance(key, Value):
                    assert self.source is not None
                    tr.program.check("dict_absent", self.source, key)
                return None
            entry = self.entries[key] = self._read(tr, key)
            tr.bound(entry[1])
        return entry[1] if entry is not None else None

    def _guard_presence(self, tr: Tracer, key: Any) -> None:
        """Guard whether the program's own dict has a key that was written here without asking."""
        if self.source is None or key not in self._written or key in self._deleted or isinstance(key, Value):
            return
        if dict.__contains__(self.real, key):
            tr.bound(self._read(tr, key)[1])
        else:
            tr.program.check("dict_absent", self.source, key)

    def store(self, tr: Tracer, key: Any, key_value: Value, value: Value) -> None:
        """Write an entry by hash key."""
        key = self._own_key(tr, key)
        old = self.entries.get(key)
        if old is not None:
            tr.dropping(old[1])
        elif not self.whole and not isinstance(key, Value) and dict.__contains__(self.real, key):
            tr.dropping(self._read(tr, key)[1])
        tr.mutated(self)
        self.entries[key] = (old[0] if old else key_value, value)
        self._written.setdefault(key)

    def remove(self, tr: Tracer, key: Any) -> Value | None:
        """Delete an entry by hash key and return its value; None if there was none."""
        key = self._own_key(tr, key)
        value = self.find(tr, key)
        if value is None:
            return None
        tr.dropping(value)
        tr.mutated(self)
        self._guard_presence(tr, key)
        self.entries.pop(key, None)
        self._written.pop(key, None)
        self._deleted[key] = None
        return value

    def _source_if_untouched(self) -> Source | None:
        """Where the program's dict is, if its length is not known and has not changed; else None."""
        is_touched = self.whole or self._written or self._deleted or self.owner is not None
        return None if is_touched else self.source

    def truth(self, tr: Tracer) -> bool:
        source = self._source_if_untouched()
        return self.length(tr) > 0 if source is None else tr.guard_truth(source, bool(self.real))

    def length(self, tr: Tracer) -> int:
        if not self.whole and not self._written and not self._deleted:
            assert self.source is not None
            n = dict.__len__(self.real)
            tr.guard_length(self.source, n)
            return n
        return len(self.load(tr))

    def symbolic_length(self, tr: Tracer) -> Value | None:
        source = self._source_if_untouched()
        return None if source is None else tr.symbolic_length(source, len(self.real))

    def iterate(self, tr: Tracer) -> Value:
        return DictView(self, "keys").iterate(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        key = tr.look(key)
        if isinstance(key, SymbolicValue):
            return symbolic_item(tr, self, key)
        found = self.find(tr, key.hash_key(tr))
        if found is not None:
            return found
        if self.owner is not None:
            return self._ask_class(tr, self.owner, key)
        if self.cls is collections.defaultdict:
            return self.default(tr, key)
        tr.raise_value(KeyError, [key])

    def _ask_class(self, tr: Tracer, owner: Value, key: Value) -> Value:
        from segue.capture.attributes import special_method

        missing = special_method(tr, owner, "__missing__")
        if missing is None:
            tr.raise_value(KeyError, [key])
        return tr.call(missing, [key], {})

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if descriptor is vars(collections.defaultdict).get(name):
            return self.default_factory(tr)
        return super().special_attribute(tr, descriptor, name)

    def default_factory(self, tr: Tracer) -> Value:
        """The factory of a defaultdict."""
        if self.factory is None:
            assert self.source is not None
            place = Computed(self.source, _read_factory, (self.source,))
            self.factory = tr.wrap(_read_factory(self.real), place)
        return self.factory

    def default(self, tr: Tracer, key: Value) -> Value:
        """`defaultdict.__missing__`."""
        factory = tr.look(self.default_factory(tr))
        if factory.real is None:
            tr.raise_value(KeyError, [key])
        made = tr.call(factory, [], {})
        (self.owner or self).set_item(tr, key, made)
        return made

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        key = tr.look(key)
        if isinstance(key, SymbolicValue) and self.source is not None and not tr.limits.fullgraph:
            self.unsupported(tr, "assignment to a symbolic key")
        self.store(tr, key.hash_key(tr), key, value)

    def delete_item(self, tr: Tracer, key: Value) -> None:
        key = tr.look(key)
        if self.remove(tr, key.hash_key(tr)) is None:
            tr.raise_value(KeyError, [key])

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.find(tr, tr.look(item).hash_key(tr)) is not None

    def hash_key(self, tr: Tracer) -> Any:
        tr.raise_error(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def build(self, to: Rebuilder) -> int:
        if self.cls not in (dict, collections.OrderedDict, collections.defaultdict):
            to.impossible(self)
        return to.fill_dict(self, self.cls, list(self.entries.values()), self.factory)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effects that bring the program's own dict up to date."""
        assert self.source is not None
        target = to.program.fetch(self.source)
        base = collections.OrderedDict if issubclass(self.cls, collections.OrderedDict) else dict
        for key in self._deleted:
            if dict.__contains__(self.real, key):
                to.program.call(base.__delitem__, target, to.program.constant(key))
        for key in self._written:
            name, value = self.entries[key]
            to.program.call(base.__setitem__, target, to.register(name), to.register(value))


class DictView(Value):
    """`dict.keys()`, `.values()` or `.items()`."""

    TYPES = {"keys": type({}.keys()), "values": type({}.values()), "items": type({}.items())}

    def __init__(self, mapping: DictValue, kind: str) -> None:
        self.mapping = mapping
        self.kind = kind

    def __repr__(self) -> str:
        return f"{self.mapping}.{self.kind}()"

    def python_type(self, tr: Tracer) -> type:
        return self.TYPES[self.kind]

    def values(self, tr: Tracer) -> list[Value]:
        """The view's items now."""
        from segue.capture.values.sequence import TupleValue

        entries = self.mapping.load(tr).values()
        if self.kind == "keys":
            return [k for k, _ in entries]
        if self.kind == "values":
            return [v for _, v in entries]
        return [TupleValue([k, v]) for k, v in entries]

    def truth(self, tr: Tracer) -> bool:
        return self.length(tr) > 0

    def length(self, tr: Tracer) -> int:
        return self.mapping.length(tr)

    def iterate(self, tr: Tracer) -> Value:
        from segue.capture.values.iterator import ViewIterator

        return ViewIterator(self, self.values(tr), born=tr.here)

    def contains(self, tr: Tracer, item: Value) -> bool:
        from segue.capture.operators import same_or_equal

        if self.kind == "keys":
            return self.mapping.contains(tr, item)
        return any(same_or_equal(tr, candidate, item) for candidate in self.values(tr))

    def rebuild(self, to: Rebuilder) -> int:
        method = to.program.constant(getattr(dict, self.kind))
        return to.program.call_register(method, to.register(self.mapping))


class SetValue(ContainerValue):
    """A set or frozenset whose items hash during capture."""

    def __init__(
        self,
        entries: dict[Any, Value],
        cls: type = set,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.entries = entries
        self.cls = cls
        self.source = source
        self.real = real
        self.mirror: Any = real if source is not None else None if entries else set()
        """A set to which the same has been done, for the order of iteration; None if there is none."""
        self.serial = next_serial()

    def state(self) -> Any:
        return set(self.entries)

    def restore(self, state: Any) -> bool:
        return set(self.entries) == state

    def __repr__(self) -> str:
        return f"Set({list(self.entries)})"

    def truth(self, tr: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tr: Tracer) -> int:
        return len(self.entries)

    def iterate(self, tr: Tracer) -> Value:
        from segue.capture.values.iterator import ViewIterator

        if self.real is not MISSING and id(self) not in tr.written:
            return ViewIterator(self, list(self.entries.values()), born=tr.here)
        order = list(self.entries) if len(self.entries) < 2 or self.mirror is None else list(self.mirror)
        if len(order) > 1 and (self.mirror is None or any(isinstance(k, Value) for k in order)):
            self.unsupported(tr, "iteration in hash order")
        return ViewIterator(self, [self.entries[k] for k in order], born=tr.here)

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self._key(tr, item) in self.entries

    def _key(self, tr: Tracer, item: Value) -> Any:
        key = tr.look(item).hash_key(tr)
        return settled(tr, key, in_set=True) if self.source is not None else key

    def add(self, tr: Tracer, item: Value) -> None:
        """`set.add`."""
        item = tr.look(item)
        key = self._key(tr, item)
        self.write(tr)
        self.entries.setdefault(key, item)
        if self.mirror is not None:
            self.mirror.add(key)

    def write(self, tr: Tracer) -> None:
        """The set is being changed; the program's own is not touched, and how a copy of it would grow is not known."""
        tr.mutated(self)
        if self.mirror is self.real:
            self.mirror = None

    def update(self, tr: Tracer, given: Value) -> None:
        """`set.update` with one argument."""
        given = tr.look(given)
        other = given.built_in()
        items = list(other.entries.values()) if isinstance(other, SetValue) else list(tr.unpack(given))
        keys: Any = [self._key(tr, item) for item in items]
        self.write(tr)
        for key, item in zip(keys, items, strict=True):
            self.entries.setdefault(key, tr.look(item))
        if isinstance(other, SetValue):  # it is taken as a whole, in its own order
            keys = other.mirror
        elif isinstance(other, DictValue):
            keys = dict.fromkeys(keys) if other.cls is dict else None
        if self.mirror is None or keys is None:
            self.mirror = None
        else:
            self.mirror.update(keys)

    def clear(self, tr: Tracer) -> None:
        """`set.clear`."""
        tr.mutated(self)
        self.entries.clear()
        self.mirror = set()

    def copy(self) -> SetValue:
        """`set.copy`."""
        made = SetValue(dict(self.entries), self.cls)
        made.mirror = None if self.mirror is None else self.cls.copy(self.mirror)  # type: ignore[attr-defined]
        return made

    def remove(self, tr: Tracer, item: Value) -> bool:
        """Remove an item; False if it was not there."""
        key = self._key(tr, item)
        if key not in self.entries:
            return False
        self.write(tr)
        del self.entries[key]
        if self.mirror is not None:
            self.mirror.discard(key)
        return True

    def hash_key(self, tr: Tracer) -> Any:
        if self.cls is frozenset:
            return frozenset(self.entries)
        tr.raise_error(TypeError, f"unhashable type: '{self.cls.__name__}'")

    def build(self, to: Rebuilder) -> int:
        built = to.program.build("set", tuple(to.register(i) for i in self.entries.values()))
        return built if self.cls is set else to.program.call(self.cls, built)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effects that bring the program's own set up to date."""
        assert self.source is not None
        target = to.program.fetch(self.source)
        for key in set.__iter__(self.real):
            if key not in self.entries:
                to.program.call(set.discard, target, to.program.constant(key))
        for key, item in self.entries.items():
            if not set.__contains__(self.real, key):
                to.program.call(set.add, target, to.register(item))


_read_factory = vars(collections.defaultdict)["default_factory"].__get__


def _c_keys(mapping: dict[Any, Any]) -> Any:
    """The keys in the order of the built-in class, whatever a subclass does."""
    return (collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict).__iter__(mapping)


def _same(value: Value, before: Value | None) -> bool:
    """Whether two values are one, looked at or not."""
    looked = [getattr(v, "looked", None) or v for v in (value, before)]
    return looked[0] is looked[1]


def _plain_key(key: Any) -> bool:
    if isinstance(key, tuple):
        return all(map(_plain_key, key))
    from segue.capture.attributes import hashes_by_identity

    return isinstance(key, (str, int, float, bytes, bool, type(None), type)) or hashes_by_identity(type(key))
