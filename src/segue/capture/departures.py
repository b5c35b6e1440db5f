"""Where a capture leaves off: at breaks, at marks from an earlier attempt, at loops that run in place."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NoReturn

from segue.capture.breaks import KINDS, GraphBreak, Raised, Restart, graph_break
from segue.capture.frame import Frame, Resumable
from segue.capture.leaving import GENERATOR_EXITS, BreakSite, CannotRebuild, LeaveOff, Limits, LoopFacts, Place
from segue.capture.values.base import MISSING
from segue.capture.values.late import LateValue
from segue.frames.code import Code, Instruction

MAX_RESUMED = 100
"""How many frames, one inside the other, a segment may leave in the middle."""

MAX_RESUMED_ALIKE = 12
"""How many of them may be of one function: a recursion is then compiled call by call."""


class Departures:
    """The part of a tracer that decides where the segment ends.

    `marks` are the places at which to leave off, found by earlier attempts at the same capture.
    """

    frames: list[Frame]

    def __init__(
        self,
        limits: Limits,
        loops_of: Callable[[Code], LoopFacts],
        marks: dict[Place, BreakSite],
        can_resume: Callable[[types.CodeType, Any], bool],
    ) -> None:
        self.limits = limits
        self.marks = marks
        self.root: Frame | None = None
        self.at: tuple[Resumable, Instruction] | None = None
        """The innermost resumable frame, and its instruction."""
        self.is_direct = False
        """The function called next gives the result of the calling frame's instruction."""
        self.is_speculating = False
        """What runs now may be undone: nothing can leave off inside it."""
        self.outer_codes: list[Code] = []
        """The code of the callers of the frame at the gate."""
        self.changes = 0
        """Grows with every change and operation, so that an untouched state is told from another."""
        self._loops_of = loops_of
        self._can_resume = can_resume
        self._iterations: dict[tuple[int, int], int] = {}
        self._started = False
        self._codes: dict[Place, Code] = {}

    @property
    def here(self) -> Place | None:
        """Where to break so that the interpreter does what is done now."""
        return None if self.at is None else self.at[0].place(self.at[1])

    def _may_resume(self, caller: Frame, frame: Frame) -> bool:
        """Whether a segment may leave off in the middle of a called frame."""
        if caller.code.is_generator or self.is_speculating:
            return False
        outer = [*self.outer_codes, *(f.code for f in self.frames)]
        if len(outer) >= MAX_RESUMED or outer.count(frame.code) >= MAX_RESUMED_ALIKE:
            return False
        function = frame.function_value
        return self._can_resume(function.code, None if function.real is MISSING else function.real)

    def make_resumable(self, frame: Frame, path: Place) -> None:
        """Let the segment leave off in the middle of a frame."""
        self._codes[path] = frame.code
        frame.resumable = Resumable(path, self._loops_of(frame.code))

    def give_back(self, place: Place | None, what: str, kind: str = "rebuild") -> NoReturn:
        """Begin again with a break at an instruction whose result cannot be rebuilt."""
        if place is None or place in self.marks:
            raise CannotRebuild(what)
        code, index = self._codes[place[:-1]], place[-1]
        frames = [(code.original, code.instructions[index])]
        self.marks[place] = BreakSite(kind, KINDS[kind].reason.format(what=what, type=what), frames)
        raise Restart

    # --- events while frames run ------------------------------------------------------------------

    def enter_operation(self) -> None:
        """An operation is about to run on fake tensors: its in-place effect on them cannot be taken back."""
        self.changes += 1

    def before_instruction(self, frame: Frame, resumable: Resumable, i: Instruction) -> None:
        """Leave off where a mark says so; remember the state before the instruction of a resumable frame."""
        self.at = resumable, i
        self.is_direct = False
        if self.marks and resumable.place(i) in self.marks:
            raise LeaveOff(frame, i.index, False, self.marks[resumable.place(i)])
        if i.opname == "FOR_ITER" and i.index in resumable.loops.in_place:
            raise LeaveOff(frame, i.index, False, resumable.loops.too_long.get(i.index))
        if frame.code.is_generator and i.opname in GENERATOR_EXITS:
            self._leave_generator(frame, resumable, i)
        if self.limits.break_at is not None and self._started and self._is_forced(frame.code, i.index):
            self._keep_loops_in_place(frame)
            raise LeaveOff(frame, i.index, False, BreakSite("forced", KINDS["forced"].reason, self.sites()))
        self._started = True
        resumable.stack = frame.stack.copy()
        resumable.changes = self.changes

    def _is_forced(self, code: Code, index: int) -> bool:
        return self.limits.break_at is not None and index >= code.start and self.limits.break_at(code, index)

    def _leave_generator(self, frame: Frame, resumable: Resumable, i: Instruction) -> NoReturn:
        """Leave off where a generator's frame is suspended or ends; loops around a yield are in place."""
        if i.opname != "RETURN_VALUE" and self._keep_in_place(frame, i.index):
            raise Restart
        raise LeaveOff(frame, i.index, False, None)

    def broke(self, frame: Frame, resumable: Resumable, i: Instruction, broke: GraphBreak) -> None:
        """Leave off before an instruction that broke, from a clean state; nothing if that is for the caller."""
        site: BreakSite = broke.site  # type: ignore[attr-defined]
        for operand in resumable.stack:
            if isinstance(operand, LateValue) and operand.born not in self.marks:
                operand.wanted(self)
        if site.kind == "skip-frame" and frame is not self.root and len(site.frames) == len(self.frames):
            return
        if site.kind == "budget":
            resumable.loops.too_long.update((loop.header, site) for loop in frame.code.enclosing_loops(i.index))
        self._keep_loops_in_place(frame)
        if resumable.changes == self.changes:
            frame.stack[:] = resumable.stack
            raise LeaveOff(frame, i.index, False, site)
        self.marks[resumable.place(i)] = site
        raise Restart

    def root_raised(self, frame: Frame, i: Instruction, raised: Raised) -> NoReturn:
        """An exception leaves the function: the interpreter raises it."""
        assert frame.resumable is not None
        cls, origin = raised.value.cls, raised.value.origin
        if origin is not None and origin != frame.resumable.place(i):
            self.give_back(origin, cls.__name__, "raise")
        broke = GraphBreak(KINDS["raise"], KINDS["raise"].reason.format(type=cls.__name__))
        self.locate(broke)
        self.broke(frame, frame.resumable, i, broke)
        raise AssertionError("a raise in the frame at the gate is left to the interpreter")

    def locate(self, broke: GraphBreak) -> None:
        """Note the captured frames at which a break happened, where it happened first."""
        if not hasattr(broke, "site"):
            broke.site = BreakSite(broke.kind.id, broke.reason, self.sites())  # type: ignore[attr-defined]

    def sites(self) -> list[tuple[types.CodeType, Instruction]]:
        """The captured frames now, outermost first."""
        return [(f.code.original, f.current) for f in self.frames if f.current is not None]

    # --- loops ------------------------------------------------------------------------------------

    def loop_iteration(self, frame: Frame, header: int) -> None:
        """FOR_ITER gave an item."""
        self._count_iteration(frame, header)

    def keep_in_place(self, frame: Frame, header: int) -> None:
        """Leave a `for` loop to the interpreter, if this is a frame that can be left."""
        if frame.resumable is not None and not self.limits.fullgraph:
            frame.resumable.loops.in_place.add(header)
            raise LeaveOff(frame, header, False, None)

    def loop_done(self, frame: Frame, header: int) -> None:
        """FOR_ITER is at its end."""
        self._iterations.pop((id(frame), header), None)

    def loop_back(self, frame: Frame, header: int) -> None:
        """A jump back to a loop's header."""
        if frame.code.instructions[header].opname == "FOR_ITER":
            return
        if frame.resumable is not None and header in frame.resumable.loops.in_place:
            raise LeaveOff(frame, header, True, None)
        self._count_iteration(frame, header)

    def _count_iteration(self, frame: Frame, header: int) -> None:
        key = (id(frame), header)
        count = self._iterations[key] = self._iterations.get(key, 0) + 1
        if frame.resumable is not None:
            frame.resumable.entered.add(header)
        if count <= self.limits.unroll or self.limits.fullgraph:
            return
        if frame.resumable is None:
            graph_break("loop", why=f"it has more than {self.limits.unroll} iterations")
        frame.resumable.loops.in_place.add(header)
        raise Restart

    def _keep_loops_in_place(self, frame: Frame) -> None:
        """A break inside loops that this segment entered, of any frame: iterations are compiled one by one."""
        if self.limits.fullgraph:
            return
        begin_again = False
        inner: Frame | None = frame
        while inner is not None:
            assert inner.current is not None
            begin_again |= self._keep_in_place(inner, inner.current.index)
            inner = inner.caller
        if begin_again:
            raise Restart

    def _keep_in_place(self, frame: Frame, index: int) -> bool:
        """Keep the loops around an instruction in place; whether this segment has unrolled one of them."""
        assert frame.resumable is not None
        loops = frame.resumable.loops
        around = [loop.header for loop in frame.code.enclosing_loops(index)]
        entered = [h for h in around if h in frame.resumable.entered and h not in loops.in_place]
        loops.in_place.update(around)
        return bool(entered)
