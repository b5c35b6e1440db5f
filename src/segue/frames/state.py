"""What is known of one function under one compiler: its gates, exits and newest version."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType

from segue import _core

from .code import Code
from .rewrite import Exit, Where, build_version, check_place

__all__ = ["Exit", "FunctionState"]


MAX_CONTEXTS = 32
"""How many contexts of one gate have segments of their own."""


@dataclass(frozen=True, eq=False)
class Context:
    """The calls of compiled functions inside which a frame was resumed.

    Attributes:
        parent: the context of the calling frame, None if that is no continuation.
        state: the calling function.
        index: the call, an instruction of the calling function.
    """

    parent: Context | None
    state: FunctionState
    index: int

    def up(self, level: int) -> Context | None:
        """The context of the `level`th caller; 0 is this one."""
        found: Context | None = self
        for _ in range(level):
            assert found is not None
            found = found.parent
        return found

    def __str__(self) -> str:
        here = f"{self.state.form.name}:{self.index}"
        return here if self.parent is None else f"{self.parent} > {here}"


class FunctionState(_core.State):
    """The gates, exits and newest version of one code object under one compiler.

    Gates and exits are only ever added, so whatever an older version knows stays true. Adding them
    marks the version as out of date; `refresh` builds the next one. Whoever answers a miss calls
    `refresh` before a segment with a new exit is put into a gate: another thread may run it at once.

    Attributes:
        form: the normal form of the code object (`code` is the code object itself).
        gates: the gates in the body by instruction index.
        entry: the gate that is tried on the arguments before there is a frame; None for a
            generator, whose gates are where it goes on.
        exits: where segments hand control back; an exit's number is its place in this list.
        version: the newest rewritten code object, None before the first `refresh`.
        n_versions: how many have been built.

    Example:
        state = FunctionState(function.__code__)
        state.add_gates([12])
        number = state.exit_id(11)
        state.refresh()
    """

    def __init__(self, code: CodeType) -> None:
        """Raises ValueError for code that is not that of a function or generator function."""
        super().__init__(code)
        self.form = Code.of(code)
        self.gates: dict[int, _core.Gate] = {}
        self.exits: list[Exit] = []
        self.n_versions = 0
        self._lock = threading.RLock()
        self._numbers: dict[Exit, int] = {}
        self._is_stale = True
        if self.form.is_generator:
            self.add_gates(self.form.resumptions())
        else:
            self.entry = _core.Gate(self, 0, 0)

    def add_gates(self, indices: Iterable[int]) -> None:
        """Put a gate before each of these instructions that has none.

        Raises:
            ValueError: no gate can stand there; none has been added then.
        """
        wanted = [index for index in dict.fromkeys(indices) if index not in self.gates]
        for index in wanted:
            check_place(self.form, index)
        with self._lock:
            for index in wanted:
                depth = len(self.form.shapes[index] or ())
                self.gates.setdefault(index, _core.Gate(self, index, depth))
                self._is_stale = True

    def gate_in(self, gate: _core.Gate, context: Context) -> _core.Gate:
        """The gate at the same place inside the calls of a context; past `MAX_CONTEXTS` the common one."""
        if len(gate.contexts or ()) >= MAX_CONTEXTS:
            return gate
        return _core.Gate(self, gate.index, gate.depth, context)

    def every_gate(self) -> list[_core.Gate]:
        """The gates in the body, with those of contexts."""
        found = list(self.gates.values())
        return found + [inner for gate in found for inner in (gate.contexts or {}).values() if inner is not gate]

    def exit_id(self, index: int, where: Where = "past") -> int:
        """The number of an exit, made if there is none yet.

        Args:
            index: the instruction to go on with.
            where: see `Exit`; a gate must exist.

        Raises:
            ValueError: control cannot be handed back there.
        """
        wanted = Exit(index, where)
        number = self._numbers.get(wanted)
        if number is not None:
            return number
        wanted.check(self.form)
        if where == "gate" and index not in self.gates:
            raise ValueError(f"exit to the gate at {index} of {self.form.name}: there is no gate")
        with self._lock:
            number = self._numbers.setdefault(wanted, len(self.exits))
            if number == len(self.exits):
                self.exits.append(wanted)
                self._is_stale = True
        return number

    def exit_of(self, index: int) -> int:
        """The number of the exit to an instruction, past its gate, with a version that has it.

        The core asks when a frame of an older version is to go on in the newest one.
        """
        number = self.exit_id(index)
        self.refresh()
        return number

    def refresh(self) -> None:
        """Build the newest version if gates or exits have been added since the last."""
        with self._lock:
            if not self._is_stale:
                return
            n_exits = len(self.exits)
            crossings = {index: _core.Crossing(gate, n_exits) for index, gate in self.gates.items()}
            self.version = build_version(self.form, crossings, self.exits, _core.Landing(self))
            self.n_versions += 1
            self._is_stale = False

    def describe(self) -> str:
        """Gates and exits as readable text.

        Example:
            f: version 2, 1 gate, 1 exit
              entry: 1 segment
              gate 12 (line 7, depth 1): no segments, closed, again in 8
              exit 0: past 11 (line 6)
        """
        counts = f"{_count(len(self.gates), 'gate')}, {_count(len(self.exits), 'exit')}"
        lines = [f"{self.form.name}: version {self.n_versions}, {counts}"]
        if self.entry is not None:
            lines.append(f"  entry: {_gate_text(self.entry)}")
        for index, gate in sorted(self.gates.items()):
            where = f"line {self._line(index)}, depth {gate.depth}"
            lines.append(f"  gate {index} ({where}): {_gate_text(gate)}")
            for context, inner in (gate.contexts or {}).items():
                lines.append(f"    inside {context}: {_gate_text(inner)}")
        for number, exit in enumerate(self.exits):
            lines.append(f"  exit {number}: {exit} (line {self._line(exit.index)})")
        return "\n".join(lines)

    def _line(self, index: int) -> int | None:
        return self.form.instructions[index].position.lineno


def _count(n: int, what: str) -> str:
    return f"{n or 'no'} {what}{'s' * (n != 1)}"


def _gate_text(gate: _core.Gate) -> str:
    text = _count(len(gate.segments), "segment")
    if gate.is_open:
        return text
    return text + (f", closed, again in {gate.backoff}" if gate.backoff > 0 else ", closed")
