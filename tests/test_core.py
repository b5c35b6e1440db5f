"""Segments: what each step fetches, checks, builds and does, and how a segment leaves."""

from __future__ import annotations

import collections
import enum
import gc
import math
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from segue import _core
from segue.frames.state import FunctionState
from tests.core_support import Scripted

Step = tuple[Any, ...]


NOT_MATCHED = object()


def runner(
    *steps: Step, function: Callable[..., Any] | None = None, n_registers: int = 40, **options: Any
) -> _core.Entry:
    """A compiled function whose entry gate has one segment, which returns its result."""

    def plain(a: Any, b: Any = None, c: Any = None) -> Any:
        return NOT_MATCHED

    assert function is None or isinstance(function, types.FunctionType)
    target = function or plain
    compiler = Scripted()
    state = compiler.states[target.__code__] = FunctionState(target.__code__)
    assert state.entry is not None
    state.entry.segments.append(_core.Segment(steps, _core.Segment.RETURN, n_registers, options.get("failed")))
    state.entry.is_open = False
    return _core.Entry(target, compiler)


def fetched(*steps: Step, result: int = 1) -> _core.Entry:
    """Register 0 is the first argument; returns what a register holds at the end."""
    return runner(("local", 0, 0), *steps, ("result", result))


def holds(*checks: Step) -> Callable[..., bool]:
    """Whether checks hold; registers 0, 1, 2 are the arguments."""
    fetches = [("local", slot, slot) for slot in range(3)]
    run = runner(*fetches, *checks, ("const", 30, "matched"), ("result", 30))
    return lambda *args: run(*args) == "matched"


class Slotted:
    __slots__ = ("size", "unset")

    def __init__(self) -> None:
        self.size = 3


class Plain:
    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)

    @property
    def fails(self) -> None:
        raise KeyError("fails")


# --- fetching


def test_const_and_local() -> None:
    constant = object()
    assert runner(("const", 0, constant), ("result", 0))(1) is constant
    value = object()
    assert fetched(result=0)(value) is value


def test_locals_of_a_call_are_its_arguments_only() -> None:
    def function(a: Any) -> Any:
        local = NOT_MATCHED
        return local

    assert runner(("local", 0, 1), ("result", 0), function=function)(1) is NOT_MATCHED
    assert runner(("local", 0, 999), ("result", 0), function=function)(1) is NOT_MATCHED
    steps = (("unbound", 1), ("const", 0, 5), ("result", 0))
    assert runner(*steps, function=function)(1) == 5
    assert runner(("unbound", 0), *steps[1:], function=function)(1) is NOT_MATCHED
    assert runner(("stack", 0, 0), ("result", 0), function=function)(1) is NOT_MATCHED


def test_weak() -> None:
    target = Plain()
    run = runner(("weak", 0, weakref.ref(target)), ("result", 0))
    assert run(1) is target
    del target
    assert run(1) is NOT_MATCHED


def test_function_globals_and_closure() -> None:
    captured = 5

    def function(a: Any) -> Any:
        return NOT_MATCHED, captured

    assert runner(("function", 0), ("result", 0), function=function)(1) is function
    assert runner(("globals", 0), ("result", 0), function=function)(1) is globals()
    closure = function.__closure__
    assert closure is not None
    assert runner(("closure", 0, 0), ("result", 0), function=function)(1) is closure[0]
    assert runner(("closure", 0, 1), ("result", 0), function=function)(1) == (NOT_MATCHED, 5)


def test_cell() -> None:
    assert fetched(("cell", 1, 0))(types.CellType(4)) == 4
    assert fetched(("cell", 1, 0))(types.CellType()) is NOT_MATCHED
    assert fetched(("cell", 1, 0))("no cell") is NOT_MATCHED
    assert holds(("cell_empty", 0))(types.CellType())
    assert not holds(("cell_empty", 0))(types.CellType(4))
    assert not holds(("cell_empty", 0))("no cell")


def test_attr() -> None:
    assert fetched(("attr", 1, 0, "x"))(Plain(x=7)) == 7
    assert fetched(("attr", 1, 0, "x"))(Plain()) is NOT_MATCHED
    assert fetched(("attr", 1, 0, "fails"))(Plain()) is NOT_MATCHED


def test_instance_dict() -> None:
    plain = Plain(x=1)
    assert fetched(("instance_dict", 1, 0))(plain) is vars(plain)
    assert fetched(("instance_dict", 1, 0))(Slotted()) is NOT_MATCHED


