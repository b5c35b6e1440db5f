"""A break several calls down: one segment leaves all the frames in between, the next runs on through their ends."""

import contextlib
import signal
import sys
import threading

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


def inner(x):
    y = torch.tanh(x)
    segue.graph_break()
    return torch.sigmoid(y)


def middle(x, scale=2.0, *, shift=0.0):
    before = torch.exp(x)
    return inner(before) * scale + before + shift


def outer(x):
    first = torch.sin(x)
    return torch.cos(middle(first, shift=1.0) - first)


def test_one_break_makes_two_graphs_and_each_runs_once_a_call() -> None:
    graphs = assert_same(outer, X, calls=3, graphs=2)
    assert graphs.runs == 6
    assert graphs.graphs[0][:2] == ["sin", "exp"]
    assert graphs.graphs[1][0] == "sigmoid"
    assert graphs.graphs[1][-1] == "cos"


def test_the_break_is_reported_with_all_frames() -> None:
    compiled = segue.compile(outer, backend=Graphs())
    compiled(X)
    (event,) = compiled.compiler.log.of_kind("break")
    assert [place.function for place in event.stack] == ["outer", "middle", "inner"]


def test_two_breaks_make_three_graphs() -> None:
    def f(x):
        return torch.relu(outer(x) + inner(x))

    assert_same(f, X, calls=3, graphs=3)


def test_a_callee_called_many_times_has_segments_for_each_call() -> None:
    def f(x):
        x = inner(x) + inner(torch.sin(x))
        x = inner(x) + inner(torch.cos(x))
        return inner(inner(inner(inner(inner(inner(inner(x)))))))

    graphs = assert_same(f, X, calls=3, graphs=12)
    assert graphs.runs == 3 * 12


def test_more_calls_than_contexts_are_still_right() -> None:
    lines = "\n".join("    x = inner(x)" for _ in range(40))
    namespace = {"inner": inner}
    exec(f"def f(x):\n{lines}\n    return x", namespace)
    with torch.no_grad():
        assert_same(namespace["f"], X, calls=2)


@pytest.mark.parametrize("n", [1, 3, 20, 60])
def test_a_recursion_with_a_break_at_each_level(n) -> None:
    def descend(x, n):
        x = torch.tanh(x)
        segue.graph_break()
        return torch.sigmoid(x) if n == 0 else torch.cos(descend(torch.sin(x), n - 1))

    def f(x):
        return torch.exp(descend(x, n))

    assert_same(f, X, calls=2, sees="tanh sin cos exp sigmoid")


# --- what the frames in between do ----------------------------------------------------------------


class Manager:
    def __enter__(self):
        record("enter")
        return 2.0

    def __exit__(self, kind, value, traceback):
        record(("exit", kind and kind.__name__))


def in_with(x):
    with Manager() as factor:
        y = inner(torch.sin(x)) * factor
    return torch.cos(y)


def in_try(x):
    try:
        y = inner(torch.sin(x))
    except ValueError:
        record("not here")
        raise
    finally:
        record("finally")
    return torch.cos(y)


def in_a_handler(x):
    try:
        raise KeyError("first")
    except KeyError as e:
        y = inner(torch.sin(x))
        record((str(sys.exc_info()[1]), str(e)))
    record(sys.exc_info()[1] is None)
    return torch.cos(y)


def in_a_loop(x):
    for i in range(3):
        x = inner(torch.sin(x)) + i
    return torch.cos(x)


def in_a_loop_of_a_callee(x):
    def repeated(y, n):
        for _ in range(n):
            y = inner(y) + 1
        else:
            y = torch.exp(-y)
        return y

    return torch.cos(repeated(torch.sin(x), 3) + repeated(x, 2))


def in_a_while(x):
    n = 0
    while n < 4:
        n += 1
        if n == 2:
            continue
        x = inner(torch.sin(x))
    return torch.cos(x)


def in_a_comprehension(x):
    return torch.stack([torch.cos(inner(y)) for y in (torch.sin(x), x)])


def half_way_in_an_expression(x):
    return torch.cat([torch.sin(x), inner(x), torch.cos(x), inner(torch.exp(x))])


def with_cells(x):
    total = torch.zeros(())

    def add(y):
        nonlocal total
        total = total + inner(y).sum()
        return lambda: total * 2

    doubled = add(torch.sin(x))
    doubled = add(torch.cos(x))
    return doubled() + total


