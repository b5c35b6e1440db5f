"""Threads, recursion, generators, coroutines, tracing, forks, and the budget of a capture."""

from __future__ import annotations

import asyncio
import bdb
import inspect
import os
import sys
import threading
import time

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


def one_break(x, k):
    y = torch.sin(x) * k
    segue.graph_break()
    return torch.cos(y)


# --- threads --------------------------------------------------------------------------------------


def in_threads(n, work) -> list[BaseException]:
    """Run `work(number)` in n threads; what they raised."""
    errors: list[BaseException] = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def loop_with_breaks(x, k):
    for step in range(5):
        x = torch.tanh(x) + step * k
        segue.graph_break()
    return torch.cos(x)


def branch(x, k):
    y = torch.sin(x) * k
    if y.sum() > 2:
        return torch.tanh(y)
    return torch.sigmoid(y)


def handled_error(x, k):
    y = torch.sin(x)
    try:
        y = y[int(k) * 3]
    except IndexError:
        y = torch.tanh(y)
    return torch.cos(y)


@pytest.mark.parametrize("f", [one_break, loop_with_breaks, branch, handled_error], ids=lambda f: f.__name__)
def test_threads_share_a_compiled_function(f) -> None:
    """All call it for the first time at once, with different shapes and numbers."""
    compiled = segue.compile(f, backend=Graphs())

    def work(seed):
        for i in range(25):
            x, k = torch.linspace(-1, 1, 2 + (i + seed) % 4), float(i % 3 + 1)
            torch.testing.assert_close(compiled(x, k), f(x, k))

    limit = sys.getrecursionlimit()
    assert in_threads(6, work) == []
    assert sys.getrecursionlimit() == limit


@segue.config.patch(recompile_limit=2)
@pytest.mark.filterwarnings("ignore::segue.errors.RecompileLimitWarning")
def test_the_limit_of_a_gate_holds_for_threads_together() -> None:
    def f(x, name):
        return getattr(torch, name)(x)

    names = ["sin", "cos", "tan", "exp", "tanh", "abs", "neg", "relu"]
    for _ in range(3):
        graphs, ready = Graphs(), threading.Barrier(len(names))
        compiled = segue.compile(f, backend=graphs)

        def work(number):
            ready.wait()
            for name in names[number:] + names[:number]:
                torch.testing.assert_close(compiled(X, name), f(X, name))

        assert in_threads(len(names), work) == []
        assert graphs.count <= 2


def test_threads_that_meet_at_a_gate_compile_it_once() -> None:
    graphs, ready = Graphs(), threading.Barrier(8)
    compiled = segue.compile(one_break, backend=graphs)

    def work(number):
        ready.wait()
        torch.testing.assert_close(compiled(X, 2.0), one_break(X, 2.0))

    assert in_threads(8, work) == []
    assert graphs.count == 2


def test_threads_with_a_function_each() -> None:
    def work(seed):
        compiled = segue.compile(loop_with_breaks, backend=Graphs())
        for k in range(5):
            torch.testing.assert_close(compiled(X, k), loop_with_breaks(X, k))

    assert in_threads(4, work) == []


def test_a_thread_that_was_started_by_compiled_code_is_not_compiled() -> None:
    graphs = Graphs()
    results = []

    def helper(x):
        results.append(torch.tanh(x))

    def f(x):
        y = torch.sin(x)
        thread = threading.Thread(target=helper, args=(y,))
        thread.start()
        thread.join()
        return torch.cos(y)

    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), f(X))
    assert len(results) == 4
    assert graphs.seen("sin") and graphs.seen("cos") and not graphs.seen("tanh")


def test_other_threads_are_left_alone() -> None:
    """A plain thread that runs beside compiled code sees nothing of it."""
    stop = threading.Event()
    depths = []

    def plain():
        while not stop.is_set():
            depths.append(len(inspect.stack(0)))

    thread = threading.Thread(target=plain)
    thread.start()
    compiled = segue.compile(loop_with_breaks, backend=Graphs())
    for k in range(20):
        compiled(X, k)
    stop.set()
    thread.join()
    assert len(set(depths)) == 1


def test_grad_mode_is_each_threads_own() -> None:
    compiled = segue.compile(one_break, backend=Graphs())

    def work(number):
        with torch.set_grad_enabled(number % 2 == 0):
            for _ in range(20):
                x = X.clone().requires_grad_()
                assert compiled(x, 2.0).requires_grad is (number % 2 == 0)

    assert in_threads(4, work) == []


