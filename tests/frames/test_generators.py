"""Generators that the interpreter runs: their bodies are compiled in place."""

from __future__ import annotations

import contextlib
import gc
import inspect
import sys
import threading
import traceback
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import segue
from segue import _core, config
from segue.frames.code import Code
from tests.backends_for_tests import assert_same, watch
from tests.case import record
from tests.graphs import Graphs
from tests.observation import difference

X = torch.linspace(-1, 1, 4)


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    assert _core.current_compiler() is None
    assert _core.hook_depth() == 0


# --- generators, and what is done to them ---------------------------------------------------------


def simple(x):
    y = torch.sin(x)
    record("begun")
    yield y * 2
    z = torch.cos(y)
    record("resumed")
    yield torch.tanh(z) + y


def over_items(x):
    for i, row in enumerate(x):
        y = torch.sin(row) + i
        record(i)
        yield torch.tanh(y)
        record(float(torch.cos(y)) > 0)
    yield x.sum()


def endless(x):
    while True:
        x = torch.sin(x) + 1
        record("step")
        yield x


def echo(x):
    got = yield x
    while got is not None:
        x = torch.sin(x) * got
        record("got")
        got = yield torch.cos(x) + got
    return x.sum()


def with_finally(x):
    try:
        y = torch.sin(x)
        record("in")
        yield y
        yield torch.cos(y)
    finally:
        record(float(torch.tanh(x).sum()))
        x = torch.exp(x)
        record("out")


def catches(x):
    while True:
        try:
            y = torch.sin(x)
            yield y
            record("no exception")
            x = torch.cos(y)
        except ValueError as error:
            record(str(error))
            x = torch.tanh(x)
            yield torch.exp(x), str(error)
        except GeneratorExit:
            record("closing")
            x = torch.exp(x)
            raise
        else:
            x = x + 1


def ignores_exit(x):
    with contextlib.suppress(GeneratorExit):
        yield torch.sin(x)
    record("ignored")
    yield torch.cos(x)


def in_with(x):
    with torch.no_grad():
        y = torch.sin(x)
        record(torch.is_grad_enabled())
    with contextlib.ExitStack() as stack:
        stack.callback(record, "unwound")
        yield torch.cos(y)
        yield torch.tanh(y)


def inner(x, n):
    for i in range(n):
        got = yield torch.sin(x) + i
        if got is not None:
            record("inner got")
            x = torch.cos(x) * got
    return torch.tanh(x)


def delegates(x):
    y = torch.exp(x)
    first = yield from inner(y, 2)
    record("between")
    second = yield from [first, torch.cos(first)]
    third = yield from inner(first * 2, 3)
    return third, second


def raises(x):
    y = torch.sin(x)
    yield y
    record("raising")
    z = torch.cos(y)
    raise KeyError(tuple(z.shape))


def raises_stop(x):
    yield torch.sin(x)
    y = torch.cos(x)
    record("stopping")
    raise StopIteration(y)


def half_built(x):
    yield (torch.sin(x), (yield torch.cos(x)), record("second"), torch.tanh(x), (yield x + 1))
    return {"a": torch.exp(x), "b": [(yield x - 1), torch.sin(x)]}


def cells(x, *more, scale=2, **named):
    total = torch.sin(x)

    def add(y):
        nonlocal total
        total = total + y * scale

    for y in (*more, *named.values()):
        add(torch.cos(y))
        record("added")
        yield total
    del y
    yield total.sum()


def branches(x):
    for row in x:
        if torch.sin(row) > 0:
            y = torch.cos(row)
        else:
            y = torch.tanh(row)
            record("negative")
        yield y * 2


