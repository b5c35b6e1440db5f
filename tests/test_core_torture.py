"""Leave and resume at every instruction of every corpus function, through the C core alone."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from segue import _core
from segue.frames.state import FunctionState
from tests.corpus import CORPUS, MODULES, Case, difference, observe

FILES = {module.__file__ for module in MODULES}


class Leaver:
    """A compiler whose segments do nothing: each leaves at its gate for the instruction there.

    With `grows`, a function starts without gates but those after the yields of a generator, and each miss puts gates
    after its instruction,
    so that frames of older versions transfer to newer ones all the time.
    """

    def __init__(self, grows: bool) -> None:
        self.grows = grows
        self.states: dict[types.CodeType, FunctionState] = {}
        self.unstable: list[Any] = []
        self.misses = 0

    def admit(self, function: types.FunctionType) -> FunctionState | None:
        code = function.__code__
        if code.co_filename not in FILES:
            return None
        state = self.states[code] = FunctionState(code)
        if not self.grows:
            places = [i for i in range(len(state.form)) if state.form.is_place(i)]
            state.add_gates(places)
            for index in places:
                state.exit_id(index)
        if not self.grows or state.form.is_generator:
            state.refresh()
        return state

    def miss(
        self,
        gate: _core.Gate,
        function: types.FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
    ) -> _core.Segment:
        self.misses += 1
        state = gate.state
        assert isinstance(state, FunctionState)
        is_entry = gate is state.entry
        index = state.form.start if is_entry else gate.index
        if self.grows:
            state.add_gates(i for i in state.form.successors(index) if state.form.is_place(i))
        number = state.exit_id(index)
        state.refresh()
        segment = leave(state, locals, stack, number, is_entry)
        gate.segments.append(segment)
        return segment

    def report_unstable(self, gate: _core.Gate, segment: _core.Segment, step: int) -> None:
        self.unstable.append((gate.index, segment.steps[step]))


def leave(
    state: FunctionState,
    locals: tuple[Any, ...],
    stack: tuple[Any, ...],
    number: int,
    is_entry: bool,
) -> _core.Segment:
    """A segment that fetches the whole state of a frame and leaves with it."""
    register = iter(range(1000))
    steps: list[tuple[Any, ...]] = []
    exits: list[tuple[Any, ...]] = []
    n_slots = len(locals) - (state.n_free if is_entry else 0)
    for slot, value in enumerate(locals[:n_slots]):
        is_cell = state.form.localsplus[slot].kind == "cell"
        if value is _core.NULL and not (is_entry and is_cell):
            steps.append(("unbound", slot))
            exits.append(("delete_local", slot))
            continue
        dst = None
        if value is not _core.NULL:
            dst = next(register)
            steps.append(("local", dst, slot))
        if is_entry and is_cell:
            cell = next(register)
            steps.append(("new_cell", cell, dst))
            dst = cell
        exits.append(("store_local", slot, dst))
    for slot, value in enumerate(stack):
        if value is _core.NULL:
            exits.append(("result", None))
            continue
        dst = next(register)
        steps.append(("stack", dst, slot))
        exits.append(("result", dst))
    return _core.Segment([*steps, *exits], number, next(register))


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert _core.current_compiler() is None
    assert _core.hook_depth() == 0


@pytest.mark.parametrize("grows", [True, False], ids=["growing", "complete"])
@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_leaving_everywhere_changes_nothing(case: Case, grows: bool) -> None:
    compiler = Leaver(grows)
    compiled = _core.Entry(case.function, compiler)
    for _ in range(2):
        for mine, other in zip(case.make_args(), case.make_args(), strict=True):
            expected, got = observe(case.function, mine), observe(compiled, other)
            assert difference(expected, got) is None
    assert not compiler.unstable
    assert compiler.misses > 0


class Value:
    """Something whose references can be counted."""


def carries(value: Value, *rest: Value) -> Any:
    """A cell, a loop, a half-built stack, a `with`, a handler that raises."""
    found = [value]
    for item in rest:
        try:
            found += [value, *(lambda: (item, value))()]
            with memoryview(b"ab"):
                raise KeyError(item)
        except KeyError as error:
            found.append(error.args[0])
    if len(found) > 5:
        raise ValueError(found)
    return found


FILES.add(__file__)


@pytest.mark.parametrize("grows", [True, False], ids=["growing", "complete"])
def test_leaving_neither_keeps_nor_loses_references(grows: bool) -> None:
    values = [Value(), Value(), Value()]
    constants = [None, (), _core.NULL, _core.TRANSFER, 0, 1, 2]
    compiler = Leaver(grows)

    def call(n: int) -> None:
        compiled = _core.Entry(carries, Leaver(grows) if grows else compiler)
        assert compiled(*values[:n], *values[:1]) is not None

    def count() -> list[int]:
        gc.collect()
        return [sys.getrefcount(x) for x in (*values, *constants, carries, carries.__code__)]

    def work(times: int) -> None:
        for _ in range(times):
            call(1)
            with pytest.raises(ValueError):
                call(3)

    def changes() -> list[int]:
        before = count()
        work(20 if grows else 1000)
        return [abs(after - first) for after, first in zip(count(), before, strict=True)]

    # Whatever else goes on in the process also counts references to None and 0, but not the same way every time.
    work(2)
    least = changes()
    for _ in range(2):
        if max(least) >= 15:
            least = [min(pair) for pair in zip(least, changes(), strict=True)]
    assert max(least) < 15, least
    gone = [weakref.ref(value) for value in values]
    values.clear()
    gc.collect()
    assert not any(ref() for ref in gone)


def test_all_of_it_is_freed() -> None:
    compiler = Leaver(grows=True)
    for case in CORPUS[::12]:
        for args in case.make_args():
            observe(_core.Entry(case.function, compiler), args)
    states = [weakref.ref(state) for state in compiler.states.values()]
    assert states
    del compiler
    gc.collect()
    assert not any(state() for state in states)
