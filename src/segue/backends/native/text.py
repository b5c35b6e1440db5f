"""LLVM functions as text: numbered values, scopes, counted loops, and operations on lanes of any width.

Values are in SSA form from the start and invariant work is placed by its caller, so that no LLVM optimisation pass has
to run over the text.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

ELEMENT_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "float": 32, "double": 64}
"""The element types that are used, with their sizes."""

_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


@dataclass
class Module:
    """A module under construction: its functions and what they declare, each once."""

    functions: list[str] = field(default_factory=list)
    declarations: dict[str, str] = field(default_factory=dict)
    has_fma: bool = True
    has_f16c: bool = True
    fast_math: bool = False
    """Whether the target multiplies and adds in one instruction."""

    def declare(self, name: str, result: str, parameters: Sequence[str]) -> None:
        """Make an external function or intrinsic known."""
        self.declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"

    def __str__(self) -> str:
        return "\n".join([*self.declarations.values(), *self.functions, ""])


class Function:
    """The body of one function under construction.

    A value that is asked for again in the same or an inner scope is not computed again.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.block = "entry"
        self._head: list[str] = []
        self._lines: list[str] = []
        self._count = 0
        self._scopes: list[dict[str, str]] = [{}]

    # --- straight code --------------------------------------------------------------------------------

    def let(self, text: str) -> str:
        """The name of a value without side effects, computed here unless it is already there."""
        for scope in self._scopes:
            if text in scope:
                return scope[text]
        name = self._scopes[-1][text] = self.fresh(text)
        return name

    def fresh(self, text: str) -> str:
        """The name of a value that is computed anew, such as a load."""
        name = self._name()
        self._lines.append(f"  {name} = {text}")
        return name

    def effect(self, text: str) -> None:
        """An instruction without a value."""
        self._lines.append(f"  {text}")

    def allocate(self, element: str, count: int) -> str:
        """Memory of the function's own frame, aligned for vectors."""
        name = self._name()
        self._head.append(f"  {name} = alloca [{count} x {element}], align 64")
        return name

    def call(self, name: str, result: str, operands: Sequence[tuple[str, str]]) -> str:
        """A call of a function without side effects; `operands` are (type, value)."""
        self.module.declare(name, result, [t for t, _ in operands])
        return self.let(f"call {result} @{name}({', '.join(f'{t} {v}' for t, v in operands)})")

    # --- control flow ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Code whose values are not known after it."""
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def loop(
        self,
        start: str,
        stop: str,
        step: int,
        carried: Sequence[tuple[str, str]],
        body: Callable[[str, list[str]], Sequence[str]],
    ) -> list[str]:
        """A counted loop that runs at least once.

        Args:
            start, stop: i64 operands, `start < stop`.
            step: what the counter grows by.
            carried: (type, initial value) of every value that goes from one iteration to the next.
            body: writes the body, given the counter and the carried values; returns their next values.

        Returns:
            The carried values after the last iteration.
        """
        before, head = self.block, self._label("loop")
        counter, following = self._name(), self._name()
        names = [self._name() for _ in carried]
        self.effect(f"br label %{head}")
        self._start(head)
        place = len(self._lines)
        with self.scope():
            results = list(body(counter, names))
        self.effect(f"{following} = add nuw nsw i64 {counter}, {step}")
        more = self.fresh(f"icmp slt i64 {following}, {stop}")
        last, after = self.block, self._label("done")
        phis = [f"  {counter} = phi i64 [{start}, %{before}], [{following}, %{last}]"]
        for name, (kind, initial), result in zip(names, carried, results, strict=True):
            phis.append(f"  {name} = phi {kind} [{initial}, %{before}], [{result}, %{last}]")
        self._lines[place:place] = phis
        self.effect(f"br i1 {more}, label %{head}, label %{after}")
        self._start(after)
        return results

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """Run code that only has effects, if the i1 `condition` holds."""
        then, after = self._label("then"), self._label("after")
        self.effect(f"br i1 {condition}, label %{then}, label %{after}")
        self._start(then)
        with self.scope():
            body()
        self.effect(f"br label %{after}")
        self._start(after)

    def finish(self, name: str, parameters: str, result: str, attributes: str = "") -> None:
        """Add the function to the module; its last instruction must be a `ret`."""
        lines = [f"define {result} @{name}({parameters}) {attributes} {{", "entry:", *self._head, *self._lines, "}"]
        self.module.functions.append("\n".join(lines))

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self.block = label

    def _label(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def _name(self) -> str:
        self._count += 1
        return f"%v{self._count}"


@dataclass(frozen=True)
class Lanes:
    """Operations on `count` values at a time; one lane is a plain scalar.

    Elements are named as LLVM names them (`float`, `i32`, ...); operands and results are operand texts.
    """

    function: Function
    count: int

    def type(self, element: str) -> str:
        """`<8 x float>`, or `float` for one lane."""
        return element if self.count == 1 else f"<{self.count} x {element}>"

    def constant(self, element: str, value: float | int | bool) -> str:
        """An operand with the same constant in every lane, rounded to the element type."""
        text = literal(element, value)
        return text if self.count == 1 else f"splat ({element} {text})"

    def splat(self, element: str, scalar: str) -> str:
        """A scalar value in every lane."""
        if self.count == 1:
            return scalar
        if not scalar.startswith("%"):
            return f"splat ({element} {scalar})"
        kind = self.type(element)
        first = self.function.let(f"insertelement {kind} poison, {element} {scalar}, i64 0")
        return self.function.let(f"shufflevector {kind} {first}, {kind} poison, <{self.count} x i32> zeroinitializer")

    def op(self, opcode: str, element: str, *operands: str) -> str:
        """`fadd`, `and`, `shl`, `fneg`, ... on operands of one element type."""
        return self.function.let(f"{opcode} {self.type(element)} {', '.join(operands)}")

    def compare(self, predicate: str, element: str, left: str, right: str) -> str:
        """`fcmp olt`, `icmp eq`, ...: i1 lanes."""
        return self.function.let(f"{predicate} {self.type(element)} {left}, {right}")

    def select(self, condition: str, element: str, left: str, right: str) -> str:
        """`left` where the i1 lanes of `condition` are set, else `right`."""
        kind = self.type(element)
        return self.function.let(f"select {self.type('i1')} {condition}, {kind} {left}, {kind} {right}")

    def convert(self, opcode: str, source: str, target: str, operand: str) -> str:
        """`sitofp`, `fptosi`, `bitcast`, `zext`, ... between element types."""
        return self.function.let(f"{opcode} {self.type(source)} {operand} to {self.type(target)}")

    def intrinsic(self, name: str, element: str, *operands: str) -> str:
        """An overloaded intrinsic of one element type, such as `llvm.fma`."""
        full = f"{name}.{'' if self.count == 1 else f'v{self.count}'}{_SUFFIX.get(element, element)}"
        kind = self.type(element)
        return self.function.call(full, kind, [(kind, o) for o in operands])


def literal(element: str, value: float | int | bool) -> str:
    """A constant as LLVM writes it, rounded to the element type."""
    if element == "i1":
        return "true" if value else "false"
    if element in ("float", "double"):
        return f"0x{_bits(element, float(value)):016X}"
    if element == "half":
        return f"0xH{struct.unpack('<H', struct.pack('<e', value))[0]:04X}"
    bits = ELEMENT_BITS[element]
    wrapped = int(value) % (1 << bits)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def _bits(element: str, value: float) -> int:
    """The bits of a double that LLVM's hexadecimal form wants, also for float."""
    if element == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])
