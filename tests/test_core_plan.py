"""Plans of the C core: their steps, how they are called and fail, and the memory of their outputs."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from segue import _core
from segue._core import Plan, Register

_core.setup_torch(torch)

KERNEL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64, ctypes.c_int64)

Step = tuple[Any, ...]


def cells(address: int | None, kind: type[Any] = ctypes.c_float) -> Any:
    return ctypes.cast(address or 0, ctypes.POINTER(kind))


def kernel(function: Callable[[Any, int, int], int | None], slots: tuple[int, ...], units: int, **more: Any) -> Step:
    """A kernel step that calls a Python function with the pointers and a range."""

    def call(pointers: Any, begin: int, end: int) -> int:
        return function(pointers, begin, end) or 0

    owner = KERNEL(call)
    address = ctypes.cast(owner, ctypes.c_void_p).value
    step = ("kernel", address, slots, units, more.get("parallel", 0), owner)
    return (*step, more["message"]) if "message" in more else step


def adding(amount: float) -> Callable[[Any, int, int], None]:
    """A kernel's function: float32 of slot 0, plus `amount`, to slot 1."""

    def add(pointers: Any, begin: int, end: int) -> None:
        source, target = cells(pointers[0]), cells(pointers[1])
        for i in range(begin, end):
            target[i] = source[i] + amount

    return add


def fresh(register: int, slot: int, *sizes: int, dtype: torch.dtype = torch.float32) -> Step:
    """An output step of a contiguous tensor."""
    model = torch.empty(sizes, dtype=dtype, device="meta")
    return ("output", register, slot, dtype, sizes, model.stride(), model.numel())


def call(
    function: Callable[..., Any], args: tuple[Any, ...], result: Any, names: tuple[str, ...] | None = None
) -> Step:
    return ("call", function, args, names, result)


def expect(register: int, slot: int, like: torch.Tensor) -> Step:
    return ("expect", register, slot, like.dtype, tuple(like.shape), like.stride())


def add_plan(n: int, amount: float = 1.0, **more: Any) -> Plan:
    """x + amount for n float32."""
    steps = (("input", 0, 0), fresh(1, 1, n), kernel(adding(amount), (0, 1), n, **more))
    return Plan(steps, 2, 2, (Register(1),), lambda: add_plan(n, amount, **more))


def output_plan(*sizes: int, dtype: torch.dtype = torch.float32) -> Plan:
    """A tensor, nothing in it."""
    return Plan((fresh(0, 0, *sizes, dtype=dtype),), 1, 1, (Register(0),), lambda: output_plan(*sizes, dtype=dtype))


@pytest.fixture
def pool() -> Iterator[None]:
    """An empty pool, and the limit put back afterwards."""
    limit = _core.set_pool_limit(1 << 30)
    _core.trim_pool()
    yield
    _core.trim_pool()
    _core.set_pool_limit(limit)


MB = 1 << 20


# ---- steps


def test_input_kernel_and_output() -> None:
    x = torch.arange(5.0)
    (y,) = add_plan(5)(x)
    assert torch.equal(y, x + 1) and type(y) is torch.Tensor and y.device == x.device


def test_input_points_at_the_first_element_of_a_view() -> None:
    x = torch.arange(9.0)
    assert torch.equal(add_plan(4)(x[3:])[0], x[3:7] + 1)
    assert torch.equal(add_plan(3)(torch.nn.Parameter(x[6:]))[0], x[6:] + 1)


@pytest.mark.parametrize("kind, ctype, values", [("d", ctypes.c_double, [2.5, 3]), ("q", ctypes.c_int64, [-7, True])])
def test_number(kind: str, ctype: type[Any], values: list[Any]) -> None:
    seen: list[Any] = []
    look = kernel(lambda p, b, e: seen.append(cells(p[0], ctype)[0]), (0,), 1)
    plan = Plan((("number", 0, 0, kind), look), 1, 1, (Register(0),))
    assert [plan(v)[0] for v in values] == values
    assert seen == values


