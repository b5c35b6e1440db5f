"""A function's state: numbering, when versions are built, and who keeps what alive."""

import gc
import types
import weakref
from typing import Any

import pytest

from segue import _core
from segue.frames import Exit, FunctionState
from tests.frames.torture import Torturer, boundaries


def work(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def index_of(state: FunctionState, opname: str) -> int:
    return next(i.index for i in state.form.instructions if i.opname == opname)


def test_exits_are_numbered_once_in_order() -> None:
    state = FunctionState(work.__code__)
    loop = index_of(state, "FOR_ITER")
    state.add_gates([loop])
    numbers = [
        state.exit_id(loop),
        state.exit_id(loop, "gate"),
        state.exit_id(loop + 1),
    ]
    assert numbers == [0, 1, 2]
    assert state.exit_id(loop, "gate") == 1
    assert state.exits == [Exit(loop), Exit(loop, "gate"), Exit(loop + 1)]


def test_a_version_is_built_once_for_several_changes() -> None:
    state = FunctionState(work.__code__)
    assert (state.version, state.n_versions) == (None, 0)
    loop = index_of(state, "FOR_ITER")
    state.add_gates([loop, loop + 1, loop])
    state.exit_id(loop, "gate")
    state.refresh()
    first = state.version
    assert isinstance(first, types.CodeType)
    state.add_gates([loop])
    state.exit_id(loop, "gate")
    state.refresh()
    assert (state.version, state.n_versions) == (first, 1)
    assert state.version is first
    state.exit_id(loop)
    state.refresh()
    assert state.version is not first
    assert state.n_versions == 2


def test_exit_of_gives_an_exit_that_the_version_has() -> None:
    state = FunctionState(work.__code__)
    loop = index_of(state, "FOR_ITER")
    state.add_gates([loop])
    state.refresh()
    assert state.exits == []
    assert state.exit_of(loop) == 0
    assert state.n_versions == 2
    assert state.exit_of(loop) == 0
    assert state.n_versions == 2


def test_gates_know_their_stack_depth() -> None:
    state = FunctionState(work.__code__)
    call = index_of(state, "CALL")
    state.add_gates([call])
    assert (state.gates[call].index, state.gates[call].depth) == (call, 3)
    assert state.entry is not None
    assert (state.entry.index, state.entry.depth) == (0, 0)


def test_wrong_places_are_refused_and_change_nothing() -> None:
    async def coroutine() -> None: ...

    state = FunctionState(work.__code__)
    loop = index_of(state, "FOR_ITER")
    with pytest.raises(ValueError, match="prologue"):
        state.add_gates([loop, 0])
    with pytest.raises(ValueError, match="has no instruction 999"):
        state.exit_id(999)
    with pytest.raises(ValueError, match="there is no gate"):
        state.exit_id(loop, "gate")
    assert (state.gates, state.exits) == ({}, [])
    with pytest.raises(ValueError, match="generator function"):
        FunctionState(coroutine.__code__)


def test_a_frame_goes_on_in_a_version_that_a_miss_has_made() -> None:
    """The miss adds gates but has no segment: the rest of the call still passes through them."""
    asked: list[int] = []

    class Compiler:
        def __init__(self) -> None:
            self.state = FunctionState(work.__code__)
            self.loop = index_of(self.state, "FOR_ITER")
            self.state.add_gates([self.loop])
            self.state.refresh()

        def admit(self, function: object) -> FunctionState:
            return self.state

        def miss(self, gate: _core.Gate, function: object, locals: Any, stack: Any) -> None:
            asked.append(gate.index - self.loop)
            if gate.index == self.loop:
                gate.is_open = False
                self.state.add_gates([self.loop + 1])
                self.state.refresh()

    compiler = Compiler()
    assert _core.Entry(work, compiler)(3) == work(3)
    assert asked == [-compiler.loop, 0, 1, 1, 1]


def test_a_state_and_its_versions_are_collected() -> None:
    torturer = Torturer(work, boundaries(FunctionState(work.__code__).form))
    assert torturer.call_without_pads(3) == work(3)
    assert torturer.state.n_versions > 2
    gone = [weakref.ref(torturer.state), weakref.ref(torturer.bare)]
    del torturer
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_describe() -> None:
    state = FunctionState(work.__code__)
    loop = index_of(state, "FOR_ITER")
    line = work.__code__.co_firstlineno
    state.add_gates([loop])
    state.exit_id(loop, "gate")
    state.refresh()
    state.gates[loop].is_open = False
    state.gates[loop].backoff = 8
    assert state.describe().splitlines() == [
        "work: version 1, 1 gate, 1 exit",
        "  entry: no segments",
        f"  gate {loop} (line {line + 2}, depth 1): no segments, closed, again in 8",
        f"  exit 0: gate {loop} (line {line + 2})",
    ]
