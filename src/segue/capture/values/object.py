"""Instances of Python classes, made by the program before or during capture."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value, is_heap_type, next_serial
from segue.capture.values.mapping import DictValue
from segue.guards.source import Attr, InstanceDict, Slot

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source


class ObjectValue(Value):
    """An instance: its class, and its attributes as a dict that is read key by key."""

    def __init__(self, cls: type, source: Source | None = None, real: Any = MISSING) -> None:
        self.cls = cls
        self.source = source
        self.real = real
        self.fresh: DictValue | None = DictValue({}) if source is None else None
        self.slots: dict[str, Value] = {}
        self.written_slots: dict[str, type] = {}
        self.class_changed = False
        self.serial = next_serial()

    def __repr__(self) -> str:
        return f"Object({self.cls.__name__}, {self.source})"

    def python_type(self, tr: Tracer) -> type:
        return self.cls

    def namespace(self, tr: Tracer) -> DictValue | None:
        """The instance's `__dict__`; None for a class without one."""
        if self.fresh is not None:
            return self.fresh if self.cls.__dictoffset__ else None
        if not self.cls.__dictoffset__:
            return None
        assert self.source is not None
        return tr.instance_dict(self, self.real, InstanceDict(self.source))

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        own = self.namespace(tr)
        return own.find(tr, name) if own is not None else None

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name == "__class__":
            return tr.constant(self.cls)
        if name == "__dict__":
            own = self.namespace(tr)
            if own is not None:
                return own
        if is_slot(descriptor, name):
            return self._slot(tr, descriptor, name)
        if self.source is not None and _is_settled(self.cls, name):
            return tr.wrap(_safe_getattr(self.real, name, self.cls), Attr(self.source, name))
        return super().special_attribute(tr, descriptor, name)

    def _slot(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name in self.slots:
            return self.slots[name]
        if self.source is None:
            tr.raise_error(AttributeError, f"'{self.cls.__name__}' object has no attribute '{name}'")
        try:
            found = descriptor.__get__(self.real)
        except AttributeError:
            graph_break("unsupported-attribute", name=name, type=self.cls.__name__, verb="read")
        self.slots[name] = tr.bound(tr.wrap(found, Slot(self.source, name, descriptor.__objclass__)))
        return self.slots[name]

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        from segue.capture.attributes import generic_set

        generic_set(tr, self, name, value)

    def delete_attribute(self, tr: Tracer, name: str) -> None:
        from segue.capture.attributes import generic_delete

        generic_delete(tr, self, name)

    def change_class(self, tr: Tracer, cls: Any) -> None:
        """`self.__class__ = cls`, between classes whose instances are made alike."""
        if not isinstance(cls, type) or not (_is_plain_class(self.cls) and _is_plain_class(cls)):
            graph_break("unsupported-attribute", name="__class__", type=self.cls.__name__, verb="written")
        tr.mutated(self)
        self.cls = cls
        self.class_changed = True

    def write_slot(self, tr: Tracer, name: str, descriptor: Any, value: Value) -> None:
        """Write a `__slots__` member."""
        tr.mutated(self)
        self.slots[name] = value
        self.written_slots.setdefault(name, descriptor.__objclass__)

    def hash_key(self, tr: Tracer) -> Any:
        from segue.capture.attributes import hashes_by_identity

        if hashes_by_identity(self.cls):
            if self.source is None:
                return self
            tr.program.check_is(self.source, self.real)
            return self.real
        from segue.capture.values.identity import EqualityKey, hash_of

        return EqualityKey(tr, self, hash_of(tr, self))

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        return to.instance(self)

    def allocate(self, to: Rebuilder) -> int:
        """The register of a new instance without contents, made by no code of the program."""
        return to.program.call(object.__new__, to.program.constant(self.cls))

    def fill(self, to: Rebuilder, made: int) -> None:
        """Emit the effects that give a new instance what it holds."""
        assert self.fresh is not None
        for name, item in self.fresh.entries.values():
            to.program.call(object.__setattr__, made, to.register(name), to.register(item))
        self.write_back(to)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effects that write `__slots__` members."""
        target = to.register(self)
        if self.class_changed and self.source is not None:
            to.program.call(object.__setattr__, target, to.program.constant("__class__"), to.program.constant(self.cls))
        for name, owner in self.written_slots.items():
            setter = getattr(owner, name).__set__
            to.program.call(setter, target, to.register(self.slots[name]))


class ExceptionValue(ObjectValue):
    """An exception of the program; `origin` is where it was raised, None if it was not.

    `chain` is what the interpreter keeps in an exception: its cause, context and traceback, as far as they are set.
    """

    def __init__(self, cls: type, args: list[Value], source: Source | None = None, real: Any = MISSING) -> None:
        super().__init__(cls, source, real)
        self.args = args
        self.origin: Place | None = None
        self.chain: dict[str, Value] = {}
        self.is_raised = False
        """Whether it has left the instruction that raised it: it has a traceback."""
        self.members: Value | None = None
        """The exceptions in an exception group, as a tuple."""
        self.raised_as: object = object()
        """The parts of a group that `except*` has split have the same as long as they are not raised anew."""

    def __repr__(self) -> str:
        return f"Exception({self.cls.__name__}, {self.args})"

    def was_raised(self, tr: Tracer, handled: Value) -> None:
        """A `raise` of this exception, while another is handled."""
        self.raised_as = object()
        self.chain.pop("__traceback__", None)
        if self.source is not None or handled is self or not isinstance(handled, ExceptionValue):
            return
        inner: Value = handled
        while isinstance(inner, ExceptionValue):
            following = inner.chain.get("__context__", tr.constant(None))
            if following is self:
                inner.chain["__context__"] = tr.constant(None)
            inner = following
        self.chain["__context__"] = handled

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        from segue.capture.values.sequence import TupleValue

        if name in ("__class__", "__dict__") or is_slot(descriptor, name):
            return super().special_attribute(tr, descriptor, name)
        if name in self.chain:
            return self.chain[name]
        if self.source is not None:
            return super().special_attribute(tr, descriptor, name)
        if name == "args":
            return TupleValue(list(self.args))
        if name in ("__cause__", "__context__"):
            return tr.constant(None)
        if name == "__suppress_context__":
            return tr.constant("__cause__" in self.chain)
        if name == "__traceback__":
            return tr.traceback_of(self) if self.is_raised else tr.constant(None)
        if name == "exceptions" and self.members is not None:
            return self.members
        if (name, True) in ((f, issubclass(self.cls, c)) for f, c in _FIRST_ARGUMENTS):
            return self.args[0] if self.args else tr.constant(None)
        tr.made_by_interpreter(self)

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        if name not in _CHAIN or self.source is not None:
            super().set_attribute(tr, name, value)
            return
        value = tr.look(value)
        is_none = value.real is None
        if name in ("__cause__", "__context__") and not (is_none or isinstance(value, ExceptionValue)):
            kind = "cause" if name == "__cause__" else "context"
            tr.raise_error(TypeError, f"exception {kind} must be None or derive from BaseException")
        if name == "__traceback__" and not is_none and value.python_type(tr) is not types.TracebackType:
            tr.raise_error(TypeError, "__traceback__ must be a traceback or None")
        tr.mutated(self)
        self.chain[name] = value
        if name == "__cause__":
            self.chain.pop("__suppress_context__", None)

    def rebuild(self, to: Rebuilder) -> int:
        if self.is_raised:  # during capture: only a raise by the interpreter gives it its traceback
            to.impossible(self)
        if self.source is not None:
            return to.program.fetch(self.source)
        made = to.remember(self, self.allocate(to))
        self.fill(to, made)
        return made

    def allocate(self, to: Rebuilder) -> int:
        """Made as its class makes it, without an `__init__` of the program's."""
        program = to.program
        args = [to.register(a) for a in self.args]
        built_in = next(c for c in self.cls.__mro__ if not is_heap_type(c))
        made = program.call(built_in.__new__, program.constant(self.cls), *args)
        program.call(getattr(built_in, "__init__"), made, *args)  # noqa: B009
        return made

    def fill(self, to: Rebuilder, made: int) -> None:
        super().fill(to, made)
        for name, value in self.chain.items():
            to.program.call(setattr, made, to.program.constant(name), to.register(value))


_CHAIN = frozenset(("__cause__", "__context__", "__suppress_context__", "__traceback__"))

_FIRST_ARGUMENTS: tuple[tuple[str, type], ...] = (
    ("value", StopIteration), ("message", BaseExceptionGroup), ("code", SystemExit),
)  # fmt: skip
"""Attributes that are the first argument."""


_SETTLED_MODULES = ("numpy", "torch", "datetime", "re", "decimal", "_decimal", "uuid")
"""Where C types come from whose attributes do not change while a program runs."""


def _is_settled(cls: type, name: str) -> bool:
    """Whether an attribute that a C type computes may be read at the gate instead of at its place."""
    if issubclass(cls, BaseException):
        return name != "__traceback__"
    if cls is types.CodeType:
        return True
    return cls.__module__.partition(".")[0] in _SETTLED_MODULES


def _is_plain_class(cls: type) -> bool:
    """Whether instances have a `__dict__` and nothing of a C type or of `__slots__`."""
    return all("__slots__" not in vars(c) for c in cls.__mro__[:-1]) and cls.__basicsize__ == _PLAIN.__basicsize__


class _PLAIN:
    """A class whose instances have a `__dict__` and nothing else."""


def is_slot(descriptor: Any, name: str) -> bool:
    """Whether a descriptor is a `__slots__` member of a Python class."""
    if not isinstance(descriptor, types.MemberDescriptorType):
        return False
    slots = vars(descriptor.__objclass__).get("__slots__", ())
    return name == slots or name in slots


def _safe_getattr(obj: Any, name: str, cls: type) -> Any:
    """Read an attribute that a C type computes; not one of a user's class."""
    try:
        return getattr(obj, name)
    except Exception:  # a C type may raise anything: the interpreter raises it at its place
        graph_break("unsupported-attribute", name=name, type=cls.__name__, verb="read")