# --- recursion ------------------------------------------------------------------------------------


def test_a_function_that_calls_itself() -> None:
    def descend(x, n):
        if n == 0:
            return torch.cos(x)
        return torch.tanh(descend(x * 2, n - 1)) + 1

    assert_same(lambda x: descend(x, 5), X, graphs=1)
    graphs = Graphs()

    def calls_compiled(x, n):
        x = torch.tanh(x)
        segue.graph_break()
        return torch.cos(x) if n == 0 else compiled(x, n - 1) + n

    def plain(x, n):
        x = torch.tanh(x)
        return torch.cos(x) if n == 0 else plain(x, n - 1) + n

    compiled = segue.compile(calls_compiled, backend=graphs)
    for n in (0, 3, 10, 30):
        torch.testing.assert_close(compiled(X, n), plain(X, n))
    assert graphs.seen("tanh") and graphs.seen("cos")


def test_mutual_recursion_with_breaks() -> None:
    def even(x, n):
        x = torch.tanh(x)
        segue.graph_break()
        return torch.cos(x) if n == 0 else odd(x, n - 1) + 1

    def odd(x, n):
        x = torch.sigmoid(x)
        segue.graph_break()
        return torch.exp(x) if n == 0 else even(x, n - 1) * 2

    assert_same(lambda x: even(x, 7), X, sees="tanh sigmoid exp")


def test_endless_recursion_raises_recursion_error() -> None:
    def f(x):
        return f(torch.tanh(x) + 1)

    def with_a_break(x):
        y = torch.tanh(x)
        segue.graph_break()
        return with_a_break(y)

    limit = sys.getrecursionlimit()
    for function in (f, with_a_break):
        compiled = segue.compile(function, backend=Graphs())
        for _ in range(2):
            with pytest.raises(RecursionError):
                compiled(X)
    assert sys.getrecursionlimit() == limit
    torch.testing.assert_close(segue.compile(one_break)(X, 2), one_break(X, 2))


def test_compiled_functions_call_each_other() -> None:
    graphs = Graphs()
    inner = segue.compile(one_break, backend=graphs)

    def outer(x):
        return torch.exp(inner(torch.tanh(x), 2))

    compiled = segue.compile(outer, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), torch.exp(one_break(torch.tanh(X), 2)))
    assert all(graphs.seen(name) for name in ("tanh", "sin", "cos", "exp"))


# --- generators and coroutines --------------------------------------------------------------------


def test_a_generator_function() -> None:
    def numbers(x, n):
        for i in range(n):
            got = yield torch.tanh(x) + i
            x = x + (got or 0)
        return "end"

    def drive(function):
        it = function(X, 3)
        found = [next(it), it.send(5), it.send(None)]
        with pytest.raises(StopIteration) as stopped:
            next(it)
        return found, stopped.value.value

    compiled = segue.compile(numbers, backend=Graphs())
    assert inspect.isgenerator(compiled(X, 1))
    for _ in range(2):
        torch.testing.assert_close(drive(compiled)[0], drive(numbers)[0])
        assert drive(compiled)[1] == "end"


def test_a_generator_that_is_handed_out() -> None:
    def f(x):
        y = torch.sin(x)

        def running():
            total = y
            try:
                while True:
                    total = total + (yield total)
            finally:
                record("closed")

        return running()

    def drive(function):
        it = function(X)
        found = [next(it), it.send(2), it.send(3)]
        it.close()
        return found

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(2):
        torch.testing.assert_close(drive(compiled), drive(f))


def test_a_generator_passed_through() -> None:
    def f(x, items):
        y = torch.sin(x)
        first = next(items)
        segue.graph_break()
        return torch.cos(y) * first, items

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(2):
        value, rest = compiled(X, (i for i in range(2, 6)))
        torch.testing.assert_close(value, torch.cos(torch.sin(X)) * 2)
        assert list(rest) == [3, 4, 5]


def test_a_coroutine_function() -> None:
    async def serve(x):
        y = torch.sin(x)
        await asyncio.sleep(0)
        return torch.cos(helper(y))

    def helper(y):
        segue.graph_break()
        return torch.tanh(y)

    compiled = segue.compile(serve, backend=Graphs())
    assert inspect.iscoroutinefunction(serve)

    async def several():
        return await asyncio.gather(*(compiled(X * i) for i in range(4)))

    expected = [torch.cos(torch.tanh(torch.sin(X * i))) for i in range(4)]
    for _ in range(2):
        torch.testing.assert_close(asyncio.run(several()), expected)


