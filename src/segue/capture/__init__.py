"""Capture: from live state at a gate to the description of a segment.

`capture(request)` is pure: it reads the program's objects, runs none of its code with effects, and changes nothing.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from segue import _core
from segue.capture import outputs
from segue.capture.breaks import Restart
from segue.capture.frame import Frame
from segue.capture.interpreter import undisturbed
from segue.capture.leaving import (
    GENERATOR_EXITS,
    BreakSite,
    CannotRebuild,
    LeaveOff,
    Limits,
    LoopFacts,
    Place,
    Suspension,
)
from segue.capture.rebuild import Rebuilder
from segue.capture.rules.torch_state import preserved
from segue.capture.tracer import Tracer
from segue.capture.values.base import NULL, Lazy, Value
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.tensor import TensorValue
from segue.frames.code import Code
from segue.guards.program import describe
from segue.guards.source import Attr, Closure, Computed, Globals, Item, Local, Pinned, Running, Source, Stack, Step

__all__ = [
    "GENERATOR_EXITS",
    "BreakSite",
    "Caller",
    "Captured",
    "Exit",
    "Limits",
    "LoopFacts",
    "Request",
    "Suspension",
    "capture",
]


@dataclass
class Caller:
    """The live state of a frame that waits, at instruction `index`, for what a continuation returns."""

    code: Code
    index: int
    function: types.FunctionType
    locals: tuple[Any, ...]
    stack: tuple[Any, ...]


@dataclass
class Request:
    """The live state at a gate, and what limits the capture.

    `locals` are the raw localsplus slots (`_core.NULL` where unbound), `stack` the value stack from the bottom.
    `symbolic(source, value)` says whether the number found at a source is to be symbolic; `can_resume(code, function)`
    whether a called function may be left in the middle (the function is None if capture makes it).
    """

    code: Code
    index: int
    function: types.FunctionType
    locals: tuple[Any, ...]
    stack: tuple[Any, ...]
    handled: BaseException | None = None
    limits: Limits = field(default_factory=Limits)
    loops_of: Callable[[Code], LoopFacts] = field(default_factory=lambda: functools.cache(lambda code: LoopFacts()))
    symbolic: Callable[[Source, Any], bool] = lambda source, value: False
    can_resume: Callable[[types.CodeType, Any], bool] = lambda code, function: False
    callers: Sequence[Caller] = ()
    """The frames that wait for the one at the gate, innermost first."""


@dataclass(frozen=True)
class Exit:
    """Where a segment leaves off: before instruction `index`, at the gate before it, or in the call that it makes.

    It is an instruction of the `level`th caller of the frame at the gate (0: of that frame). `suspended` are the calls
    that are left in the middle, outermost first.
    """

    index: int
    where: Literal["past", "gate", "call"]
    site: BreakSite | None
    level: int = 0
    suspended: tuple[Suspension, ...] = ()


@dataclass
class Captured:
    """A captured segment.

    `graph` is None when there is no tensor work: the interpreter then runs on from the gate, and only the guards in
    `prologue` count.  `exit` is None when the function returns (or when nothing could be made of the segment).
    """

    prologue: list[Step]
    graph: fx.GraphModule | None
    examples: list[Any]
    inputs: list[int]
    outputs: list[int]
    epilogue: list[Step]
    n_registers: int
    exit: Exit | None
    n_operations: int
    mutates_inputs: bool
    sets_state: bool
    is_random: bool
    guarded_facts: dict[Source, Any]
    names: dict[int, str] = field(default_factory=dict)
    level: int = 0
    """Of the caller to whose exit or end the segment runs."""
    saved: tuple[int, ...] = ()
    """Of the graph's inputs, those that are put back if the graph fails."""

    def __str__(self) -> str:
        inside = "" if self.graph is None else str(self.graph.graph)
        parts = [*map(describe, self.prologue), inside, *map(describe, self.epilogue), f"exit: {self.exit}"]
        return "\n".join(p for p in parts if p)