@pytest.mark.parametrize("kind, value", [("d", 10**400), ("q", 2**63), ("q", -(2**63) - 1)])
def test_number_that_is_too_large(kind: str, value: int) -> None:
    plan = Plan((("number", 0, 0, kind),), 1, 1, ())
    with pytest.raises(OverflowError):
        plan(value)
    assert plan(5) == ()


def test_number_of_another_type() -> None:
    with pytest.raises(TypeError):
        Plan((("number", 0, 0, "q"),), 1, 1, ())(1.5)


def test_memory() -> None:
    constant = torch.arange(6.0)
    steps = (("memory", constant, 0, 8), fresh(0, 1, 4), kernel(adding(0.5), (0, 1), 4))
    plan = Plan(steps, 1, 2, (Register(0),))
    del steps
    assert torch.equal(plan()[0], constant[2:] + 0.5)
    constant.zero_()
    assert torch.equal(plan()[0], torch.full((4,), 0.5))


LAYOUTS = {
    "scalar": ((), ()),
    "matrix": ((3, 4), (4, 1)),
    "transposed": ((3, 4), (1, 3)),
    "channels last": ((2, 3, 4, 5), (60, 1, 15, 3)),
    "gaps": ((2, 3), (8, 2)),
    "empty": ((0, 3), (3, 1)),
    "large": ((600, 700), (700, 1)),
    "large, channels last": ((2, 3, 300, 300), (270000, 1, 900, 3)),
    "large, nine dimensions": ((1,) * 8 + (400000,), (400000,) * 8 + (1,)),
}


