"""The compiler behind a `compile` call: the limit, failures of the compiler and of graphs, threads, what it tells."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
import warnings

import pytest
import torch

import segue
from segue.capture.interpreter import undisturbed
from segue.errors import InternalError, RecompileLimitWarning
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)
MODES = ["sin", "cos", "tan", "exp", "tanh", "abs", "neg"]


class Settings:
    def __init__(self, mode):
        self.mode = mode
        self.table = {"modes": [mode]}


# --- the limit ------------------------------------------------------------------------------------

current_mode = "sin"


def by_attribute(x, settings):
    return getattr(torch, settings.mode)(x)


def by_item(x, settings):
    return getattr(torch, settings.table["modes"][0])(x)


def by_global(x, settings):
    return getattr(torch, current_mode)(x)


def by_length(x, settings):
    return torch.stack([x] * len(settings.table["modes"]))


def by_type(x, settings):
    return x * (1 if isinstance(settings.mode, str) else 2)


def limit_of(f, calls) -> tuple[list[str], segue.frames.compiler.Compiler]:
    """The warnings about the limit in some calls, each of which must give eager's result."""
    compiled = segue.compile(f, backend=Graphs())
    with segue.config.patch(recompile_limit=3), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for prepare in calls:
            args = prepare()
            assert difference(observe(f, args), observe(compiled, args)) is None
    found = [str(w.message) for w in caught if w.category is RecompileLimitWarning]
    return found, compiled.compiler


def with_mode(mode):
    def prepare():
        global current_mode
        current_mode = mode
        return X, Settings(mode)

    return prepare


def with_shape(number):
    return lambda: (torch.ones([2] * number), Settings("sin"))


@pytest.mark.parametrize(
    ("f", "calls", "guard"),
    [
        (by_attribute, [with_mode(m) for m in MODES], "`check settings.mode == 'tan'`"),
        (by_item, [with_mode(m) for m in MODES], "`check settings.table['modes'][0] == 'tan'`"),
        (by_global, [with_mode(m) for m in MODES], "`check current_mode == 'tan'`"),
        (by_attribute, [with_shape(n) for n in range(1, 6)], "`check tensor x: torch.float32, cpu, 0, (2, 2, 2)"),
    ],
    ids=["attribute", "item", "global", "shape"],
)
def test_the_limit_names_the_function_and_the_place_that_kept_changing(f, calls, guard) -> None:
    (text,), _ = limit_of(f, calls)
    assert guard in text
    assert f"{f.__name__} has 3 segments" in text
    assert f'File "{__file__}", line {f.__code__.co_firstlineno}' in text


def test_a_closures_variable_is_named() -> None:
    def make():
        mode = "sin"

        def set_to(value):
            nonlocal mode
            mode = value

        return set_to, lambda x: getattr(torch, mode)(x)

    set_to, f = make()
    compiled = segue.compile(f, backend=Graphs())
    with segue.config.patch(recompile_limit=3), pytest.warns(RecompileLimitWarning, match=r"closure\.mode"):
        for mode in MODES:
            set_to(mode)
            torch.testing.assert_close(compiled(X), f(X))


def test_at_the_limit_the_gate_closes_and_what_it_has_still_runs() -> None:
    f, graphs = by_attribute, Graphs()
    compiled = segue.compile(f, backend=graphs)
    with segue.config.patch(recompile_limit=3), pytest.warns(RecompileLimitWarning):
        for mode in MODES:
            compiled(X, Settings(mode))
    (state,) = compiled.compiler.states()
    assert "entry: 3 segments, closed" in state.describe()
    assert [e.id for e in compiled.compiler.log.of_kind("limit")] == ["recompile-limit"]
    assert (graphs.count, graphs.runs) == (3, 3)
    compiled(X, Settings("cos"))
    assert graphs.runs == 4


def test_the_warning_as_an_error_is_raised_once_and_later_calls_run() -> None:
    compiled = segue.compile(by_attribute, backend=Graphs())
    outcomes = []
    with segue.config.patch(recompile_limit=3), warnings.catch_warnings():
        warnings.simplefilter("error", RecompileLimitWarning)
        for mode in MODES * 2:
            try:
                got = compiled(X, Settings(mode))
            except RecompileLimitWarning:
                outcomes.append("raised")
                continue
            torch.testing.assert_close(got, by_attribute(X, Settings(mode)))
            outcomes.append("ran")
    assert outcomes == ["ran"] * 3 + ["raised"] + ["ran"] * 10


