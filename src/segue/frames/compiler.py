"""The compiler behind one `compile` call: which functions it takes, and what it does when no segment of a gate matches.

The C core asks `admit` once per function and `miss` whenever no segment's guards hold.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from segue import _core, config, markers, stance
from segue.backends.registry import Backend
from segue.capture import (
    BreakSite,
    Caller,
    Captured,
    Limits,
    LoopFacts,
    Request,
    capture,
)
from segue.capture.breaks import KINDS
from segue.errors import (
    BackendError,
    GraphBreakError,
    GraphDeclined,
    InternalError,
    RecompileError,
    RecompileLimitWarning,
)
from segue.frames.code import Code
from segue.frames.filter import is_import, is_left_alone, is_of_torch
from segue.frames.history import GateHistory, SymbolicFacts
from segue.frames.segments import FunctionUnderWay, SegmentBuilder
from segue.frames.state import Context
from segue.frames.transaction import transactional
from segue.guards.program import describe
from segue.report.events import Event, EventLog, Place

logger = logging.getLogger("segue")

_FRAME_ACCESS = frozenset(("_getframe", "currentframe"))
"""Names by which a function gets hold of its frame, which must then be its one and only."""

_capturing = threading.RLock()
"""One capture at a time: threads that miss at one gate would all make the same segment."""

_OWN_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


class Compiler:
    """Settings of one `compile` call, the states of the functions compiled under it, and its events.

    Args:
        backend: what compiles the graphs.
        fullgraph: raise `GraphBreakError` at the first break.
    """

    def __init__(self, backend: Backend, fullgraph: bool = False) -> None:
        self.backend = backend
        self.fullgraph = fullgraph
        self.log = EventLog()
        self.meters: list[tuple[_core.Meter, int]] = []
        self._states: dict[int, FunctionUnderWay] = {}
        self._loops: dict[int, LoopFacts] = {}
        self._segments = SegmentBuilder(self)
        self._skipped: set[types.CodeType] = set()
        self._logged: set[str] = set()
        self._noted: set[int] = set()
        COMPILERS.add(self)

    def reset(self) -> None:
        """Forget all that was compiled; the events stay."""
        self._states.clear()
        self._loops.clear()
        self._segments = SegmentBuilder(self)
        self._skipped.clear()
        self._logged.clear()
        self.meters.clear()
        _core.forget_answers()

    def states(self) -> list[FunctionUnderWay]:
        """The functions compiled so far; each prints its gates and exits with `describe()`."""
        return list(self._states.values())

    # --- admission --------------------------------------------------------------------------------

    def admit(self, function: types.FunctionType) -> Any:
        """Whether a function is compiled: its state, None to skip its frame, or DISABLE for it and all below."""
        code = function.__code__
        if markers.is_torch_wrapper(code):
            return self._admit_wrapper(function)
        if is_import(code):
            return _core.DISABLE
        if markers.is_skipped(function) or self._was_skipped(code):
            self._note_skip(code, "disabled", f"{code.co_qualname} is marked with disable(recursive=False)")
            return None
        if is_left_alone(code) or not _is_compiled(Code.of(code)):
            return None
        if _FRAME_ACCESS.intersection(code.co_names):
            self._note_skip(code, "frame-access", f"{code.co_qualname} asks for its own frame object")
            return None
        state = self.state_of(code)
        state.refresh()
        return state

    def _was_skipped(self, code: types.CodeType) -> bool:
        """Whether a function has asked to run in the interpreter; code objects that are equal are still two."""
        return id(code) in map(id, self._skipped)

    def _note_skip(self, code: types.CodeType, kind: str, reason: str) -> None:
        """Record, once, that a function's own frame runs in the interpreter."""
        if id(code) not in self._noted:
            self._noted.add(id(code))
            place = Place(code.co_filename, code.co_firstlineno, None, None, None, code.co_qualname)
            self.log.record(Event("skip", kind, reason, (place,), KINDS[kind].explanation, KINDS[kind].hint))

    def _admit_wrapper(self, function: types.FunctionType) -> Any:
        inner = getattr(function, "_torchdynamo_orig_callable", None)
        if markers.is_nonrecursive(function):
            if isinstance(inner, types.FunctionType):
                markers.skip_code(inner.__code__)
            return None
        return _core.DISABLE

    # --- a miss -----------------------------------------------------------------------------------

    def miss(
        self,
        gate: _core.Gate,
        function: types.FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
        callers: Sequence[LiveCaller] = (),
    ) -> _core.Segment | None:
        """Capture a segment for the state at a gate; None to go on in the interpreter."""
        if stance.current() == "eager_on_recompile" or _is_transforming():
            return None
        state = gate.state
        assert isinstance(state, FunctionUnderWay)
        known = len(gate.segments)
        try:
            with _capturing, markers.dynamo_off():
                if len(gate.segments) != known:
                    return None  # another thread has captured here meanwhile: this call is interpreted
                return self._add_segment(state, gate, function, locals, stack, callers)
        except (GraphBreakError, RecompileError, RecompileLimitWarning):
            raise
        except Exception as e:
            if _is_the_users(e):
                raise
            self._failed(state, gate, e)
            return None

    def _add_segment(
        self,
        state: FunctionUnderWay,
        gate: _core.Gate,
        function: types.FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
        live_callers: Sequence[LiveCaller],
        ahead: bool = False,
    ) -> _core.Segment | None:
        """Capture a segment; one that is made ahead of its time is kept only if it does not break."""
        history = state.history(gate)
        if self._is_exhausted(state, gate, history, locals):
            return None
        token = _core.global_state()
        callers = _callers(gate, live_callers)
        frames = [(state.form, gate.index), *((caller.code, caller.index + 1) for caller in callers)]
        captured = capture(
            Request(
                code=state.form,
                index=gate.index,
                function=function,
                locals=locals,
                stack=stack,
                handled=sys.exception(),
                limits=self._limits(),
                loops_of=self._loops_of,
                symbolic=SymbolicFacts([(code, index, self._loops_of(code)) for code, index in frames], history),
                can_resume=self._can_resume,
                callers=callers,
            )
        )
        site = captured.exit.site if captured.exit is not None else None
        if ahead and site is not None:
            return None
        self._report(state, gate, history, captured)
        if site is not None and site.kind == "skip-frame" and len(site.frames) == 1:
            self._skip(state)
            return None
        history.facts.update(captured.guarded_facts)
        segment = self._segments.build(state, gate, captured, token)
        gate.segments = [*gate.segments, segment]
        history.names[segment] = captured.names
        self._capture_other_arm(state, gate, function, locals, stack)
        if captured.graph is None:
            history.n_stays += 1
            return None
        history.n_graphs += 1
        return segment

    def _capture_other_arm(
        self,
        state: FunctionUnderWay,
        gate: _core.Gate,
        function: types.FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
    ) -> None:
        """In a loop, the arm of a branch that is not taken now will be soon: the state before both is the same.

        It may also never be, so what goes wrong with it now has not gone wrong: it will, or not, when it is reached.
        """
        other = state.gates.get(state.arms.pop(gate.index, -1))
        if gate is state.entry or gate.context is not None or other is None:
            return
        state.arms.pop(other.index, None)
        if other.segments or other.depth != gate.depth:
            return
        try:
            self._add_segment(state, other, function, locals, stack, (), ahead=True)
        except Exception as e:
            if _is_the_users(e):
                raise

    def state_of(self, code: types.CodeType) -> FunctionUnderWay:
        """The state of a function, made if there is none yet."""
        state = self._states.get(id(code))
        if state is None:
            state = self._states.setdefault(id(code), FunctionUnderWay(code))
        return state

    def _loops_of(self, code: Code) -> LoopFacts:
        return self._loops.setdefault(id(code.original), LoopFacts())

    def _can_resume(self, code: types.CodeType, function: types.FunctionType | None) -> bool:
        """Whether a segment may leave off in the middle of a function that it calls."""
        if code.co_filename.startswith(_OWN_FOLDER) or is_import(code) or markers.is_torch_wrapper(code):
            return False
        if function is not None and markers.is_skipped(function):
            return False
        runs_apart = self._was_skipped(code) or _FRAME_ACCESS.intersection(code.co_names)
        return not runs_apart and not Code.of(code).has_generator

    def _limits(self) -> Limits:
        return Limits(
            unroll=config.unroll_limit,
            budget=config.capture_budget,
            depth=config.inline_depth,
            fullgraph=self.fullgraph,
            break_at=config.break_at,
        )

    def _is_exhausted(
        self, state: FunctionUnderWay, gate: _core.Gate, history: GateHistory, locals: tuple[Any, ...]
    ) -> bool:
        """Close a gate whose segments keep missing: for good with a warning, or for a while if it never paid."""
        if history.n_graphs >= config.recompile_limit:
            gate.is_open = False
            gate.backoff = 0
            event = Event(
                "limit",
                "recompile-limit",
                f"{state.code.co_qualname} has {history.n_graphs} segments here and needs another: "
                f"{self._failing_guard(gate, history)} kept failing",
                (_place_of_call(state, gate, locals),),
                "Each segment is valid under its guards; past config.recompile_limit the gate runs in the interpreter.",
                "Keep the value that changes a tensor, or raise segue.config.recompile_limit.",
            )
            self.log.record(event)
            warnings.warn(RecompileLimitWarning(str(event)), stacklevel=3)
            return True
        if history.n_stays >= config.recompile_limit:
            gate.segments = [s for s in gate.segments if s.exit != _core.Segment.STAY]
            gate.is_open = False
            history.n_stays = config.recompile_limit - 1
            gate.backoff = 64 << min(history.n_retries, 10)
            history.n_retries += 1
            return True
        return False

    def _failing_guard(self, gate: _core.Gate, history: GateHistory) -> str:
        for segment in reversed(gate.segments):
            if segment.exit != _core.Segment.STAY and segment.failed_step >= 0:
                return f"the guard `{describe(segment.steps[segment.failed_step], history.names.get(segment))}`"
        return "a guard"

    # --- segments ---------------------------------------------------------------------------------

    def compile_graph(self, captured: Captured, here: Place) -> Callable[..., Any]:
        """What the backend makes of a captured graph.

        Raises:
            BackendError: it failed, or gave something that cannot be called.
        """
        assert captured.graph is not None
        try:
            compiled = self.backend(captured.graph, captured.examples)
        except GraphDeclined as declined:
            self.log.record(Event("declined", declined.id, str(declined), (here,)))
            compiled = captured.graph.forward
        except InternalError:
            raise
        except Exception as e:
            name = getattr(self.backend, "__name__", type(self.backend).__name__)
            raise BackendError(f"backend {name!r} failed to compile a graph: {type(e).__name__}: {e}") from e
        if not callable(compiled):
            raise BackendError(f"backend {self.backend!r} returned {compiled!r}, which cannot be called")
        return transactional(compiled, captured.sets_state, captured.is_random, captured.mutates_inputs, captured.saved)

    def report_unstable(self, gate: _core.Gate, segment: _core.Segment, failed_step: int) -> None:
        """A segment's guards do not hold for the state that it was captured from: a defect of Segue."""
        state = gate.state
        place = Place.of(state.code, Code.of(state.code).instructions[gate.index].position)
        step = describe(segment.steps[failed_step]) if failed_step >= 0 else "?"
        self.log.record(Event("failure", "unstable-guard", f"guard `{step}` fails on its own state", (place,)))

    # --- reports ----------------------------------------------------------------------------------

    def _report(self, state: FunctionUnderWay, gate: _core.Gate, history: GateHistory, captured: Captured) -> None:
        here = Place.of(state.code, state.form.instructions[gate.index].position)
        if history.n_graphs and captured.graph is not None:
            recompile = Event("recompile", "guard-failed", f"{self._failing_guard(gate, history)} failed", (here,))
            self.log.record(recompile)
            if stance.current() == "fail_on_recompile":
                raise RecompileError(f"the stance is 'fail_on_recompile'\n{recompile}")
        if captured.graph is not None:
            self.log.record(
                Event(
                    "graph",
                    "graph",
                    f"{captured.n_operations} operations",
                    (here,),
                    n_operations=captured.n_operations,
                )
            )
        if "segments" in config.log.split(","):
            logger.info("segment of %s at %d:\n%s", state.code.co_qualname, gate.index, captured)
        site = captured.exit.site if captured.exit is not None else None
        if site is None:
            return
        event = event_of(site)
        if self.fullgraph and site.kind != "raise":
            raise GraphBreakError(f"fullgraph=True, but there is a graph break\n{event}", event)
        if site.kind != "raise":
            self.log.record(event)

    def _skip(self, state: FunctionUnderWay) -> None:
        """Run a function in the interpreter from now on."""
        self._skipped.add(state.code)
        state.entry = _closed_gate(state)
        for gate in state.every_gate():
            gate.segments = []
            gate.is_open = False
        _core.forget_answers()

    def _failed(self, state: FunctionUnderWay, gate: _core.Gate, error: Exception) -> None:
        place = Place.of(state.code, state.form.instructions[gate.index].position)
        event = Event("failure", "internal-error", f"{type(error).__name__}: {error}", (place,))
        self.log.record(event)
        if not config.suppress_errors:
            if isinstance(error, BackendError):
                error.add_note(str(place))
                raise error
            raise InternalError(f"Segue failed while compiling this code; please report it.\n{event}") from error
        key = str(place)
        if key not in self._logged:
            self._logged.add(key)
            logger.warning(
                "running in the interpreter after a failure of the compiler\n%s",
                event,
                exc_info=error,
            )
        gate.is_open = False
        gate.backoff = 16