def test_dict_get_and_absent() -> None:
    class Unhashable(dict[str, int]):
        __hash__ = None  # type: ignore[assignment]

    for mapping in ({"k": 1}, collections.OrderedDict(k=1), Unhashable(k=1)):
        assert fetched(("dict_get", 1, 0, "k"))(mapping) == 1
        assert fetched(("dict_get", 1, 0, "other"))(mapping) is NOT_MATCHED
        assert not holds(("dict_absent", 0, "k"))(mapping)
        assert holds(("dict_absent", 0, "other"))(mapping)
    assert fetched(("dict_get", 1, 0, "k"))(types.MappingProxyType({"k": 1})) is NOT_MATCHED
    assert not holds(("dict_absent", 0, "k"))([])
    # A key whose comparison fails is no match, and no error either.
    assert fetched(("dict_get", 1, 0, []))({"k": 1}) is NOT_MATCHED
    assert not holds(("dict_absent", 0, []))({"k": 1})


def test_missing_is_not_called() -> None:
    mapping: dict[str, list[int]] = collections.defaultdict(list)
    assert fetched(("dict_get", 1, 0, "k"))(mapping) is NOT_MATCHED
    assert not mapping


def test_item() -> None:
    class Items(list[int]):
        def __getitem__(self, index: Any) -> Any:
            raise AssertionError

    for items in ([1, 2], (1, 2), Items([1, 2])):
        assert fetched(("item", 1, 0, 1))(items) == 2
        assert fetched(("item", 1, 0, 2))(items) is NOT_MATCHED
    assert fetched(("item", 1, 0, 0))("abc") is NOT_MATCHED


def test_type_of() -> None:
    assert fetched(("type_of", 1, 0))(True) is bool


def test_slot() -> None:
    members = vars(Slotted)
    assert fetched(("slot", 1, 0, members["size"], Slotted))(Slotted()) == 3
    assert fetched(("slot", 1, 0, members["unset"], Slotted))(Slotted()) is NOT_MATCHED
    assert fetched(("slot", 1, 0, members["size"], Slotted))(Plain(size=3)) is NOT_MATCHED


# --- checks


def test_identity_and_type() -> None:
    a, b = Plain(), Plain()
    assert holds(("is", 0, 1))(a, a) and not holds(("is", 0, 1))(a, b)
    assert holds(("is_not", 0, 1))(a, b) and not holds(("is_not", 0, 1))(a, a)
    assert holds(("type_is", 0, int))(1) and not holds(("type_is", 0, int))(True)
    assert holds(("true", 0))(True) and not holds(("true", 0))(1)
    assert holds(("false", 0))(False) and not holds(("false", 0))(0)


def test_class_state() -> None:
    class Base:
        def method(self) -> None: ...

    class Child(Base): ...

    original = Base.method
    state = (("method", original), ("absent", _core.NULL))
    check = holds(("class_state", Child, state))
    assert check(1) and check(1)
    Child.unrelated = 1  # type: ignore[attr-defined]
    assert check(1)
    Child.absent = 1  # type: ignore[attr-defined]
    assert not check(1)
    del Child.absent  # type: ignore[attr-defined]
    assert check(1)
    Base.method = lambda self: None  # type: ignore[assignment,method-assign]
    assert not check(1) and not check(1)
    Base.method = original  # type: ignore[method-assign]
    assert check(1)


class Level(enum.IntEnum):
    ONE = 1


NAN = float("nan")
CONSTANTS: list[Any] = [
    *(0, 1, -1, 2**70, True, False, None, ...),
    *(0.0, -0.0, 1.0, NAN, math.inf, 1j, complex(0.0, -0.0), complex(-0.0, 0.0)),
    *("", "a", "ab", b"", b"a", "ü"),
    *((), (1,), (1.0,), (True,), (0.0,), (-0.0,), ((1, "a"), None), ((1, "b"), None)),
    *(frozenset(), frozenset({1}), frozenset({1.0}), frozenset({1, 2}), frozenset({(1,)})),
    (lambda: 0).__code__,
]


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: type(constant).__name__)
def test_equals_tells_constants_apart(constant: Any) -> None:
    check = holds(("equals", 0, constant))
    assert [other for other in CONSTANTS if check(other)] == [constant]
    assert not check(Level.ONE) and not check([]) and not check(Plain())


