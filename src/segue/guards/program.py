"""The register program of a segment: fetch, check, graph, effects, exit.

Capture appends to a `Program` while it looks at values; `segue._core` runs it in C.  The steps are described in
docs/architecture.md; `str(program)` prints them as text close to Python.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from segue.guards.source import Computed, Pinned, Source, Step


class Program:
    """Steps in the order in which they run, and the registers they use.

    Two lists: what runs before the graph (`steps`: fetches and checks, nothing that can be seen) and after (`effects`).
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.effects: list[Step] = []
        self.n_registers = 0
        self._fetched: dict[Source, int] = {}
        self._constants: dict[int, tuple[int, Any]] = {}
        self._checked: set[Any] = set()

    def names(self) -> dict[int, str]:
        """What the registers that are checked hold, for messages."""
        checked = {step[1] for step in self.steps if step[0] in ("equals", "tensor", "type_is", "length", "is")}
        return {register: str(source) for source, register in self._fetched.items() if register in checked}

    def settled(self) -> list[Step]:
        """The steps before the graph; a comparison with a constant stands in for the check of the value's type."""
        constants = {step[1]: step for step in self.steps if step[0] == "equals"}
        early: set[int] = set()
        settled: list[Step] = []
        for step in self.steps:
            name, register, *args = step
            if name == "type_is" and register in constants and type(constants[register][2]) is args[0]:
                early.add(register)
                settled.append(constants[register])
            elif name != "equals" or register not in early:
                settled.append(step)
        return settled

    def register(self) -> int:
        """A fresh register."""
        self.n_registers += 1
        return self.n_registers - 1

    def fetch(self, source: Source) -> int:
        """The register that holds the value at `source`, fetched once, before the graph."""
        known = self._fetched.get(source)
        if known is not None:
            return known
        if isinstance(source, Pinned):
            return self.constant(source.obj)
        if isinstance(source, Computed):
            operands = [self.fetch(operand) for operand in source.operands]
            function = self.constant(source.function)
            dst = self.register()
            self.steps.append(("call", dst, function, tuple(operands), ()))
        else:
            base = self.fetch(source.base) if source.base is not None else -1
            dst = self.register()
            self.steps.append(source.step(dst, base))
        self._fetched[source] = dst
        return dst

    def constant(self, obj: Any) -> int:
        """The register of a constant that the segment owns."""
        known = self._constants.get(id(obj))
        if known is not None:
            return known[0]
        dst = self.register()
        self.steps.insert(0, ("const", dst, obj))
        self._constants[id(obj)] = (dst, obj)
        return dst

    def weak_constant(self, obj: Any) -> int:
        """The register of an object that the segment only refers to weakly."""
        key = ("weak", id(obj))
        if key in self._checked:
            return self._fetched[Pinned(obj)]
        dst = self.register()
        self.steps.append(("weak", dst, weakref.ref(obj)))
        self._checked.add(key)
        self._fetched[Pinned(obj)] = dst
        return dst

    def check(self, name: str, source: Source, *args: Any) -> None:
        """Require a fact of the value at `source`; the same fact is checked once."""
        key = (name, source, *[_identity(a) for a in args])
        if key in self._checked:
            return
        self._checked.add(key)
        self.steps.append((name, self.fetch(source), *args))

    def check_pair(self, name: str, a: Source, b: Source) -> None:
        """Require `is` or `is_not` of two sources."""
        key = (name, a, b)
        if key in self._checked:
            return
        self._checked.add(key)
        self.steps.append((name, self.fetch(a), self.fetch(b)))

    def check_is(self, source: Source, obj: Any) -> None:
        """Require that the value at `source` is this very object, without keeping the object alive if possible."""
        key = ("is", source, id(obj))
        if key in self._checked:
            return
        self._checked.add(key)
        register = self.fetch(source)
        try:
            expected = self.weak_constant(obj)
        except TypeError:
            expected = self.constant(obj)
        self.steps.append(("is", register, expected))

    def check_plain(self, *step: Any) -> None:
        """Append a check that is not about one source."""
        if not _hashable(step) or step not in self._checked:
            if _hashable(step):
                self._checked.add(step)
            self.steps.append(step)

    def call(self, function: Callable[..., Any], *args: int, keywords: Sequence[str] = ()) -> int:
        """After the graph: call a constant function with registers; returns the register of the result."""
        return self.call_register(self.constant(function), *args, keywords=keywords)

    def call_register(self, function: int, *args: int, keywords: Sequence[str] = ()) -> int:
        """After the graph: call what a register holds."""
        dst = self.register()
        self.effects.append(("call", dst, function, args, tuple(keywords)))
        return dst

    def build(self, kind: str, *operands: Any) -> int:
        """After the graph: build a tuple, list, set, dict, slice or cell."""
        dst = self.register()
        self.effects.append((kind, dst, *operands))
        return dst

    def effect(self, *step: Any) -> None:
        """After the graph: append a step that writes something."""
        self.effects.append(step)

    def __str__(self) -> str:
        return "\n".join(map(describe, [*self.steps, *self.effects]))


