"""Numbers, texts and lengths that change from call to call: Python's own results to the last bit, in few graphs."""

from __future__ import annotations

import collections
import re
import string

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)
MORE = 4
"""Graphs that a function without branches may take: two special values, one to notice a change, one for all."""


# --- arithmetic -----------------------------------------------------------------------------------


def division(x, n):
    return x + n // 3, n // -3, n % 5, n % -5, divmod(n, 7), n / 4


def powers_and_shifts(x, n):
    return x * n, n**2, (n * n) << 3, n * n >> 1, -n, +n, abs(n), ~n


def bits(x, n):
    return torch.sin(x) + n, n & 6, n | 9, n ^ 5


def large(x, n):
    return torch.sin(x), n * 10**30, (n + 2**63) % 1_000_003, n**5


def mixed_with_floats(x, n):
    return x * n, n * 0.1, n + 0.1 + 0.2, 1e300 * n * 1e10, n / 3 * 3, float(n), round(n / 7, 2)


def in_place(x, n):
    total = n
    total += 3
    total *= n
    total -= 1
    return torch.sin(x) * total, total


INTEGERS = [2, 3, -7, 10**12, 40, -1, 17, 5]


@pytest.mark.parametrize(
    "f", [division, powers_and_shifts, bits, large, mixed_with_floats, in_place], ids=lambda f: f.__name__
)
def test_arithmetic_of_an_int_argument(f) -> None:
    graphs = assert_same_calls(f, [(X, n) for n in INTEGERS])
    assert graphs.count <= MORE
    assert graphs.runs == len(INTEGERS)


def of_a_float(x, v):
    return x * v, v * v - v, v // 0.3, v % 0.7, -v, abs(v), v == v, int(v * 100)


def to_an_int(x, v):
    return torch.sin(x), int(v), round(v), str(v), f"{v:.3f}", f"{v!r:>10}"


@pytest.mark.parametrize("f", [of_a_float, to_an_int], ids=lambda f: f.__name__)
def test_arithmetic_of_a_float_argument(f) -> None:
    values = [0.5, 0.1, -0.0, 0.0, 1e-300, 123456.789, -2.5, 3.5, 1.0]
    assert_same_calls(f, [(X, v) for v in values])


@pytest.mark.parametrize("special", [float("nan"), float("inf"), float("-inf")])
def test_floats_that_are_no_numbers(special) -> None:
    def f(x, v):
        return x * v, v * 2, v > 0, v == v

    assert_same_calls(f, [(X, v) for v in (1.5, 2.5, special, 3.5, special)])


def test_the_type_of_a_number_is_noticed() -> None:
    def f(x, n):
        return x * n, n + 1, type(n).__name__, n / 2

    assert_same_calls(f, [(X, n) for n in (2, 3, 2.0, True, 4, 5.0, False, 6, torch.tensor(3))])