def test_a_compiled_function_called_by_coroutines_that_interleave() -> None:
    compiled = segue.compile(one_break, backend=Graphs())

    async def work(k):
        found = []
        for _ in range(5):
            found.append(compiled(X, k))
            await asyncio.sleep(0)
        return found

    async def several():
        return await asyncio.gather(*(work(k) for k in range(4)))

    for k, found in enumerate(asyncio.run(several())):
        torch.testing.assert_close(found, [one_break(X, k)] * 5)


def test_an_async_generator() -> None:
    async def numbers(x):
        for i in range(3):
            yield torch.tanh(x) + i

    compiled = segue.compile(numbers, backend=Graphs())

    async def drive():
        return [y async for y in compiled(X)]

    torch.testing.assert_close(asyncio.run(drive()), [torch.tanh(X) + i for i in range(3)])


# --- tracing, profiling, debugging ----------------------------------------------------------------


def work(x):
    y = torch.sin(x)
    y = helper(y)
    for _ in range(2):
        y = y * 2
    return torch.cos(y)


def helper(y):
    y = torch.tanh(y)
    return y + 1


def lines_of(function, install) -> list[tuple[str, str, int]]:
    """The events of a call of `function` under a tracing function."""
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name in ("work", "helper"):
            seen.append((frame.f_code.co_name, event, frame.f_lineno))
        return tracer

    install(tracer)
    try:
        function(X)
    finally:
        install(None)
    return seen