NEXT = ("__next__",)
THROW = ("throw", ValueError, "thrown")
SCRIPTS: list[tuple[Callable[..., Any], list[tuple[Any, ...]]]] = [
    (simple, [NEXT] * 4),
    (over_items, [NEXT] * 7),
    (endless, [NEXT] * 5 + [("close",), NEXT]),
    (endless, [NEXT, THROW, NEXT]),
    (echo, [NEXT, ("send", 2), ("send", 3.5), ("send", None), NEXT]),
    (echo, [("send", 1), NEXT, ("send", X), ("close",)]),
    (with_finally, [NEXT] * 3),
    (with_finally, [NEXT, ("close",), NEXT]),
    (with_finally, [NEXT, NEXT, THROW, NEXT]),
    (with_finally, [THROW, NEXT]),
    (catches, [NEXT, NEXT, THROW, NEXT, THROW, THROW, ("close",)]),
    (ignores_exit, [NEXT, ("close",), NEXT]),
    (in_with, [NEXT, NEXT, NEXT]),
    (in_with, [NEXT, THROW]),
    (delegates, [NEXT] * 8),
    (delegates, [NEXT, ("send", 2), NEXT, THROW, NEXT]),
    (delegates, [NEXT, NEXT, NEXT, NEXT, NEXT, ("send", 3), ("close",)]),
    (raises, [NEXT] * 3),
    (raises_stop, [NEXT] * 3),
    (half_built, [NEXT, ("send", 1), ("send", 2), NEXT, ("send", 3)]),
    (cells, [NEXT] * 3),
    (branches, [NEXT] * 5),
]
script = pytest.mark.parametrize(
    ("make", "actions"),
    SCRIPTS,
    ids=[f"{make.__name__}-{n}" for n, (make, _) in enumerate(SCRIPTS)],
)


def play(make, actions, x):
    """Make a generator and do things to it; what came of each."""
    it = make(x)
    segue.graph_break()
    results: list[Any] = []
    for name, *args in actions:
        try:
            results.append(getattr(it, name)(*args))
        except BaseException as error:
            lines = [(f.name, f.lineno) for f in traceback.extract_tb(error.__traceback__)[1:]]
            results.append((type(error), error.args, lines, repr(error.__context__)))
    return results, torch.sin(x)


def same(compiled: Any, make: Any, actions: Any, n: int = 1) -> None:
    for _ in range(n):
        expected, got = (
            watch(play, (make, actions, X.clone())),
            watch(compiled, (make, actions, X.clone())),
        )
        assert difference(expected, got) is None


@script
def test_results_events_and_exceptions(make: Any, actions: Any) -> None:
    graphs = Graphs()
    same(segue.compile(play, backend=graphs), make, actions, 3)


@script
def test_a_break_at_any_instruction(make: Any, actions: Any) -> None:
    code = make.__code__
    for index in range(len(Code.of(code))):
        with config.patch(break_at=lambda at, i, k=index: at.original is code and i == k):
            same(segue.compile(play, backend="eager"), make, actions, 2)


@script
def test_breaks_at_all_instructions(make: Any, actions: Any) -> None:
    with config.patch(break_at=lambda at, i: at.original.co_filename == __file__, recompile_limit=64):
        same(segue.compile(play, backend="eager"), make, actions, 2)


# --- what is compiled -----------------------------------------------------------------------------


def items(x, n):
    for i in range(n):
        y = torch.sin(x) + i
        segue.graph_break()
        yield torch.tanh(y)
        x = torch.cos(x)
        segue.graph_break()


def consume_in_place(x, n):
    total = torch.exp(x)
    for y in items(x, n):
        total = total + torch.sigmoid(y)
    return total


def consume_in_expression(x, n):
    parts = [torch.sigmoid(y) for y in (torch.tanh(z) for z in items(x, n))]
    return torch.stack(parts).sum(0)


def consume_by_builtin(x, n):
    return torch.exp(x) + sum((segue.graph_break(), torch.sigmoid(y))[1] for y in items(x, n))


CONSUMERS = [consume_in_place, consume_in_expression, consume_by_builtin]


@pytest.mark.parametrize("consume", CONSUMERS, ids=lambda f: f.__name__)
def test_the_body_around_a_break_is_compiled(consume: Any) -> None:
    assert_same(consume, X, 4, sees="sin tanh cos sigmoid")


