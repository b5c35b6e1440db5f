"""After the graph: how the objects that are alive where a segment leaves off are made."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from segue import _core
from segue.capture.values.base import Lazy, Value, is_heap_type
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.object import ExceptionValue

if TYPE_CHECKING:
    from torch import fx

    from segue.capture.tracer import Tracer
    from segue.capture.values.iterator import GeneratorValue
    from segue.capture.values.object import ObjectValue
    from segue.capture.values.tensor import TensorValue


class Rebuilder:
    """Emits the steps that make objects; each value is made once, so identity is kept.

    `outputs` are the graph's results that are needed, with their registers.
    """

    def __init__(self, tr: Tracer) -> None:
        self.tr = tr
        self.program = tr.program
        self.outputs: dict[fx.Node, int] = {}
        self._made: dict[int, int] = {}
        self._kept: list[Value] = []
        self._making: set[int] = set()

    def register(self, value: Value) -> int:
        """The register that holds the object of a value."""
        if isinstance(value, Lazy) and value.looked is not None:
            value = value.looked
        key = id(value)
        if key in self._made:
            return self._made[key]
        if key in self._making:
            self.impossible(value)
        self._making.add(key)
        made = value.rebuild(self)
        self._making.discard(key)
        self.remember(value, made)
        return made

    def remember(self, value: Value, register: int) -> int:
        """The object of a value is in a register."""
        self._made[id(value)] = register
        self._kept.append(value)
        self._making.discard(id(value))
        return register

    def impossible(self, value: Value) -> NoReturn:
        """The value cannot be made; the instruction that made it is given to the interpreter instead."""
        if isinstance(value, ExceptionValue):
            self.tr.made_by_interpreter(value)
        self.tr.give_back(value.born, f"a {value.python_type(self.tr).__name__}")

    def output(self, tensor: TensorValue) -> int:
        """A tensor that the graph returns."""
        if tensor.node not in self.outputs:
            self.outputs[tensor.node] = self.program.register()
        made = self.outputs[tensor.node]
        overlay = self.tr.overlay_of(tensor)
        for name, (_, value) in overlay.entries.items():
            self.program.call(setattr, made, self.program.constant(name), self.register(value))
        return made

    def fill(self, value: Value, kind: str, items: list[Value]) -> int:
        """A list: built at once, or in two steps if it is inside itself."""
        if not _reaches(items, value):
            return self.program.build(kind, tuple(self.register(i) for i in items))
        made = self.remember(value, self.program.build(kind, ()))
        for item in items:
            self.program.call(list.append, made, self.register(item))
        return made

    def fill_dict(
        self, value: Value, cls: type[dict[Any, Any]], entries: list[tuple[Value, Value]], factory: Value | None
    ) -> int:
        """A dict, likewise; `factory` is that of a defaultdict."""
        if cls is dict and not _reaches([v for _, v in entries], value):
            flat = [self.register(part) for entry in entries for part in entry]
            return self.program.build("dict", tuple(flat))
        given = [self.register(factory)] if factory is not None else []
        made = self.remember(value, self.program.call(cls, *given))
        for name, item in entries:
            self.program.call(cls.__setitem__, made, self.register(name), self.register(item))
        return made

    def instance(self, value: ObjectValue) -> int:
        """An instance of a Python class: made without its `__init__`, then given its attributes."""
        if value.cls is not object and not is_heap_type(value.cls):
            self.impossible(value)
        made = self.remember(value, value.allocate(self))
        value.fill(self, made)
        return made

    def cell(self, value: CellValue) -> int:
        """A new cell."""
        made = self.remember(value, self.program.build("new_cell", None))
        self._fill_cell(value)
        return made

    def _fill_cell(self, value: CellValue) -> None:
        if value.contents is not None:
            self.program.effect("store_cell", self._made[id(value)], self.register(value.contents))

    def function(self, value: FunctionValue) -> int:
        """A function that capture made."""
        program = self.program
        unfilled = [c for c in value.closure if c.source is None and id(c) not in self._made]
        for c in unfilled:  # filled once the function is there, which may be what they hold
            self.remember(c, program.build("new_cell", None))
        closure = [self.register(c) for c in value.closure]
        defaults = [self.register(d) for d in value.defaults]
        none = program.constant(None)
        made = program.call(
            types.FunctionType,
            program.constant(value.code),
            self.register(value.namespace),
            program.constant(value.name),
            program.build("tuple", tuple(defaults)) if defaults else none,
            program.build("tuple", tuple(closure)) if closure else none,
        )
        self.remember(value, made)
        for c in unfilled:
            self._fill_cell(c)
        self._dress(value, made)
        return made

    def _dress(self, value: FunctionValue, made: int) -> None:
        """Give a new function its keyword defaults, annotations, names and attributes."""
        attributes: dict[str, int] = {}
        if value.keyword_defaults:
            attributes["__kwdefaults__"] = self.register(self.tr.new_dict(value.keyword_defaults))
        if value.annotations is not None:
            flat = self.register(value.annotations)
            attributes["__annotations__"] = self.program.call(_annotations, flat)
        if value.qualname != value.code.co_qualname:
            attributes["__qualname__"] = self.program.constant(value.qualname)
        for name, item in value.fields.items():
            if name not in ("__defaults__", "__closure__"):
                attributes[name] = self.register(item)
        if value.attributes is not None:
            for name, (_, item) in value.attributes.entries.items():
                attributes[name] = self.register(item)
        for name, register in attributes.items():
            self.program.call(setattr, made, self.program.constant(name), register)

    def generator(self, value: GeneratorValue) -> int:
        """A generator that has not begun: call its function."""
        frame = value.frame
        arguments: list[Any] = frame.slots[: frame.code.n_args]
        if any(a is None for a in arguments) or frame.function_value.code.co_flags & 0x0C:
            self.impossible(value)
        code = frame.function_value.code
        n_positional = code.co_argcount
        names = code.co_varnames[n_positional : n_positional + code.co_kwonlyargcount]
        registers = [self.register(a) for a in arguments]
        function = self.register(frame.function_value)
        return self.program.call(_core.make_generator, function, *registers, keywords=names)


def _annotations(flat: Any) -> dict[str, Any]:
    """The annotations that MAKE_FUNCTION took as a flat tuple of names and values."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _reaches(items: list[Value], target: Value) -> bool:
    """Whether a container is somewhere inside its own items."""
    seen: set[int] = set()
    work = list(items)
    while work:
        value = work.pop()
        if isinstance(value, Lazy) and value.looked is not None:
            value = value.looked
        if value is target:
            return True
        if id(value) in seen or value.source is not None:
            continue
        seen.add(id(value))
        work += getattr(value, "_items", None) or []
        contents = getattr(value, "contents", None)  # of a cell, or of an instance that has a built-in part
        if contents is not None:
            work.append(contents)
        entries = getattr(value, "entries", None)
        fresh = getattr(value, "fresh", None)
        for holder in (entries, fresh.entries if fresh is not None else None):
            for entry in (holder or {}).values():
                work += list(entry) if isinstance(entry, tuple) else [entry]
        if isinstance(value, FunctionValue):
            work += [c.contents for c in value.closure if c.contents is not None]
    return False