@pytest.mark.parametrize("sizes, strides", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.bfloat16, torch.complex128])
def test_output_is_like_a_tensor_of_torch(sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> None:
    model = torch.empty_strided(sizes, strides, dtype=dtype)
    span = 0 if model.numel() == 0 else 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    addresses: list[Any] = []
    look = kernel(lambda p, b, e: addresses.append(p[0]), (0,), 1)
    plan = Plan((("output", 0, 0, dtype, sizes, strides, span), look), 1, 1, (Register(0),))
    for inference in (False, True):
        with torch.inference_mode(inference):
            (made,) = plan()
            like = torch.empty_strided(sizes, strides, dtype=dtype)
        assert (made.dtype, made.shape, made.stride(), made.device) == (dtype, like.shape, like.stride(), like.device)
        assert made.is_inference() is inference and not made.requires_grad and made.is_leaf
        assert made.data_ptr() % 64 == 0 and (addresses.pop() or 0) == made.data_ptr()
        assert made.untyped_storage().nbytes() == like.untyped_storage().nbytes()
        with torch.inference_mode(inference):
            assert torch.equal(made.zero_(), torch.zeros_like(made))


def test_every_dtype() -> None:
    names = (
        "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 bool complex64 complex128"
    )
    for name in names.split():
        dtype = getattr(torch, name)
        for n in (3, 2 * MB):
            assert output_plan(n, dtype=dtype)()[0].dtype is dtype


def test_small_outputs_can_be_resized() -> None:
    (y,) = output_plan(4)()
    assert y.resize_(50).shape == (50,)


@pytest.mark.parametrize("parallel", [0, 1, 3, 100])
def test_kernel_runs_over_all_units_once(parallel: int) -> None:
    seen: list[int] = []
    step = kernel(lambda p, b, e: seen.extend(range(b, e)), (), 20, parallel=parallel)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        Plan((step,), 0, 0, ())()
    finally:
        torch.set_num_threads(threads)
    assert sorted(seen) == list(range(20))


def test_parallel_kernel_lets_other_python_threads_run() -> None:
    entered, go_on = threading.Event(), threading.Event()

    def wait(pointers: Any, begin: int, end: int) -> int:
        entered.set()
        return not go_on.wait(20)

    plan = Plan((kernel(wait, (), 2, parallel=1),), 0, 0, (1,))
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(plan)
        assert entered.wait(20)
        go_on.set()
        assert running.result(20) == (1,)


@pytest.mark.parametrize("parallel", [0, 1])
@pytest.mark.parametrize("message, raised", [({}, "index"), ({"message": "row 7 is too far"}, "row 7 is too far")])
def test_kernel_that_fails(parallel: int, message: dict[str, str], raised: str) -> None:
    step = kernel(lambda p, b, e: int(b <= 2 < e), (), 4, parallel=parallel, **message)
    with pytest.raises(IndexError, match=raised):
        Plan((step,), 0, 0, ())()


def test_call_gets_registers_wherever_they_are() -> None:
    marker = object()
    seen: list[Any] = []

    def function(*args: Any, **kwargs: Any) -> str:
        seen.append((args, kwargs))
        return "result"

    args = (Register(0), marker, [Register(1), marker], (Register(0), (Register(1),)), [1, 2], Register(1))
    plan = Plan((call(function, args, 2, ("key",)),), 3, 0, (Register(2), Register(0), "constant"))
    assert plan("a", "b") == ("result", "a", "constant")
    assert seen == [(("a", marker, ["b", marker], ("a", ("b",)), [1, 2]), {"key": "b"})]


def test_call_of_aten() -> None:
    x, y = torch.randn(2, 3), torch.randn(2, 3)
    steps = (
        call(torch.ops.aten.cat.default, ([Register(0), Register(1)], 1), 2),
        call(torch.ops.aten.max.dim, (Register(2), 1), (None, 3)),
        call(torch.ops.aten.add.Tensor, (Register(0), Register(1), 2), 4, ("alpha",)),
    )
    plan = Plan(steps, 5, 0, (Register(2), Register(3), Register(4)))
    joined = torch.cat([x, y], 1)
    expected = (joined, joined.max(1).indices, torch.add(x, y, alpha=2))
    assert all(map(torch.equal, plan(x, y), expected))


def test_result_that_is_dropped() -> None:
    seen: list[int] = []
    assert Plan((call(seen.append, (3,), None),), 0, 0, ())() == () and seen == [3]


@pytest.mark.parametrize("result, error", [(3, TypeError), ((1,), ValueError), ([1, 2, 3], ValueError)])
def test_result_that_cannot_be_unpacked(result: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Plan((call(lambda: result, (), (0, 1)),), 2, 0, ())()


def test_expect_passes_a_tensor_of_the_layout_on() -> None:
    x = torch.randn(3, 1, 4).transpose(1, 2)
    like = torch.empty_strided(x.shape, (4, 1, 99))  # the stride of a single element does not matter
    steps = (call(lambda v: v, (Register(0),), 1), expect(1, 0, like), fresh(2, 1, 12), kernel(adding(1), (0, 1), 12))
    same, y = Plan(steps, 3, 2, (Register(1), Register(2)))(x)
    assert same is x and torch.equal(y, x.flatten() + 1)


OTHERS: dict[str, Callable[[], torch.Tensor]] = {
    "strides": lambda: torch.randn(4, 3, dtype=torch.complex64).t(),
    "conjugate": lambda: torch.randn(3, 4, dtype=torch.complex64).conj(),
    "negated": lambda: torch._neg_view(torch.randn(3, 4, dtype=torch.complex64)),
}


@pytest.mark.parametrize("make", OTHERS.values(), ids=OTHERS)
def test_expect_copies_what_is_laid_out_otherwise(make: Callable[[], torch.Tensor]) -> None:
    x, like = make(), torch.empty(3, 4, dtype=torch.complex64)
    seen: list[complex] = []
    look = kernel(lambda p, b, e: seen.extend(cells(p[0])[b:e]), (0,), 24)
    steps = (call(lambda v: v, (Register(0),), 1), expect(1, 0, like), look)
    (y,) = Plan(steps, 2, 1, (Register(1),))(x)
    assert torch.equal(y, x) and y is not x and y.stride() == like.stride()
    assert not y.is_conj() and not y.is_neg()
    assert seen == torch.view_as_real(y).flatten().tolist()


@pytest.mark.parametrize("value", [torch.ones(1), torch.ones(3, 2), torch.ones(3, dtype=torch.int32), 7, None])
def test_expect_refuses_another_size_or_dtype(value: Any) -> None:
    steps = (call(lambda: value, (), 0), expect(0, -1, torch.empty(3)))
    with pytest.raises(RuntimeError, match="not of the dtype"):
        Plan(steps, 1, 0, ())()


def test_release_ends_a_tensor_before_the_plan_does() -> None:
    alive: list[bool] = []
    made: list[weakref.ref[Any]] = []

    def make() -> torch.Tensor:
        tensor = torch.ones(2)
        made.append(weakref.ref(tensor))
        return tensor

    note = call(lambda: alive.append(made[0]() is not None), (), None)
    Plan((call(make, (), 0), note, ("release", 0), note), 1, 0, ())()
    assert alive == [True, False]


# ---- arguments that do not suit


def unsuitable() -> dict[str, Any]:
    with FakeTensorMode():
        fake = torch.ones(3)
    return {
        "meta": torch.ones(3, device="meta"),
        "sparse": torch.eye(3).to_sparse(),
        "conjugate": torch.ones(3, dtype=torch.complex64).conj(),
        "negated": torch._neg_view(torch.ones(3)),
        "fake": fake,
        "no tensor": 3,
    }


@pytest.mark.parametrize("name", unsuitable())
def test_tensor_without_memory_as_it_is(name: str) -> None:
    x = unsuitable()[name]
    ran: list[int] = []
    steps = (("input", 0, 0), kernel(lambda p, b, e: ran.append(1), (0,), 1))
    assert Plan(steps, 1, 1, (), None, lambda *args: ("eager", *args))(x) == ("eager", x)
    with pytest.raises(RuntimeError, match="do not suit"):
        Plan(steps, 1, 1, ())(x)
    assert ran == []


def test_tensor_wrapped_by_a_transform_falls_back() -> None:
    plan = Plan((("input", 0, 0),), 1, 1, (), None, lambda x: (x * 2,))
    assert torch.equal(torch.vmap(lambda x: plan(x)[0])(torch.ones(2, 3)), torch.full((2, 3), 2.0))


def test_empty_tensor_suits() -> None:
    assert Plan((("input", 0, 0),), 1, 1, ())(torch.ones(0)) == ()


def test_overlap_of_a_written_input() -> None:
    ran: list[int] = []
    steps = (
        *(("input", i, i) for i in range(3)),
        ("check_overlap", ((0, 16),), ((0, 16), (1, 16), (2, 0))),
        kernel(lambda p, b, e: ran.append(1), (0,), 1),
    )
    plan = Plan(steps, 3, 3, ("plan",), None, lambda *args: ("eager",))
    x = torch.zeros(12)
    runs = [(0, 4), (4, 0), (0, 8), (0, 0), (0, 3), (3, 0), (5, 8)]
    found = [plan(x[a : a + 4], x[b : b + 4], x[a + 1 : a + 1])[0] for a, b in runs]
    assert found == [("eager" if abs(a - b) < 4 else "plan") for a, b in runs]
    assert len(ran) == found.count("plan")


def test_overlap_of_two_written_inputs() -> None:
    steps = (("input", 0, 0), ("input", 1, 1), ("check_overlap", ((0, 4), (1, 4)), ()))
    plan = Plan(steps, 2, 2, ("plan",), None, lambda *args: ("eager",))
    x = torch.zeros(2)
    assert (plan(x, x), plan(x, x[1:])) == (("eager",), ("plan",))


def test_error_of_the_fallback_propagates() -> None:
    def fail(x: Any) -> Any:
        raise KeyError(x)

    with pytest.raises(KeyError):
        Plan((("input", 0, 0),), 1, 1, (), None, fail)(3)


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1, 2), {}), ((1,), {"x": 2})])
def test_wrong_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="1 positional"):
        Plan((), 1, 0, (), n_args=1)(*args, **kwargs)