def test_calls_without_tensor_work_close_a_gate_for_a_while_only() -> None:
    def f(x, name):
        return x + x if name == "tensor" else getattr(str, name)("Text")

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    with segue.config.patch(recompile_limit=3), warnings.catch_warnings():
        warnings.simplefilter("error", RecompileLimitWarning)
        for name in ("upper", "lower", "title", "strip", "swapcase", "casefold"):
            assert compiled(X, name) == f(X, name)
        (state,) = compiled.compiler.states()
        assert "closed, again in" in state.describe()
        for _ in range(100):
            torch.testing.assert_close(compiled(X, "tensor"), X + X)
    assert graphs.count == 1
    assert graphs.runs >= 30


# --- failures of the compiler ---------------------------------------------------------------------


BROKEN = divmod
"""As `config.break_at`: dividing a code object raises TypeError in the midst of a capture."""


def outer(x):
    y = torch.sin(x)
    return torch.cos(y)


def test_a_failure_of_the_compiler_is_an_internal_error_with_the_users_line() -> None:
    compiled = segue.compile(outer, backend=Graphs())
    limit = sys.getrecursionlimit()
    with segue.config.patch(break_at=BROKEN), pytest.raises(InternalError) as raised:
        compiled(X)
    assert "TypeError: unsupported operand" in str(raised.value)
    assert f'File "{__file__}"' in str(raised.value) and "in outer" in str(raised.value)
    assert isinstance(raised.value.__cause__, TypeError)
    assert sys.getrecursionlimit() == limit
    torch.testing.assert_close(compiled(X), outer(X))


def test_suppressed_errors_are_logged_once_and_the_function_runs(caplog) -> None:
    graphs = Graphs()
    compiled = segue.compile(outer, backend=graphs)
    with segue.config.patch(break_at=BROKEN, suppress_errors=True):
        with caplog.at_level(logging.WARNING, logger="segue"):
            for _ in range(40):
                torch.testing.assert_close(compiled(X), outer(X))
    assert len([r for r in caplog.records if "failure of the compiler" in r.getMessage()]) == 1
    assert graphs.count == 0
    failures = compiled.compiler.log.of_kind("failure")
    assert {e.id for e in failures} == {"internal-error"}
    assert 1 <= len(failures) <= 4  # the gate is tried again from time to time
    for _ in range(40):
        torch.testing.assert_close(compiled(X), outer(X))
    assert graphs.count == 1


def test_a_failing_backend_is_suppressed_too() -> None:
    def failing(gm, examples):
        raise NotImplementedError("no such operation")

    compiled = segue.compile(outer, backend=failing)
    with segue.config.patch(suppress_errors=True):
        for _ in range(3):
            torch.testing.assert_close(compiled(X), outer(X))
    assert "no such operation" in compiled.compiler.log.of_kind("failure")[0].reason


def test_guards_that_fail_on_their_own_state_are_reported() -> None:
    compiled = segue.compile(by_attribute, backend=Graphs())
    compiled(X, Settings("sin"))
    (state,) = compiled.compiler.states()
    (segment,) = state.entry.segments
    number = next(i for i, step in enumerate(segment.steps) if step[0] == "equals")
    compiled.compiler.report_unstable(state.entry, segment, number)
    (event,) = compiled.compiler.log.of_kind("failure")
    assert event.id == "unstable-guard"
    assert "== 'sin'" in event.reason
    assert event.place.function == "by_attribute"


# --- failures of graphs ---------------------------------------------------------------------------


def picked(x, index):
    y = torch.sin(x)
    try:
        y = y[index]
    except IndexError:
        y = torch.tanh(y)
        y = y * 2
    return torch.cos(y)


def test_a_graph_that_fails_gives_gates_to_the_handlers() -> None:
    """The first failing call runs the handler from there on in a graph."""
    graphs = Graphs()
    compiled = segue.compile(picked, backend=graphs)
    inside, outside = torch.tensor([1]), torch.tensor([40])
    compiled(X, inside)
    (state,) = compiled.compiler.states()
    handlers = set(state.form.handlers())
    assert handlers and not handlers & set(state.gates)
    torch.testing.assert_close(compiled(X, outside), picked(X, outside))
    assert handlers & set(state.gates)
    assert graphs.seen("tanh") == 1
    count = graphs.count
    for index in (inside, outside, inside, outside):
        torch.testing.assert_close(compiled(X, index), picked(X, index))
    assert graphs.count == count


