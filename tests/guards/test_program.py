"""The register program: places are fetched once, facts checked once, and it prints as text close to Python."""

from __future__ import annotations

import gc
import operator
import weakref
from typing import Any

import pytest
import torch

import segue
from segue import _core
from segue.frames.state import FunctionState
from segue.guards.program import Program, describe
from segue.guards.source import Attr, Closure, Computed, DictItem, Globals, InstanceDict, Item, Local, Pinned
from tests.core_support import Scripted
from tests.graphs import Graphs

X = Local(0, "x")
Y = Local(1, "y")


class Thing:
    pass


def matches(program: Program, *args: Any) -> bool:
    """Whether the facts that the program checks hold for a call with these arguments."""

    def plain(x: Any, y: Any = None) -> Any:
        return "no match"

    matched = program.constant("match")
    compiler = Scripted()
    state = compiler.states[plain.__code__] = FunctionState(plain.__code__)
    assert state.entry is not None
    steps = [*program.steps, *program.effects, ("result", matched)]
    state.entry.segments.append(_core.Segment(steps, _core.Segment.RETURN, program.n_registers))
    state.entry.is_open = False
    return _core.Entry(plain, compiler)(*args) == "match"


# --- once -----------------------------------------------------------------------------------------


def test_a_place_is_fetched_once_with_all_that_leads_to_it() -> None:
    program = Program()
    rate = program.fetch(DictItem(InstanceDict(X), "rate"))
    decay = program.fetch(DictItem(InstanceDict(X), "decay"))
    assert program.fetch(DictItem(InstanceDict(Local(0, "x")), "rate")) == rate != decay
    assert [step[0] for step in program.steps] == ["local", "instance_dict", "dict_get", "dict_get"]
    assert program.n_registers == 4


def test_a_computed_place_is_computed_once() -> None:
    program = Program()
    total = Computed(X, operator.add, (X, Pinned(2)))
    program.check("type_is", total, int)
    program.check("equals", total, 5)
    assert [step[0] for step in program.steps].count("call") == 1
    assert matches(program, 3) and not matches(program, 4)


def test_a_constant_is_held_once_and_comes_first() -> None:
    program = Program()
    shared = [1]
    program.fetch(X)
    assert program.constant(shared) == program.constant(shared) == program.fetch(Pinned(shared))
    assert program.constant([1]) != program.constant(shared)
    assert program.steps[0][0] == "const"


def test_a_fact_is_checked_once() -> None:
    program = Program()
    for _ in range(3):
        program.check("type_is", X, int)
        program.check("equals", X, 5)
        program.check_pair("is_not", X, Y)
        program.check_is(Y, Thing)
        program.check_plain("dict_absent", program.fetch(X), "k")
    names = [step[0] for step in program.steps]
    assert {name: names.count(name) for name in ("type_is", "equals", "is_not", "is", "dict_absent")} == dict.fromkeys(
        ("type_is", "equals", "is_not", "is", "dict_absent"), 1
    )


@pytest.mark.parametrize("value", [1, True, 1.0, "1", b"1", None], ids=repr)
def test_equal_constants_are_facts_of_their_own(value) -> None:
    """1, True and 1.0 are equal, but a value that is one of them is not the others."""
    program = Program()
    for other in (1, True, 1.0, "1", b"1", None):
        program.check("equals", X, other)
    assert len([step for step in program.steps if step[0] == "equals"]) == 6
    alone = Program()
    alone.check("equals", X, value)
    assert [other for other in (1, True, 1.0, "1", b"1", None) if matches(alone, other)] == [value]
    assert matches(alone, value)


def test_a_step_that_cannot_be_hashed_is_checked_each_time() -> None:
    program = Program()
    for _ in range(2):
        program.check_plain("predicate", bool, [program.fetch(X)])
    assert [step[0] for step in program.steps] == ["local", "predicate", "predicate"]


# --- identity without keeping alive ---------------------------------------------------------------


def test_the_object_that_must_be_there_is_not_kept_alive_by_the_steps() -> None:
    thing = Thing()
    gone = weakref.ref(thing)
    program = Program()
    program.check_is(X, thing)
    assert matches(program, thing) and not matches(program, Thing())
    steps = program.steps
    del thing, program
    gc.collect()
    assert gone() is None
    assert ("is", 0, 1) in steps


def test_the_weak_reference_is_made_once() -> None:
    thing = Thing()
    program = Program()
    program.check_is(X, thing)
    program.check_is(Y, thing)
    assert [step[0] for step in program.steps] == ["local", "weak", "is", "local", "is"]


def test_an_object_without_weak_references_is_held() -> None:
    """Its address must not be given to another object while the check stands."""
    shared = [1]
    program = Program()
    program.check_is(X, shared)
    assert matches(program, shared) and not matches(program, [1])
    assert any(step[0] == "const" and step[2] is shared for step in program.steps)


