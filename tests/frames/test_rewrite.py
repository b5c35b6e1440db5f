"""Versions: they behave like the function, pass through their gates, and resume at every pad."""

import inspect
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from segue.frames.code import Code
from segue.frames.rewrite import Exit, build_version
from tests.corpus import CORPUS, Case, difference, observe


def go_on() -> None:
    """A landing or crossing with nothing to say."""


class Counter:
    """A crossing that counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


class Leave:
    """A crossing or landing that leaves to a pad the first time."""

    def __init__(self, pad: int, payload: object) -> None:
        self.answer: tuple[int, object] | None = (pad, payload)

    def __call__(self) -> tuple[int, object] | None:
        answer, self.answer = self.answer, None
        return answer


class Asked:
    """What a version asks by `~`: calls a function."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __invert__(self) -> Any:
        return self.answer()


def places(code: Code) -> list[int]:
    """Everywhere a gate may stand."""
    return [i for i in range(code.start, len(code)) if code.shapes[i] is not None]


def run(
    function: Callable[..., Any],
    gates: Mapping[int, object] = {},
    exits: Sequence[Exit] = (),
    landing: object = go_on,
) -> Callable[..., Any]:
    """The version of a function, called like the function."""
    code = Code.of(function.__code__)
    version = build_version(code, {i: Asked(crossing) for i, crossing in gates.items()}, exits, Asked(landing))
    copy = types.FunctionType(version, function.__globals__, function.__name__, None, function.__closure__)
    signature = inspect.signature(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return copy(*(bound.arguments[name] for name in version.co_varnames[: code.n_args]))

    return call


def find(function: Callable[..., Any], opname: str, argval: object = None) -> int:
    """The index of the first such instruction."""
    code = Code.of(function.__code__)
    return next(i.index for i in code.instructions if i.opname == opname and (argval is None or i.argval == argval))


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_version_that_is_never_left_is_the_function(case: Case) -> None:
    code = Code.of(case.function.__code__)
    everywhere = dict.fromkeys(places(code), go_on)
    exits = [Exit(index, where) for index in everywhere for where in ("past", "gate")]
    for version in (run(case.function), run(case.function, everywhere, exits)):
        for mine, other in zip(case.make_args(), case.make_args(), strict=True):
            expected, got = observe(case.function, mine), observe(version, other)
            assert difference(expected, got) is None


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_a_version_has_the_instructions_of_the_function(case: Case) -> None:
    code = Code.of(case.function.__code__)
    version = Code(build_version(code, {}, [], Asked(go_on)))
    skipped = version.start + 3  # LOAD_CONST, UNARY_INVERT, JUMP_IF_TRUE_OR_POP
    shift = skipped - code.start
    for ours in code.instructions[code.start :]:
        theirs = version.instructions[ours.index + shift]
        assert (ours.opname, ours.arg, ours.kwnames, ours.push_null, ours.position) == (
            (theirs.opname, theirs.arg, theirs.kwnames, theirs.push_null, theirs.position)
        )
        assert ours.argval is theirs.argval or ours.argval == theirs.argval
        assert theirs.target == (None if ours.target is None else ours.target + shift)
        handler = ours.handler and ours.handler._replace(target=ours.handler.target + shift)
        assert theirs.handler == handler
    assert version.localsplus == code.localsplus


def test_all_arguments_are_positional() -> None:
    def many(a: int, /, b: int, *args: int, key: int = 3, **more: int) -> object:
        return a, b, args, key, more

    version = build_version(Code.of(many.__code__), {}, [], Asked(go_on))
    function = types.FunctionType(version, {})
    assert function(1, 2, 3, (4,), {"x": 5}) == many(1, 2, 4, key=3, x=5)
    assert str(inspect.signature(function)) == "(a, b, key, args, more)"
    assert run(many)(1, 2, 4, x=5) == many(1, 2, 4, x=5)


def test_the_landing_is_asked_once_with_the_cells_made() -> None:
    def outer(x: int) -> Callable[[], int]:
        return lambda: x

    seen = []

    def landing() -> None:
        seen.append(dict(sys._getframe(2).f_locals))

    assert run(outer, landing=landing)(3)() == 3
    assert seen == [{"x": 3}]


def test_a_gate_is_crossed_whenever_control_comes_to_its_instruction() -> None:
    def loop(n: int) -> int:
        total = 0
        while n:
            n -= 1
            if n % 2:
                total += n
        return total

    code = Code.of(loop.__code__)
    (header,) = [found.header for found in code.loops]
    crossing = Counter()
    assert run(loop, {header: crossing})(6) == loop(6) == 9
    assert crossing.calls == 6


def test_a_gate_at_a_handler_is_crossed_when_it_catches() -> None:
    def catch(n: int) -> object:
        try:
            return 1 // n
        except ZeroDivisionError as error:
            return str(error)

    crossing = Counter()
    version = run(catch, {find(catch, "PUSH_EXC_INFO"): crossing})
    assert (version(1), crossing.calls) == (1, 0)
    assert (version(0), crossing.calls) == (catch(0), 1)


def test_what_a_crossing_raises_is_raised_at_its_instruction() -> None:
    def catch(x: list[int]) -> object:
        before = x
        try:
            x.append(1)
        except KeyError as error:
            return str(error)
        return before

    def crossing() -> None:
        raise KeyError("from the crossing")

    code = Code.of(catch.__code__)
    (handler,) = {i.handler for i in code.instructions if i.handler and i.handler.depth == 0}
    caught = [i.index for i in code.instructions if i.handler == handler]
    assert [code.instructions[index].opname for index in caught][:3] == [
        "LOAD_FAST",
        "LOAD_ATTR",
        "PUSH_NULL",
    ]
    for index in caught:
        assert run(catch, {index: crossing})([]) == "'from the crossing'"
    for index in (caught[0] - 1, caught[-1] + 1):
        with pytest.raises(KeyError, match="from the crossing"):
            run(catch, {index: crossing})([])


def test_a_crossing_returns_a_value() -> None:
    def work(x: list[int]) -> list[int]:
        for i in x:
            with open(str(i)) as f:
                return [i, *f]  # type: ignore[list-item]
        return x

    code = Code.of(work.__code__)
    before_open = range(code.start, find(work, "LOAD_GLOBAL", "open") + 1)
    for index in before_open:
        assert run(work, {index: Leave(-1, "answer")})([0]) == "answer"
    assert run(work, landing=Leave(-1, "answer"))([0]) == "answer"


@pytest.mark.parametrize("n_exits", [1, 2, 3, 4, 5, 6, 7, 8, 16, 33])
def test_every_pad_goes_to_its_own_place(n_exits: int) -> None:
    namespace: dict[str, Any] = {}
    body = "\n".join(f"    done.append({i})" for i in range(n_exits))
    exec(f"def steps(done):\n{body}\n    return done", namespace)
    steps = namespace["steps"]
    code = Code.of(steps.__code__)
    starts = [i.index for i in code.instructions if i.opname == "LOAD_FAST" and i.argval == "done"][:n_exits]
    exits = [Exit(index) for index in starts]
    for number in range(n_exits):
        assert run(steps, exits=exits, landing=Leave(number, ()))([]) == list(range(number, n_exits))


def test_a_pad_puts_back_values_and_nulls() -> None:
    def work(x: int) -> object:
        return max(x, min(x, abs(x)), "abc".join(["x"]))

    code = Code.of(work.__code__)
    index = find(work, "LOAD_GLOBAL", "abs")
    assert code.shapes[index] == (False, True, True, False, True, True)
    landing = Leave(0, (7, max, None, 5, lambda *args: args, None))
    resumed = run(work, exits=[Exit(index)], landing=landing)
    assert resumed(-3) == (5, 7, "x")

    index = find(work, "SWAP")  # NULL is on top here, below it the bound method
    assert code.shapes[index] == (False, True, True, True, True, False)
    landing = Leave(0, (None, "-".join, 6, 5, lambda *args: args, None))
    resumed = run(work, exits=[Exit(index)], landing=landing)
    assert resumed(-3) == (5, 6, "x")


def test_leaving_drops_the_stack_and_enters_the_pad() -> None:
    """Slots that hold NULL are replaced by the core before, so this stack has none."""

    def work(x: int) -> object:
        i = 0
        for i in [1, 2]:
            x += [x, [x, -x]][1][i - 1]  # type: ignore[index]
        return i, x

    code = Code.of(work.__code__)
    inner = find(work, "UNARY_NEGATIVE")
    back = find(work, "FOR_ITER")
    assert code.shapes[inner] == (True,) * 5
    resumed = run(work, {inner: Leave(0, (iter([7]),))}, [Exit(back)])
    with pytest.raises(IndexError):
        resumed(9)
    resumed = run(work, {inner: Leave(0, (iter([2]),))}, [Exit(back)])
    assert resumed(9) == (2, 0)


def test_pads_go_through_the_gate_or_past_it() -> None:
    def work(x: int) -> int:
        y = x + 1
        return y * 2

    code = Code.of(work.__code__)
    index = find(work, "STORE_FAST", "y")
    for where, crossed in (("gate", 1), ("past", 0)):
        crossing = Counter()
        resumed = run(work, {index: crossing}, [Exit(index, where)], Leave(0, (50,)))
        assert (resumed(1), crossing.calls) == (100, crossed)
    assert code.shapes[index] == (True,)


def test_resuming_inside_with_try_and_handlers() -> None:
    events = []

    class Manager:
        def __enter__(self) -> None:
            events.append("enter")

        def __exit__(self, *exc: Any) -> bool:
            events.append(exc[0])
            return True

    def work(manager: Manager) -> str:
        with manager:
            events.append("body")
            raise ValueError("natural")
        return "after"

    code = Code.of(work.__code__)
    body = next(i.index for i in code.instructions if i.argval == "body") - 4
    while code.shapes[body] != (True,):
        body -= 1
    resumed = run(work, exits=[Exit(body)], landing=Leave(0, (Manager().__exit__,)))
    assert resumed(None) == "after"
    assert events == ["body", ValueError]


def test_long_functions() -> None:
    body = "\n".join(f"    v{i} = {i + 1000}.5" for i in range(300))
    loop = "\n".join("        v299 = abs(v298 + i)" for _ in range(5000))
    namespace: dict[str, Any] = {}
    exec(f"def long(n):\n{body}\n    for i in range(n):\n{loop}\n    return v299", namespace)
    long = namespace["long"]
    code = Code.of(long.__code__)
    (found,) = code.loops
    crossing = Counter()
    version = run(long, {found.header: crossing}, [Exit(found.header, "gate")])
    assert version(2) == long(2) == 1299.5
    assert crossing.calls == 3
    resumed = run(
        long,
        {found.header: crossing},
        [Exit(found.header, "gate")],
        Leave(0, (iter([]),)),
    )
    with pytest.raises(UnboundLocalError, match="v299"):
        resumed(2)


def test_gates_and_exits_where_none_can_be() -> None:
    def work(x: object) -> object:
        for _ in [1]:
            try:
                x = 1
            except ValueError as error:  # noqa: F841
                continue
        return x

    async def coroutine() -> None: ...

    code = Code.of(work.__code__)
    unreachable = code.shapes.index(None)
    bad: list[tuple[Mapping[int, object], list[Exit], str]] = [
        ({0: go_on}, [], "prologue"),
        ({len(code): go_on}, [], "has no instruction"),
        ({-1: go_on}, [], "has no instruction"),
        ({unreachable: go_on}, [], "control never comes"),
        ({}, [Exit(0)], "prologue"),
        ({}, [Exit(unreachable)], "control never comes"),
        ({}, [Exit(code.start, "gate")], "there is no gate"),
    ]
    for gates, exits, message in bad:
        with pytest.raises(ValueError, match=message):
            build_version(code, gates, exits, go_on)
    with pytest.raises(ValueError, match="coroutine"):
        build_version(Code.of(coroutine.__code__), {}, [], go_on)