@pytest.mark.parametrize("consume", CONSUMERS, ids=lambda f: f.__name__)
def test_the_number_of_graphs_does_not_depend_on_the_number_of_items(consume: Any) -> None:
    few, many = assert_same(consume, X, 8), assert_same(consume, X, 300)
    assert few.count == many.count


def test_a_long_generator_is_compiled_in_its_first_use() -> None:
    """It is discovered break by break, while it runs: later items run in graphs all through."""
    graphs = Graphs()
    compiled = segue.compile(consume_in_place, backend=graphs)
    compiled(X, 100)
    before = graphs.count
    assert graphs.runs >= 4 * 95
    compiled(X, 100)
    assert graphs.count == before


def test_an_argument_that_is_a_generator_expression_with_a_break_inside() -> None:
    def stacked(x):
        y = torch.sin(x)
        z = torch.stack([*((torch.cos(y) * i, segue.graph_break())[0] for i in range(3))])
        return torch.tanh(z)

    assert_same(stacked, X, sees="sin cos stack tanh")


def test_a_generator_function_used_as_a_context_manager() -> None:
    @contextlib.contextmanager
    def scaled(x):
        y = torch.sin(x)
        record("enter")
        try:
            yield torch.cos(y)
        finally:
            record(float(torch.tanh(y).sum()))

    def use(x):
        with scaled(x) as y:
            z = torch.exp(y)
            segue.graph_break()
            z = torch.sigmoid(z)
        return z

    assert_same(use, X, sees="sin cos exp sigmoid")


def walk(tree):
    for node in tree:
        if isinstance(node, list):
            yield from walk(node)
        else:
            y = torch.sin(node)
            record("leaf")
            yield torch.cos(y)


def test_recursive_generators() -> None:
    def total(tree):
        parts = []
        for part in walk(tree):
            parts.append(torch.tanh(part))
            segue.graph_break()
        return sum(parts)

    tree = [X, [X + 1, [[X + 2], X + 3]], [[[X]]], [], X]
    assert_same(total, tree, sees="sin cos tanh")


def test_generators_in_turns() -> None:
    def alternate(x):
        a, b = endless(x), endless(x + 1)
        segue.graph_break()
        return [torch.exp(next(it)) for _ in range(5) for it in (a, b, a)]

    assert_same(alternate, X, sees="sin exp")


def test_a_deep_chain_of_generators() -> None:
    def shifted(source):
        for x in source:
            segue.graph_break()
            yield torch.sin(x)

    def chain(x, depth):
        source = iter([x, x + 1])
        for _ in range(depth):
            source = shifted(source)
        segue.graph_break()
        return list(source)

    assert_same(chain, X, 30, sees="sin")


def test_generators_without_tensors_stay_generators() -> None:
    def numbers(n):
        for i in range(n):
            if i % 3:
                record(i)
            yield i * i

    def total(x, n):
        segue.graph_break()
        return torch.sin(x) * sum(numbers(n))

    assert_same(total, X, 200, graphs=2, sees="sin mul")


# --- generators that outlive the call, or come from elsewhere --------------------------------------


def test_a_generator_that_is_kept_goes_on_uncompiled() -> None:
    def start(x):
        it = items(x, 4)
        segue.graph_break()
        first = next(it)
        return it, torch.sin(first)

    graphs = Graphs()
    compiled = segue.compile(start, backend=graphs)
    for _ in range(3):
        (mine, _), (kept, _) = start(X), compiled(X)
        runs = graphs.runs
        assert all(torch.equal(a, b) for a, b in zip(mine, kept, strict=True))
        assert graphs.runs == runs


def test_a_returned_generator_that_has_not_begun() -> None:
    def lazily(x):
        return items(torch.exp(x), 3)

    compiled = segue.compile(lazily, backend="eager")
    assert isinstance(compiled(X), types.GeneratorType)
    for a, b in zip(lazily(X), compiled(X), strict=True):
        assert torch.equal(a, b)


