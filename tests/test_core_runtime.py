"""Running: the frame hook, gates and their compiler, exceptions, threads, tracing, other hooks."""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from segue import _core
from tests.core_support import Recorder


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert _core.current_compiler() is None
    assert _core.hook_depth() == 0
    assert evaluator_is_default()


def evaluator_is_default() -> bool:
    """Whether no hook is installed: Python-to-Python calls are inlined."""
    api = ctypes.pythonapi
    api.PyInterpreterState_Get.restype = ctypes.c_void_p
    api._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
    interpreter = ctypes.c_void_p(api.PyInterpreterState_Get())
    default = ctypes.cast(api._PyEval_EvalFrameDefault, ctypes.c_void_p).value
    return bool(api._PyInterpreterState_GetEvalFrameFunc(interpreter) == default)


both = pytest.mark.parametrize("versions", [True, False], ids=["versions", "plain"])


def double(x: int) -> int:
    return x * 2


def fails(x: int) -> int:
    return x // 0


# --- the hook


@both
def test_calls_from_compiled_code_are_compiled(versions: bool) -> None:
    def inner(x: int, *, y: int = 1) -> int:
        return double(x) + y

    def outer(x: int) -> int:
        return inner(x) + sum(map(double, [x, x])) + max([x, 1], key=lambda z: -z)

    recorder = Recorder(versions=versions)
    assert _core.Entry(outer, recorder)(3) == outer(3) == 20
    expected = ["outer", "inner", "double", "double", "double", "<lambda>", "<lambda>"]
    assert recorder.names == expected
    assert double(1) == 2 and recorder.names == expected


def test_a_skipped_function_is_interpreted_and_its_callees_are_compiled() -> None:
    def outer(x: int) -> Any:
        return double(x), _core.current_compiler()

    recorder = Recorder()
    recorder.states[outer.__code__] = None
    assert _core.Entry(outer, recorder)(3) == (6, recorder)
    assert recorder.calls == [("double", 3)]


def test_a_disabled_function_disables_what_it_calls() -> None:
    def middle(x: int) -> Any:
        return double(x), _core.current_compiler()

    def outer(x: int) -> Any:
        return middle(x), double(x), _core.current_compiler()

    recorder = Recorder()
    recorder.states[middle.__code__] = _core.DISABLE
    assert _core.Entry(outer, recorder)(3) == ((6, None), 6, recorder)
    assert recorder.names == ["outer", "double"]


def test_the_callback_runs_with_compiling_off() -> None:
    seen = []

    def helper() -> None:
        seen.append(_core.current_compiler())

    recorder = Recorder(answer=lambda *miss: helper())
    assert _core.Entry(double, recorder)(2) == 4
    assert seen == [None] and recorder.names == ["double"]


def test_generators_classes_and_modules_pass_through() -> None:
    def generator(n: int) -> Iterator[int]:
        for i in range(n):
            yield double(i)

    async def coroutine() -> int:
        return double(4)

    def outer(n: int) -> Any:
        class Local:
            value = double(n)

        namespace = {"double": double}
        exec("x = double(5)", namespace)
        with pytest.raises(StopIteration) as stopped:
            coroutine().send(None)
        thrown = generator(1)
        next(thrown)
        with pytest.raises(KeyError):
            thrown.throw(KeyError)
        return [*generator(2)], Local.value, namespace["x"], stopped.value.value

    recorder = Recorder()
    assert _core.Entry(outer, recorder)(3) == ([0, 2], 6, 10, 8)
    assert recorder.calls == [("outer", 3)] + [("double", i) for i in (3, 5, 4, 0, 0, 1)]


def test_compilers_nest() -> None:
    first, second = Recorder(), Recorder()
    inner = _core.Entry(lambda x: (double(x), _core.current_compiler()), second)

    def outer(x: int) -> Any:
        return inner(x), double(x), _core.current_compiler()

    assert _core.Entry(outer, first)(1) == ((2, second), 2, first)
    assert (first.names, second.names) == (["outer", "double"], ["<lambda>", "double"])


def test_only_running_compiled_code_holds_the_hook() -> None:
    depths = []

    def inner() -> None:
        depths.append(_core.hook_depth())

    def outer() -> None:
        inner()
        depths.append(_core.hook_depth())

    _core.Entry(outer, Recorder())()
    assert depths == [2, 1]