def with_keywords_and_stars(x):
    def callee(a, /, b, *rest, c=1, **more):
        y = inner(a + b)
        record((rest and len(rest), c, sorted(more)))
        return y * c + sum(rest) + more["d"]

    return torch.cos(callee(torch.sin(x), x, x, x, c=3, d=x)) + callee(*(x, x), **{"d": x})


class Tool:
    def __init__(self):
        self.calls = 0

    def run(self, y):
        self.calls += 1
        y = inner(y)
        self.calls += 10
        return y

    def __call__(self, y):
        return self.run(y) + 1


def by_a_method(x):
    tool = Tool()
    y = torch.cos(tool(torch.sin(x)))
    record(tool.calls)
    return y


class Base:
    def run(self, y):
        return inner(y)


class Derived(Base):
    def run(self, y):
        return super().run(torch.sin(y)) + 1


def by_super(x):
    return torch.cos(Derived().run(x))


def by_a_decorated_function(x):
    def twice(f):
        def wrapper(*args, **kwargs):
            return f(*args, **kwargs) + f(*args, **kwargs)

        return wrapper

    @twice
    def work(y, k):
        return inner(y) * k

    return torch.cos(work(torch.sin(x), k=3))


def by_a_generator(x):
    def produce(y):
        yield torch.sin(y)
        yield inner(y)
        yield torch.cos(y)

    return torch.stack(list(produce(x)))


def by_a_context_manager(x):
    @contextlib.contextmanager
    def noted(y):
        record("before")
        yield inner(y)
        record("after")

    with noted(torch.sin(x)) as y:
        z = inner(y)
    return torch.cos(z)


def that_returns_in_finally(x):
    def callee(y):
        try:
            return inner(y)
        finally:
            record("leaving")

    return torch.cos(callee(torch.sin(x)))


def under_no_grad(x):
    def callee(y):
        with torch.no_grad():
            z = inner(y)
            record(torch.is_grad_enabled())
        record(torch.is_grad_enabled())
        return z

    return torch.cos(callee(torch.sin(x)))


FRAMES = [
    in_with, in_try, in_a_handler, in_a_loop, in_a_loop_of_a_callee, in_a_while, in_a_comprehension,
    half_way_in_an_expression, with_cells, with_keywords_and_stars, by_a_method, by_super, by_a_decorated_function,
    by_a_generator, by_a_context_manager, that_returns_in_finally, under_no_grad,
]  # fmt: skip


@pytest.mark.parametrize("f", FRAMES, ids=lambda f: f.__name__)
def test_the_frames_in_between_go_on_as_in_eager(f) -> None:
    assert_same(f, X, calls=3, sees="tanh sigmoid")


@pytest.mark.parametrize("f", FRAMES, ids=lambda f: f.__name__)
def test_and_when_called_by_another_function(f) -> None:
    assert_same(lambda x: torch.relu(f(torch.abs(x))), X, calls=3, sees="tanh sigmoid relu")


@pytest.mark.parametrize("f", FRAMES, ids=lambda f: f.__name__)
def test_later_calls_compile_nothing_new(f) -> None:
    graphs = assert_same(f, X, calls=2)
    count = graphs.count
    assert assert_same(f, X, calls=5).count == count


# --- exceptions -----------------------------------------------------------------------------------


def fails_after_the_break(x):
    def failing(y):
        y = inner(y)
        raise ValueError("after the break")

    def between(y):
        return failing(torch.exp(y)) + 1

    return torch.cos(between(torch.sin(x)))


def fails_at_the_break(x):
    def failing(y):
        y = torch.tanh(y)
        record(int("no number"))
        return torch.sigmoid(y)

    return torch.cos(failing(torch.sin(x)))


def caught_by_a_caller(x):
    y = torch.sin(x)
    try:
        y = fails_after_the_break(y)
    except ValueError as e:
        record((str(e), e.__traceback__.tb_next is not None))
        y = torch.exp(y)
    return torch.cos(y)


def caught_two_frames_up_with_a_cause(x):
    def between(y):
        try:
            return fails_after_the_break(y)
        finally:
            record("passing")

    try:
        return between(torch.sin(x))
    except ValueError as e:
        raise RuntimeError("outside") from e


def fails_in_the_graph_after_the_break(x):
    def failing(y, index):
        y = inner(y)
        return y[index]

    try:
        return failing(torch.sin(x), torch.tensor([100]))
    except IndexError as e:
        record(type(e).__name__)
    return torch.cos(x)


