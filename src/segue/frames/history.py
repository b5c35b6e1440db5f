"""What the captures at one gate have shown: how often it paid, and which numbers and strings changed."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from segue import _core
from segue.capture import LoopFacts
from segue.frames.code import Code
from segue.guards.source import Computed, Item, Local, Source, Stack


@dataclass
class GateHistory:
    """What happened at one gate: how many segments of which kind, and which numbers and strings changed."""

    n_graphs: int = 0
    n_stays: int = 0
    n_retries: int = 0
    facts: dict[Source, Any] = field(default_factory=dict)
    names: dict[_core.Segment, dict[int, str]] = field(default_factory=dict)
    """For messages: what the registers of each segment hold."""
    symbolic: set[Source] = field(default_factory=set)


class SymbolicFacts:
    """Which numbers and strings are symbolic at a gate: those that a loop in place delivers, and those that changed."""

    def __init__(self, frames: Iterable[tuple[Code, int, LoopFacts]], history: GateHistory) -> None:
        """`frames`: where each stands, the one at the gate first, then its callers."""
        self._history = history
        self._delivered: set[Source] = set()
        for level, (code, index, loops) in enumerate(frames):
            self._delivered |= _delivered_by_loops(code, index, loops.in_place, level)

    def __call__(self, source: Source, value: Any) -> bool:
        known = self._history.facts.get(source, value)
        if type(known) is type(value) and known != value:
            self._history.symbolic.add(source)
        if source in self._history.symbolic:
            return True
        root = source
        while isinstance(root, (Item, Computed)):
            if isinstance(root, Computed) and root.function is operator.getitem:
                return True
            root = root.parent
        return type(value) is int and root in self._delivered


def _delivered_by_loops(code: Code, index: int, in_place: set[int], level: int) -> set[Source]:
    """Where the items of loops in place are at an instruction: on the stack at first, then in locals."""
    found: set[Source] = set()
    shape = code.shapes[index]
    for loop in code.enclosing_loops(index):
        if loop.header not in in_place or not loop.is_for:
            continue
        if index == loop.header + 1 and shape:
            found.add(Stack(len(shape) - 1, level))
        following = loop.header + 1
        while code.instructions[following].opname in ("STORE_FAST", "UNPACK_SEQUENCE"):
            i = code.instructions[following]
            if i.opname == "STORE_FAST":
                found.add(Local(i.arg, str(i.argval), level))
            following += 1
    return found