def test_a_code_object_keeps_neither_compiler_nor_state() -> None:
    recorder = Recorder()
    _core.Entry(double, recorder)(1)
    gone = [weakref.ref(recorder), weakref.ref(recorder.states[double.__code__])]
    del recorder
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
    again = Recorder()
    _core.Entry(double, again)(1)
    assert again.names == ["double"]


# --- exceptions


@both
def test_exceptions_keep_their_traceback(versions: bool) -> None:
    def outer(x: int) -> int:
        return fails(x)

    with pytest.raises(ZeroDivisionError) as raised:
        _core.Entry(outer, Recorder(versions=versions))(1)
    with pytest.raises(ZeroDivisionError) as expected:
        outer(1)
    shown = [
        [(f.name, f.lineno) for f in traceback.extract_tb(info.value.__traceback__)][1:] for info in (raised, expected)
    ]
    assert shown[0] == shown[1] and len(shown[0]) == 2


@both
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_any_exception_leaves_the_thread_clean(error: type[BaseException], versions: bool) -> None:
    def inner() -> None:
        raise error

    def outer() -> None:
        inner()

    with pytest.raises(error):
        _core.Entry(outer, Recorder(versions=versions))()


def test_an_error_in_the_compiler_is_raised_from_the_call() -> None:
    def answer(*miss: Any) -> None:
        raise LookupError("miss")

    def outer(x: int) -> int:
        return double(x)

    with pytest.raises(LookupError, match="miss"):
        _core.Entry(outer, Recorder(answer=answer))(1)


@both
def test_recursion_is_as_deep_as_in_the_interpreter(versions: bool) -> None:
    deepest = 0

    def recurse(n: int) -> int:
        nonlocal deepest
        deepest = n
        return recurse(n + 1)

    depths = []
    messages = []
    for function in (recurse, _core.Entry(recurse, Recorder(versions=versions))):
        with pytest.raises(RecursionError) as raised:
            function(0)
        depths.append(deepest)
        messages.append(str(raised.value))
    assert abs(depths[0] - depths[1]) < 20
    assert messages[0] == messages[1]


def test_a_segment_that_calls_itself_hits_the_recursion_limit() -> None:
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    steps = [("const", 0, entry), ("const", 1, 1), ("commit",), ("call", 2, 0, (1,), ())]
    segment = _core.Segment([*steps, ("result", 2)], _core.Segment.RETURN, 3)
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.segments.append(segment)
    with pytest.raises(RecursionError):
        entry(1)
    del segment, steps
    gate.segments.clear()


def test_signals_between_a_version_and_its_landing() -> None:
    """A handler that runs compiled code of its own, at any moment."""
    calls = 0

    def handler(*_: Any) -> None:
        nonlocal calls
        calls += 1
        mine = calls
        assert entry(mine) == mine * 2

    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(1)
    recorder.miss = lambda *miss: None  # type: ignore[method-assign]
    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
        for i in range(20_000):
            assert entry(i) == i * 2
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert calls > 10


def test_a_signal_that_comes_during_a_graph_is_served_before_its_effects() -> None:
    class Late(Exception): ...

    def handler(*_: Any) -> None:
        raise Late

    asked: list[Any] = []
    done: list[Any] = []
    recorder = Recorder()
    entry = _core.Entry(double, recorder)
    entry(0)
    # tuple(map(interrupt_main, ...)) runs no Python code that would serve the signal.
    steps = [
        *(("local", 0, 0), ("const", 1, tuple), ("graph", (2,), 1, (0,), None)),
        *(("const", 3, done.append), ("call", 4, 3, (2,), ()), ("result", 2)),
    ]
    gate = recorder.states[double.__code__].entry
    assert gate is not None
    gate.segments.append(_core.Segment(steps, _core.Segment.RETURN, 5, asked.append))
    before = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(Late):
            entry(map(_thread.interrupt_main, [signal.SIGINT]))
    finally:
        signal.signal(signal.SIGINT, before)
    assert (asked, done) == ([], [])


# --- threads and processes


