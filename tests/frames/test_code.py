"""The normal form: what it contains, and that its analyses are right about real code."""

import dis
import gc
import opcode
import types
import weakref
from collections.abc import Iterator

import pytest

from segue.frames.code import Code, Loop
from segue.frames.cpython311 import shape_after
from tests.corpus import CORPUS

SENSIBLE = {"BUILD_SLICE": [2, 3], "COPY": range(1, 8), "SWAP": range(2, 8)}
GONE = {"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "KW_NAMES", "LOAD_METHOD"}


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


CODES = [code for case in CORPUS for code in code_objects(case.function.__code__)]


def names(code: Code) -> list[str]:
    return [instruction.opname for instruction in code.instructions]


def lines_of(code: Code, indices: frozenset[int]) -> set[int]:
    lines = {code.instructions[index].position.lineno for index in indices}
    return {line - code.firstlineno for line in lines if line is not None}


def test_instructions_are_those_of_the_function() -> None:
    for original in CODES:
        code = Code.of(original)
        assert not GONE & set(names(code))
        expected = [i.opname for i in dis.get_instructions(original) if i.opname not in GONE]
        split = [i.opname for i in dis.get_instructions(original)].count("LOAD_METHOD")
        assert len(code) == len(expected) + 3 * split
        assert [i.index for i in code.instructions] == list(range(len(code)))


def test_positions_and_handlers_are_those_of_the_function() -> None:
    for original in CODES:
        code = Code.of(original)
        kept = [i for i in dis.get_instructions(original) if i.opname not in GONE - {"LOAD_METHOD"}]
        kept = [i for i in kept for _ in range(3 if i.opname == "LOAD_METHOD" else 1)]
        index_at = {i.offset: k for k, i in reversed(list(enumerate(kept)))}
        entries = dis._parse_exception_table(original)  # type: ignore[attr-defined]
        for ours, native in zip(code.instructions, kept, strict=True):
            assert tuple(ours.position) == tuple(native.positions or ())
            handlers = [e for e in entries if e.start <= native.offset < e.end]
            assert [ours.handler] == ([(index_at[e.target], e.depth, e.lasti) for e in handlers] or [None])


def test_jump_targets_are_indices() -> None:
    def choose(x: int) -> int:
        return 1 if x else 2

    code = Code.of(choose.__code__)
    jump = next(i for i in code.instructions if i.target is not None)
    assert (jump.opname, jump.backward) == ("POP_JUMP_IF_FALSE", False)
    assert jump.target is not None
    assert code.instructions[jump.target].argval == 2


def test_a_call_has_its_keyword_names_even_when_it_is_jumped_to() -> None:
    def call(f: object, x: object) -> object:
        return f(1, key=2 if x else 3)  # type: ignore[operator]

    code = Code.of(call.__code__)
    (index,) = [i.index for i in code.instructions if i.opname == "CALL"]
    assert code.instructions[index].kwnames == ("key",)
    (jump,) = [i for i in code.instructions if i.opname == "JUMP"]
    assert jump.target == index
    assert code.shapes[index] == (False, True, True, True)


def test_a_method_is_loaded_as_an_attribute_below_a_null() -> None:
    def call(x: list[int]) -> int:
        return x.pop()

    code = Code.of(call.__code__)
    start = names(code).index("LOAD_ATTR")
    assert names(code)[start : start + 4] == ["LOAD_ATTR", "PUSH_NULL", "SWAP", "CALL"]
    assert code.instructions[start].argval == "pop"
    assert code.shapes[start + 1 : start + 4] == ((True,), (True, False), (False, True))


def test_global_operator_and_comparison_arguments() -> None:
    def work(x: int) -> bool:
        x += int(x)
        return x is not None and x >= len([x])

    of = {i.opname: i for i in Code.of(work.__code__).instructions}
    assert (of["LOAD_GLOBAL"].argval, of["LOAD_GLOBAL"].push_null) == ("len", True)
    assert of["BINARY_OP"].argval == "+="
    assert of["COMPARE_OP"].argval == ">="
    assert of["IS_OP"].argval == "is not"
    assert of["JUMP_IF_FALSE_OR_POP"].target is not None


def test_slots_and_arguments() -> None:
    def outer(free: int) -> object:
        def inner(a: int, b: int, *args: int, key: int, **more: int) -> object:
            local = free
            return lambda: (a, local, key)

        return inner

    (inner,) = [c for c in outer.__code__.co_consts if isinstance(c, types.CodeType)]
    code = Code.of(inner)
    assert code.n_args == 5
    assert [tuple(slot) for slot in code.localsplus] == [
        ("a", "cell"),
        ("b", "local"),
        ("key", "cell"),
        ("args", "local"),
        ("more", "local"),
        ("local", "cell"),
        ("free", "free"),
    ]
    assert names(code)[: code.start] == [
        "COPY_FREE_VARS",
        "MAKE_CELL",
        "MAKE_CELL",
        "MAKE_CELL",
    ] + ["RESUME"]
    (load,) = [i for i in code.instructions if i.opname == "LOAD_DEREF"]
    assert (load.argval, load.arg) == ("free", 6)


def test_generators_are_marked_and_have_shapes() -> None:
    def count() -> Iterator[int]:
        for i in range(3):
            yield i * i

    async def wait(x: object) -> object:
        async with x as y:  # type: ignore[attr-defined]
            async for _ in y:
                await y
        return [z async for z in y]

    for function in (count, wait):
        for original in code_objects(function.__code__):
            code = Code.of(original)
            assert code.has_generator
            assert code.shapes[code.start] == ()
    assert not Code.of(names.__code__).has_generator


@pytest.mark.parametrize("opname", sorted(set(opcode.opmap) - GONE))
def test_stack_effects_agree_with_the_compiler(opname: str) -> None:
    """`dis.stack_effect` is what CPython's own compiler reckons with."""
    op = opcode.opmap[opname]
    plain = opname
    if opname in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
        plain = "JUMP"
    plain = plain.replace("_FORWARD", "").replace("_BACKWARD", "")
    # The compiler counts PRECALL for part of CALL, and the sent value as of YIELD_VALUE's caller.
    known = {"CALL": lambda n: -n - 1, "RETURN_GENERATOR": lambda n: 1}
    before = (True,) * 40
    for arg in range(8) if op >= opcode.HAVE_ARGUMENT else [0]:
        if arg not in SENSIBLE.get(opname, [arg]):
            continue
        push_null = opname == "LOAD_GLOBAL" and bool(arg & 1)
        for taken in [False, True] if op in opcode.hasjrel else [False]:
            after = shape_after(before, plain, arg, push_null, taken)
            expected = dis.stack_effect(op, arg if op >= opcode.HAVE_ARGUMENT else None, jump=taken if taken else False)
            expected = known[opname](arg) if opname in known else expected
            assert len(after) - len(before) == expected, (opname, arg, taken)


def test_shapes_fit_the_stack_of_the_function() -> None:
    for original in CODES:
        code = Code.of(original)
        assert max(len(shape) for shape in code.shapes if shape is not None) <= code.stack_size
        for instruction, shape in zip(code.instructions, code.shapes, strict=True):
            if shape is not None and instruction.handler is not None:
                assert len(shape) >= instruction.handler.depth


def test_unreachable_instructions_have_no_shape() -> None:
    def handler(items: list[int]) -> None:
        for _ in items:
            try:
                items.pop()
            except IndexError as error:  # noqa: F841
                continue

    code = Code.of(handler.__code__)
    assert None in code.shapes  # `error` would be deleted there if `continue` could fail
    assert all(code.shapes[s] is not None for i in range(code.start) for s in code.successors(i))


def test_live_slots() -> None:
    def work(a: int, b: int, c: int) -> int:
        a = b
        d = a + b
        return d

    code = Code.of(work.__code__)
    slot = {s.name: number for number, s in enumerate(code.localsplus)}
    start = code.start
    assert code.live[start] == {slot["b"]}
    at_return = names(code).index("RETURN_VALUE")
    assert code.live[at_return] == frozenset()
    assert code.live[at_return - 1] == {slot["d"]}


def test_what_a_handler_reads_is_live_in_its_range() -> None:
    def work(f: object, fallback: int) -> int:
        try:
            x = f()  # type: ignore[operator]
            fallback = 0
            return x
        except ValueError:
            return fallback

    code = Code.of(work.__code__)
    fallback = 1
    for instruction in code.instructions:
        if instruction.opname == "STORE_FAST" and instruction.argval == "x":
            assert fallback in code.live[instruction.index]


def test_calls_that_read_the_frame_keep_locals_live() -> None:
    def plain(a: int) -> None:
        b = a  # noqa: F841
        print()

    def reads(a: int) -> None:
        b = a
        print(locals())

    class Child(list):  # type: ignore[type-arg]
        def method(self) -> object:
            return super().copy()

    def live_at_call(function: object) -> frozenset[int]:
        code = Code.of(function.__code__)  # type: ignore[attr-defined]
        return code.live[names(code).index("CALL")]

    assert live_at_call(plain) == frozenset()
    assert live_at_call(reads) == {0, 1}
    assert live_at_call(Child.method) == {0, 1}  # self and __class__


def test_successors() -> None:
    def work(x: int) -> int:
        try:
            return 1 if x else 2
        except ValueError:
            return 3

    code = Code.of(work.__code__)
    jump = next(i for i in code.instructions if i.opname == "POP_JUMP_IF_FALSE")
    assert jump.handler is not None
    assert code.successors(jump.index) == (jump.index + 1, jump.target, jump.handler.target)
    (raise_,) = [i for i in code.instructions if i.opname == "RERAISE" and i.arg == 1]
    assert code.successors(raise_.index) == ()


def test_loops() -> None:
    def work(n: int) -> int:
        total = 0
        for i in range(n):
            while total < 10:
                total += i
            if i == 3:
                continue
            total -= 1
        return total

    code = Code.of(work.__code__)
    outer, inner = code.loops
    assert (outer.is_for, inner.is_for) == (True, False)
    assert code.instructions[outer.header].opname == "FOR_ITER"
    assert lines_of(code, outer.body) == {2, 3, 4, 5, 6, 7}
    assert lines_of(code, inner.body) == {3, 4}
    assert inner.body < outer.body
    assert code.enclosing_loops(inner.header) == (inner, outer)
    assert code.enclosing_loops(outer.header) == (outer,)
    assert code.enclosing_loops(code.start) == ()


def test_a_loop_contains_its_handlers() -> None:
    def work(f: object) -> object:
        while True:
            try:
                return f()  # type: ignore[operator]
            except ValueError:
                print("again")

    code = Code.of(work.__code__)
    (loop,) = code.loops
    assert not loop.is_for
    assert {3, 4, 5} <= lines_of(code, loop.body)


def test_a_handler_that_jumps_back_to_the_code_after_try_is_no_loop() -> None:
    def work(f: object) -> int:
        try:
            f()  # type: ignore[operator]
        except ValueError:
            pass
        else:
            return 1
        return 2

    code = Code.of(work.__code__)
    assert code.loops == ()


def test_loops_are_entered_through_their_header_only() -> None:
    def reach(code: Code, without: int) -> set[int]:
        seen, work = {0}, [0]
        while work:
            for successor in code.successors(work.pop()):
                if successor not in seen and successor != without:
                    seen.add(successor)
                    work.append(successor)
        return seen

    found: list[Loop] = []
    for original in CODES:
        code = Code.of(original)
        for loop in code.loops:
            found.append(loop)
            assert loop.body & reach(code, loop.header) <= {loop.header}
    assert len(found) > 50


def test_long_functions() -> None:
    """Arguments over 255 and jumps over 65,535 code units need EXTENDED_ARG."""
    body = "\n".join(f"    v{i} = {i + 1000}.5" for i in range(300))
    big = "\n".join("        v299 = f(v298, key=v297)" for _ in range(4000))
    source = f"def long(f, n):\n{body}\n    for i in range(n):\n{big}\n    return v299"
    namespace: dict[str, types.FunctionType] = {}
    exec(source, namespace)
    code = Code.of(namespace["long"].__code__)
    (loop,) = code.loops
    header = code.instructions[loop.header]
    assert header.target is not None
    assert code.instructions[header.target].argval == "v299"
    assert code.instructions[header.target - 1].target == loop.header
    assert [i.argval for i in code.instructions if i.opname == "LOAD_CONST"][299] == 1299.5
    assert all(i.kwnames == ("key",) for i in code.instructions if i.opname == "CALL" and i.arg == 2)


def test_of_is_cached_by_identity_while_the_code_lives() -> None:
    def make() -> types.FunctionType:
        namespace: dict[str, types.FunctionType] = {}
        exec("def f(x):\n    return x", namespace)
        return namespace["f"]

    one, other = make(), make()
    assert one.__code__ == other.__code__
    assert Code.of(one.__code__) is Code.of(one.__code__)
    assert Code.of(one.__code__) is not Code.of(other.__code__)
    code = Code.of(one.__code__)
    assert code.original is one.__code__
    gone = weakref.ref(Code.of(other.__code__))
    del other, one
    gc.collect()
    assert gone() is None
    with pytest.raises(ReferenceError, match="is gone"):
        _ = code.original


def test_of_takes_code_objects_only() -> None:
    with pytest.raises(TypeError, match="not function"):
        Code.of(names)  # type: ignore[arg-type]


def test_printing() -> None:
    def double(x: int) -> int:
        return x + x

    code = Code.of(double.__code__)
    assert str(code).splitlines() == [
        f"{double.__qualname__}(x)",
        f"    0 {code.firstlineno:5}  RESUME                                       []",
        f"    1 {code.firstlineno + 1:5}  LOAD_FAST            0 (x)                   []",
        "    2        LOAD_FAST            0 (x)                   [v]",
        "    3        BINARY_OP            0 (+)                   [v v]",
        "    4        RETURN_VALUE                                 [v]",
    ]
    for original in CODES:
        assert len(str(Code.of(original)).splitlines()) == len(Code.of(original)) + 1