def capture(request: Request) -> Captured:
    """Capture the segment that begins at a gate with the given state.

    Raises:
        Exception: only on a failure of Segue itself.
    """
    marks: dict[Place, BreakSite] = {}
    with undisturbed():
        while True:
            try:
                with preserved(), torch.utils._python_dispatch._disable_current_modes():
                    return _Attempt(request, marks).run()
            except Restart:
                continue
            except CannotRebuild:
                return _nothing(marks)


def _nothing(marks: dict[Place, BreakSite]) -> Captured:
    """A segment that leaves everything from the gate on to the interpreter, up to the nearest marked instruction."""
    exits = [Exit(place[0], "past", site) for place, site in marks.items() if len(place) == 1]
    found = exits[-1] if exits else None
    return Captured([], None, [], [], [], [], 0, found, 0, False, False, False, {})


class _Attempt:
    """One run of the tracer; begins anew after a `Restart`."""

    def __init__(self, request: Request, marks: dict[Place, BreakSite]) -> None:
        self.request = request
        self.tr = Tracer(request.limits, request.loops_of, marks, request.symbolic, request.can_resume)
        self.tr.outer_codes = [caller.code for caller in request.callers]
        self.initial: list[Value | None] = []

    def run(self) -> Captured:
        """Run the frame at the gate, then its callers, until the last returns or one leaves off."""
        request, tr = self.request, self.tr
        frame = self._frame(0, request.code, request.index, request.function, request.locals, request.stack)
        if request.handled is not None:
            tr.handled = ExceptionValue(type(request.handled), [], _HANDLED, request.handled)
        initial_handled = tr.handled
        try:
            result = frame.run(tr)
            for level, caller in enumerate(request.callers, 1):
                frame = self._frame(
                    level, caller.code, caller.index + 1, caller.function, caller.locals, caller.stack, result
                )
                tr.outer_codes.pop(0)
                result = frame.run(tr)
        except LeaveOff as left:
            return self._leave(left, initial_handled)
        if tr.graph.n_operations == 0:
            return self._captured(None, [], [], None)
        tr.check_abandoned()
        rebuilder = Rebuilder(tr)
        self._write_back(rebuilder)
        returned = rebuilder.register(result)
        return self._finish(rebuilder, [*self._handled(rebuilder, initial_handled), ("result", returned)], None)

    def _frame(
        self,
        level: int,
        code: Code,
        index: int,
        function: types.FunctionType,
        slots: tuple[Any, ...],
        stack: tuple[Any, ...],
        pushed: Value | None = None,
    ) -> Frame:
        """A live frame, before instruction `index`: the one at the gate, or a caller to which it returned."""
        tr = self.tr
        running = Running(level)
        named = Globals() if level == 0 else Attr(running, "__globals__")
        cells = [
            CellValue.of(tr, cell, _closure(running, i, code.original.co_freevars[i]))
            for i, cell in enumerate(function.__closure__ or ())
        ]
        namespace = tr.namespace(function.__globals__, named)
        value = FunctionValue(code.original, namespace, function.__name__, [], {}, cells, None, function)
        value.source = running
        self.initial = [
            self._slot(Local(slot, place.name, level), place.kind, obj, in_frame=index > 0)
            for slot, (place, obj) in enumerate(zip(code.localsplus, slots, strict=True))
        ]
        frame = Frame(code, list(self.initial), value)
        if index > 0:
            first_free = len(frame.slots) - len(cells)
            frame.slots[first_free:] = cells
            self.initial[first_free:] = cells
        shape = code.shapes[index]
        assert shape is not None
        wrapped = [tr.wrap(obj, Stack(i, level)) for i, obj in enumerate(stack)]
        if pushed is not None:
            wrapped.append(pushed)
        frame.stack = [value if bound else NULL for bound, value in zip(shape, wrapped, strict=True)]
        frame.ip = index
        frame.level = level
        tr.root = frame
        tr.make_resumable(frame, (-level,) if level else ())
        return frame

    def _slot(self, source: Local, kind: str, obj: Any, in_frame: bool) -> Value | None:
        if obj is _core.NULL:
            if kind == "local":
                self.tr.unbound.add((source.level, source.slot))
            return None
        if type(obj) is types.CellType and kind == "cell" and in_frame:
            return CellValue.of(self.tr, obj, source)
        return self.tr.wrap(obj, source)

    def _leave(self, left: LeaveOff, initial_handled: Value) -> Captured:
        tr = self.tr
        root = tr.root
        assert root is not None and root.level is not None
        where: Literal["gate", "past"] = "gate" if left.at_gate else "past"
        frames = _frames_to(left.frame)
        suspended = _suspensions(frames, left.index, where)
        place = Exit(left.index, where, left.site, root.level)
        if suspended:
            assert root.current is not None
            place = Exit(root.current.index, "call", left.site, root.level, suspended)
        if tr.graph.n_operations == 0:
            return self._captured(None, [], [], place)
        tr.check_abandoned()
        rebuilder = Rebuilder(tr)
        self._write_back(rebuilder)  # first: an iterator must see its container as it then is
        results = self._stack(rebuilder, root)
        if suspended:
            results.append(self._continuation(rebuilder, frames[1:], suspended))
        stores = self._stores(root, place.index, rebuilder)
        stores += self._handled(rebuilder, initial_handled)
        return self._finish(rebuilder, [*stores, *(("result", register) for register in results)], place)

    def _stack(self, rebuilder: Rebuilder, frame: Frame) -> list[int | None]:
        return [None if value is NULL else rebuilder.register(value) for value in frame.stack]

    def _continuation(self, rebuilder: Rebuilder, frames: list[Frame], suspended: tuple[Suspension, ...]) -> int:
        """The register of what goes on with the outermost of these frames, and inside it with the others."""
        program, frame, suspension = rebuilder.program, frames[0], suspended[0]
        stack = self._stack(rebuilder, frame)
        if frames[1:]:
            stack.append(self._continuation(rebuilder, frames[1:], suspended[1:]))
        none, unbound = program.constant(None), program.constant(_core.NULL)
        live = frame.code.live[suspension.index]
        slots = []
        for slot, value in enumerate(frame.slots):
            kind = frame.code.localsplus[slot].kind
            dead = value is None or kind == "free" or _is_dead(value, slot, live)
            slots.append(unbound if dead else rebuilder.register(value))  # type: ignore[arg-type]
        return program.call(
            _core.Continuation,
            program.constant(suspension),
            rebuilder.register(frame.function_value),
            program.build("tuple", tuple(slots)),
            program.build("tuple", tuple(none if register is None else register for register in reversed(stack))),
        )

    def _handled(self, rebuilder: Rebuilder, initial: Value) -> list[Step]:
        """The step that brings `sys.exception()` up to date."""
        handled = self.tr.handled
        return [] if handled is initial else [("handled", rebuilder.register(handled))]

    def _stores(self, frame: Frame, index: int, rebuilder: Rebuilder) -> list[Step]:
        """Steps that bring the locals up to date; tensors that nobody reads again are not made."""
        steps: list[Step] = []
        live = frame.code.live[index]
        for slot, (before, now) in enumerate(zip(self.initial, frame.slots, strict=True)):
            if now is before or frame.code.localsplus[slot].kind == "free":
                continue
            if now is None or _is_dead(now, slot, live):
                if before is not None:
                    steps.append(("delete_local", slot))
            else:
                steps.append(("store_local", slot, rebuilder.register(now)))
        return steps

    def _write_back(self, rebuilder: Rebuilder) -> None:
        """Emit the effects on the program's own objects, in the order in which they were first written."""
        tr = self.tr
        outputs.replay(rebuilder)
        done: set[int] = set()
        while True:
            pending = [v for k, v in tr.written.items() if k not in done]
            if not pending:
                break
            for value in pending:
                done.add(id(value))
                value.write_back(rebuilder)  # type: ignore[attr-defined]
        self._guard_distinct(list(tr.written.values()))

    def _guard_distinct(self, written: list[Value]) -> None:
        """A written object is none of the others that were looked at."""
        for value in written:
            for other in self.tr.looked:
                if other is value or isinstance(other, TensorValue) or type(other) is not type(value):
                    continue
                if type(other.real) is not type(value.real):
                    continue
                assert value.source is not None and other.source is not None
                if _fixed(value.source) and _fixed(other.source):
                    continue
                self.tr.program.check_pair("is_not", value.source, other.source)

    def _finish(self, rebuilder: Rebuilder, end: list[Step], place: Exit | None) -> Captured:
        tr = self.tr
        outputs = list(rebuilder.outputs)
        module = tr.graph.finish(outputs)
        inputs = [tr.program.fetch(source) for source in tr.graph.inputs]
        return self._captured(module, inputs, [rebuilder.outputs[n] for n in outputs], place, end)

    def _captured(
        self,
        module: fx.GraphModule | None,
        inputs: list[int],
        outputs: list[int],
        place: Exit | None,
        end: list[Step] | None = None,
    ) -> Captured:
        tr = self.tr
        program = tr.program
        steps = [*_class_steps(tr), *program.settled(), *(tr.last_checks if module is not None else [])]
        effects = [*program.effects, *(end or [])] if module is not None else []
        return Captured(
            steps, module, tr.graph.examples, inputs, outputs, effects, program.n_registers, place,
            tr.graph.n_operations, tr.graph.mutates_inputs, tr.graph.sets_state, tr.graph.is_random, tr.guarded_facts,
            program.names(), (tr.root.level or 0) if tr.root is not None else 0, tr.graph.saved,
        )  # fmt: skip


