"""Functions, cells, bound methods, partials, super."""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value, next_serial
from segue.guards.source import Attr, CellContents, InstanceDict, Item

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.capture.values.mapping import DictValue
    from segue.guards.source import Source


_FIELDS = (types.GetSetDescriptorType, types.MemberDescriptorType)


class CellValue(Value):
    """A closure cell; `contents` is None when it is empty."""

    def __init__(self, contents: Value | None, source: Source | None = None, real: Any = MISSING) -> None:
        self.contents = contents
        self.source = source
        self.real = real
        self.changed = False
        self.serial = next_serial()

    def __repr__(self) -> str:
        return f"Cell({self.contents})"

    def python_type(self, tr: Tracer) -> type:
        return types.CellType

    @staticmethod
    def of(tr: Tracer, cell: Any, source: Source) -> CellValue:
        """The value of a cell that the program owns."""
        known = tr.tracked(cell)
        if known is not None:
            assert isinstance(known, CellValue)
            return known
        try:
            contents: Value | None = tr.wrap(cell.cell_contents, CellContents(source))
        except ValueError:
            tr.program.check("cell_empty", source)
            contents = None
        return tr.track(cell, CellValue(contents, source, cell))

    def state(self) -> Any:
        return self.contents

    def restore(self, state: Any) -> bool:
        return self.contents is state

    def store(self, tr: Tracer, value: Value | None) -> None:
        """Write the cell, or empty it."""
        tr.mutated(self)
        self.contents = value

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        return to.cell(self)

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effect that writes the program's own cell."""
        assert self.source is not None
        cell = to.program.fetch(self.source)
        if self.contents is None:
            to.program.effect("clear_cell", cell)
        else:
            to.program.effect("store_cell", cell, to.register(self.contents))


