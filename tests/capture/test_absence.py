"""Places that hold something at one call and nothing at the next, read by code that does not look at what they hold."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


class Slotted:
    __slots__ = ("place",)

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)


def closure(**given):
    if given:
        place = given["place"]

    def read(x):
        place  # noqa: B018
        return x + 1

    return read


def deleter(**given):
    if given:
        place = given["place"]

    def delete(x):
        nonlocal place
        del place
        return x + 1

    return delete


def contains(x, table):
    return x + 1 if "place" in table else x - 1


def unused_item(x, table):
    table["place"]
    return x + 1


def popped(x, table):
    table.pop("place")
    return x + 1


def written_and_deleted(x, table):
    table["place"] = x
    y = table["place"] + 1
    del table["place"]
    return y


def attribute_written_and_deleted(x, owner):
    owner.place = x
    y = owner.place + 1
    del owner.place
    return y


def has_attribute(x, owner):
    return x + 1 if hasattr(owner, "place") else x - 1


def calls(x, function):
    return function(x)


def unused_local(x, table):
    if table:
        place = 1
    segue.graph_break()
    place  # noqa: B018
    return x + 1


def deleted_local(x, table):
    if table:
        place = 1
    segue.graph_break()
    del place
    return x + 1


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("function", "make"),
    [
        (contains, dict),
        (unused_item, dict),
        (popped, dict),
        (written_and_deleted, dict),
        (attribute_written_and_deleted, Plain),
        (has_attribute, Plain),
        (has_attribute, Slotted),
        (calls, closure),
        (calls, deleter),
        (unused_local, dict),
        (deleted_local, dict),
    ],
    ids=lambda p: p.__name__,
)
def test_a_place_that_is_empty_at_other_calls(function: Callable[..., Any], make: Any, first: bool) -> None:
    compiled = segue.compile(function, backend=Graphs())
    for filled in (first, not first, first, not first):
        given = {"place": 5} if filled else {}
        assert difference(observe(function, (X, make(**given))), observe(compiled, (X, make(**given)))) is None


@pytest.mark.parametrize("index", [1, -2])
def test_an_unused_item_of_a_list(index: int) -> None:
    def function(x, items):
        items[index]
        return x + 1

    compiled = segue.compile(function, backend=Graphs())
    for items in ([1, 2], [1], [], [1, 2, 3]):
        assert difference(observe(function, (X, items)), observe(compiled, (X, items))) is None


def test_an_unused_name_of_the_builtins(monkeypatch) -> None:
    def function(x):
        unused_builtin  # noqa: B018, F821
        return x + 1

    compiled = segue.compile(function, backend=Graphs())
    monkeypatch.setattr(builtins, "unused_builtin", 1, raising=False)
    assert torch.equal(compiled(X), X + 1)
    monkeypatch.delattr(builtins, "unused_builtin")
    with pytest.raises(NameError, match="unused_builtin"):
        compiled(X)


def with_defaults():
    def function(x, a=1, *, b=2):
        return x + a + b

    return function


def test_defaults_that_come_and_go() -> None:
    def function(x, inner):
        try:
            return inner(x)
        except TypeError:
            return x - 1

    compiled = segue.compile(function, backend=Graphs())
    for defaults, keyword in (
        ((1,), {"b": 2}),
        ((1,), {}),
        ((1,), None),
        ((1,), {"b": 3}),
        ((), {"b": 2}),
        (None, {"b": 2}),
        ((1, 2), {"b": 2}),
    ):
        inner = with_defaults()
        inner.__defaults__, inner.__kwdefaults__ = defaults, keyword
        assert torch.equal(compiled(X, inner), function(X, inner))
