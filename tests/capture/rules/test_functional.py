"""functools, operator, itertools: callables and iterators that are made, passed around, called and left half-way."""

from __future__ import annotations

import functools
import itertools
import operator
import os

import pytest
import torch

import segue
from tests.capturing import assert_captured
from tests.graphs import Graphs


def matrix():
    return torch.randn(4, 4)


GETTER = operator.itemgetter(1, 0)


def test_getters_that_are_made_passed_and_returned():
    def f(x):
        get = operator.itemgetter("a")
        return [get({"a": x + k}) for k in range(2)], sorted([(2, "a"), (1, "b")], key=operator.itemgetter(0)), get

    compiled = segue.compile(f, backend="eager", fullgraph=True)
    _, ordered, get = compiled(torch.ones(2))
    assert ordered == [(1, "b"), (2, "a")] and get({"a": 5}) == 5 and type(get) is operator.itemgetter


def test_methods_called_by_name_with_keywords():
    assert_captured(
        lambda x: operator.methodcaller("sum", dim=0)(x) + operator.attrgetter("ndim", "T.ndim")(x)[1], matrix
    )


def test_sorting_compares_in_the_order_of_python():
    class Item:
        def __init__(self, key, notes):
            self.key, self.notes = key, notes

        def __lt__(self, other):
            self.notes.append((self.key, other.key))
            return self.key < other.key

    def f(x, keys, reverse):
        notes = []
        ordered = sorted([Item(k, notes) for k in keys], reverse=reverse)
        return x + 1, [i.key for i in ordered], notes

    for keys in ([3, 1, 2, 1], [1, 2, 3], [4, 3, 2, 1, 5, 0], [2], []):
        for reverse in (False, True):
            compiled = segue.compile(f, backend="eager", fullgraph=True)
            assert compiled(torch.ones(2), keys, reverse)[1:] == f(torch.ones(2), keys, reverse)[1:]


def test_cmp_to_key():
    def compare(a, b):
        return len(a) - len(b)

    def f(x):
        key = functools.cmp_to_key(compare)
        return x + 1, sorted(["ccc", "a", "bb", "d"], key=key), max(["a", "ccc"], key=key), key("a") < key("bb")

    assert_captured(f, matrix)


@functools.lru_cache
def table(n, scale=1):
    return (n * scale, n + 1)


def test_a_cached_function_counts_its_hits():
    def f(x):
        return x * table(4)[0] + table(4, scale=2)[1]

    compiled = segue.compile(f, backend="eager", fullgraph=True)
    table.cache_clear()
    for _ in range(3):
        f(torch.ones(2))
    expected = table.cache_info()
    table.cache_clear()
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
    table.cache_clear()
    for _ in range(3):
        compiled(torch.ones(2))
    assert table.cache_info() == expected


FACTOR = 2


@functools.lru_cache
def scaled(n):
    return n * FACTOR


def test_what_a_cache_holds_outlives_what_it_was_made_from():
    global FACTOR
    compiled = segue.compile(lambda x: x * scaled(3), backend="eager")
    scaled.cache_clear()
    FACTOR = 2
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
    FACTOR = 5
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 6.0))
    scaled.cache_clear()
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 15.0))


def test_functions_that_capture_makes_have_attributes():
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args):
            wrapper.calls += 1
            return function(*args)

        wrapper.calls = 0
        return wrapper

    def f(x):
        def run(y: int = 3, *, k: str = "k") -> float:
            "doc"
            return y + 1

        wrapped = decorate(run)
        wrapped(x)
        return (
            wrapped(x), wrapped.calls, wrapped.__name__, wrapped.__doc__, wrapped.__wrapped__ is run, run.__defaults__,
            wrapped.__annotations__, run.__closure__, wrapped.__module__, wrapped,
        )  # fmt: skip

    compiled = segue.compile(f, backend="eager", fullgraph=True)
    expected, got = f(torch.ones(2)), compiled(torch.ones(2))
    assert got[1:-1] == expected[1:-1] and torch.equal(got[0], expected[0])
    assert vars(got[-1]).keys() == vars(expected[-1]).keys() and got[-1].__doc__ == "doc"
    assert got[-1].__annotations__ == expected[-1].__annotations__ and got[-1](1) == 2


def test_attributes_of_a_function_of_the_program():
    def run(y):
        run.calls += 1
        return y + 1

    run.calls = 0
    compiled = segue.compile(lambda x: run(run(x)), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0)) and run.calls == 2


