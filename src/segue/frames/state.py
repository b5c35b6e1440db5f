"""What is known of one function under one compiler: its gates, exits and newest version."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import CodeType

from segue import _core

from .code import Code
from .rewrite import Exit, build_version, check_place

__all__ = ["Exit", "FunctionState"]


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
        number = state.exit_id(11, at_gate=False)
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

    def exit_id(self, index: int, at_gate: bool) -> int:
        """The number of an exit, made if there is none yet.

        Args:
            index: the instruction to go on with.
            at_gate: go to the gate before it, which must exist, rather than past it.

        Raises:
            ValueError: control cannot be handed back there.
        """
        wanted = Exit(index, at_gate)
        number = self._numbers.get(wanted)
        if number is not None:
            return number
        wanted.check(self.form)
        if at_gate and index not in self.gates:
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
        number = self.exit_id(index, at_gate=False)
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