@pytest.mark.parametrize("through", ["global", "closure", "argument"])
def test_a_compiled_function_keeps_no_object_of_the_program_alive(through) -> None:
    class Layer:
        def __init__(self):
            self.weight = torch.ones(3)

        def __call__(self, x):
            return torch.sin(x) * self.weight

    layer = Layer()
    globals()["shared_layer"] = layer
    functions = {
        "global": lambda x, given: shared_layer(x),  # type: ignore[name-defined]  # noqa: F821
        "closure": lambda x, given: layer(x),
        "argument": lambda x, given: given(x),
    }
    f = functions[through]
    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(3), layer), f(torch.ones(3), layer))
    assert graphs.runs == 2
    gone, weight_gone = weakref.ref(layer), weakref.ref(layer.weight)
    del globals()["shared_layer"]
    layer = None
    del functions
    gc.collect()
    assert gone() is None and weight_gone() is None
    if through == "argument":
        other = Layer()
        torch.testing.assert_close(compiled(torch.ones(3), other), f(torch.ones(3), other))


# --- text -----------------------------------------------------------------------------------------


def test_a_program_prints_in_the_order_in_which_it_runs() -> None:
    program = Program()
    program.check("type_is", X, int)
    program.check("equals", DictItem(Globals(), "rate"), 0.5)
    program.check("length", Y, 3)
    program.check_pair("is_not", Item(Y, 0), X)
    largest = program.call(max, program.fetch(X), program.fetch(Y))
    program.effect("store_local", 1, program.build("tuple", (largest, largest)))
    assert str(program).splitlines() == [
        "r5 = max",
        "r0 = locals[0]",
        "check type(r0) is int",
        "r1 = globals()",
        "r2 = r1['rate']",
        "check r2 == 0.5",
        "r3 = locals[1]",
        "check len(r3) == 3",
        "r4 = r3[0]",
        "check r4 is not r0",
        "r6 = r5(r0, r3)",
        "r7 = (r6, r6)",
        "locals[1] = r7",
    ]


STEPS = [
    (("const", 0, 1.5), "r0 = 1.5"),
    (("const", 0, len), "r0 = len"),
    (("const", 0, [1]), "r0 = <list>"),
    (("stack", 1, 2), "r1 = stack[2]"),
    (("closure", 1, 2), "r1 = function.__closure__[2]"),
    (("cell", 1, 0), "r1 = r0.cell_contents"),
    (("attr", 1, 0, "rate"), "r1 = r0.rate"),
    (("instance_dict", 1, 0), "r1 = r0.__dict__"),
    (("type_of", 1, 0), "r1 = type(r0)"),
    (("dict_absent", 1, "rate"), "check 'rate' not in r1"),
    (("is", 0, 1), "check r0 is r1"),
    (("class_state", Thing, (("a", 1), ("b", 2))), "check Thing: a, b"),
    (("dict_keys", 0, ("a", 1)), "check list(r0) == ['a', 1]"),
    (("true", 0), "check r0"),
    (("false", 0), "check not r0"),
    (("predicate", callable, (0, 1)), "check callable(r0, r1)"),
    (("call", 2, 0, (1, 3), ()), "r2 = r0(r1, r3)"),
    (("list", 2, (0, 1)), "r2 = [r0, r1]"),
    (("set", 2, (0, 1)), "r2 = {r0, r1}"),
    (("slice", 3, 0, 1, 2), "r3 = slice(r0, r1, r2)"),
    (("new_cell", 1, None), "r1 = cell()"),
    (("new_cell", 1, 0), "r1 = cell(r0)"),
    (("delete_local", 3), "del locals[3]"),
    (("store_cell", 0, 1), "r0.cell_contents = r1"),
    (("result", None), "result NULL"),
    (("result", 4), "result r4"),
    (("handled", 4), "handled r4"),
    (("some_new_step", 1, "text"), "some_new_step r1, 'text'"),
]


@pytest.mark.parametrize(("step", "text"), STEPS, ids=lambda p: p if isinstance(p, str) else p[0])
def test_a_step_prints_close_to_python(step, text) -> None:
    assert describe(step) == text


def test_a_tensor_check_prints_what_it_asks() -> None:
    facts = (torch.Tensor, torch.float32, "cpu", 0, (2, 3), (3, 1), False)
    assert describe(("tensor", 0, *facts)) == "check tensor r0: torch.float32, cpu, 0, (2, 3), (3, 1), False"


def test_a_long_value_of_an_unknown_step_is_cut() -> None:
    text = describe(("some_new_step", "x" * 500))
    assert len(text) < 80 and text.endswith("...")


# --- with names -----------------------------------------------------------------------------------


def test_registers_are_named_by_what_they_hold() -> None:
    program = Program()
    program.check("equals", DictItem(InstanceDict(X), "mode"), "train")
    program.check("type_is", Item(Y, 1), int)
    program.check("length", Closure(0, "rows"), 2)
    program.check_is(Local(2, "layer"), Thing())
    names = program.names()
    checks = [describe(step, names) for step in program.steps]
    assert [text for text in checks if text.startswith("check")] == [
        "check x.mode == 'train'",
        "check type(y[1]) is int",
        "check len(closure.rows) == 2",
        "check layer is r7",
    ]


def test_only_what_is_checked_has_a_name() -> None:
    program = Program()
    program.check("equals", Attr(X, "rate"), 1)
    program.fetch(Y)
    assert set(program.names().values()) == {"x.rate"}


def test_a_register_is_not_taken_for_another_that_begins_alike() -> None:
    assert describe(("is", 1, 10), {1: "x"}) == "check x is r10"
    assert describe(("is", 1, 10), {1: "x", 10: "y.r1"}) == "check x is y.r1"
    assert describe(("equals", 0, "r1"), {0: "x", 1: "y"}) == "check x == 'r1'"