_HANDLED = Computed(Pinned(None), sys.exception, ())


def _closure(running: Running, index: int, name: str) -> Source:
    """Where a cell of a running function's closure is."""
    return Item(Attr(running, "__closure__"), index) if running.level else Closure(index, name)


def _frames_to(innermost: Frame) -> list[Frame]:
    """A resumable frame and those that called it, outermost first."""
    frames = [innermost]
    while frames[0].caller is not None:
        frames.insert(0, frames[0].caller)
    return frames


def _suspensions(frames: list[Frame], index: int, where: Literal["past", "gate"]) -> tuple[Suspension, ...]:
    """How all frames but the first go on: the innermost at `index`, the others in the call they make."""
    found = []
    for caller, frame in itertools.pairwise(frames):
        assert caller.current is not None and frame.current is not None
        call, is_last = caller.current.index, frame is frames[-1]
        at = (index, where) if is_last else (frame.current.index, "call")
        found.append(Suspension(frame.code, *at, call, len(caller.stack)))  # type: ignore[arg-type]
    return tuple(found)


def _is_dead(value: Value, slot: int, live: frozenset[int]) -> bool:
    """Whether a local is a tensor of the graph that nobody reads again."""
    looked = value.looked if isinstance(value, Lazy) and value.looked is not None else value
    return isinstance(looked, TensorValue) and looked.source is None and slot not in live


def _fixed(source: Source) -> bool:
    """Whether two such sources can never hold one object, or hold the same at each run."""
    return isinstance(source, (Globals, Closure, Pinned))


def _class_steps(tr: Tracer) -> list[Step]:
    from segue.capture.values.base import MISSING

    return [
        ("class_state", cls, tuple((n, _core.NULL if a is MISSING else a) for n, a in names.items()))
        for cls, names in tr.classes.items()
    ]
