"""Force a transfer at every instruction boundary of a function and compare with the plain function.

A gate is put before an instruction. Its only kind of segment does nothing: it fetches every local
and stack slot and hands control back to that same instruction, past the gate. While the running
version has no pad for that exit, the frame transfers to a version that has one; after that, control
goes through the pad. Both ways must not be noticeable.

    python -m tests.frames.torture [name ...]

prints a table: function, boundaries, transfers, passages through a pad, differences.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from segue import _core
from segue.frames.code import Code
from segue.frames.state import Exit, FunctionState
from tests.corpus import CORPUS, Case, Observation, difference, observe

#: With gates everywhere, pads are made for this many boundaries at a time: several transfers a
#: call, and not one version for each.
BATCH = 10


def boundaries(code: Code) -> list[int]:
    """The instructions before which control can be transferred."""
    return [index for index in range(len(code)) if code.is_place(index)]


class Torturer:
    """The compiler of one function: it has gates at some boundaries, with segments that do nothing.

    Attributes:
        transfers: how often a frame has been left because its version had no pad.
        passages: how often a segment has been run, transfers included.
    """

    def __init__(self, function: Callable[..., Any], gates: Sequence[int]) -> None:
        self.state = FunctionState(function.__code__)
        self.state.add_gates(gates)
        self.state.refresh()
        if self.state.entry is not None:
            self.state.entry.is_open = False
        self.bare = self._padded = self.state.version
        self.entry = _core.Entry(function, self)
        self.transfers = 0
        self.passages = 0

    def call_without_pads(self, *args: Any) -> Any:
        """Call the function, starting in the version that has no pads."""
        self.state.version = self.bare
        for gate in self.state.gates.values():
            gate.segments.clear()
        return self.entry(*args)

    def call(self, *args: Any) -> Any:
        """Call the function, starting in the newest version."""
        return self.entry(*args)

    # --- what the core asks a compiler ---

    def admit(self, function: Callable[..., Any]) -> FunctionState | None:
        return self.state if function.__code__ is self.state.form.original else None

    def miss(
        self, gate: _core.Gate, function: object, locals: tuple[Any, ...], stack: tuple[Any, ...]
    ) -> _core.Segment:
        number = self._make_pads(gate.index)
        segment = do_nothing(locals, stack, number, self._count_passage)
        gate.segments.append(segment)
        return segment

    def report_unstable(self, gate: _core.Gate, segment: _core.Segment, step: int) -> None:
        raise AssertionError(f"step {step} of {segment!r} failed right after it was made")

    # --- details ---

    def _make_pads(self, index: int) -> int:
        """The exit to an instruction, in the state's version; the running one may be older."""
        is_known = Exit(index) in self.state.exits
        if self.state.version is self.bare or not is_known:
            self.transfers += 1
        if not is_known:
            following = [place for place in self.state.gates if place >= index]
            for place in following[:BATCH]:
                self.state.exit_id(place)
            self.state.refresh()
            self._padded = self.state.version
        self.state.version = self._padded
        return self.state.exit_id(index)

    def _count_passage(self) -> bool:
        self.passages += 1
        return True


def do_nothing(locals: tuple[Any, ...], stack: tuple[Any, ...], exit: int, note: Callable[[], bool]) -> _core.Segment:
    """A segment that fetches locals and stack and puts them back, for the same slots bound."""
    fetches: list[tuple[Any, ...]] = [("predicate", note, ())]
    effects: list[tuple[Any, ...]] = []
    register = 0
    for slot, value in enumerate(locals):
        if value is _core.NULL:
            fetches.append(("unbound", slot))
            continue
        fetches.append(("local", register, slot))
        effects.append(("store_local", slot, register))
        register += 1
    for slot, value in enumerate(stack):
        if value is _core.NULL:
            effects.append(("result", None))
            continue
        fetches.append(("stack", register, slot))
        effects.append(("result", register))
        register += 1
    return _core.Segment([*fetches, ("commit",), *effects], exit, register)


@dataclass
class Outcome:
    """What torturing one function gave.

    Attributes:
        name: the function.
        boundaries: how many there are.
        reached: how many some call came to.
        transfers, passages: as in `Torturer`, over all calls.
        differences: what differed from the plain function, with the boundary.
    """

    name: str
    boundaries: int
    reached: int = 0
    transfers: int = 0
    passages: int = 0
    differences: list[str] = field(default_factory=list)


def torture(case: Case) -> Outcome:
    """Run a case with a gate at each boundary in turn, then with gates at all of them."""
    expected = [observe(case.function, args) for args in case.make_args()]
    places = boundaries(Code.of(case.function.__code__))
    outcome = Outcome(case.name, len(places))
    for index in places:
        outcome.reached += torture_at(case, [index], expected, outcome)
    torture_at(case, places, expected, outcome)
    return outcome


def torture_at(case: Case, gates: Sequence[int], expected: Sequence[Observation], outcome: Outcome) -> bool:
    """Compare all calls of a case with gates at the given places; whether any gate was reached."""
    torturer = Torturer(case.function, gates)
    where = str(gates[0]) if len(gates) == 1 else "everywhere"
    reached = [False] * len(expected)
    for way in (torturer.call_without_pads, torturer.call):
        for number, args in enumerate(case.make_args()):
            if way == torturer.call and not reached[number]:
                continue
            before = torturer.passages
            got = observe(way, args)
            found = None if got == expected[number] else difference(expected[number], got)
            reached[number] = torturer.passages > before
            if found is not None:
                outcome.differences.append(f"{way.__name__}, gate {where}, call {number}: {found}")
    outcome.transfers += torturer.transfers
    outcome.passages += torturer.passages
    return any(reached)


def main(names: Iterable[str]) -> int:
    """Torture the named cases of the corpus, or all, and print a table."""
    wanted = set(names)
    unknown = wanted - {case.name for case in CORPUS}
    if unknown:
        print(f"no such case: {', '.join(sorted(unknown))}")
        return 2
    columns = "{:<36} {:>10} {:>8} {:>10} {:>9} {:>11}"
    print(columns.format("function", "boundaries", "reached", "transfers", "passages", "differences"))
    total = Outcome("total", 0)
    for case in CORPUS:
        if wanted and case.name not in wanted:
            continue
        outcome = torture(case)
        print(row(columns, outcome), flush=True)
        for found in outcome.differences:
            print("   ", found)
        add(total, outcome)
    print(row(columns, total))
    return 1 if total.differences else 0


def row(columns: str, outcome: Outcome) -> str:
    """One line of the table."""
    return columns.format(
        outcome.name,
        outcome.boundaries,
        outcome.reached,
        outcome.transfers,
        outcome.passages,
        len(outcome.differences),
    )


def add(total: Outcome, outcome: Outcome) -> None:
    """Add an outcome to a sum of outcomes."""
    total.boundaries += outcome.boundaries
    total.reached += outcome.reached
    total.transfers += outcome.transfers
    total.passages += outcome.passages
    total.differences += outcome.differences


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