def test_a_generator_from_outside() -> None:
    def consume(it):
        return [torch.sigmoid(y) for y in it]

    compiled = segue.compile(consume, backend="eager")
    for _ in range(2):
        it, other = items(X, 3), items(X, 3)
        next(it), next(other)
        got, expected = compiled(it), consume(other)
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_a_compiled_generator_function_gives_a_generator() -> None:
    compiled = segue.compile(items, backend="eager")
    assert all(torch.equal(a, b) for a, b in zip(compiled(X, 3), items(X, 3), strict=True))


def test_a_generator_of_one_compiler_under_another() -> None:
    def start(x):
        it = items(x, 5)
        segue.graph_break()
        next(it)
        return it

    def consume(it):
        return [torch.sigmoid(y) for y in it]

    first, second = Graphs(), Graphs()
    make, use = segue.compile(start, backend=first), segue.compile(consume, backend=second)
    for _ in range(3):
        runs = first.runs
        it = make(X)
        assert first.runs > runs
        runs, expected = first.runs, consume(start(X))
        assert all(torch.equal(a, b) for a, b in zip(use(it), expected, strict=True))
        assert first.runs == runs
    assert not second.seen("tanh")


def test_a_generator_resumed_by_another_thread() -> None:
    def in_thread(function):
        box: list[Any] = []
        thread = threading.Thread(target=lambda: box.append(function()))
        thread.start()
        thread.join()
        return box[0]

    def hand_over(x):
        it = items(x, 6)
        segue.graph_break()
        return [torch.exp(y) for y in (next(it), in_thread(it.__next__), next(it), *in_thread(lambda: list(it)))]

    assert_same(hand_over, X, sees="sin tanh exp")


