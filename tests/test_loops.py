"""Breaks in loops: all around them is compiled, and an iteration count never shows."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 8)


# --- what breaks ----------------------------------------------------------------------------------


def asked(y: Tensor) -> None:
    segue.graph_break()


def asked_as_in_pytorch(y: Tensor) -> None:
    torch._dynamo.graph_break()


def number_of_a_tensor(y: Tensor) -> None:
    record(y.sum().item() > 1)


def formatted(y: Tensor) -> None:
    record(f"{float(y.mean()):.3f}")


def branch_on_a_tensor(y: Tensor) -> None:
    if y.sum() > 3:
        record("large")


@segue.disable
def disabled(y: Tensor) -> None:
    record(tuple(y.shape))


@torch.compiler.disable
def disabled_as_in_pytorch(y: Tensor) -> None:
    record(tuple(y.shape))


def printed(y: Tensor) -> None:
    print("working on", tuple(y.shape))


BREAKS = [
    asked,
    asked_as_in_pytorch,
    number_of_a_tensor,
    formatted,
    branch_on_a_tensor,
    disabled,
    disabled_as_in_pytorch,
    printed,
]


# --- loops, each with its break given -------------------------------------------------------------


def for_loop(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    for _ in range(3):
        y = torch.tanh(y) + 1
        breaks(y)
        y = torch.sigmoid(y)
    return torch.cos(y)


def while_loop(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    left = 3
    while left > 0:
        y = torch.tanh(y) + 1
        breaks(y)
        y = torch.sigmoid(y)
        left -= 1
    return torch.cos(y)


def with_continue(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    for step in range(5):
        if step % 2:
            record(("odd", step))
            continue
        y = torch.tanh(y) + 1
        breaks(y)
        y = torch.sigmoid(y)
    else:
        record("all")
    return torch.cos(y)


def with_break(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    for step in range(5):
        y = torch.tanh(y) + 1
        breaks(y)
        if step == 2:
            break
        y = torch.sigmoid(y)
    else:
        record("never")
    return torch.cos(y)


def while_else(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    step = 0
    while step < 4:
        step += 1
        if step == 2:
            continue
        y = torch.tanh(y) + 1
        breaks(y)
        y = torch.sigmoid(y)
    else:
        breaks(y)
        record("all")
    return torch.cos(y)


def endless(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    step = 0
    while True:
        y = torch.tanh(y) + 1
        breaks(y)
        if step >= 3:
            return torch.cos(y)
        y = torch.sigmoid(y)
        step += 1


def nested(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    for row in range(3):
        y = torch.tanh(y) + row
        for column in range(2):
            if row == column == 1:
                break
            breaks(y)
            y = torch.sigmoid(y) * column
        else:
            record(row)
            breaks(y)
    return torch.cos(y)


def while_in_for(x: Tensor, breaks: Callable[[Tensor], None]) -> Tensor:
    y = torch.sin(x)
    for row in range(1, 4):
        while row:
            y = torch.tanh(y) + 1
            row -= 1
            breaks(y)
        y = torch.sigmoid(y)
    return torch.cos(y)


LOOPS = [
    for_loop,
    while_loop,
    with_continue,
    with_break,
    while_else,
    endless,
    nested,
    while_in_for,
]


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
def test_everything_around_a_break_in_a_loop_is_compiled(loop, breaks, capsys) -> None:
    """The breaking call is in a helper: it is found by inlining, or has a frame of its own."""
    assert_same(lambda x: loop(x, breaks), X, sees="sin tanh sigmoid cos")


def test_break_in_the_loop_itself_makes_three_graphs() -> None:
    """Before the loop, its body up to the break, and after it; what follows the break in the body has no tensors."""

    def f(x):
        y = torch.sin(x)
        for _ in range(4):
            y = torch.tanh(y)
            segue.graph_break()
        return torch.cos(y)

    graphs = assert_same(f, X, graphs=3)
    assert sorted(map(tuple, graphs.graphs)) == [("cos",), ("sin",), ("tanh",)]
    assert graphs.runs == 2 * (1 + 4 + 1)


def test_loop_without_a_break_is_one_graph() -> None:
    def f(x):
        for step in range(6):
            x = torch.tanh(x) * step
        return x

    graphs = assert_same(f, X, graphs=1)
    assert graphs.seen("tanh") == 6


@pytest.mark.parametrize("at", ["first", "middle", "last"])
def test_break_in_one_iteration_only(at) -> None:
    """A loop breaks in the iteration that the program says, found by capture after it has unrolled others."""
    which = {"first": 0, "middle": 3, "last": 6}[at]

    def f(x):
        y = torch.sin(x)
        for step in range(7):
            y = torch.tanh(y) + 1
            if step == which:
                segue.graph_break()
                record(step)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh cos")


# --- iteration counts -----------------------------------------------------------------------------


def items_of(n: int) -> Iterator[int]:
    yield from range(n)


def over_range(x, n):
    for i in range(n):
        x = torch.tanh(x) + i
        segue.graph_break()
    return torch.cos(x)


def over_enumerate(x, n):
    for i, item in enumerate(range(3, n + 3)):
        x = torch.tanh(x) + i - item
        segue.graph_break()
    return torch.cos(x)


def over_zip(x, n):
    for i, j in zip(range(n), range(n, 0, -1), strict=True):
        x = torch.tanh(x) + i * j
        segue.graph_break()
    return torch.cos(x)


def over_a_dict(x, n):
    for name, number in {str(i): i for i in range(n)}.items():
        x = torch.tanh(x) + number
        segue.graph_break()
        record(name) if number < 3 else None
    return torch.cos(x)


def over_a_list(x, n):
    for number in [2 * i for i in range(n)]:
        x = torch.tanh(x) + number
        segue.graph_break()
    return torch.cos(x)


def over_a_generator(x, n):
    for number in items_of(n):
        x = torch.tanh(x) + number
        segue.graph_break()
    return torch.cos(x)


def over_a_generator_expression(x, n):
    for number in (i + 1 for i in range(n)):
        x = torch.tanh(x) + number
        segue.graph_break()
    return torch.cos(x)


def over_map(x, n):
    for number in map(float, range(n)):
        x = torch.tanh(x) + number
        segue.graph_break()
    return torch.cos(x)


def counted_while(x, n):
    i = 0
    while i < n:
        x = torch.tanh(x) + i
        segue.graph_break()
        i += 1
    return torch.cos(x)


def counted_down(x, n):
    while n:
        x = torch.tanh(x) * n
        segue.graph_break()
        n -= 1
    return torch.cos(x)


def with_an_item_call(x, n):
    total = 0.0
    for _ in range(n):
        x = torch.tanh(x) + 1
        total = max(total, x.sum().item())
    return torch.cos(x), total


def until_a_list_is_full(x, n):
    done = []
    while len(done) < n:
        x = torch.tanh(x) + len(done)
        segue.graph_break()
        done.append(x)
    return torch.cos(x)


def until_a_queue_is_empty(x, n):
    queue = list(range(n))
    while queue:
        number = queue.pop()
        x = torch.tanh(x) + number
        segue.graph_break()
    return torch.cos(x)


def around_an_inner_loop(x, n):
    for i in range(n):
        for j in range(3):
            x = torch.tanh(x) * (i + j)
        segue.graph_break()
    return torch.cos(x)


def with_a_counter_in_a_cell(x, n):
    count = 0

    def step():
        nonlocal count
        count += 1

    while count < n:
        x = torch.tanh(x) + count
        step()
        segue.graph_break()
    return torch.cos(x)


def with_a_counter_in_an_object(x, n):
    state = types.SimpleNamespace(steps=0, seen={"steps": 0})
    for _ in range(n):
        state.steps += 1
        state.seen["steps"] += 2
        x = torch.tanh(x) * state.steps - state.seen["steps"]
        segue.graph_break()
    return torch.cos(x), state.steps, state.seen


def with_a_decaying_rate(x, n):
    rate = 1.0
    for _ in range(n):
        rate *= 0.9
        x = torch.tanh(x) * rate
        segue.graph_break()
    return torch.cos(x), rate


def with_handlers(x, n):
    errors = 0
    for i in range(n):
        try:
            x = torch.tanh(x)
            if i % 2:
                raise KeyError(i)
        except KeyError:
            errors += 1
            segue.graph_break()
        finally:
            x = x + errors
    return torch.cos(x), errors


def with_a_callee_that_breaks(x, n):
    for i in range(n):
        x = stepped(x, i)
    return torch.cos(x)


def stepped(x, i):
    x = torch.tanh(x) * i
    segue.graph_break()
    return torch.sigmoid(x) + i


def without_a_break(x, n):
    for i in range(n):
        x = torch.tanh(x) + i
    return torch.cos(x)


COUNTED = [
    over_range,
    over_enumerate,
    over_zip,
    over_a_dict,
    over_a_list,
    over_a_generator,
    over_a_generator_expression,
    over_map,
    counted_while,
    counted_down,
    with_an_item_call,
    until_a_list_is_full,
    until_a_queue_is_empty,
    around_an_inner_loop,
    with_a_counter_in_a_cell,
    with_a_counter_in_an_object,
    with_a_decaying_rate,
    with_handlers,
    with_a_callee_that_breaks,
]


def graphs_for(loop: Callable[[Tensor, int], Any], n: int) -> Graphs:
    graphs = assert_same(loop, X, n, calls=1)
    assert graphs.seen("tanh") and graphs.seen("cos")
    return graphs


@pytest.mark.parametrize("loop", COUNTED, ids=lambda f: f.__name__)
def test_five_and_five_thousand_items_make_the_same_graphs(loop) -> None:
    few, many = graphs_for(loop, 5), graphs_for(loop, 5000)
    assert few.graphs == many.graphs
    assert many.runs > 5000


@pytest.mark.parametrize("loop", COUNTED, ids=lambda f: f.__name__)
def test_another_count_in_a_later_call_compiles_little_and_settles(loop) -> None:
    graphs = Graphs()
    compiled = segue.compile(loop, backend=graphs)
    for n in (5, 7, 0, 9, 2):
        compiled(X, n)
    settled = graphs.count
    for n in (11, 50, 0, 300, 3):
        torch.testing.assert_close(compiled(X, n), loop(X, n))
    assert graphs.count == settled, graphs.graphs


def test_long_loop_without_a_break_makes_no_graph_of_its_length() -> None:
    few, many = graphs_for(without_a_break, 1000), graphs_for(without_a_break, 5000)
    assert few.graphs == many.graphs
    assert max(map(len, many.graphs)) < 1000


@segue.config.patch(unroll_limit=4)
def test_the_unroll_limit_decides_which_loops_are_unrolled() -> None:
    assert graphs_for(without_a_break, 4).count == 1
    assert graphs_for(without_a_break, 5).count > 1


# --- stack depth ----------------------------------------------------------------------------------


def walked() -> int:
    depth, frame = 0, sys._getframe(1)
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


@segue.disable
def walked_disabled() -> int:
    return walked()


@segue.disable
def inspected() -> int:
    return len(inspect.stack(context=0))


@pytest.mark.parametrize("depth_here", [walked, walked_disabled, inspected], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", ["for", "while", "nested", "data-dependent"])
def test_stack_does_not_deepen(kind, depth_here) -> None:
    """From the second iteration on every depth is that of the plain function, whatever number of iterations."""

    def for_loop(x, depths, n):
        for _ in range(n):
            x = torch.tanh(x)
            depths.append(depth_here())
        return torch.cos(x)

    def while_loop(x, depths, n):
        while len(depths) < n:
            x = torch.tanh(x)
            depths.append(depth_here())
        return torch.cos(x)

    def nested_loop(x, depths, n):
        for _ in range(n // 10):
            x = torch.sin(x)
            for _ in range(10):
                x = torch.tanh(x)
                depths.append(depth_here())
        return torch.cos(x)

    def data_dependent(x, depths, n):
        while x.sum() < n:
            x = x + 1 / 8
            depths.append(depth_here())
        return torch.cos(x)

    loop = {
        "for": for_loop,
        "while": while_loop,
        "nested": nested_loop,
        "data-dependent": data_dependent,
    }[kind]
    n = 50 if depth_here is inspected else 5000
    expected, got = [], []
    graphs = Graphs()
    torch.testing.assert_close(segue.compile(loop, backend=graphs)(X, got, n), loop(X, expected, n))
    assert graphs.count >= 2
    assert len(got) == len(expected) and len(set(expected)) == 1
    assert max(got) - min(got) == 0
    assert abs(got[0] - expected[0]) <= 1


# --- the numbers that a loop delivers -------------------------------------------------------------


def indexing_a_tensor(x, n):
    total = torch.zeros(())
    for i in range(n):
        total = total + x[i % 8] * 2
        segue.graph_break()
    return torch.cos(total)


def slicing_a_tensor(x, n):
    parts = []
    for i in range(n):
        parts.append(torch.tanh(x[: i % 7 + 1]).sum())
        segue.graph_break()
    return torch.stack(parts)


def writing_items(x, n):
    y = torch.zeros(8)
    for i in range(n):
        y[i % 8] = torch.tanh(x[i % 8])
        segue.graph_break()
    return torch.cos(y)


def indexing_a_list(x, n):
    weights = [0.5, 1.5, 2.5, 3.5]
    for i in range(n):
        x = torch.tanh(x) * weights[i % 4]
        segue.graph_break()
    return torch.cos(x)


def filling_a_list(x, n):
    values = [None] * n
    for i in range(n):
        values[i] = torch.tanh(x) * i
        segue.graph_break()
    return torch.cos(values[-1]), len(values)


def deciding_by_the_number(x, n):
    for i in range(n):
        x = torch.tanh(x) if i % 3 == 0 else torch.sigmoid(x)
        segue.graph_break()
    return torch.cos(x)


def powers(x, n):
    for i in range(n):
        x = torch.tanh(x * (i**2 - 3 * i) / (i + 1)) + (i // 2)
        segue.graph_break()
    return torch.cos(x)


def as_a_float(x, n):
    for i in range(n):
        x = torch.tanh(x) * float(i) + i * 0.5
        segue.graph_break()
    return torch.cos(x)


def in_a_text(x, n):
    for i in range(n):
        x = torch.tanh(x)
        segue.graph_break()
        record(f"step {i}")
    return torch.cos(x)


def as_a_running_sum(x, n):
    total = 0
    for i in range(n):
        total += i
        x = torch.tanh(x) + total
        segue.graph_break()
    return torch.cos(x), total


NUMBERS = [
    indexing_a_tensor,
    slicing_a_tensor,
    writing_items,
    indexing_a_list,
    filling_a_list,
    deciding_by_the_number,
    powers,
    as_a_float,
    in_a_text,
    as_a_running_sum,
]


@pytest.mark.parametrize("loop", NUMBERS, ids=lambda f: f.__name__)
def test_numbers_of_a_loop_in_place(loop) -> None:
    assert_same_calls(loop, [(X, 4), (X, 12), (X, 30)])


@pytest.mark.parametrize(
    "loop",
    [indexing_a_tensor, writing_items, powers, as_a_float, in_a_text, as_a_running_sum],
    ids=lambda f: f.__name__,
)
def test_numbers_of_a_loop_make_no_graph_each(loop) -> None:
    few, many = assert_same(loop, X, 5, calls=1), assert_same(loop, X, 200, calls=1)
    assert few.graphs == many.graphs


def reading_a_list(x, n):
    weights = [0.5 * i for i in range(n)]
    for i in range(n):
        x = torch.tanh(x) * weights[i]
        segue.graph_break()
    return torch.cos(x)


def reading_a_dict(x, n):
    weights = {i: 0.5 * i for i in range(n)}
    for i in range(n):
        x = torch.tanh(x) * weights[i]
        segue.graph_break()
    return torch.cos(x)


def reading_tensors_of_a_list(x, n):
    rows = [x + 1] * n
    for i in range(n):
        x = torch.tanh(x) * rows[i]
        segue.graph_break()
    return torch.cos(x)


def filling_a_dict(x, n):
    values = {}
    for i in range(n):
        values[i] = torch.tanh(x) * i
        segue.graph_break()
    return torch.cos(values[n - 1]), len(values)


def appending(x, n):
    values = []
    for i in range(n):
        values.append(torch.tanh(x) * i)
        segue.graph_break()
    return torch.cos(values[-1]), len(values)


@pytest.mark.parametrize(
    "loop",
    [
        reading_a_list,
        reading_a_dict,
        reading_tensors_of_a_list,
        filling_a_list,
        filling_a_dict,
        appending,
    ],
    ids=lambda f: f.__name__,
)
def test_containers_that_a_loop_walks_make_no_graph_for_each_item(loop) -> None:
    few, many = assert_same(loop, X, 5, calls=1), assert_same(loop, X, 200, calls=1)
    assert few.seen("tanh") and few.seen("cos")
    assert few.graphs == many.graphs


def test_the_loop_variable_after_the_loop() -> None:
    def f(x, n):
        for i in range(n):  # noqa: B007
            x = torch.tanh(x)
            segue.graph_break()
        return torch.cos(x) + i, i

    graphs = assert_same_calls(f, [(X, n) for n in (3, 4, 5, 6)], sees="tanh cos")
    assert graphs.count <= 4


def test_a_loop_over_nothing_leaves_its_variable_unbound() -> None:
    def f(x, n):
        y = torch.sin(x)
        for i in range(n):  # noqa: B007
            y = torch.tanh(y)
            segue.graph_break()
        return torch.cos(y) + i

    assert_same_calls(f, [(X, 3), (X, 0), (X, 2)], sees="sin tanh cos")


# --- iterators ------------------------------------------------------------------------------------


def test_an_iterator_is_advanced_exactly_as_far_as_the_loop_goes() -> None:
    def f(x, items):
        for item in items:
            x = torch.tanh(x) * item
            segue.graph_break()
            if item == 3:
                break
        rest = list(items)
        return torch.cos(x), rest

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        value, rest = compiled(X, iter([1, 2, 3, 4, 5]))
        torch.testing.assert_close(value, f(X, iter([1, 2, 3, 4, 5]))[0])
        assert rest == [4, 5]
    assert graphs.seen("tanh") and graphs.seen("cos")


def test_a_generator_interleaves_with_the_loop() -> None:
    def numbers():
        for i in range(3):
            record(("made", i))
            yield i
        record("exhausted")

    def f(x):
        for i in numbers():
            x = torch.tanh(x) + i
            record(("used", i))
            segue.graph_break()
        return torch.cos(x)

    assert_same(f, X, sees="tanh cos")


def test_a_generator_that_raises() -> None:
    def numbers():
        yield 1
        record("raising")
        raise KeyError("no more")

    def f(x):
        y = torch.sin(x)
        for i in numbers():
            y = torch.tanh(y) + i
            segue.graph_break()
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh")


def test_an_iterator_written_as_a_class() -> None:
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            record("iter")
            return self

        def __next__(self):
            if self.n == 0:
                raise StopIteration
            self.n -= 1
            return self.n

    def f(x):
        for i in Countdown(4):
            x = torch.tanh(x) + i
            segue.graph_break()
        return torch.cos(x)

    assert_same(f, X, sees="tanh cos")


def test_a_list_that_changes_while_it_is_looped_over() -> None:
    def f(x, queue):
        for item in queue:
            x = torch.tanh(x) + item
            segue.graph_break()
            if item < 3:
                queue.append(item + 1)
        return torch.cos(x), queue

    assert_same(f, X, [0], sees="tanh cos")


def test_a_dict_that_changes_size_while_it_is_looped_over() -> None:
    def f(x, table):
        for key in table:
            x = torch.tanh(x)
            segue.graph_break()
            table[key + "'"] = 1
        return torch.cos(x)

    assert_same(f, X, {"a": 1}, sees="tanh")


def test_rows_of_a_tensor() -> None:
    def f(x):
        total = torch.zeros(3)
        for row in x:
            total = total + torch.tanh(row)
            segue.graph_break()
        return torch.cos(total)

    assert_same(f, torch.arange(12.0).view(4, 3), sees="tanh cos")


def test_layers_of_a_module() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(4))

    def f(x):
        for layer in layers:
            x = torch.relu(layer(x))
            segue.graph_break()
        return torch.cos(x)

    assert_same(f, X, sees="linear relu cos")


def test_deep_nesting_with_a_break_at_every_level() -> None:
    def f(x):
        for i in range(2):
            x = torch.sin(x)
            segue.graph_break()
            for j in range(2):
                x = torch.tanh(x) + j
                segue.graph_break()
                for k in range(2):
                    x = torch.sigmoid(x) * (i + j + k)
                    segue.graph_break()
                    if k == i:
                        continue
                    record((i, j, k))
        return torch.cos(x)

    assert_same(f, X, sees="sin tanh sigmoid cos")


def test_data_dependent_while() -> None:
    def f(x, limit):
        steps = 0
        while x.sum() < limit:
            x = x + torch.sigmoid(x)
            steps += 1
        return torch.cos(x), steps

    graphs = assert_same_calls(f, [(X, limit) for limit in (5, 50, 500)], sees="sigmoid cos")
    many = assert_same_calls(f, [(X, limit) for limit in (5, 50, 500, 800, 900)])
    assert graphs.graphs == many.graphs