def test_equals_by_value() -> None:
    assert holds(("equals", 0, 10**30))(int("1" + "0" * 30))
    assert holds(("equals", 0, "ab" * 50))("".join(["ab"] * 50))
    assert holds(("equals", 0, NAN))(float("nan"))
    assert holds(("equals", 0, (1, (2.5, "x" * 30))))((1, (float("2.5"), "".join(["x"] * 30))))
    assert holds(("equals", 0, frozenset({"a", 2**40})))(frozenset({"a", 2 ** int("40")}))


def test_length() -> None:
    check = holds(("length", 0, 2))
    for container in ([1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, frozenset({1, 2})):
        assert check(container) and not check(type(container)())  # type: ignore[operator]
    assert not check("ab") and not check(range(2))

    class Liar(list[int]):
        def __len__(self) -> int:
            return 2

    assert not check(Liar())


def test_dict_keys() -> None:
    key = Plain()
    check = holds(("dict_keys", 0, ("a", 1, key)))
    assert check({"a": 0, 1: 0, key: 0})
    assert not check({1: 0, "a": 0, key: 0})
    assert not check({"a": 0, 1: 0})
    assert not check({"a": 0, 1: 0, key: 0, "b": 0})
    assert not check({"a": 0, True: 0, key: 0})
    assert not check({"a": 0, 1: 0, Plain(): 0})
    assert not check([("a", 1)])
    ordered = collections.OrderedDict([("a", 0), (1, 0), (key, 0)])
    assert check(ordered)
    ordered.move_to_end("a")
    assert not check(ordered)


def test_predicate() -> None:
    assert holds(("predicate", lambda a, b: a < b, (0, 1)))(1, 2)
    assert not holds(("predicate", lambda a, b: a < b, (0, 1)))(2, 1)
    assert not holds(("predicate", lambda a, b: a < b, (0, 1)))(2, "x")

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        holds(("predicate", interrupted, ()))(1)
    assert _core.current_compiler() is None


def test_guards_run_with_compiling_off() -> None:
    seen = []

    class Watching:
        def __getattr__(self, name: str) -> Any:
            seen.append(_core.current_compiler())
            return 1

    assert fetched(("attr", 1, 0, "x"))(Watching()) == 1
    assert holds(("predicate", lambda: not seen.append(_core.current_compiler()), ()))(1)
    assert seen == [None, None]


# --- building and calling


def test_builders() -> None:
    args = [("local", slot, slot) for slot in range(3)]

    def build(*step: Any) -> Any:
        return runner(*args, (step[0], 10, *step[1:]), ("result", 10))(1, 2, "x")

    assert build("tuple", (0, 2)) == (1, "x") and build("tuple", ()) == ()
    assert build("list", (1, 1)) == [2, 2]
    assert build("set", (0, 0, 1)) == {1, 2}
    assert build("dict", (2, 0, 1, 0)) == {"x": 1, 2: 1}
    assert build("slice", 0, 1, 2) == slice(1, 2, "x")
    assert build("new_cell", 1).cell_contents == 2
    assert build("new_cell", None) == types.CellType()
    unhashable = runner(("local", 0, 0), ("set", 1, (0,)), ("result", 1))
    assert unhashable([]) is NOT_MATCHED


def test_call() -> None:
    def show(*args: Any, **kwargs: Any) -> Any:
        return args, kwargs

    args = [("local", slot, slot) for slot in range(3)]
    function = ("const", 3, show)
    run = runner(*args, function, ("call", 4, 3, (0, 1, 2), ("k",)), ("result", 4))
    assert run(1, 2, 3) == ((1, 2), {"k": 3})
    many = runner(*args, function, ("call", 4, 3, (0,) * 50, ()), ("result", 4))
    assert many(1) == ((1,) * 50, {})
    assert runner(*args, ("call", 3, 0, (), ()), ("result", 3))(lambda: 1 // 0) is NOT_MATCHED
    with pytest.raises(ZeroDivisionError):
        runner(*args, ("commit",), ("call", 3, 0, (), ()), ("result", 3))(lambda: 1 // 0)


def test_graph() -> None:
    meter = _core.Meter()
    compilers = []

    def graph(a: int, b: int) -> list[int]:
        compilers.append(_core.current_compiler())
        return [a + b, a - b]

    run = runner(
        *(("local", 0, 0), ("local", 1, 1), ("const", 2, graph)),
        *(("graph", (3, 4), 2, (0, 1), meter), ("tuple", 5, (4, 3)), ("result", 5)),
    )
    assert run(5, 2) == (3, 7) and run(5, 3) == (2, 8)
    assert meter.calls == 2
    assert compilers == [None, None]


def failing(error: BaseException, **options: Any) -> _core.Entry:
    def graph() -> Any:
        raise error

    return runner(("const", 0, graph), ("graph", (), 0, (), None), ("result", 0), **options)


def test_a_graph_that_fails_is_reported() -> None:
    reports: list[tuple[Any, ...]] = []

    def accept(*report: Any) -> bool:
        reports.append(report)
        return True

    error = ValueError("inside")
    assert failing(error, failed=accept)(1) is NOT_MATCHED
    (segment, reported), *_ = reports
    assert isinstance(segment, _core.Segment) and reported is error
    assert reported.__traceback__ is not None
    with pytest.raises(ValueError, match="inside"):
        failing(error)(1)
    with pytest.raises(ValueError, match="inside"):
        failing(error, failed=lambda *report: False)(1)
    with pytest.raises(ZeroDivisionError):
        failing(error, failed=lambda *report: 1 // 0)(1)
    with pytest.raises(KeyboardInterrupt):
        failing(KeyboardInterrupt(), failed=accept)(1)
    assert len(reports) == 1


@pytest.mark.parametrize("outputs", [(1,), [1, 2, 3], 5, None])
def test_a_graph_that_returns_something_else(outputs: Any) -> None:
    steps = (("const", 0, lambda: outputs), ("graph", (1, 2), 0, (), None), ("result", 1))
    with pytest.raises((TypeError, ValueError), match="compiled graph"):
        runner(*steps)(1)


def test_writing_cells() -> None:
    cell, other = types.CellType(1), types.CellType(1)
    run = runner(
        *(("local", 0, 0), ("local", 1, 1), ("local", 2, 2), ("commit",)),
        *(("store_cell", 0, 2), ("clear_cell", 1), ("result", 2)),
    )
    assert run(cell, other, "new") == "new"
    assert cell.cell_contents == "new" and other == types.CellType()


def test_handled() -> None:
    error = ValueError()
    run = runner(("local", 0, 0), ("commit",), ("handled", 0), ("result", 0))
    clear = runner(("local", 0, 0), ("commit",), ("handled", None), ("result", 0))
    try:
        raise KeyError
    except KeyError:
        run(error)
        assert sys.exc_info() == (ValueError, error, None)
        clear(error)
        assert sys.exc_info() == (None, None, None)


def test_a_mismatch_after_the_commit_is_an_error() -> None:
    run = runner(("local", 0, 0), ("commit",), ("cell", 1, 0), ("result", 1))
    with pytest.raises(RuntimeError, match="step 2 of a segment failed"):
        run(1)


# --- malformed programs

RETURN = ("result", 0)
CONST = ("const", 0, 1)
MALFORMED: list[tuple[list[Any], str]] = [
    ([("nonsense", 0)], "no such step"),
    (["const"], "a step is a tuple"),
    ([()], "a step is a tuple"),
    ([(1, 2)], "a step is a tuple"),
    ([("const", 0)], "number of operands"),
    ([("const", 4, 1)], "no such register"),
    ([("const", -1, 1)], "out of range"),
    ([("const", "0", 1)], "expected a number"),
    ([("const", True, 1)], "expected a number"),
    ([CONST, CONST], "written twice"),
    ([("type_of", 0, 1)], "read before it is written"),
    ([("type_of", 0, 0)], "read before it is written"),
    ([CONST, ("tuple", 1, [0])], "tuple of registers"),
    ([CONST, ("tuple", 1, (0, 2))], "read before"),
    ([CONST, ("dict", 1, (0,))], "wrong kind"),
    ([CONST, ("attr", 1, 0, b"x")], "wrong kind"),
    ([CONST, ("equals", 0, [])], "wrong kind"),
    ([CONST, ("equals", 0, (1, Level.ONE))], "wrong kind"),
    ([CONST, ("type_is", 0, 5)], "wrong kind"),
    ([CONST, ("dict_keys", 0, ["a"])], "wrong kind"),
    ([CONST, ("slot", 1, 0, vars(Slotted)["size"], Plain)], "wrong kind"),
    ([CONST, ("slot", 1, 0, vars(Plain)["fails"], Plain)], "wrong kind"),
    ([("weak", 0, 5)], "wrong kind"),
    ([("class_state", Plain, (("a",),))], "wrong kind"),
    ([("class_state", Plain, [("a", 1)])], "wrong kind"),
    ([("predicate", 5, ())], "wrong kind"),
    ([("global_state", [])], "wrong kind"),
    ([CONST, ("call", 1, 0, (), ("k",))], "wrong kind"),
    ([CONST, ("graph", (), 0, (), 5)], "wrong kind"),
    ([CONST, ("item", 1, 0, -1)], "out of range"),
    ([CONST, ("store_cell", 0, 0)], "must come after the graph"),
    ([CONST, ("handled", 0)], "must come after the graph"),
    ([CONST, ("commit",), ("true", 0)], "cannot come after the graph"),
    ([CONST, ("tensor", 0, int, 0, "cpu", None, (), (), False)], "wrong kind"),
    ([CONST, ("tensor", 0, torch.Tensor, 0, "cpu", None, (1,), (), False)], "wrong kind"),
    ([CONST, ("tensor", 0, torch.Tensor, 0, "cpu", None, (1.5,), (1,), False)], "wrong kind"),
]


@pytest.mark.parametrize(("steps", "message"), MALFORMED, ids=[f"program {i}" for i in range(len(MALFORMED))])
def test_malformed_programs_are_refused(steps: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.Segment([*steps, RETURN], _core.Segment.RETURN, 3)


def test_malformed_exits_are_refused() -> None:
    store = ("store_local", 0, 0)
    for steps, exit in (
        ([CONST], _core.Segment.RETURN),
        ([CONST, RETURN, RETURN], _core.Segment.RETURN),
        ([("result", None)], _core.Segment.RETURN),
        ([CONST, store, RETURN], _core.Segment.RETURN),
        ([CONST, RETURN], _core.Segment.STAY),
        ([CONST, store], _core.Segment.STAY),
        ([], -3),
    ):
        with pytest.raises(ValueError):
            _core.Segment(steps, exit, 1)
    with pytest.raises(ValueError):
        _core.Segment([], 0, -1)
    with pytest.raises(TypeError):
        _core.Segment(5, 0, 1)  # type: ignore[arg-type]


def test_what_a_segment_says_of_itself() -> None:
    steps = [CONST, ("true", 0), RETURN]
    segment = _core.Segment(steps, _core.Segment.RETURN, 1)
    assert segment.steps == tuple(steps)
    assert (segment.exit, segment.n_registers, segment.failed_step) == (-1, 1, -1)


def test_the_step_that_failed_is_known() -> None:
    run = runner(CONST, ("local", 1, 0), ("true", 1), RETURN)
    segment = run.compiler.states[run.__wrapped__.__code__].entry.segments[0]  # type: ignore[attr-defined]
    assert run(5) is NOT_MATCHED
    assert segment.failed_step == 2
    assert run(True) == 1
    assert segment.failed_step == -1


def test_programs_neither_keep_nor_lose_references() -> None:
    value = Plain(x=[1], d={"k": 1})
    run = fetched(
        *(("attr", 1, 0, "x"), ("tuple", 2, (0, 1)), ("instance_dict", 3, 0)),
        *(("dict_get", 4, 3, "d"), ("new_cell", 5, 0), ("cell", 6, 5), ("const", 7, id)),
        *(("call", 8, 7, (2,), ()), ("list", 9, (0, 1, 8)), ("length", 4, 1)),
        result=9,
    )
    failing_late = fetched(("attr", 1, 0, "x"), ("attr", 2, 0, "absent"))
    run(value), failing_late(value)
    before = [sys.getrefcount(x) for x in (value, value.x, value.d, NOT_MATCHED)]
    for _ in range(10_000):
        run(value)
        failing_late(value)
    assert [sys.getrefcount(x) for x in (value, value.x, value.d, NOT_MATCHED)] == before
    gone = weakref.ref(value)
    del value
    assert gone() is None


def test_a_program_is_freed_with_what_it_refers_to() -> None:
    target = Plain()
    run = runner(("const", 0, target), ("result", 0))
    target.run = run
    gone = weakref.ref(target)
    del target, run
    gc.collect()
    assert gone() is None