def test_number_of_arguments() -> None:
    assert Plan((fresh(2, 0, 1),), 3, 1, ()).n_args == 2
    assert Plan((call(len, ((),), (3, 1)),), 4, 0, ()).n_args == 1
    assert Plan((), 4, 0, ()).n_args == 4
    assert Plan((), 4, 0, (), n_args=2).n_args == 2


# ---- malformed plans

F32 = torch.float32

MALFORMED: dict[str, tuple[tuple[Step, ...], str]] = {
    "no tuple": (("input",), "starts with its name"),  # type: ignore[dict-item]
    "no name": (((1,),), "starts with its name"),
    "unknown": ((("compute", 1),), "no such step"),
    "too few": ((("input", 0),), "number of operands"),
    "too many": ((("release", 0, 1),), "number of operands"),
    "argument": ((("input", 1, 0),), "holds nothing"),
    "slot": ((("input", 0, 2),), "no such register or slot"),
    "negative": ((("input", 0, -1),), "out of range"),
    "no number": ((("input", "0", 0),), "expected a number"),
    "kind": ((("number", 0, 0, "f"),), "kind"),
    "dtype": ((("output", 1, 0, "f32", (1,), (1,), 1),), "dtype"),
    "strides": ((("output", 1, 0, F32, (1,), (1, 1), 1),), "one length"),
    "span": ((("output", 1, 0, F32, (2, 2), (2, 1), 5),), "spanned"),
    "memory": ((("memory", torch.ones(2, device="meta"), 0, 0),), "memory"),
    "unset slot": ((("kernel", 1, (1,), 1, 0, None),), "slot is read"),
    "address": ((("kernel", 0, (), 1, 0, None),), "address"),
    "message": ((("kernel", 1, (), 1, 0, None, 3),), "text"),
    "unset register": ((("call", len, (Register(1),), None, None),), "holds nothing"),
    "nested register": ((("call", len, ([Register(9)],), None, None),), "holds nothing"),
    "callable": ((("call", 3, (), None, None),), "callable"),
    "names": ((("call", len, (), ("key",), None),), "names"),
    "released": ((("release", 0), ("release", 0)), "holds nothing"),
    "late check": ((("call", len, ((),), None, None), ("input", 0, 0)), "before every kernel"),
    "spans": ((("check_overlap", ((0,),), ()),), "pairs"),
    "expect": ((("expect", 1, -1, F32, (), ()),), "holds nothing"),
}


