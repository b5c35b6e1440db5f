"""From what was captured to a segment: its program, its exits, the gates behind them."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any

from segue import _core
from segue.capture import GENERATOR_EXITS, Captured, Exit
from segue.frames.code import Code
from segue.frames.history import GateHistory
from segue.frames.rewrite import Where
from segue.frames.state import Context, FunctionState
from segue.frames.transaction import PartialRun
from segue.report.events import Event, Place

if TYPE_CHECKING:
    from segue.frames.compiler import Compiler


class FunctionUnderWay(FunctionState):
    """A function's state, with what the compile policy remembers of it."""

    def __init__(self, code: CodeType) -> None:
        super().__init__(code)
        self.histories: dict[_core.Gate, GateHistory] = {}
        self.arms: dict[int, int] = {}
        """Where a tensor decides a branch inside a loop: from the place of each arm to that of the other."""

    def history(self, gate: _core.Gate) -> GateHistory:
        """The history of one of the function's gates."""
        return self.histories.setdefault(gate, GateHistory())


class SegmentBuilder:
    """Builds the segments of one compiler; interns the contexts in which frames are resumed."""

    def __init__(self, compiler: Compiler) -> None:
        self.compiler = compiler
        self._contexts: dict[tuple[Context | None, FunctionUnderWay, int], Context] = {}

    def build(self, state: FunctionUnderWay, gate: _core.Gate, captured: Captured, token: Any) -> _core.Segment:
        """The segment of a capture from a gate; makes the exits, gates and versions that it needs."""
        place = captured.exit
        steps = [("global_state", token), *captured.prologue]
        if captured.graph is None:
            if place is not None:
                state_left = _state_at(gate, place.level)
                _add_gates(state_left, place.index, place.where)
                state_left.refresh()
            return _core.Segment(steps, _core.Segment.STAY, captured.n_registers)
        exit = _core.Segment.RETURN if place is None else self._exit(gate, place, steps)
        compiled = self.compiler.compile_graph(
            captured, Place.of(state.code, state.form.instructions[gate.index].position)
        )
        meter = _core.Meter()
        self.compiler.meters.append((meter, captured.n_operations))
        function = captured.n_registers
        steps += [
            ("const", function, compiled),
            ("graph", tuple(captured.outputs), function, tuple(captured.inputs), meter),
            *captured.epilogue,
        ]
        failed = self._failure_policy(state, gate.index)
        return _core.Segment(steps, exit, captured.n_registers + 1, failed, captured.level)

    def _exit(self, gate: _core.Gate, place: Exit, steps: list[Any]) -> int:
        """The number of an exit; the suspended calls among the constants become the points to resume them at."""
        state = caller = _state_at(gate, place.level)
        context = None if gate.context is None else gate.context.up(place.level)
        exit = _exit_id(state, place.index, place.where)
        states, points = {state}, dict[int, Any]()
        for suspension in place.suspended:
            context = self._context(context, caller, suspension.call)
            caller = self.compiler.state_of(suspension.code.original)
            number = _exit_id(caller, suspension.index, suspension.where)
            points[id(suspension)] = (caller, number, context, suspension.below)
            states.add(caller)
        for changed in states:
            changed.refresh()
        if not place.suspended:
            self._note_arms(state, place)
        for i, step in enumerate(steps):
            if step[0] == "const" and id(step[2]) in points:
                steps[i] = ("const", step[1], points[id(step[2])])
        return exit

    def _note_arms(self, state: FunctionUnderWay, place: Exit) -> None:
        i = state.form.instructions[place.index]
        decides = place.site is not None and place.site.kind == "data-dependent-branch" and i.target is not None
        if decides and i.opname.startswith("POP_JUMP") and state.form.enclosing_loops(i.index):
            assert i.target is not None
            state.arms |= {i.target: i.index + 1, i.index + 1: i.target}

    def _context(self, parent: Context | None, state: FunctionUnderWay, index: int) -> Context:
        key = (parent, state, index)
        return self._contexts.setdefault(key, Context(*key))

    def _failure_policy(self, state: FunctionUnderWay, gate_index: int) -> Callable[[_core.Segment, Exception], bool]:
        """What to do when a graph raises: run the user's code from the gate, which raises in the user's line."""
        here = Place.of(state.code, state.form.instructions[gate_index].position)

        def failed(segment: _core.Segment, error: Exception) -> bool:
            partial = isinstance(error, PartialRun)
            cause = error.error if isinstance(error, PartialRun) else error
            reason = f"a graph raised {type(cause).__name__}: {cause}"
            self.compiler.log.record(Event("failure", "graph-raised", reason, (here,)))
            if partial:
                raise cause
            state.add_gates(h for h in state.form.handlers() if _is_open_place(state.form, h))
            state.refresh()
            return True

        return failed


def _state_at(gate: _core.Gate, level: int) -> FunctionUnderWay:
    """The state of the function at a gate, or of its `level`th caller."""
    state = gate.state if level == 0 else gate.context.up(level - 1).state
    assert isinstance(state, FunctionUnderWay)
    return state


def _exit_id(state: FunctionUnderWay, index: int, where: Where) -> int:
    """The number of an exit, with gates where the interpreter comes to next; the version is out of date then."""
    _add_gates(state, index, where)
    return state.exit_id(index, where)


def _add_gates(state: FunctionUnderWay, index: int, where: Where) -> None:
    if where == "gate":
        state.add_gates([index])
    else:
        state.add_gates(i for i in state.form.successors(index) if _is_open_place(state.form, i))


def _is_open_place(code: Code, index: int) -> bool:
    """Whether a segment may begin there and is not over at once."""
    if code.is_generator and code.instructions[index].opname in GENERATOR_EXITS:
        return False
    return code.is_place(index)