@pytest.mark.parametrize("install", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
def test_a_tracing_function_sees_what_it_sees_in_eager(install) -> None:
    graphs = Graphs()
    compiled = segue.compile(work, backend=graphs)
    expected = lines_of(work, install)
    assert len(expected) >= 4
    assert lines_of(compiled, install) == expected
    assert graphs.count == 0
    torch.testing.assert_close(compiled(X), work(X))
    assert graphs.count == 1
    assert lines_of(compiled, install) == expected
    assert graphs.runs == 1
    torch.testing.assert_close(compiled(X), work(X))
    assert graphs.runs == 2


def test_a_tracing_function_set_in_the_middle_of_a_call() -> None:
    """From there on the interpreter runs: nothing that follows the break is hidden."""
    seen = []

    def tracer(frame, event, arg):
        if frame.f_code.co_name == "helper":
            seen.append((event, frame.f_lineno))
        return tracer

    @segue.disable
    def start():
        sys.settrace(tracer)

    def f(x):
        y = torch.sin(x)
        start()
        y = helper(y)
        return torch.cos(y)

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for function in (f, compiled, compiled):
        seen.clear()
        try:
            value = function(X)
        finally:
            sys.settrace(None)
        torch.testing.assert_close(value, torch.cos(torch.tanh(torch.sin(X)) + 1))
        first = helper.__code__.co_firstlineno
        assert seen == [
            ("call", first),
            ("line", first + 1),
            ("line", first + 2),
            ("return", first + 2),
        ]


class Stepper(bdb.Bdb):
    """A debugger that stops at a breakpoint and notes the locals."""

    def __init__(self) -> None:
        super().__init__()
        self.stops: list[tuple[str, int, list[str]]] = []

    def user_line(self, frame) -> None:
        if frame.f_code.co_name in ("work", "helper"):
            self.stops.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
        self.set_step()


def test_a_debugger_steps_through_the_users_lines() -> None:
    expected, got = Stepper(), Stepper()
    expected.runcall(work, X)
    compiled = segue.compile(work, backend=Graphs())
    compiled(X)
    got.runcall(compiled, X)
    assert got.stops == expected.stops
    assert {name for name, _, _ in got.stops} == {"work", "helper"}


def test_breakpoint_stops_in_the_users_frame_with_the_users_locals(monkeypatch) -> None:
    stops = []

    def hook():
        frame = sys._getframe(1)
        values = {k: v for k, v in frame.f_locals.items() if k != "x"}
        stops.append((frame.f_code.co_name, frame.f_lineno, sorted(values), values["y"].clone()))

    def f(x):
        y = torch.sin(x)
        step = 3
        breakpoint()
        z = torch.cos(y) + step
        breakpoint()
        return z

    monkeypatch.setattr(sys, "breakpointhook", hook)
    f(X)
    expected = stops[:]
    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(3):
        stops.clear()
        compiled(X)
        assert [s[:3] for s in stops] == [s[:3] for s in expected]
        torch.testing.assert_close([s[3] for s in stops], [s[3] for s in expected])
    assert graphs.seen("sin") and graphs.seen("cos")


def test_locals_and_frames_seen_by_a_callee() -> None:
    @segue.disable
    def look():
        frame = sys._getframe(1)
        while frame.f_code.co_name != "f":
            frame = frame.f_back
        record((frame.f_lineno, {k: v for k, v in frame.f_locals.items() if k != "x"}))

    def f(x):
        y = torch.sin(x)
        name = "a"
        look()
        y = torch.cos(y)
        del name
        look()
        return y

    assert_same(f, X, sees="sin cos", calls=3)


def test_the_builtin_locals() -> None:
    def f(x, k=2):
        y = torch.sin(x)
        found = sorted(locals())
        segue.graph_break()
        z = torch.cos(y)
        return z, found, sorted(locals())

    assert_same(f, X)


# --- forks ----------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_compiles_and_runs(compiled_before) -> None:
    compiled = segue.compile(loop_with_breaks, backend=Graphs())
    if compiled_before:
        compiled(X, 1)
    child = os.fork()
    if child == 0:
        right = all(compiled(X, k).equal(loop_with_breaks(X, k)) for k in (1, 2, 3))
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    torch.testing.assert_close(compiled(X, 2), loop_with_breaks(X, 2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_by_compiled_code() -> None:
    def f(x):
        y = torch.sin(x)
        child = os.fork()
        y = torch.cos(y)
        return y, child

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(2):
        value, child = compiled(X)
        if child == 0:
            os._exit(0 if value.equal(torch.cos(torch.sin(X))) else 1)
        assert os.waitpid(child, 0)[1] == 0
        torch.testing.assert_close(value, torch.cos(torch.sin(X)))


# --- the budget of a capture ----------------------------------------------------------------------


def endless_generator(x):
    def naturals():
        total = x
        while True:
            yield total
            total = total + 1

    return naturals()


def first_of_an_endless_generator(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    y = torch.sin(x)
    for n in naturals():
        if n > 20_000:
            break
    return torch.cos(y) + n


def a_million_steps(x):
    y = torch.sin(x)
    total = 0
    for i in range(1_000_000):
        total += i
    return torch.cos(y) + total


def many_steps_of_a_while(x):
    y = torch.sin(x)
    n = 0
    while n < 300_000:
        n += 1
    return torch.cos(y) + n


def a_large_comprehension(x):
    y = torch.sin(x)
    return torch.cos(y) + sum([i * i for i in range(300_000)])


@pytest.mark.parametrize(
    "f",
    [first_of_an_endless_generator, a_million_steps, many_steps_of_a_while, a_large_comprehension],
    ids=lambda f: f.__name__,
)
def test_many_steps_do_not_hang_the_first_call(f) -> None:
    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    started = time.perf_counter()
    got = compiled(X)
    assert time.perf_counter() - started < 20
    torch.testing.assert_close(got, f(X))
    torch.testing.assert_close(compiled(X), f(X))
    assert graphs.seen("sin") and graphs.seen("cos")


def test_an_endless_generator_is_handed_out() -> None:
    it = segue.compile(endless_generator, backend=Graphs())(torch.zeros(2))
    assert [int(next(it)[0]) for _ in range(3)] == [0, 1, 2]


def test_an_enormous_function() -> None:
    lines = [f"    x = x + {i}" for i in range(3000)]
    scope = {}
    exec("\n".join(["def f(x):", *lines, "    return x"]), scope)
    with segue.config.patch(capture_budget=5000):
        assert_same(scope["f"], X.double())


@pytest.mark.parametrize("budget", [20, 50, 200, 1000])
def test_past_the_budget_capture_leaves_off_with_a_break(budget) -> None:
    def f(x):
        y = torch.sin(x)
        for i in range(100):
            y = torch.tanh(y) + i
        return torch.cos(y)

    with segue.config.patch(capture_budget=budget):
        graphs = assert_same(f, X)
    assert graphs.count >= 1


def test_the_budget_under_fullgraph() -> None:
    def f(x):
        for _ in range(1000):
            x = torch.tanh(x) + 1
        return x

    with segue.config.patch(capture_budget=500):
        with pytest.raises(segue.errors.GraphBreakError, match="instructions"):
            segue.compile(f, fullgraph=True, backend=Graphs())(X)
    graphs = assert_same(f, X, graphs=1, fullgraph=True)
    assert graphs.seen("tanh") == 1000
