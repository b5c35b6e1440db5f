"""Gates: which segment runs, when the compiler is asked, and what its answer does."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from segue import _core
from segue.frames.state import FunctionState
from tests.core_support import Recorder


def double(x: int) -> int:
    return x * 2


def returning(value: Any, *checks: Any) -> _core.Segment:
    steps = [*checks, ("const", 9, value), ("result", 9)]
    return _core.Segment(steps, _core.Segment.RETURN, 10)


def is_int(number: int) -> _core.Segment:
    return returning(number, ("local", 0, 0), ("equals", 0, number))


def test_a_miss_gets_gate_function_locals_and_stack() -> None:
    free = 7

    def function(a: int, b: int = 2, *rest: int) -> Any:
        local = a
        return local, free

    recorder = Recorder()
    assert _core.Entry(function, recorder)(1) == (1, 7)
    ((gate, asked, locals, stack),) = recorder.misses
    assert gate is recorder.states[function.__code__].entry and asked is function
    assert locals == (1, 2, (), _core.NULL, _core.NULL) and stack == ()


def test_the_segment_that_a_miss_returns_runs() -> None:
    recorder = Recorder(answer=lambda *miss: returning("compiled"))
    assert _core.Entry(double, recorder)(1) == "compiled"


def test_a_new_segment_that_does_not_match_is_reported() -> None:
    segment = is_int(5)
    recorder = Recorder(answer=lambda *miss: segment)
    assert _core.Entry(double, recorder)(4) == 8
    entry = recorder.states[double.__code__].entry
    assert recorder.unstable == [(entry, segment, 1)]
    assert _core.Entry(double, recorder)(5) == 5


@pytest.mark.parametrize("answer", [5, "segment", object()])
def test_wrong_answers_to_a_miss_are_errors(answer: Any) -> None:
    with pytest.raises(TypeError, match="miss"):
        _core.Entry(double, Recorder(answer=lambda *miss: answer))(1)


def test_segments_are_tried_in_order_the_last_match_first() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.segments[:] = one, two, three = is_int(1), is_int(2), is_int(3)
    gate.is_open = False
    tried = []
    for x in (3, 1, 2, 4, 2):
        entry(x)
        tried.append([s.failed_step for s in (one, two, three)])
    assert tried == [[1, 1, -1], [-1, 1, 1], [1, -1, 1], [1, 1, 1], [1, -1, 1]]
    gate.segments[:] = [one]  # shorter than where the last match was
    assert entry(1) == 1 and entry(3) == 6


def test_a_gate_whose_segments_are_no_segments() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.segments.append("segment")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="must be Segment"):
        entry(1)
    with pytest.raises(TypeError, match="must be a list"):
        gate.segments = ()  # type: ignore[assignment]


def test_a_closed_gate_is_offered_again_after_its_backoff() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.is_open, gate.backoff = False, 3
    misses = []
    for x in range(6):
        entry(x)
        misses.append((len(recorder.misses), gate.backoff))
    assert misses == [(1, 2), (1, 1), (2, 0), (2, 0), (2, 0), (2, 0)]


def test_segments_may_change_their_gate_while_they_run() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    gate = recorder.states[double.__code__].entry
    assert gate is not None

    def clear() -> bool:
        gate.segments = []
        gc.collect()
        return False

    gate.segments = [returning(1, ("predicate", clear, ())), returning(2)]
    assert entry(1) == 2  # the trial goes on with the list that it started with
    gate.segments = [returning(1, ("predicate", lambda: bool(gate.segments.clear()), ()))]
    assert entry(1) == 2 and gate.segments == []


def test_a_segment_that_stays_lets_the_interpreter_run() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.segments.append(_core.Segment([("local", 0, 0)], _core.Segment.STAY, 1))
    assert entry(3) == 6
    assert recorder.calls == [("double", 0)]


def test_a_miss_in_the_body_can_move_the_call_to_a_newer_version() -> None:
    def function(n: int) -> list[int]:
        done = []
        for i in range(n):
            done.append(i)
        return done

    recorder = Recorder()
    codes = []

    def answer(gate: Any, function: Any, locals: Any, stack: Any) -> None:
        state = gate.state
        codes.append(sys._getframe(2).f_code if gate is not state.entry else None)
        if len(codes) < 4:
            state.add_gates(i.index for i in state.form.instructions if i.opname == "LIST_APPEND")
            state.add_gates([state.form.loops[0].header])
            state.exit_id(state.form.start + len(codes))  # makes a new version
            state.refresh()

    recorder.answer = answer
    assert _core.Entry(function, recorder)(4) == [0, 1, 2, 3]
    assert codes[0] is None and len(codes) == 6
    versions = codes[1:]
    assert versions[0] is not versions[1] is not versions[2]
    assert versions[2] is versions[3] is versions[4] is recorder.states[function.__code__].version


def test_wrong_versions_are_refused() -> None:
    def function(a: int, *rest: int) -> Any:
        local = a
        return local, rest

    state = FunctionState(function.__code__)
    state.refresh()
    version = state.version
    assert version is not None
    for wrong in (
        function.__code__,
        double.__code__,
        version.replace(co_flags=version.co_flags | 4, co_argcount=1),
        version.replace(co_argcount=1),
        version.replace(co_flags=version.co_flags | 0x20),
    ):
        with pytest.raises(ValueError, match="a version is"):
            state.version = wrong
    assert state.version is version

    async def coroutine() -> None: ...

    with pytest.raises(ValueError, match="plain or a generator function"):
        _core.State(coroutine.__code__)


def test_stores_that_would_break_the_frame_are_errors() -> None:
    def function(a: int) -> Any:
        return lambda: a

    for effect in (("store_local", 0, 0), ("delete_local", 0), ("store_local", 50, 0)):
        recorder = Recorder()
        entry = _core.Entry(function, recorder)
        entry(1)()
        state = recorder.states[function.__code__]
        number = state.exit_id(state.form.start)
        state.refresh()
        state.entry.segments[:] = [_core.Segment([("local", 0, 0), effect], number, 1)]
        with pytest.raises(RuntimeError, match="cannot write slot"):
            entry(1)
