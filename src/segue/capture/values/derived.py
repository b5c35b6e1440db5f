"""Instances of user classes that derive from built-in containers."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, ContainerValue, Value
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

BUILT_IN: tuple[type, ...] = (
    list, tuple, collections.OrderedDict, collections.defaultdict, dict, set, frozenset,
)  # fmt: skip
"""The containers that a class may derive from."""

_HARMLESS = frozenset(
    """
    __new__ __init__ __repr__ __str__ __format__ __reduce__ __reduce_ex__ __getnewargs__ __getnewargs_ex__ __copy__
    __deepcopy__ __init_subclass__ __class_getitem__ __sizeof__ __getstate__ __setstate__ __dir__
    """.split()
)
"""Special methods that no operation on a container asks for."""


class DerivedValue(ObjectValue):
    """An instance with a built-in part.

    Operators look on the class for a method, like those on any instance.  The methods of the built-in class, which a
    class that overrides nothing has and `super()` reaches, act on `contents`.
    """

    def __init__(self, cls: type, contents: ContainerValue, source: Source | None = None, real: Any = MISSING) -> None:
        super().__init__(cls, source, real)
        self.contents = contents
        contents.owner = self

    def __repr__(self) -> str:
        return f"{self.cls.__name__}({self.contents})"

    def built_in(self) -> Value:
        return self.contents

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if descriptor is vars(collections.defaultdict).get(name):
            return self.contents.special_attribute(tr, descriptor, name)
        return super().special_attribute(tr, descriptor, name)

    def hash_key(self, tr: Tracer) -> Any:
        from segue.capture.attributes import class_attribute

        base = self.contents.cls
        if all(class_attribute(tr, self.cls, name) is vars(base)[name] for name in ("__hash__", "__eq__")):
            return self.contents.hash_key(tr)
        return super().hash_key(tr)

    def symbolic_length(self, tr: Tracer) -> Value | None:
        return None

    def allocate(self, to: Rebuilder) -> int:
        contents, cls = self.contents, to.program.constant(self.cls)
        new = contents.cls.__new__
        if isinstance(contents, TupleValue):
            items = [to.register(i) for i in contents._items]
        elif isinstance(contents, SetValue) and contents.cls is frozenset:
            items = [to.register(i) for i in contents.entries.values()]
        else:
            return to.program.call(new, cls)
        return to.program.call(new, cls, to.program.build("tuple", tuple(items)))

    def fill(self, to: Rebuilder, made: int) -> None:
        contents, base, program = self.contents, self.contents.cls, to.program
        if isinstance(contents, ListValue):
            for item in contents._items or ():
                program.call(list.append, made, to.register(item))
        elif isinstance(contents, SetValue) and base is set:
            for item in contents.entries.values():
                program.call(set.add, made, to.register(item))
        elif isinstance(contents, DictValue):
            if contents.factory is not None:
                program.call(collections.defaultdict.__init__, made, to.register(contents.factory))
            setter = vars(base).get("__setitem__", dict.__setitem__)
            for name, item in contents.entries.values():
                program.call(setter, made, to.register(name), to.register(item))
        super().fill(to, made)


def base_of(cls: type) -> type | None:
    """The built-in container that a class derives from."""
    return next((base for base in cls.__mro__ if base in BUILT_IN), None)


def is_plain_tuple(cls: type) -> bool:
    """Whether instances are tuples and nothing more: a named tuple, a result of PyTorch."""
    if cls.__dictoffset__:
        return False
    between = cls.__mro__[: cls.__mro__.index(tuple)]
    return not any(_is_operator(name, a) for base in between for name, a in vars(base).items())


def _is_operator(name: str, attribute: Any) -> bool:
    is_special = name.startswith("__") and name.endswith("__") and name not in _HARMLESS
    return isinstance(attribute, types.FunctionType) and (is_special or name in ("index", "count"))


def new_instance(tr: Tracer, cls: type, args: list[Value]) -> Value:
    """`base.__new__(cls, *args)` for the built-in container that a class derives from, or is."""
    base = base_of(cls)
    contents: ContainerValue
    if base is tuple:
        contents = TupleValue(list(tr.unpack(args[0])) if args else [], cls if is_plain_tuple(cls) else tuple)
    elif base is list:
        contents = ListValue([])
    elif base in (set, frozenset):
        contents = SetValue({}, base)
        if args and base is frozenset:
            contents.update(tr, args[0])
    elif base is not None:
        contents = DictValue({}, base)
        if base is collections.defaultdict:
            contents.factory = tr.constant(None)
    else:
        graph_break("unsupported-class", type=cls.__name__)
    if contents.cls is cls:
        return contents
    made = DerivedValue(cls, contents)
    made.born = tr.here
    return made