FAILING = [
    fails_after_the_break, fails_at_the_break, caught_by_a_caller, caught_two_frames_up_with_a_cause,
    fails_in_the_graph_after_the_break,
]  # fmt: skip


@pytest.mark.parametrize("f", FAILING, ids=lambda f: f.__name__)
def test_exceptions_and_their_tracebacks_are_eagers(f) -> None:
    assert_same(f, X, calls=3)


def test_a_call_that_reaches_several_functions_in_turn() -> None:
    """What only the interpreter can make is given back to it in the function that makes it."""

    def makes_an_exception(x):
        y = torch.sin(x)
        for _ in range(3):
            y = y * 2 + 1
        error = ValueError("made")
        error.detail = y
        record(error)
        return y

    def short(x):
        return torch.cos(x)

    def f(x):
        for callee in (makes_an_exception, short, makes_an_exception):
            x = callee(x)
        return x

    assert_same(f, X, calls=3, sees="sin cos")


def test_what_a_signal_handler_raises_is_raised_inside_the_frames_that_were_entered() -> None:
    """After a segment has run nothing is served before the interpreter stands where the segment left off."""

    class Interrupt(BaseException): ...

    def handler(*_):
        raise Interrupt

    def innermost(y):
        segue.graph_break()
        return torch.sigmoid(y)

    def between(y, counts):
        try:
            counts["entered"] += 1
            return innermost(innermost(torch.exp(y)))
        finally:
            counts["left"] += 1

    def forever(x, counts):
        while True:
            x = between(torch.sin(x), counts)

    compiled = segue.compile(forever, backend="eager")
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for i in range(150):
            counts = {"entered": 0, "left": 0}
            with pytest.raises(Interrupt):
                signal.setitimer(signal.ITIMER_REAL, 3 if i == 0 else 0.002 + i * 0.0000137)
                compiled(X, counts)
            assert counts["entered"] == counts["left"]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- markers, changes, threads --------------------------------------------------------------------


def test_a_callee_that_asks_to_be_skipped_is_skipped_alone() -> None:
    def skipped(x):
        x = torch.tanh(x)
        segue.skip_frame()
        return torch.sigmoid(x)

    def between(x):
        return skipped(torch.exp(x)) + 1

    assert_same(lambda x: torch.cos(between(torch.sin(x))), X, calls=3, sees="sin exp cos")


def test_a_disabled_function_several_calls_down() -> None:
    @segue.disable
    def disabled(x):
        return torch.tanh(x)

    def between(x):
        return disabled(torch.exp(x)) + 1

    assert_same(lambda x: torch.cos(between(torch.sin(x))), X, calls=3, graphs=2, never="tanh")


def test_shapes_that_change_in_a_resumed_frame() -> None:
    calls = [(torch.randn(n),) for n in (3, 4, 3, 5, 4)]
    assert_same_calls(outer, calls, sees="sigmoid cos")


def test_another_function_in_the_place_of_the_callee() -> None:
    def f(x, callee):
        return torch.cos(callee(torch.sin(x)))

    def other(x):
        y = torch.abs(x)
        segue.graph_break()
        return torch.relu(y)

    assert_same_calls(f, [(X, inner), (X, other), (X, inner), (X, other)], sees="sigmoid relu")


def test_modules_inside_modules() -> None:
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            x = self.linear(x)
            segue.graph_break()
            return torch.relu(x)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.block(torch.sin(x)))

    model = Model()
    assert_same(lambda x: model(x), torch.randn(3, 4), calls=3, graphs=2)


def test_gradients_through_both_graphs() -> None:
    def f(x):
        outer(x).sum().backward()
        return x.grad

    assert_same(f, X.clone().requires_grad_(), calls=2)


def test_several_threads_at_once() -> None:
    compiled = segue.compile(in_a_loop_of_a_callee, backend=Graphs())
    expected, wrong = in_a_loop_of_a_callee(X), []

    def work() -> None:
        for _ in range(50):
            if not torch.equal(compiled(X), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_python_stack_does_not_grow_with_iterations() -> None:
    def f(x, n):
        for _ in range(n):
            x = middle(x) * 0.01
        return x

    compiled = segue.compile(f, backend=Graphs())
    for n in (1, 3, 3000):
        assert torch.equal(compiled(X, n), f(X, n))
