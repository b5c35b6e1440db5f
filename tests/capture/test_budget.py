"""The budget of one capture: past it the segment ends with a break that says so, and another goes on from there."""

from __future__ import annotations

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


def long_loop(x):
    y = torch.sin(x)
    total = 0
    for number in range(100):
        total += number * 2
    return torch.cos(y) + total


def long_callee(x):
    y = torch.sin(x)
    return torch.cos(y) + add_up(100)


def add_up(n):
    total = 0
    for number in range(n):
        total += number * 2
    return total


def long_comprehension(x):
    y = torch.sin(x)
    return torch.cos(y) + sum([number * 2 for number in range(100)])


def long_while(x):
    y = torch.sin(x)
    number = 0
    while number < 100:
        number += 1
        record(number) if number % 50 == 0 else None
    return torch.cos(y) + number


def long_generator(x):
    y = torch.sin(x)
    return torch.cos(y) + sum(number * 2 for number in range(100))


LONG = [long_loop, long_callee, long_comprehension, long_while, long_generator]


@pytest.mark.parametrize("f", LONG, ids=lambda f: f.__name__)
@pytest.mark.parametrize("budget", [1, 3, 10, 100, 150])
def test_whatever_the_budget_the_result_is_eagers(f, budget) -> None:
    with segue.config.patch(capture_budget=budget):
        assert_same(f, X, calls=3)


@segue.config.patch(capture_budget=100)
@pytest.mark.parametrize("f", LONG, ids=lambda f: f.__name__)
def test_what_is_around_the_long_part_is_compiled(f) -> None:
    graphs = assert_same(f, X, sees="sin cos")
    assert graphs.runs >= 4


def test_a_function_within_the_budget_is_one_graph() -> None:
    assert_same(long_loop, X, graphs=1)
    with segue.config.patch(capture_budget=2000):
        assert_same(long_loop, X, graphs=1)


@segue.config.patch(capture_budget=100)
def test_the_break_names_the_budget_and_both_frames() -> None:
    compiled = segue.compile(long_callee, backend=Graphs())
    compiled(X)
    event = next(e for e in compiled.compiler.log.of_kind("break") if e.id == "budget")
    assert "100 instructions" in event.reason
    assert "config.capture_budget" in event.hint
    assert [place.function for place in event.stack] == ["long_callee", "add_up"]
    assert event.stack[0].line == long_callee.__code__.co_firstlineno + 2
    assert event.line in range(add_up.__code__.co_firstlineno + 2, add_up.__code__.co_firstlineno + 4)


@segue.config.patch(capture_budget=300)
def test_each_capture_has_a_budget_of_its_own() -> None:
    """Two parts that each fit, with a break between them."""

    def f(x):
        y = torch.sin(x)
        for number in range(10):
            y = y + number
        segue.graph_break()
        for number in range(10):
            y = y * number
        return torch.cos(y)

    compiled = segue.compile(f, backend=Graphs())
    torch.testing.assert_close(compiled(X), f(X))
    assert [e.id for e in compiled.compiler.log.of_kind("break")] == ["requested"]


@segue.config.patch(capture_budget=100)
def test_effects_before_the_budget_ends_happen_once() -> None:
    def f(x, log):
        y = torch.sin(x)
        log.append("before")
        for number in range(100):
            log.append(number)
        record(len(log))
        return torch.cos(y)

    assert_same(f, X, [], calls=3, sees="sin cos")
