"""Where a capture leaves off, what bounds it, and what later captures of the function must respect."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field

from segue.frames.code import Code, Instruction


@dataclass
class BreakSite:
    """Where and why capture left off."""

    kind: str
    reason: str
    frames: list[tuple[types.CodeType, Instruction]]
    """The captured frames, outermost first, with the instruction that each was at."""


@dataclass
class Limits:
    """What bounds one capture, from the configuration."""

    unroll: int = 128
    budget: int = 200_000
    depth: int = 120
    recursion: int = 12
    fullgraph: bool = False
    break_at: Callable[[Code, int], bool] | None = None


@dataclass
class LoopFacts:
    """What earlier captures of a function learned, which later ones must respect."""

    in_place: set[int] = field(default_factory=set)
    """Headers of loops that are not unrolled."""


GENERATOR_EXITS = frozenset({"YIELD_VALUE", "SEND", "RETURN_VALUE"})
"""Instructions that suspend or end a generator: in a root frame the interpreter executes them."""


class LeaveOff(Exception):
    """The segment ends before an instruction of the root frame."""

    def __init__(self, index: int, at_gate: bool, site: BreakSite | None) -> None:
        super().__init__(index)
        self.index = index
        self.at_gate = at_gate
        self.site = site


class CannotRebuild(Exception):
    """A segment that nothing can be made of: the interpreter runs on from the gate."""