def test_a_graph_that_fails_in_some_calls_stays() -> None:
    """After a failing call the graph still runs for those that do not fail."""
    graphs = Graphs()
    compiled = segue.compile(picked, backend=graphs)
    for number in (1, 40, 2, 41, 3):
        index, runs = torch.tensor([number]), graphs.runs
        torch.testing.assert_close(compiled(X, index), picked(X, index))
        assert graphs.runs > runs
    assert graphs.seen("sin") == 1


# --- the recursion limit --------------------------------------------------------------------------


def test_overlapping_captures_put_the_recursion_limit_back() -> None:
    """The limit belongs to the process: the first to come raises it, the last to go puts it back, in any order."""
    before = sys.getrecursionlimit()
    first, second = contextlib.ExitStack(), contextlib.ExitStack()
    first.enter_context(undisturbed())
    raised = sys.getrecursionlimit()
    second.enter_context(undisturbed())
    first.close()
    assert sys.getrecursionlimit() == raised > before
    second.close()
    assert sys.getrecursionlimit() == before


def test_a_larger_limit_of_the_program_is_kept() -> None:
    before = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(50_000)
        with undisturbed():
            assert sys.getrecursionlimit() == 50_000
        assert sys.getrecursionlimit() == 50_000
    finally:
        sys.setrecursionlimit(before)


def test_a_backend_sees_the_programs_recursion_limit_in_every_thread() -> None:
    """Threads that compile at once, one of them while another's backend is at work."""
    before = sys.getrecursionlimit()
    seen: list[int] = []

    def backend(gm, examples):
        seen.append(sys.getrecursionlimit())
        return gm.forward

    ready = threading.Barrier(6)

    def work(number):
        compiled = segue.compile(lambda x: torch.sin(x) * number, backend=backend)
        ready.wait()
        compiled(X)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [before] * 6
    assert sys.getrecursionlimit() == before


# --- threads that miss at one gate ----------------------------------------------------------------


def test_a_thread_that_comes_while_another_compiles_runs_in_the_interpreter() -> None:
    compiling, results = threading.Event(), []

    def backend(gm, examples):
        compiled_count.append(gm)
        compiling.set()
        late.start()
        late.join(0.5)  # it waits for this compilation, or it is done
        return gm.forward

    def call():
        compiling.wait()
        results.append(compiled(X))

    compiled_count: list[torch.fx.GraphModule] = []
    compiled = segue.compile(outer, backend=backend)
    late = threading.Thread(target=call)
    torch.testing.assert_close(compiled(X), outer(X))
    late.join()
    torch.testing.assert_close(results, [outer(X)])
    assert len(compiled_count) == 1


# --- what a compiler tells ------------------------------------------------------------------------


def broken_in_a_callee(x):
    y = torch.sin(x)
    y = inner(y)
    return torch.cos(y)


def inner(y):
    y = torch.tanh(y)
    segue.graph_break()
    return torch.exp(y)


def test_states_are_those_of_the_functions_that_were_entered() -> None:
    compiled = segue.compile(broken_in_a_callee, backend=Graphs())
    assert compiled.compiler.states() == []
    compiled(X)
    names = [state.code.co_name for state in compiled.compiler.states()]
    assert sorted(names) == ["broken_in_a_callee", "inner"]
    compiled(X)
    assert [state.code.co_name for state in compiled.compiler.states()] == names
    compiled.compiler.reset()
    assert compiled.compiler.states() == []


def test_events_tell_what_happened_in_order() -> None:
    compiled = segue.compile(by_attribute, backend=Graphs())
    for mode in ("sin", "cos", "sin"):
        compiled(X, Settings(mode))
    log = compiled.compiler.log
    assert [e.kind for e in log.events] == ["graph", "recompile", "graph"]
    assert log.counts == {"graph": 2, "recompile": 1}
    (recompile,) = log.of_kind("recompile")
    assert "`check settings.mode == 'sin'` failed" in recompile.reason
