"""LLVM text: what the builder writes, and that it is what LLVM understands."""

import ctypes
import math

import pytest

from segue.backends.native.jit import compile_module
from segue.backends.native.target import host
from segue.backends.native.text import Function, Lanes, Module, literal


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        ("i1", True, "true"),
        ("i8", 200, "-56"),
        ("i64", -1, "-1"),
        ("i32", 2**31, str(-(2**31))),
        ("float", 1.0, "0x3FF0000000000000"),
        ("float", 1e300, "0x7FF0000000000000"),
        ("double", -0.0, "0x8000000000000000"),
        ("half", 1.0, "0xH3C00"),
    ],
)
def test_literals(element, value, expected):
    assert literal(element, value) == expected


def test_a_float_literal_is_rounded_to_float():
    assert literal("float", 0.1) != literal("double", 0.1)
    assert literal("float", math.nan).startswith("0x7FF")


def function(write, parameters="i64 %n", result="i64"):
    """The callable of a function whose body `write` writes."""
    module = Module()
    f = Function(module)
    write(f)
    f.finish("made", parameters, result)
    code = compile_module(str(module), ["made"], host())
    called = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("made"))
    called.code = code
    return called


def test_a_value_is_computed_once_in_a_scope():
    f = Function(Module())
    first = f.let("add i64 %a, 1")
    with f.scope():
        assert f.let("add i64 %a, 1") == first
        inner = f.let("add i64 %a, 2")
    assert f.let("add i64 %a, 2") != inner
    assert f.fresh("add i64 %a, 1") != first


def test_a_loop_carries_values():
    def write(f):
        total, last = f.loop(
            "0", "%n", 1, [("i64", "0"), ("i64", "7")], lambda i, now: [f.let(f"add i64 {now[0]}, {i}"), i]
        )
        f.effect(f"ret i64 {f.let(f'mul i64 {total}, {last}')}")

    called = function(write)
    assert [called(n) for n in (1, 2, 5)] == [sum(range(n)) * (n - 1) for n in (1, 2, 5)]


def test_loops_inside_loops():
    def write(f):
        def outer(i, now):
            return f.loop("0", "3", 1, [("i64", now[0])], lambda j, inner: [f.let(f"add i64 {inner[0]}, {i}")])

        (total,) = f.loop("0", "%n", 2, [("i64", "0")], outer)
        f.effect(f"ret i64 {total}")

    assert function(write)(7) == 3 * (0 + 2 + 4 + 6)


def test_code_under_a_condition():
    def write(f):
        place = f.allocate("i64", 1)
        f.effect(f"store i64 1, ptr {place}")
        f.when(f.let("icmp sgt i64 %n, 5"), lambda: f.effect(f"store i64 2, ptr {place}"))
        f.effect(f"ret i64 {f.fresh(f'load i64, ptr {place}')}")

    called = function(write)
    assert [called(5), called(6)] == [1, 2]


def test_lanes():
    def write(f):
        lanes = Lanes(f, 4)
        assert (lanes.type("i64"), Lanes(f, 1).type("i64")) == ("<4 x i64>", "i64")
        x = lanes.op("add", "i64", lanes.splat("i64", "%n"), "<i64 0, i64 1, i64 2, i64 3>")
        odd = lanes.op("and", "i64", x, lanes.constant("i64", 1))
        picked = lanes.select(
            lanes.compare("icmp eq", "i64", odd, lanes.constant("i64", 0)), "i64", x, lanes.constant("i64", 0)
        )
        real = lanes.convert("sitofp", "i64", "double", picked)
        root = lanes.intrinsic("llvm.sqrt", "double", lanes.op("fmul", "double", real, real))
        whole = lanes.convert("fptosi", "double", "i64", root)
        total = f.call("llvm.vector.reduce.add.v4i64", "i64", [(lanes.type("i64"), whole)])
        f.effect(f"ret i64 {total}")

    assert function(write)(3) == 4 + 6


def test_one_lane_is_a_scalar():
    f = Function(Module())
    one = Lanes(f, 1)
    assert one.splat("float", "%x") == "%x"
    assert one.constant("i32", 5) == "5"
    assert Lanes(f, 8).constant("i32", 5) == "splat (i32 5)"