class FunctionValue(Value):
    """A Python function: one that capture made, or one of the program with a guard on its code."""

    def __init__(
        self,
        code: types.CodeType,
        namespace: DictValue,
        name: str,
        defaults: list[Value],
        keyword_defaults: dict[str, Value],
        closure: list[CellValue],
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.code = code
        self.namespace = namespace
        self.name = name
        self.defaults = defaults
        self.keyword_defaults = keyword_defaults
        self.closure = closure
        self.source = source
        self.real = real
        self.annotations: Value | None = None
        """The flat tuple that MAKE_FUNCTION took, until somebody asks for them."""
        self.attributes: DictValue | None = None
        """The `__dict__` of a new function, if it has entries."""
        self.fields: dict[str, Value] = {}
        """Attributes of a new function that are not in its `__dict__`, such as `__doc__`."""
        self.serial = next_serial()
        self.qualname = code.co_qualname

    def __repr__(self) -> str:
        return f"Function({self.name})"

    def python_type(self, tr: Tracer) -> type:
        return types.FunctionType

    @staticmethod
    def of(tr: Tracer, function: types.FunctionType, source: Source) -> FunctionValue:
        """The value of a function of the program; guards its code."""
        tr.program.check_is(Attr(source, "__code__"), function.__code__)
        defaults, cells = Attr(source, "__defaults__"), Attr(source, "__closure__")
        keyword = Attr(source, "__kwdefaults__")
        return FunctionValue(
            function.__code__,
            tr.namespace(function.__globals__, Attr(source, "__globals__")),
            function.__name__,
            [tr.wrap(d, Item(defaults, i)) for i, d in enumerate(function.__defaults__ or ())],
            {k: tr.wrap(d, _keyword_default(keyword, k)) for k, d in (function.__kwdefaults__ or {}).items()},
            [CellValue.of(tr, c, Item(cells, i)) for i, c in enumerate(function.__closure__ or ())],
            source,
            function,
        )

    def positional_defaults(self, tr: Tracer) -> list[Value]:
        """The defaults of the last positional parameters, guarded to be that many."""
        if self.source is not None:
            place = Attr(self.source, "__defaults__")
            if self.real.__defaults__ is None:
                tr.guard_value(place, None)
            else:
                tr.guard_length(place, len(self.defaults))
        return self.defaults

    def keyword_default(self, tr: Tracer, name: str) -> Value | None:
        """The default of a keyword-only parameter; None, guarded, if it has none."""
        found = self.keyword_defaults.get(name)
        if found is not None:
            return tr.bound(found)
        if self.source is not None:
            place = Attr(self.source, "__kwdefaults__")
            if self.real.__kwdefaults__ is None:
                tr.guard_value(place, None)
            else:
                tr.program.check("dict_absent", place, name)
        return None

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        from segue.capture.calls import call_function

        return call_function(tr, self, args, kwargs)

    def hash_key(self, tr: Tracer) -> Any:
        if self.source is None:
            return self
        tr.program.check_is(self.source, self.real)
        return self.real

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        return self.own_dict(tr).find(tr, name)

    def own_dict(self, tr: Tracer) -> DictValue:
        """The function's `__dict__`."""
        from segue.capture.values.mapping import DictValue

        if self.source is not None:
            return tr.namespace(self.real.__dict__, InstanceDict(self.source))
        if self.attributes is None:
            self.attributes = DictValue({})
            self.attributes.serial = self.serial
        return self.attributes

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name in ("__name__", "__qualname__"):
            return tr.constant(self.name if name == "__name__" else self.qualname)
        if name == "__code__":
            return tr.pinned(self.code)
        if name == "__globals__":
            return self.namespace
        if name == "__dict__":
            return self.own_dict(tr)
        if self.source is not None:
            return tr.wrap(getattr(self.real, name), Attr(self.source, name))
        if name not in self.fields:
            found = self._field(tr, name)
            if found is None:
                return super().special_attribute(tr, descriptor, name)
            self.fields[name] = found
        return self.fields[name]

    def _field(self, tr: Tracer, name: str) -> Value | None:
        """An attribute of a function that capture made, as MAKE_FUNCTION leaves it."""
        from segue.capture.values.sequence import TupleValue

        if name == "__doc__":
            consts = self.code.co_consts
            return tr.constant(consts[0] if consts and isinstance(consts[0], str) else None)
        if name == "__module__":
            return tr.look(self.namespace.find(tr, "__name__") or tr.constant(None))
        if name == "__defaults__":
            return TupleValue(list(self.defaults)) if self.defaults else tr.constant(None)
        if name == "__closure__":
            return TupleValue(list(self.closure)) if self.closure else tr.constant(None)
        if name == "__annotations__":
            flat = tr.unpack(self.annotations) if self.annotations is not None else []
            self.annotations = None
            return tr.new_dict({tr.look(k).concrete(tr): v for k, v in zip(flat[::2], flat[1::2], strict=True)})
        if name == "__kwdefaults__" and not self.keyword_defaults:
            return tr.constant(None)
        return None

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        value = tr.look(value)
        is_field = isinstance(vars(types.FunctionType).get(name), _FIELDS)
        if not is_field:
            self.own_dict(tr).store(tr, name, tr.constant(name), value)
        elif self.source is None and name in ("__name__", "__qualname__"):
            setattr(self, name.strip("_"), value.concrete(tr))
        elif self.source is None and name in ("__doc__", "__module__", "__annotations__"):
            tr.mutated(self)
            self.fields[name] = value
        else:
            graph_break("unsupported-attribute", name=name, type="function", verb="written")

    def delete_attribute(self, tr: Tracer, name: str) -> None:
        from segue.capture.attributes import default_delete

        default_delete(tr, self, name)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        return to.function(self)


class MethodValue(Value):
    """A bound method, of a Python function or of a C method."""

    def __init__(self, function: Value, instance: Value, source: Source | None = None, real: Any = MISSING) -> None:
        self.function = function
        self.instance = instance
        self.source = source
        self.real = real

    def __repr__(self) -> str:
        return f"Method({self.function}, {self.instance})"

    def python_type(self, tr: Tracer) -> type:
        if isinstance(self.function, FunctionValue):
            return types.MethodType
        return types.BuiltinMethodType

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(self.function, [self.instance, *args], kwargs)

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        if name == "__self__":
            return self.instance
        if name == "__func__" and isinstance(self.function, FunctionValue):
            return self.function
        if name in ("__class__", "__call__", "__get__", "__eq__", "__hash__"):
            return super().get_attribute(tr, name)
        return tr.look(self.function).get_attribute(tr, name)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        function = self.function
        real = function.real
        if isinstance(real, types.ClassMethodDescriptorType):
            return to.program.constant(real.__get__(None, self.instance.real))
        if real is not MISSING and not isinstance(real, types.FunctionType):
            return to.program.call(_bind, to.program.constant(real), to.register(self.instance))
        return to.program.call(types.MethodType, to.register(function), to.register(self.instance))


class PartialValue(Value):
    """A `functools.partial`."""

    def __init__(
        self,
        function: Value,
        args: list[Value],
        kwargs: dict[str, Value],
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.source = source
        self.real = real
        self.attributes: DictValue | None = None

    def python_type(self, tr: Tracer) -> type:
        return functools.partial

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(self.function, [*self.args, *args], {**self.kwargs, **kwargs})

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        from segue.capture.values.sequence import TupleValue

        if name == "func":
            return self.function
        if name == "args":
            return TupleValue(list(self.args))
        if name == "keywords":
            return tr.new_dict(dict(self.kwargs))
        return super().get_attribute(tr, name)

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        return self.own_dict(tr).find(tr, name)

    def own_dict(self, tr: Tracer) -> DictValue:
        """The partial's `__dict__`."""
        from segue.capture.values.mapping import DictValue

        if self.source is not None:
            return tr.namespace(self.real.__dict__, InstanceDict(self.source))
        if self.attributes is None:
            self.attributes = DictValue({})
        return self.attributes

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        self.own_dict(tr).store(tr, name, tr.constant(name), value)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        operands = [self.function, *self.args, *self.kwargs.values()]
        made = to.program.call(functools.partial, *map(to.register, operands), keywords=tuple(self.kwargs))
        if self.attributes is not None:
            for name, (_, value) in self.attributes.entries.items():
                to.program.call(setattr, made, to.program.constant(name), to.register(value))
        return made


class SuperValue(Value):
    """`super(cls, instance)`."""

    def __init__(self, cls: type, instance: Value, start: type) -> None:
        self.cls = cls
        self.instance = instance
        self.start = start

    def python_type(self, tr: Tracer) -> type:
        return super

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        from segue.capture.attributes import bind

        if name == "__class__":
            return tr.constant(super)
        mro = self.start.__mro__
        for cls in mro[mro.index(self.cls) + 1 :]:
            if name in cls.__dict__:
                tr.guard_class(self.start, name)
                owner = None if self.instance.real is self.start else self.instance
                return bind(tr, cls.__dict__[name], owner, self.start, name)
        tr.raise_error(AttributeError, f"'super' object has no attribute '{name}'")

    def rebuild(self, to: Rebuilder) -> int:
        return to.program.call(super, to.program.constant(self.cls), to.register(self.instance))


def _keyword_default(source: Source, name: str) -> Source:
    from segue.guards.source import DictItem

    return DictItem(source, name)


def _bind(descriptor: Any, instance: Any) -> Any:
    return descriptor.__get__(instance, type(instance))
