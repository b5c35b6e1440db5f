"""Where a capture leaves off, what bounds it, and what later captures of the function must respect."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from segue.frames.code import Code, Instruction

if TYPE_CHECKING:
    from segue.capture.frame import Frame

Place = tuple[int, ...]
"""An instruction of a captured frame: the calls by which the frame was reached, then the instruction's index.

A call is an instruction's index and the id of the code that was called, outermost first.  They begin with `-level` if
the outermost frame is a caller of the one at the gate.
"""


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

    too_long: dict[int, BreakSite] = field(default_factory=dict)
    """Those of them that were given up because capture had looked at enough, for reports."""


@dataclass(eq=False)
class Suspension:
    """A call that the segment leaves in the middle, to be gone on with by a continuation.

    `index` and `where` say where the called function goes on, as those of an `Exit` do; `call` is the instruction
    of its caller. The constant of the segment's program that stands for it is replaced when the segment is built.
    """

    code: Code
    index: int
    where: Literal["past", "gate", "call"]
    call: int
    below: int
    """Stack slots that the caller keeps below the call."""


GENERATOR_EXITS = frozenset({"YIELD_VALUE", "SEND", "RETURN_VALUE"})
"""Instructions that suspend or end a generator: in a root frame the interpreter executes them."""


class LeaveOff(Exception):
    """The segment ends before an instruction of a frame."""

    def __init__(self, frame: Frame, index: int, at_gate: bool, site: BreakSite | None) -> None:
        super().__init__(index)
        self.frame = frame
        self.index = index
        self.at_gate = at_gate
        self.site = site


class CannotRebuild(Exception):
    """A segment that nothing can be made of: the interpreter runs on from the gate."""
