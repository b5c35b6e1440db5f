"""`copy.deepcopy` of tensors that share memory: so do their copies."""

import copy

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import difference, observe


def both(x):
    return [x, x[0]]


def nested(x):
    return [x, [x, {"view": x.view(-1)}]]


def view_first(x):
    return [x[1], x, x.t()]


def apart(x):
    return [x, x + 1, x.clone()]


@pytest.mark.parametrize("make", [both, nested, view_first, apart], ids=lambda f: f.__name__)
@pytest.mark.parametrize("where", ["inside", "arguments"])
def test_copies_share_memory_as_the_tensors_do(make, where) -> None:
    def function(items, x):
        copies = copy.deepcopy(make(x) if where == "inside" else items)
        copies[0].mul_(3)
        return copies, x + 1

    compiled = segue.compile(function, backend=Graphs())
    for number in range(1, 4):
        seen = []
        for f in (function, compiled):
            x = torch.full((2, 2), float(number))
            seen.append(observe(f, (make(x), x)))
        assert difference(*seen) is None


@pytest.mark.parametrize("first", [True, False])
def test_tensors_that_share_memory_at_some_calls(first) -> None:
    def function(a, b, x):
        copies = copy.deepcopy([a, b])
        copies[0].mul_(3)
        return copies, x + 1

    compiled = segue.compile(function, backend=Graphs())
    for shared in (first, not first, first):
        seen = []
        for f in (function, compiled):
            x = torch.ones(2, 2)
            seen.append(observe(f, (x, x.view(2, 2) if shared else torch.ones(2, 2), x)))
        assert difference(*seen) is None