@pytest.mark.parametrize("divisor", [0, 0.0])
def test_an_error_of_arithmetic_is_pythons(divisor) -> None:
    def f(x, n, d):
        y = torch.sin(x)
        try:
            return y * (n / d)
        except ZeroDivisionError as error:
            record(str(error))
            return torch.cos(y)

    def leaves(x, n, d):
        return torch.sin(x) * (n // d)

    calls = [(X, 6, 2), (X, 7, 3), (X, 7, divisor), (X, 8, 4), (X, 9, divisor)]
    assert_same_calls(f, calls)
    assert_same_calls(leaves, calls)


def test_branches_on_a_changing_number() -> None:
    """A graph for each side, whatever the number."""

    def f(x, n):
        if n % 3 == 0:
            return torch.sin(x) * n
        if n > 20:
            return torch.cos(x) * n
        return torch.tanh(x) * n

    graphs = assert_same_calls(f, [(X, n) for n in range(2, 40)])
    assert graphs.count <= 6
    assert graphs.runs == 38


def test_a_number_that_decides_a_shape() -> None:
    def f(x, n):
        return torch.sin(x)[:n], x.repeat(n), torch.zeros(n) + 1

    assert_same_calls(f, [(X, n) for n in (2, 3, 4, 2, 0, 1)])


def test_sums_of_two_changing_numbers() -> None:
    def f(x, a, b):
        return x * (a + b), a * b, a - b, a < b, max(a, b), min(a, b)

    calls = [(X, a, b) for a, b in ((2, 3), (3, 2), (5, 5), (2, 9), (7, 3), (4, 11), (6, 2))]
    assert_same_calls(f, calls)


# --- texts ----------------------------------------------------------------------------------------


def concatenated(x, s):
    return torch.sin(x), "name: " + s + "!", s * 2, f"<{s:>6}|{s!r}>"


def looked_at(x, s):
    return torch.sin(x), s.upper(), s.split("."), s.startswith("b"), s in "a.b", s[0], s[-1:], sorted(s)


def deciding(x, s):
    return torch.sin(x) if s.startswith("layer") else torch.cos(x), s


def as_a_key(x, s):
    table = {"a.b": 2.0}
    table[s] = 3.0
    return torch.sin(x) * table["a.b"], table


@pytest.mark.parametrize("f", [concatenated, looked_at, deciding, as_a_key], ids=lambda f: f.__name__)
def test_a_text_argument(f) -> None:
    texts = ["a.b", "b", "layer.1", "layer.2", "ä", "x" * 300, "a.b"]
    assert_same_calls(f, [(X, s) for s in texts])


def test_texts_that_only_name_something_make_no_graph_each() -> None:
    def f(x, name, log):
        log.append(f"seen {name}")
        return torch.sin(x)

    graphs = assert_same_calls(f, [(X, name, []) for name in string.ascii_letters])
    assert graphs.count <= 2
    assert graphs.runs == len(string.ascii_letters)


# --- lengths --------------------------------------------------------------------------------------


def length_of(x, items):
    return x * len(items), len(items) // 2, [None] * 3


def truth_of(x, items):
    return torch.sin(x) if items else torch.cos(x)


CONTAINERS = {
    "list": lambda n: list(range(n)),
    "dict": lambda n: dict.fromkeys(range(n)),
    "deque": lambda n: collections.deque(range(n)),
    "set": lambda n: set(range(n)),
    "tuple": lambda n: tuple(range(n)),
    "str": lambda n: "s" * n,
    "range": range,
}


@pytest.mark.parametrize("f", [length_of, truth_of], ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_the_length_of_a_container(f, kind) -> None:
    assert_same_calls(f, [(X, CONTAINERS[kind](n)) for n in (0, 1, 5, 2, 0, 7, 3)])


def test_the_truth_of_a_list_needs_no_length() -> None:
    graphs = assert_same_calls(truth_of, [(X, [0] * n) for n in (3, 5, 0, 8, 1, 0, 100)])
    assert graphs.count == 2


def test_the_length_of_a_list_becomes_symbolic() -> None:
    graphs = assert_same_calls(length_of, [(X, [0] * n) for n in range(2, 30)])
    assert graphs.count <= MORE
    assert graphs.runs == 28


# --- queues and loops -----------------------------------------------------------------------------


def popped_from_the_end(x, queue):
    while queue:
        x = torch.tanh(x) + queue.pop()
        segue.graph_break()
    return torch.cos(x)


def grown_while_it_is_emptied(x, queue):
    steps = 0
    while queue:
        number = queue.pop()
        if number % 5 == 4:
            queue.append(number - 1)
        x = torch.tanh(x) + number
        steps += 1
        segue.graph_break()
    return torch.cos(x), steps


def until_a_length(x, queue):
    while len(queue) > 2:
        x = torch.tanh(x) + queue.pop()
        segue.graph_break()
    return torch.cos(x), queue


QUEUES = [popped_from_the_end, grown_while_it_is_emptied, until_a_length]


@pytest.mark.parametrize("f", QUEUES, ids=lambda f: f.__name__)
def test_a_queue_that_the_caller_gives(f) -> None:
    """As many graphs for a long queue as for a short one, and no more for another length."""

    def run(lengths) -> Graphs:
        graphs = Graphs()
        compiled = segue.compile(f, backend=graphs)
        for n in lengths:
            expected, got = (observe(function, (X, [i % 7 for i in range(n)])) for function in (f, compiled))
            assert difference(expected, got) is None
        return graphs

    few, many = run([6]), run([300])
    assert many.count <= few.count + 1
    assert many.runs >= 298
    settled = run([5, 7, 0, 9, 2])
    assert run([5, 7, 0, 9, 2, 11, 50, 300]).count == settled.count


def reading_backwards(x, n):
    rows = [x + number for number in range(n)]
    for i in range(n):
        x = torch.tanh(x) * rows[-1 - i]
        segue.graph_break()
    return torch.cos(x)


def two_lists(x, n):
    names, rows = [f"row {i}" for i in range(n)], [float(i) for i in range(n)]
    for i in range(n):
        x = torch.tanh(x) * rows[i]
        segue.graph_break()
        record(names[i])
    return torch.cos(x)


def a_tuple_of_pairs(x, n):
    pairs = tuple((i, i / 2) for i in range(n))
    for i in range(n):
        x = torch.tanh(x) * pairs[i][0] + pairs[i][1]
        segue.graph_break()
    return torch.cos(x)


def a_table_of_lists(x, n):
    table = {"weights": [i / 3 for i in range(n)]}
    for i in range(n):
        x = torch.tanh(x) * table["weights"][i]
        segue.graph_break()
    return torch.cos(x)


def past_the_end(x, n):
    weights = [0.5] * (n // 2)
    for i in range(n):
        try:
            x = torch.tanh(x) * weights[i]
        except IndexError:
            x = torch.sigmoid(x)
        segue.graph_break()
    return torch.cos(x)


@pytest.mark.parametrize(
    "loop",
    [reading_backwards, two_lists, a_tuple_of_pairs, a_table_of_lists, past_the_end],
    ids=lambda f: f.__name__,
)
def test_a_container_indexed_by_the_number_of_a_loop(loop) -> None:
    few, many = assert_same(loop, X, 6, calls=1), assert_same(loop, X, 60, calls=1)
    assert few.count == many.count
    assert_same_calls(loop, [(X, n) for n in (6, 9, 0, 4)])


# --- names of inputs ------------------------------------------------------------------------------


def placeholders(compiled_graphs) -> list[list[str]]:
    return [[n.target for n in gm.graph.nodes if n.op == "placeholder"] for gm in compiled_graphs]


class Modules:
    """A backend that keeps the graph modules."""

    def __init__(self) -> None:
        self.kept: list[torch.fx.GraphModule] = []

    def __call__(self, module, examples):
        self.kept.append(module)
        return module.forward


def sums_of_long_expressions(x, n):
    return x * (n + 1) + x * (n - 1) + x * (n * 2 + 1) + x * (n * 2 - 1) + x * (n * 3 // 2 - 1)


def attributes_that_look_alike(x, n):
    table = {"a b": x, "a_b": x + n, "a-b": x * n, "1": x, "": x}
    return table["a b"] + table["a_b"] * table["a-b"] + table["1"] - table[""]


def recursion(x, n):
    return x * n if n < 2 else recursion(x, n - 1) + recursion(x, n - 2)


@pytest.mark.parametrize(
    "f", [sums_of_long_expressions, attributes_that_look_alike, recursion], ids=lambda f: f.__name__
)
def test_names_of_graph_inputs_are_unique(f) -> None:
    backend = Modules()
    compiled = segue.compile(f, backend=backend)
    for n in (0, 1, 5, 8, 3, 6):
        torch.testing.assert_close(compiled(X, n), f(X, n), rtol=0, atol=0)
    for names in placeholders(backend.kept):
        assert len(set(names)) == len(names)
        assert all(re.fullmatch(r"[A-Za-z_]\w*", name) for name in names)


def test_names_of_inputs_that_come_from_keys() -> None:
    table = {"a b": X, "a_b": X + 1, "a-b": X + 2, "1": X + 3, "": X + 4, "def": X + 5, "self": X + 6, 1: X + 7}

    def f(table):
        return sum(table.values())

    backend = Modules()
    torch.testing.assert_close(segue.compile(f, backend=backend)(table), f(table), rtol=0, atol=0)
    (names,) = placeholders(backend.kept)
    assert len(set(names)) == len(table)