def describe(step: Step, names: Mapping[int, str] | None = None) -> str:
    """One step as readable text; registers by what they hold, where `names` says it."""
    name, *args = step
    template = _TEXT.get(name)
    text = template(*args) if template is not None else f"{name} " + ", ".join(_show(a) for a in args)
    if not names:
        return text
    return re.sub(_QUOTED_OR_REGISTER, lambda found: names.get(int(found[1] or -1), found[0]), text)


_QUOTED_OR_REGISTER = r"""'[^']*'|"[^"]*"|\br(\d+)\b"""


def _show(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"r{value}"
    if isinstance(value, tuple):
        return "(" + ", ".join(_show(v) for v in value) + ")"
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def _regs(registers: Sequence[int]) -> str:
    return ", ".join(f"r{r}" for r in registers)


_TEXT: dict[str, Callable[..., str]] = {
    "const": lambda d, o: f"r{d} = {getattr(o, '__qualname__', None) or _show_object(o)}",
    "weak": lambda d, o: f"r{d} = {o!r}()",
    "local": lambda d, s: f"r{d} = locals[{s}]",
    "stack": lambda d, s: f"r{d} = stack[{s}]",
    "function": lambda d: f"r{d} = function",
    "caller_local": lambda d, n, s: f"r{d} = caller[{n}].locals[{s}]",
    "caller_stack": lambda d, n, s: f"r{d} = caller[{n}].stack[{s}]",
    "caller_function": lambda d, n: f"r{d} = caller[{n}].function",
    "globals": lambda d: f"r{d} = globals()",
    "closure": lambda d, i: f"r{d} = function.__closure__[{i}]",
    "cell": lambda d, s: f"r{d} = r{s}.cell_contents",
    "attr": lambda d, s, n: f"r{d} = r{s}.{n}",
    "instance_dict": lambda d, s: f"r{d} = r{s}.__dict__",
    "dict_get": lambda d, s, k: f"r{d} = r{s}[{k!r}]",
    "dict_absent": lambda s, k: f"check {k!r} not in r{s}",
    "item": lambda d, s, i: f"r{d} = r{s}[{i}]",
    "type_of": lambda d, s: f"r{d} = type(r{s})",
    "slot": lambda d, s, n, o: f"r{d} = r{s}.{n.__name__}  # slot of {o.__name__}",
    "is": lambda a, b: f"check r{a} is r{b}",
    "is_not": lambda a, b: f"check r{a} is not r{b}",
    "type_is": lambda a, c: f"check type(r{a}) is {c.__qualname__}",
    "class_state": lambda c, names: f"check {c.__qualname__}: " + ", ".join(n for n, _ in names),
    "equals": lambda a, c: f"check r{a} == {c!r}",
    "length": lambda a, n: f"check len(r{a}) == {n}",
    "dict_keys": lambda a, k: f"check list(r{a}) == {list(k)!r}",
    "tensor": lambda a, *facts: f"check tensor r{a}: " + ", ".join(map(str, facts[1:])),
    "true": lambda a: f"check r{a}",
    "false": lambda a: f"check not r{a}",
    "predicate": lambda f, a: f"check {getattr(f, '__name__', f)}({_regs(a)})",
    "global_state": lambda t: "check global state",
    "call": lambda d, f, a, k: f"r{d} = r{f}({_regs(a)}{', ' if k else ''}{', '.join(k)})",
    "tuple": lambda d, a: f"r{d} = ({_regs(a)})",
    "list": lambda d, a: f"r{d} = [{_regs(a)}]",
    "set": lambda d, a: f"r{d} = {{{_regs(a)}}}",
    "dict": lambda d, a: f"r{d} = dict({_regs(a)})",
    "slice": lambda d, *a: f"r{d} = slice({_regs(a)})",
    "new_cell": lambda d, s: f"r{d} = cell({'' if s is None else f'r{s}'})",
    "graph": lambda d, f, a, m: f"{_regs(d)} = graph({_regs(a)})",
    "commit": lambda: "commit",
    "store_local": lambda s, r: f"locals[{s}] = r{r}",
    "delete_local": lambda s: f"del locals[{s}]",
    "store_cell": lambda c, r: f"r{c}.cell_contents = r{r}",
    "clear_cell": lambda c: f"del r{c}.cell_contents",
    "result": lambda r: "result NULL" if r is None else f"result r{r}",
    "handled": lambda r: f"handled r{r}",
}


def _show_object(obj: Any) -> str:
    if isinstance(obj, (int, float, str, bytes, bool, tuple, type(None))):
        return repr(obj)
    return f"<{type(obj).__name__}>"


def _identity(value: Any) -> Any:
    if isinstance(value, tuple):
        return (tuple, value) if _hashable(value) else id(value)
    return (type(value), value) if isinstance(value, (int, float, str, bytes, type(None))) else id(value)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