@pytest.mark.parametrize("steps, message", MALFORMED.values(), ids=MALFORMED)
def test_malformed(steps: tuple[Step, ...], message: str) -> None:
    with pytest.raises(ValueError, match=rf"step \d \(.*\): .*{message}"):
        Plan(steps, 2, 2, (), n_args=1)


def test_malformed_output_and_counts() -> None:
    with pytest.raises(ValueError, match="output 1: register 1 holds nothing"):
        Plan((), 2, 0, (Register(0), Register(1)), n_args=1)
    for counts in ((-1, 0), (0, -1)):
        with pytest.raises(ValueError):
            Plan((), *counts, ())
    with pytest.raises(ValueError):
        Plan((), 1, 0, (), n_args=2)
    with pytest.raises(ValueError):
        Register(-1)


# ---- calls during calls


def countdown() -> tuple[Plan, list[int]]:
    """A plan that calls itself through a step, and how many plans were made."""
    made: list[int] = []

    def build() -> Plan:
        made.append(1)
        workspace = torch.zeros(1)

        def inner(n: int) -> int:
            return 0 if n == 0 else plan(n - 1)[0] + 1

        def store(pointers: Any, begin: int, end: int) -> None:
            cells(pointers[1])[0] = cells(pointers[0], ctypes.c_int64)[0]

        def check(n: int) -> None:
            assert workspace.item() == n

        steps = (
            ("number", 0, 0, "q"),
            ("memory", workspace, 1, 0),
            kernel(store, (0, 1), 1),
            call(inner, (Register(0),), 1),
            call(check, (Register(0),), None),
        )
        return Plan(steps, 2, 2, (Register(1),), build)

    plan = build()
    return plan, made