ITERATORS = {
    "compress": lambda: itertools.compress("abcd", [1, 0, 1, 1]),
    "filterfalse": lambda: itertools.filterfalse(lambda k: k % 2, range(6)),
    "permutations": lambda: itertools.permutations([1, 2, 3], 2),
    "permutations of all": lambda: itertools.permutations("abc"),
    "too long permutations": lambda: itertools.permutations("ab", 3),
    "combinations with replacement": lambda: itertools.combinations_with_replacement("abc", 2),
    "groupby": lambda: ((k, list(g)) for k, g in itertools.groupby([1, 1, 2, 3, 3, 1])),
    "groupby, groups skipped": lambda: (k for k, _ in itertools.groupby("aabbba")),
    "groupby, a group in part": lambda: ((k, next(g)) for k, g in itertools.groupby([2, 4, 1, 3, 6], lambda n: n % 2)),
    "tee": lambda: zip(*itertools.tee([1, 2, 3], 3), strict=True),
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators(name):
    make = ITERATORS[name]

    def f(x):
        iterator = make()
        first = next(iterator, None)
        return x + 1, first, list(iterator), list(make())

    assert_captured(f, matrix)


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators_across_a_break(name):
    make = ITERATORS[name]

    def f(x):
        iterator = make()
        first = next(iterator, None)
        segue.graph_break()
        return x + 1, first, list(iterator)

    assert segue.compile(f, backend="eager")(torch.ones(2))[1:] == f(torch.ones(2))[1:]


def test_branches_of_a_tee_share_what_they_read():
    def f(x):
        read = []

        def source():
            for k in range(3):
                read.append(k)
                yield x + k

        a, b = itertools.tee(source())
        return next(a) + next(a), len(read), next(b), list(b), list(a), read

    assert_captured(f, lambda: torch.ones(()))


def test_binary_operators_of_unlike_operands():
    class Scale:
        def __init__(self, k):
            self.k = k

        def __radd__(self, other):
            return other * self.k if not isinstance(other, list) else [*other, self.k]

        def __rmul__(self, other):
            return NotImplemented

        def __divmod__(self, other):
            return (self.k, other)

        def __round__(self, digits=None):
            return (self.k, digits)

        def __abs__(self):
            return self.k + 1

    def f(x):
        refused = []
        for operation in (lambda: 2 * Scale(3), lambda: "a" * Scale(3), lambda: [1] + (2,), lambda: 2 ** Scale(1)):
            try:
                operation()
            except TypeError as error:
                refused.append(str(error))
        s = Scale(4)
        return 3 + s, [1] + s, divmod(s, 2), round(s), round(s, 1), abs(s), x + 1, refused

    assert_captured(f, matrix)


def test_a_break_inside_a_cached_function_leaves_its_result_in_the_cache():
    calls = []

    @functools.lru_cache
    def doubled(number):
        calls.append(number)
        segue.graph_break()
        return number * 2

    def function(x, number):
        return x * doubled(number) + doubled(1)

    compiled = segue.compile(function, backend="eager")
    for number in (0, 1, 2, 0):
        assert torch.equal(compiled(torch.ones(2), number), torch.ones(2) * (number * 2) + 2)
    assert calls == [0, 1, 2]
    assert doubled.cache_info()[:2] == (5, 3)


X = torch.linspace(0, 1, 4)


@functools.lru_cache
def read_settings(name="plain"):
    """Capture cannot see into it."""
    with open(os.devnull) as file:
        return (name, file.read())


@functools.cache
def read_settings_of_one(name):
    return read_settings.__wrapped__(name)[0]


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("cached", [read_settings, read_settings_of_one], ids=lambda f: f.__name__)
def test_what_a_cache_holds_is_known_and_hits_are_counted(cached, warm) -> None:
    def f(x):
        return torch.cos(torch.sin(x) * len(cached("name")))

    cached.cache_clear()
    if warm:
        cached("name")
    graphs, counts = Graphs(), cached.cache_info()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(3):
        assert torch.equal(compiled(X), f(X))
    assert graphs.graphs[-1] == ["sin", "mul", "cos"], "one graph as soon as the cache holds the value"
    now = cached.cache_info()
    assert (now.hits + now.misses) - (counts.hits + counts.misses) == 6
    cached.cache_clear()
    assert torch.equal(compiled(X), f(X))
    assert cached.cache_info().misses == 1
