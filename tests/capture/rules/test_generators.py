"""Generators, and iterators that come from outside."""

import itertools

import pytest
import torch

import segue
from tests.capturing import assert_captured
from tests.graphs import Graphs


def echo(notes):
    received = None
    while True:
        try:
            received = yield received
            notes.append(received)
        except ValueError as error:
            notes.append(str(error))
            received = "caught"
        except GeneratorExit:
            notes.append("closed")
            raise


def outer(notes):
    result = yield from echo(notes)
    return result


@pytest.mark.parametrize("make", [echo, outer], ids=lambda f: f.__name__)
def test_send_throw_close(make):
    def function(x):
        notes = []
        generator = make(notes)
        next(generator)
        got = [generator.send(x * 2), generator.throw(ValueError("thrown")), generator.send(3)]
        generator.close()
        generator.close()
        return got[0] + 1, got[1:], notes

    # what is sent is a tensor, which `assert_captured` compares in the results
    assert_captured(function, lambda: torch.ones(2))


def test_the_result_of_a_generator_that_ends_when_something_is_thrown():
    def inner():
        try:
            yield 1
        except ValueError:
            return "result"

    def delegating():
        got = yield from inner()
        yield got

    def function(x):
        generator = delegating()
        next(generator)
        return x + 1, generator.throw(ValueError())

    assert_captured(function, lambda: torch.ones(2))


def test_a_generator_handles_its_own_exceptions():
    def handling():
        try:
            raise KeyError("inside")
        except KeyError:
            yield 1
            try:
                raise
            except KeyError as again:
                yield repr(again)

    def function(x):
        try:
            raise ValueError("outside")
        except ValueError:
            generator = handling()
            got = [next(generator)]
            try:
                raise
            except ValueError as error:
                got.append(repr(error))
            got.append(next(generator))
            got += list(generator)
        return x + 1, got

    assert_captured(function, lambda: torch.ones(2))


def test_attributes():
    def function(x):
        generator = echo([])
        states = [generator.__name__, generator.__qualname__, generator.gi_running, generator.gi_suspended]
        return x + 1, states

    assert_captured(function, lambda: torch.ones(2))


class Rows:
    def __init__(self, n):
        self.n = n

    def __getitem__(self, index):
        if index >= self.n:
            raise IndexError
        return index * 2


def test_iteration_by_items_and_by_calls():
    def function(x):
        items = [1, 2, 0, 5]
        by_calls = list(iter(lambda: items.pop(0), 0))
        return x + sum(Rows(3)), list(Rows(2)), list(zip(Rows(2), Rows(3))), by_calls, items  # noqa: B905

    assert_captured(function, lambda: torch.ones(2))


ITERATORS = {
    "list": lambda: iter([1, 2, 3, 4, 5]),
    "tuple": lambda: iter((1, 2, 3, 4, 5)),
    "range": lambda: iter(range(1, 6)),
    "str": lambda: iter("12345"),
    "dict": lambda: iter(dict.fromkeys(range(1, 6))),
    "values": lambda: iter({k: k for k in range(1, 6)}.values()),
    "reversed": lambda: reversed([5, 4, 3, 2, 1]),
    "count": lambda: itertools.count(1),
    "enumerate": lambda: enumerate([6, 7, 8, 9]),
    "zip": lambda: zip([1, 2, 3], iter([4, 5, 6]), strict=False),
    "map": lambda: map(abs, [-1, 2, -3]),
    "filter": lambda: filter(None, [0, 1, 0, 2, 3]),
    "short": lambda: iter([1]),
    "tensors": lambda: iter([torch.ones(2), torch.zeros(2), torch.full((2,), 2.0)]),
}


def plain(value):
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_of_the_program_is_advanced(kind):
    def function(x, iterator):
        return x + 1, next(iterator), next(iterator, "end")

    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    ours, theirs = ITERATORS[kind](), ITERATORS[kind]()
    for _ in range(2):
        results = []
        for call, iterator in ((function, theirs), (compiled, ours)):
            try:
                results.append(plain(call(torch.ones(2), iterator)))
            except StopIteration:
                results.append("stop")
        assert results[0] == results[1]
    assert plain(tuple(itertools.islice(ours, 10))) == plain(tuple(itertools.islice(theirs, 10)))
    assert {e.id for e in compiled.compiler.log.of_kind("break", "failure")} <= {"raise"}


def test_a_position_is_not_guarded():
    def function(x, numbers):
        next(numbers)
        return x + next(numbers)

    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    numbers = iter(range(0, 1000, 7))
    results = [compiled(torch.zeros(()), numbers).item() for _ in range(6)]
    assert results == [7.0, 21.0, 35.0, 49.0, 63.0, 77.0]
    assert graphs.count <= 2


def test_a_list_that_grows_under_its_iterator():
    def function(x, items, iterator):
        first = next(iterator)
        items.append(first + 10)
        return x + 1, list(iterator)

    for call in (function, segue.compile(function, backend=Graphs())):
        items = [1, 2, 3]
        assert call(torch.ones(2), items, iter(items))[1] == [2, 3, 11]


def test_one_iterator_given_twice():
    def function(x, a, b):
        return x + 1, next(a), next(b), next(a)

    compiled = segue.compile(function, backend=Graphs())
    same = iter(range(9))
    assert compiled(torch.ones(2), iter([1, 2, 3]), iter([7, 8, 9]))[1:] == (1, 7, 2)
    assert compiled(torch.ones(2), same, same)[1:] == (0, 1, 2)
    assert next(same) == 3


def test_a_loop_over_an_iterator_of_the_program():
    def function(x, iterator):
        for k in iterator:
            x = x * k + 1
            if k == 3:
                break
        return x

    compiled = segue.compile(function, backend=Graphs())
    ours, theirs = iter([1, 2, 3, 4]), iter([1, 2, 3, 4])
    assert torch.equal(compiled(torch.ones(2), ours), function(torch.ones(2), theirs))
    assert list(ours) == list(theirs) == [4]


def test_a_generator_that_returns_none_of_the_program_stops_without_a_value():
    class Settings:
        result = None

    def function(x, settings):
        def generator():
            yield x + 1
            return settings.result

        items = generator()
        try:
            return next(items), next(items)
        except StopIteration as stop:
            return stop.args, stop.value

    x, settings = torch.ones(2), Settings()
    assert segue.compile(function)(x, settings) == function(x, settings)
    settings.result = "done"
    assert segue.compile(function)(x, settings) == function(x, settings)