def test_threads_have_compilers_of_their_own() -> None:
    n = 300
    barrier = threading.Barrier(3)
    results: dict[str, Any] = {}

    def work(x: int) -> int:
        return double(x) + double(x + 1)

    def thread(name: str, function: Any) -> None:
        barrier.wait()
        results[name] = [function(i) for i in range(n)]

    recorders = [Recorder(), Recorder(versions=False)]
    targets = [*(_core.Entry(work, recorder) for recorder in recorders), work]
    threads = [threading.Thread(target=thread, args=(str(i), function)) for i, function in enumerate(targets)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for started in threads:
            started.start()
        for started in threads:
            started.join()
    finally:
        sys.setswitchinterval(before)
    expected = [4 * i + 2 for i in range(n)]
    assert results == {"0": expected, "1": expected, "2": expected}
    for recorder in recorders:
        assert recorder.names == ["work", "double", "double"] * n


def test_a_new_thread_does_not_compile() -> None:
    seen = []

    def outer() -> None:
        thread = threading.Thread(target=lambda: seen.append(_core.current_compiler()))
        thread.start()
        thread.join()

    recorder = Recorder()
    _core.Entry(outer, recorder)()
    assert seen == [None]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork_while_other_threads_compile() -> None:
    inside, leave = threading.Event(), threading.Event()

    def waits() -> None:
        inside.set()
        leave.wait()

    thread = threading.Thread(target=_core.Entry(waits, Recorder()))
    thread.start()
    inside.wait()

    def forks() -> int:
        child = os.fork()
        if child == 0:
            ok = _core.hook_depth() == 1 and double(2) == 4
            os._exit(0 if ok else 1)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    try:
        assert _core.Entry(forks, Recorder())() == 0
        assert _core.hook_depth() == 1
    finally:
        leave.set()
        thread.join()


# --- tracing


@pytest.mark.parametrize("set_trace", [sys.settrace, sys.setprofile])
def test_traced_functions_run_in_the_interpreter(set_trace: Callable[..., None]) -> None:
    def outer(x: int) -> int:
        return double(x)

    recorder = Recorder()
    entry = _core.Entry(outer, recorder)
    seen: list[str] = []

    def trace(frame: types.FrameType, event: str, arg: object) -> Any:
        if event == "call":
            seen.append(frame.f_code.co_name)
        return None

    set_trace(trace)
    try:
        assert entry(1) == 2
    finally:
        set_trace(None)
    assert seen == ["outer", "double"]
    assert recorder.misses == []
    assert entry(1) == 2
    assert recorder.names == ["outer", "double"]


def test_tracing_that_starts_in_the_middle() -> None:
    def outer(x: int) -> Any:
        before = sys.gettrace()
        sys.settrace(lambda *event: None)
        try:
            return double(x)
        finally:
            sys.settrace(before)

    recorder = Recorder()
    assert _core.Entry(outer, recorder)(4) == 8
    assert recorder.names == ["outer"]


# --- other tools' hooks


def test_dynamo_below_and_above() -> None:
    """torch.compile'd code that calls compiled code that calls torch.compile'd code, and so on."""
    pytest.importorskip("torch._dynamo")
    recorder = Recorder()
    log: list[str] = []

    @torch._dynamo.disable
    def note(name: str) -> None:
        log.append(name)

    @torch.compile(backend="eager")
    def leaf(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def middle(x: torch.Tensor, depth: int) -> torch.Tensor:
        note("middle")
        y = leaf(x)
        return y if depth == 0 else outer(y, depth - 1)

    compiled_middle = _core.Entry(middle, recorder)

    @torch.compile(backend="eager")
    def outer(x: torch.Tensor, depth: int) -> torch.Tensor:
        y = x * 2
        torch._dynamo.graph_break()
        return compiled_middle(y, depth) + double(1)

    def expected_outer(x: float, depth: int) -> float:
        return expected_middle(x * 2, depth) + 2

    def expected_middle(x: float, depth: int) -> float:
        return x + 1 if depth == 0 else expected_outer(x + 1, depth - 1)

    for _ in range(2):
        assert outer(torch.ones(2), 2).tolist() == [expected_outer(1, 2)] * 2
        assert compiled_middle(torch.ones(2), 2).tolist() == [expected_middle(1, 2)] * 2
        assert _core.hook_depth() == 0
    assert set(recorder.names) >= {"middle", "leaf"}
