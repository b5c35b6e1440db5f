"""`list.sort`: what the list is meanwhile, and when it fails."""

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)


class Keyed:
    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        if 9 in (self.number, other.number):
            raise ZeroDivisionError
        return self.number < other.number


def sorted_in_place(items, x):
    items.sort()
    return x + 1


def sorted_by_a_key_that_looks(items, x):
    seen = []
    items.sort(key=lambda item: (seen.append(len(items)), item.number)[1])
    return x + 1, seen


def sorted_by_a_key_that_fails(items, x):
    try:
        items.sort(key=lambda item: 1 / (item.number - 9))
    except ZeroDivisionError:
        x = x * 2
    return x + 1


def sorted_by_a_key_that_writes(items, x):
    try:
        items.sort(key=lambda item: (items.append(item), items.pop(), item.number)[2])
    except ValueError:
        x = x * 2
    return x + 1


@pytest.mark.parametrize(
    "function",
    [sorted_in_place, sorted_by_a_key_that_looks, sorted_by_a_key_that_fails, sorted_by_a_key_that_writes],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("numbers", [(3, 1, 2), (5, 4, 9, 1), (), (1,)], ids=str)
def test_a_list_is_empty_while_it_is_sorted(function, numbers) -> None:
    compiled = segue.compile(function, backend=Graphs())
    for _ in range(2):
        assert (
            difference(
                observe(function, ([Keyed(n) for n in numbers], X)), observe(compiled, ([Keyed(n) for n in numbers], X))
            )
            is None
        )