def test_nested_calls_have_plans_of_their_own() -> None:
    plan, made = countdown()
    assert plan(5) == (5,) and len(made) == 6
    assert plan(5) == (5,) and plan(3) == (3,) and len(made) == 6


def test_endless_nesting_is_a_recursion_error() -> None:
    def build() -> Plan:
        return Plan((call(lambda: plan(), (), None),), 0, 0, (), build)

    plan = build()
    with pytest.raises(RecursionError):
        plan()


def test_threads_have_plans_of_their_own() -> None:
    n, barrier = 4, threading.Barrier(4, timeout=20)
    made: list[int] = []

    def build() -> Plan:
        made.append(1)
        steps = (("input", 0, 0), fresh(1, 1, 3), kernel(adding(1), (0, 1), 3), call(barrier.wait, (), None))
        return Plan(steps, 2, 2, (Register(1),), build)

    plan = build()
    inputs = [torch.full((3,), float(i)) for i in range(n)]
    with ThreadPoolExecutor(n) as executor:
        for _ in range(3):
            results = list(executor.map(plan, inputs))
            assert all(torch.equal(y, x + 1) for x, (y,) in zip(inputs, results, strict=True))
    assert len(made) == n


@pytest.mark.parametrize("clone", [None, lambda: 3, lambda: Plan((), 1, 0, ())])
def test_clone_that_is_not_one(clone: Any) -> None:
    plan = Plan((call(lambda: plan(), (), None),), 0, 0, (), clone)
    with pytest.raises(RuntimeError, match="clone"):
        plan()


def test_plan_runs_again_after_an_error() -> None:
    def inverse(x: int) -> float:
        return 1 / x

    plan = Plan((call(inverse, (Register(0),), 1),), 2, 0, (Register(1),))  # no clone: must not be busy
    with pytest.raises(ZeroDivisionError):
        plan(0)
    assert plan(2) == (0.5,)


# ---- what plans own


def test_nothing_is_leaked() -> None:
    marker, x = object(), torch.ones(3)
    made: list[weakref.ref[Any]] = []

    def function(*args: Any) -> tuple[Any, ...]:
        result = torch.ones(2, 3).t()
        made.append(weakref.ref(result))
        return result, marker

    steps = (
        ("input", 0, 0),
        fresh(2, 1, 3),
        call(function, (Register(0), [Register(2), marker]), (3, 4)),
        expect(3, -1, torch.empty(3, 2)),
        kernel(lambda p, b, e: int(cells(p[0])[0]), (0,), 1),
    )
    plan = Plan(steps, 5, 2, (Register(0), Register(2), Register(4), marker), None, lambda *args: marker)
    counted = (marker, x, function, steps, None)
    runs = {"well": (x, 1), "fails": (x + 1, 1), "falls back": (3, 1)}
    x.zero_()
    before = [sys.getrefcount(o) for o in counted]
    outputs: list[weakref.ref[Any]] = []
    for _ in range(100):
        outputs.append(weakref.ref(plan(*runs["well"])[1]))
        with pytest.raises(IndexError):
            plan(*runs["fails"])
        assert plan(*runs["falls back"]) is marker
    after = [sys.getrefcount(o) for o in counted]
    assert after[:-1] == before[:-1] and abs(after[-1] - before[-1]) < 100
    assert not any(ref() is not None for ref in made + outputs)


