"""Capture: from live state at a gate to the description of a segment.

`capture(request)` is pure: it reads the program's objects, runs none of its code with effects, and changes nothing.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from segue import _core
from segue.capture.breaks import Restart
from segue.capture.frame import Frame
from segue.capture.leaving import GENERATOR_EXITS, BreakSite, CannotRebuild, LeaveOff, Limits, LoopFacts
from segue.capture.rebuild import Rebuilder
from segue.capture.recursion import deep_recursion
from segue.capture.rules.torch_state import preserved
from segue.capture.tracer import Tracer
from segue.capture.values.base import NULL, Lazy, Value
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.tensor import TensorValue
from segue.frames.code import Code
from segue.guards.program import describe
from segue.guards.source import Closure, Computed, Globals, Local, Pinned, Source, Stack, Step

__all__ = ["GENERATOR_EXITS", "BreakSite", "Captured", "Exit", "Limits", "LoopFacts", "Request", "capture"]


@dataclass
class Request:
    """The live state at a gate, and what limits the capture.

    `locals` are the raw localsplus slots (`_core.NULL` where unbound), `stack` the value stack from the bottom.
    `symbolic(source, value)` says whether the number found at a source is to be symbolic.
    """

    code: Code
    index: int
    function: types.FunctionType
    locals: tuple[Any, ...]
    stack: tuple[Any, ...]
    handled: BaseException | None = None
    limits: Limits = field(default_factory=Limits)
    loops: LoopFacts = field(default_factory=LoopFacts)
    symbolic: Callable[[Source, Any], bool] = lambda source, value: False


@dataclass(frozen=True)
class Exit:
    """Where a segment leaves off: before instruction `index`, or at the gate before it."""

    index: int
    at_gate: bool
    site: BreakSite | None


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

    def __str__(self) -> str:
        inside = "" if self.graph is None else str(self.graph.graph)
        parts = [*map(describe, self.prologue), inside, *map(describe, self.epilogue), f"exit: {self.exit}"]
        return "\n".join(p for p in parts if p)


def capture(request: Request) -> Captured:
    """Capture the segment that begins at a gate with the given state.

    Raises:
        Exception: only on a failure of Segue itself.
    """
    marks: dict[int, BreakSite] = {}
    with deep_recursion():
        while True:
            try:
                with preserved(), torch.utils._python_dispatch._disable_current_modes():
                    return _Attempt(request, marks).run()
            except Restart:
                continue
            except CannotRebuild:
                return _nothing(marks)


def _nothing(marks: dict[int, BreakSite]) -> Captured:
    """A segment that leaves everything from the gate on to the interpreter, up to the nearest marked instruction."""
    exits = [Exit(index, False, site) for index, site in marks.items() if index >= 0]
    found = exits[-1] if exits else None
    return Captured([], None, [], [], [], [], 0, found, 0, False, False, False, {})


class _Attempt:
    """One run of the tracer; begins anew after a `Restart`."""

    def __init__(self, request: Request, marks: dict[int, BreakSite]) -> None:
        self.request = request
        self.tr = Tracer(request.limits, request.loops, marks, request.symbolic)
        self.initial: list[Value | None] = []

    def run(self) -> Captured:
        """Run the root frame until it returns or leaves off."""
        tr = self.tr
        frame = self._root_frame()
        tr.root = frame
        initial_handled = tr.handled
        try:
            result = frame.run(tr)
        except LeaveOff as left:
            return self._leave(frame, left, initial_handled)
        if tr.graph.n_operations == 0:
            return self._captured(None, [], [], None)
        tr.check_abandoned()
        rebuilder = Rebuilder(tr)
        self._write_back(rebuilder)
        returned = rebuilder.register(result)
        return self._finish(rebuilder, [*self._handled(rebuilder, initial_handled), ("result", returned)], None)

    def _root_frame(self) -> Frame:
        request, tr = self.request, self.tr
        code, function = request.code, request.function
        namespace = tr.namespace(function.__globals__, Globals())
        cells = [
            CellValue.of(tr, cell, Closure(i, code.original.co_freevars[i]))
            for i, cell in enumerate(function.__closure__ or ())
        ]
        root = FunctionValue(code.original, namespace, function.__name__, [], {}, cells, None, function)
        root.source = _RUNNING
        for slot, (place, obj) in enumerate(zip(code.localsplus, request.locals, strict=True)):
            self.initial.append(self._slot(slot, place.name, place.kind, obj))
        frame = Frame(code, list(self.initial), root)
        if request.index > 0:
            first_free = len(frame.slots) - len(cells)
            frame.slots[first_free:] = cells
            self.initial[first_free:] = cells
        shape = code.shapes[request.index]
        assert shape is not None
        frame.stack = [
            tr.wrap(obj, Stack(i)) if bound else NULL
            for i, (bound, obj) in enumerate(zip(shape, request.stack, strict=True))
        ]
        frame.ip = request.index
        if request.handled is not None:
            tr.handled = ExceptionValue(type(request.handled), [], _HANDLED, request.handled)
        return frame

    def _slot(self, slot: int, name: str, kind: str, obj: Any) -> Value | None:
        if obj is _core.NULL:
            if kind == "local":
                self.tr.unbound.add(slot)
            return None
        source = Local(slot, name)
        if type(obj) is types.CellType and kind == "cell" and self.request.index > 0:
            return CellValue.of(self.tr, obj, source)
        return self.tr.wrap(obj, source)

    def _leave(self, frame: Frame, left: LeaveOff, initial_handled: Value) -> Captured:
        tr = self.tr
        place = Exit(left.index, left.at_gate, left.site)
        if tr.graph.n_operations == 0:
            return self._captured(None, [], [], place)
        tr.check_abandoned()
        rebuilder = Rebuilder(tr)
        self._write_back(rebuilder)  # first: an iterator must see its container as it then is
        results: list[Step] = []
        for value in frame.stack:
            results.append(("result", None if value is NULL else rebuilder.register(value)))
        stores = self._stores(frame, left.index, rebuilder)
        stores += self._handled(rebuilder, initial_handled)
        return self._finish(rebuilder, [*stores, *results], place)

    def _handled(self, rebuilder: Rebuilder, initial: Value) -> list[Step]:
        """The step that brings `sys.exception()` up to date."""
        handled = self.tr.handled
        return [] if handled is initial else [("handled", rebuilder.register(handled))]

    def _stores(self, frame: Frame, index: int, rebuilder: Rebuilder) -> list[Step]:
        """Steps that bring the locals up to date; tensors that nobody reads again are not made."""
        steps: list[Step] = []
        live = frame.code.live[index]
        for slot, (before, now) in enumerate(zip(self.initial, frame.slots, strict=True)):
            place = frame.code.localsplus[slot]
            if now is before or place.kind == "free":
                continue
            looked = now.looked if isinstance(now, Lazy) and now.looked is not None else now
            dead = isinstance(looked, TensorValue) and looked.source is None and slot not in live
            if now is None or dead:
                if before is not None:
                    steps.append(("delete_local", slot))
            else:
                steps.append(("store_local", slot, rebuilder.register(now)))
        return steps

    def _write_back(self, rebuilder: Rebuilder) -> None:
        """Emit the effects on the program's own objects, in the order in which they were first written."""
        tr = self.tr
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
        steps = [*_class_steps(tr), *program.steps]
        effects = [*program.effects, *(end or [])] if module is not None else []
        return Captured(
            steps, module, tr.graph.examples, inputs, outputs, effects, program.n_registers, place,
            tr.graph.n_operations, tr.graph.mutates_inputs, tr.graph.sets_state, tr.graph.is_random, tr.guarded_facts,
            program.names(),
        )  # fmt: skip


class _Running(Source):
    """The running function itself."""

    def step(self, dst: int, base: int) -> Step:
        return ("function", dst)

    def __str__(self) -> str:
        return "function"


_RUNNING = _Running()
_HANDLED = Computed(Pinned(None), sys.exception, ())


def _fixed(source: Source) -> bool:
    """Whether two such sources can never hold one object, or hold the same at each run."""
    return isinstance(source, (Globals, Closure, Pinned))


def _class_steps(tr: Tracer) -> list[Step]:
    from segue.capture.values.base import MISSING

    return [
        ("class_state", cls, tuple((n, _core.NULL if a is MISSING else a) for n, a in names.items()))
        for cls, names in tr.classes.items()
    ]
