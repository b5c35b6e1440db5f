"""Sources: places print as a user writes them, compare by where they lead, and fetch what they name."""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import pytest

from segue import _core
from segue.frames.state import FunctionState
from segue.guards import source as sources
from segue.guards.program import Program
from segue.guards.source import (
    Attr,
    CellContents,
    Child,
    Closure,
    Computed,
    DictItem,
    Globals,
    InstanceDict,
    Item,
    Local,
    Pinned,
    Running,
    Slot,
    Source,
    Stack,
)
from tests.core_support import Scripted

NOT_MATCHED = object()
A_GLOBAL = {"rate": [1.5, 2.5]}


class Slotted:
    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 3


MODEL = Local(0, "model")
PRINTED = {
    "local": (MODEL, "model"),
    "stack": (Stack(2), "stack[2]"),
    "closure": (Closure(0, "rate"), "closure.rate"),
    "cell contents": (CellContents(Closure(0, "rate")), "closure.rate.cell_contents"),
    "globals": (Globals(), "globals()"),
    "running function": (Running(), "function"),
    "globals of a caller": (Attr(Running(1), "__globals__"), "function.__globals__"),
    "global": (DictItem(Globals(), "rate"), "rate"),
    "attribute": (Attr(MODEL, "rate"), "model.rate"),
    "instance attribute": (DictItem(InstanceDict(MODEL), "rate"), "model.rate"),
    "instance dict": (InstanceDict(MODEL), "model.__dict__"),
    "slot": (Slot(MODEL, "size", Slotted), "model.size"),
    "item": (Item(Attr(MODEL, "layers"), 3), "model.layers[3]"),
    "dict item": (DictItem(MODEL, "a b"), "model['a b']"),
    "number as a key": (DictItem(MODEL, 1), "model[1]"),
    "number as a key of an instance dict": (DictItem(InstanceDict(MODEL), 1), "model.__dict__[1]"),
    "computed": (Computed(MODEL, operator.add, (MODEL, Pinned(2))), "add(model, <int>)"),
    "nested": (Computed(MODEL, len, (Item(DictItem(Globals(), "rows"), 0),)), "len(rows[0])"),
    "pinned class": (Pinned(Slotted), "Slotted"),
    "pinned object": (Pinned([1]), "<list>"),
    "pinned function": (Attr(Pinned(len), "__name__"), "len.__name__"),
}


@pytest.mark.parametrize("kind", PRINTED)
def test_a_source_prints_as_a_path(kind) -> None:
    source, text = PRINTED[kind]
    assert str(source) == text


def test_every_kind_of_source_is_printed_here() -> None:
    kinds = {k for k in vars(sources).values() if isinstance(k, type) and issubclass(k, Source)} - {Source, Child}
    assert {type(source) for source, _ in PRINTED.values()} == kinds


# --- equality -------------------------------------------------------------------------------------


def test_the_same_path_is_the_same_source() -> None:
    one, other = (DictItem(InstanceDict(Item(Local(0, "x"), 1)), "rate") for _ in range(2))
    assert one == other and hash(one) == hash(other)
    assert len({one, other}) == 1


def test_other_paths_are_other_sources() -> None:
    paths = [
        Local(0, "x"),
        Local(1, "x"),
        Stack(0),
        Closure(0, "x"),
        Attr(Local(0, "x"), "a"),
        Attr(Local(1, "x"), "a"),
        Attr(Local(0, "x"), "b"),
        Item(Local(0, "x"), 0),
        DictItem(Local(0, "x"), "a"),
        InstanceDict(Local(0, "x")),
        Computed(Local(0, "x"), len, (Local(0, "x"),)),
        Computed(Local(0, "x"), bool, (Local(0, "x"),)),
    ]
    assert len(set(paths)) == len(paths)


def test_pinned_objects_are_compared_by_identity() -> None:
    """Equal objects may be of different types, and unhashable objects can be pinned."""
    one, other = [1], [1]
    assert Pinned(one) == Pinned(one) and Pinned(one) != Pinned(other)
    assert len({Pinned(1), Pinned(True), Pinned(1.0), Pinned(one), Pinned(other)}) == 5
    assert Pinned(one) != one


def test_a_long_path() -> None:
    """The hash of each part is computed once, so that a path of n parts costs n."""
    path: Source = Local(0, "node")
    for _ in range(200):
        path = Attr(path, "next")
        hash(path)
    assert str(path).startswith("node.next.next")
    assert path == path
    assert hash(path) == hash(Attr(path.parent, "next"))


def test_a_source_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        MODEL.slot = 1  # type: ignore[misc]


# --- what is fetched ------------------------------------------------------------------------------


def fetched(source: Source, argument: Any) -> Any:
    """What the register program of a segment finds at a source when a function is called with an argument."""
    closed = ["in a cell"]

    def plain(model: Any) -> Any:
        return NOT_MATCHED, closed

    program = Program()
    register = program.fetch(source)
    compiler = Scripted()
    state = compiler.states[plain.__code__] = FunctionState(plain.__code__)
    assert state.entry is not None
    steps = [*program.steps, ("result", register)]
    state.entry.segments.append(_core.Segment(steps, _core.Segment.RETURN, program.n_registers))
    state.entry.is_open = False
    return _core.Entry(plain, compiler)(argument)


EVALUABLE = {
    "model": (MODEL, object()),
    "model.rate": (DictItem(InstanceDict(MODEL), "rate"), SimpleNamespace(rate=[3])),
    "model.__dict__": (InstanceDict(MODEL), SimpleNamespace(rate=[3])),
    "model.real": (Attr(MODEL, "real"), 4.5),
    "model.size": (Slot(MODEL, "size", Slotted), Slotted()),
    "model[1]": (Item(MODEL, 1), ([1], [2])),
    "model['a b']": (DictItem(MODEL, "a b"), {"a b": [1]}),
    "A_GLOBAL['rate'][1]": (Item(DictItem(DictItem(Globals(), "A_GLOBAL"), "rate"), 1), None),
    "len(model)": (Computed(MODEL, len, (MODEL,)), [1, 2, 3]),
    "globals()": (Globals(), None),
}


@pytest.mark.parametrize("text", EVALUABLE)
def test_a_source_fetches_what_its_text_names(text) -> None:
    source, model = EVALUABLE[text]
    assert str(source) == text
    got, expected = fetched(source, model), eval(text, globals(), {"model": model})
    assert got is expected or (isinstance(got, int) and got == expected)


def test_a_closures_cell_and_what_it_holds() -> None:
    assert fetched(CellContents(Closure(0, "closed")), None) == ["in a cell"]


def test_what_is_not_there_is_no_match() -> None:
    for source, model in (
        (DictItem(MODEL, "missing"), {}),
        (Item(MODEL, 3), [1]),
        (Slot(MODEL, "size", Slotted), object()),
        (InstanceDict(MODEL), 5),
        (Attr(MODEL, "missing"), 5),
    ):
        assert fetched(source, model)[0] is NOT_MATCHED