def test_two_threads_run_the_same_generator_function() -> None:
    compiled = segue.compile(consume_in_place, backend="eager")
    expected = consume_in_place(X, 50)
    got: list[Any] = []
    threads = [threading.Thread(target=lambda: got.append(compiled(X, 50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 4 and all(torch.equal(expected, g) for g in got)


def test_reset_while_a_generator_is_suspended() -> None:
    def start(x):
        it = items(x, 5)
        segue.graph_break()
        return it, next(it)

    def finish(it):
        segue.graph_break()
        return list(it)

    make, use = segue.compile(start, backend="eager"), segue.compile(finish, backend="eager")
    (it, _), (mine, _) = make(X), start(X)
    segue.reset()
    assert all(torch.equal(a, b) for a, b in zip(use(it), mine, strict=True))


# --- life and death -------------------------------------------------------------------------------


def test_a_dropped_generator_runs_its_finally_block_and_is_freed() -> None:
    class Value:
        pass

    freed: list[str] = []

    def guarded(x, value):
        try:
            y = torch.sin(x)
            segue.graph_break()
            yield y
            yield torch.cos(y)
        finally:
            freed.append("finally")

    def drop(x):
        value = Value()
        weakref.finalize(value, freed.append, "value")
        it = guarded(x, value)
        segue.graph_break()
        first = next(it)
        del it, value
        segue.graph_break()
        return first, list(freed)

    compiled = segue.compile(drop, backend="eager")
    for _ in range(3):
        freed.clear()
        assert compiled(X)[1] == ["finally", "value"]


def test_a_generator_in_a_cycle_is_collected() -> None:
    ended: list[int] = []

    def cyclic(x, holder):
        try:
            y = torch.sin(x)
            segue.graph_break()
            yield y
        finally:
            ended.append(len(holder))

    def make(x):
        holder: list[Any] = []
        holder.append(cyclic(x, holder))
        segue.graph_break()
        return next(holder[0])

    compiled = segue.compile(make, backend="eager")
    for _ in range(3):
        ended.clear()
        compiled(X)
        gc.collect()
        assert ended == [1]


def test_versions_do_not_pile_up() -> None:
    def make(x):
        it = items(x, 3)
        segue.graph_break()
        return list(it)

    compiled = segue.compile(make, backend="eager")

    def growth() -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(50):
            compiled(X)
        gc.collect()
        return sys.getallocatedblocks() - before

    growth()
    assert min(growth() for _ in range(5)) < 50


def test_a_compiler_goes_while_its_generator_lives() -> None:
    def make(x):
        it = items(x, 3)
        segue.graph_break()
        next(it)
        return it

    compiled = segue.compile(make, backend="eager")
    it = compiled(X)
    gone = weakref.ref(compiled.compiler)
    del compiled
    gc.collect()
    assert gone() is None
    expected = items(X, 3)
    next(expected)
    assert all(torch.equal(a, b) for a, b in zip(it, expected, strict=True))


# --- what can be seen of a generator ---------------------------------------------------------------


def about(it: Any) -> Any:
    frame = it.gi_frame
    return (
        it.__name__,
        it.__qualname__,
        it.gi_code.co_name,
        it.gi_code.co_filename,
        inspect.isgenerator(it),
        inspect.getgeneratorstate(it),
        None if frame is None else frame.f_lineno,
        None if frame is None else frame.f_code is it.gi_code,
        it.gi_running,
        type(it.gi_yieldfrom),
    )


def test_generators_look_the_same() -> None:
    def look(x):
        it = delegates(x)
        segue.graph_break()
        seen = [about(it)]
        for _ in it:
            seen.append(about(it))
        seen.append(about(it))
        return seen

    plain = look(X)
    compiled = segue.compile(look, backend="eager")
    for _ in range(3):
        assert compiled(X) == plain


def test_the_exception_handled_by_the_consumer_is_not_the_generators() -> None:
    def nested(x):
        record(repr(sys.exception()))
        yield torch.sin(x)
        try:
            y = torch.cos(x)
            raise ValueError(1)
        except ValueError as error:
            record((repr(sys.exception()), repr(error.__context__)))
            yield torch.tanh(y)
        x = torch.exp(x)
        record(repr(sys.exception()))
        yield x
        record(repr(sys.exception()))

    def consume(x):
        out = []
        it = nested(x)
        segue.graph_break()
        try:
            raise KeyError("consumer")
        except KeyError:
            out += [next(it), next(it)]
            record(repr(sys.exception()))
        record(repr(sys.exception()))
        for y in it:
            out.append(torch.sigmoid(y))
            record(repr(sys.exception()))
        return out

    assert_same(consume, X, calls=4)


def test_a_generator_runs_plain_while_it_is_traced() -> None:
    lines: list[int] = []

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if frame.f_code.co_name == "items" and event == "line":
            lines.append(frame.f_lineno)
        return trace

    def make(x):
        it = items(x, 2)
        segue.graph_break()
        next(it)
        return it

    def traced(it: Any) -> list[int]:
        lines.clear()
        sys.settrace(trace)
        try:
            list(it)
        finally:
            sys.settrace(None)
        return list(lines)

    compiled = segue.compile(make, backend="eager")
    for _ in range(3):
        assert traced(compiled(X)) == traced(make(X))


def test_a_generator_that_is_already_running() -> None:
    def reenters(x):
        y = torch.sin(x)
        record("in")
        try:
            next(box[0])
        except ValueError as error:
            record(str(error))
        yield torch.cos(y)

    box: list[Any] = []

    def consume(x):
        box[:] = [reenters(x)]
        segue.graph_break()
        return list(box[0])

    assert_same(consume, X, sees="cos")


def test_a_generator_cannot_be_made_from_what_is_no_function() -> None:
    with pytest.raises(TypeError, match="needs a generator function"):
        _core.make_generator(3)
    assert list(_core.make_generator(lambda n: (yield n), 3)) == [3]
    with pytest.raises(TypeError, match="missing 1 required"):
        _core.make_generator(lambda n: (yield n))