def test_plan_keeps_what_its_steps_refer_to() -> None:
    class Owner:
        pass

    owner, constant = Owner(), torch.ones(2)
    refs = [weakref.ref(owner), weakref.ref(constant)]
    base = kernel(lambda p, b, e: None, (0,), 1)
    plan = Plan((("memory", constant, 0, 0), (*base[:5], (owner, base[5]))), 0, 1, ())
    del owner, constant
    assert plan() == () and all(ref() is not None for ref in refs)
    del plan
    assert all(ref() is None for ref in refs)


def test_plan_in_a_cycle_is_collected() -> None:
    plan, _ = countdown()
    plan(3)
    box: list[Any] = []
    in_box = Plan((call(box.append, (1,), None),), 0, 0, (box,))
    box.append(in_box)
    thing = torch.ones(1)
    box.append(thing)
    ref = weakref.ref(thing)
    del plan, box, in_box, thing
    gc.collect()
    assert ref() is None


def test_plan_as_it_was_given() -> None:
    steps = (("input", 0, 0),)
    plan = Plan(steps, 2, 3, (Register(0), 5), n_args=1)
    assert plan.steps is steps and (plan.n_args, plan.n_registers, plan.n_slots) == (1, 2, 3)
    assert repr(plan.outputs) == "(Register(0), 5)"


# ---- the memory of large outputs


@pytest.mark.usefixtures("pool")
def test_memory_of_a_large_output_is_used_again() -> None:
    plan = output_plan(MB)
    (y,) = plan()
    address = y.data_ptr()
    (other,) = plan()
    assert other.data_ptr() != address
    view = y[5:]
    del y
    assert plan()[0].data_ptr() != address  # a view keeps it
    del view
    assert plan()[0].data_ptr() == address


@pytest.mark.usefixtures("pool")
def test_output_outlives_its_plan() -> None:
    (y,) = output_plan(MB)()
    y.fill_(3)
    gc.collect()
    assert torch.equal(y, torch.full((MB,), 3.0))
    del y
    assert _core.trim_pool() >= 4 * MB
    assert _core.trim_pool() == 0


@pytest.mark.usefixtures("pool")
def test_pool_keeps_what_was_used_last_within_its_limit() -> None:
    _core.set_pool_limit(20 * MB)
    plan = output_plan(2 * MB)  # 8 MB each
    kept = [plan()[0] for _ in range(4)]
    addresses = [y.data_ptr() for y in kept]
    while kept:
        del kept[0]
    again = [plan()[0].data_ptr() for _ in range(1)]
    assert again == addresses[-1:]
    assert _core.trim_pool() == 16 * MB


@pytest.mark.usefixtures("pool")
def test_block_beyond_the_limit_does_not_drive_others_out() -> None:
    _core.set_pool_limit(10 * MB)
    small, large = output_plan(2 * MB), output_plan(8 * MB)
    address = small()[0].data_ptr()
    large()
    assert small()[0].data_ptr() == address


@pytest.mark.usefixtures("pool")
def test_limit_takes_effect_at_once() -> None:
    output_plan(2 * MB)()
    assert _core.set_pool_limit(0) == 1 << 30
    assert _core.trim_pool() == 0
    output_plan(2 * MB)()
    assert _core.trim_pool() == 0
    with pytest.raises(OverflowError):
        _core.set_pool_limit(-1)


@pytest.mark.usefixtures("pool")
def test_outputs_end_on_any_thread() -> None:
    plan = output_plan(MB // 2)

    def work(n: int) -> bool:
        for i in range(20):
            (y,) = plan()
            y.fill_(n * 100 + i)
            if y.min() != n * 100 + i or y.max() != n * 100 + i:
                return False
        return True

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, range(4)))


@pytest.mark.usefixtures("pool")
def test_large_outputs_in_a_forked_child() -> None:
    plan = output_plan(MB)
    plan()
    child = os.fork()
    if child == 0:
        (y,) = plan()
        y.fill_(1)
        os._exit(0 if y.sum().item() == MB and output_plan(MB)()[0].numel() == MB else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
