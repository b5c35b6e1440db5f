"""Attributes of classes that the program writes, such as `Model.calls += 1`.

What capture writes to a class is kept apart and written to the class after the graph.  A name that captured code writes
is remembered: from then on it is read from the class at each run, like any other place, instead of being fixed by the
guard on the class.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from segue.capture.breaks import Restart, graph_break
from segue.capture.values.base import MISSING, Value, is_heap_type
from segue.guards.source import Attr, Pinned

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

_written_names: weakref.WeakKeyDictionary[type, set[str]] = weakref.WeakKeyDictionary()


class ClassWrites(Value):
    """What capture has written to one class."""

    def __init__(self, cls: type) -> None:
        self.cls = cls
        self.source = Pinned(cls)
        self.entries: dict[str, Value] = {}

    def python_type(self, tr: Tracer) -> type:
        return type(self.cls)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effects that write the class."""
        target = to.program.constant(self.cls)
        for name, value in self.entries.items():
            to.program.call(type.__setattr__, target, to.program.constant(name), to.register(value))


def write(tr: Tracer, cls: type, name: str, value: Value) -> None:
    """`type.__setattr__(cls, name, value)` for a plain value: descriptors and special methods are the interpreter's."""
    from segue.capture.attributes import is_data_descriptor, lookup

    value = tr.look(value)
    of_meta = lookup(type(cls), name)
    if (of_meta is not MISSING and is_data_descriptor(of_meta)) or name.startswith("__"):
        graph_break("unsupported-attribute", name=name, type=f"class {cls.__name__}", verb="written")
    if not is_heap_type(cls) or lookup(value.python_type(tr), "__get__") is not MISSING:
        graph_break("unsupported-attribute", name=name, type=f"class {cls.__name__}", verb="written")
    names = _written_names.setdefault(cls, set())
    if name not in names:
        names.add(name)
        raise Restart
    tr.dropping(read(tr, cls, name))
    writes = tr.class_writes.setdefault(cls, ClassWrites(cls))
    tr.mutated(writes)
    writes.entries[name] = value


def read(tr: Tracer, cls: type, name: str) -> Value | None:
    """An attribute that captured code writes, found on a class or its bases; None if it is no such attribute."""
    if not _written_names:
        return None
    for base in cls.__mro__:
        if name in _written_names.get(base, ()):
            writes = tr.class_writes.get(base)
            if writes is not None and name in writes.entries:
                return writes.entries[name]
        if name in base.__dict__:
            if not any(name in _written_names.get(b, ()) for b in cls.__mro__):
                return None
            found = base.__dict__[name]
            is_plain = not hasattr(type(found), "__get__")
            return tr.wrap(found, Attr(Pinned(cls), name)) if is_plain else None
    return None


def forbid_written(tr: Tracer, cls: type) -> None:
    """The class as a whole is looked at: not while its writes are outstanding."""
    if cls in tr.class_writes:
        graph_break("unsupported-operation", operation="reading the whole namespace", types=f"class {cls.__name__}")