LiveCaller = tuple[types.FunctionType, tuple[Any, ...], tuple[Any, ...]]
"""Function, locals and stack of a frame that waits for a continuation."""


def _callers(gate: _core.Gate, live: Sequence[LiveCaller]) -> list[Caller]:
    """The callers that a segment from a gate may run on in, innermost first."""
    context: Context | None = gate.context
    found = []
    for function, locals, stack in live:
        if context is None:
            break
        found.append(Caller(context.state.form, context.index, function, locals, stack))
        context = context.parent
    return found


def _is_transforming() -> bool:
    """Whether a transform of torch.func or forward-mode differentiation runs now: what it calls is interpreted."""
    in_forward_mode = torch.autograd.forward_ad._current_level >= 0
    return in_forward_mode or torch._C._functorch.peek_interpreter_stack() is not None


def _is_compiled(code: Code) -> bool:
    """Functions and generators, but no coroutines; PyTorch's own generators only walk over modules."""
    return not code.has_generator or (code.is_generator and not is_of_torch(code.original))


def _place_of_call(state: FunctionUnderWay, gate: _core.Gate, locals: tuple[Any, ...]) -> Place:
    """Where a gate is; for the wrapper around a module's forward, the user's forward."""
    code, position = state.code, state.form.instructions[gate.index].position
    module = locals[0] if locals else None
    if isinstance(module, torch.nn.Module) and code.co_name in ("_wrapped_call_impl", "_call_impl"):
        forward = getattr(type(module).forward, "__code__", None)
        if forward is not None:
            return Place(forward.co_filename, forward.co_firstlineno, None, None, None, forward.co_qualname)
    return Place.of(code, position)


def _is_the_users(error: Exception) -> bool:
    """Whether the program's own code raised an error while Segue worked: a signal handler, for example."""
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    return innermost is not None and not is_left_alone(innermost.tb_frame.f_code)


def _closed_gate(state: FunctionUnderWay) -> _core.Gate:
    gate = _core.Gate(state, 0, 0)
    gate.is_open = False
    return gate


def event_of(site: BreakSite) -> Event:
    """The report's entry for a break."""
    kind = KINDS[site.kind]
    theirs = [f for f in site.frames if not f[0].co_filename.startswith(_OWN_FOLDER)]
    stack = tuple(Place.of(code, i.position) for code, i in theirs or site.frames)
    return Event(
        "skip" if kind.id == "skip-frame" else "break",
        kind.id,
        site.reason,
        stack,
        kind.explanation,
        kind.hint,
    )


COMPILERS: weakref.WeakSet[Compiler] = weakref.WeakSet()
"""Every compiler alive, for `segue.reset`."""
