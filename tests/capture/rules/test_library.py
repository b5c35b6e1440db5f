"""The standard library: regular expressions, JSON, dates, ordered lists, what inspect and the interpreter tell."""

from __future__ import annotations

import bisect
import datetime
import heapq
import inspect
import json
import os
import re
import sys
import threading
import typing

import pytest
import torch
from torch import nn

import segue
from tests.capturing import assert_breaks, assert_captured


def matrix():
    return torch.randn(4, 4)


PATTERN = re.compile(r"(?P<word>[a-z]+)-(\d+)")

PROGRAMS = {
    "match": lambda: PATTERN.match("layer-12").groups(),
    "no match": lambda: PATTERN.match("?") is None,
    "named groups": lambda: PATTERN.search(" layer-12")["word"],
    "findall": lambda: re.findall(r"\d", "a1b2"),
    "finditer": lambda: [m.span() for m in re.finditer("a+", "aa b a")],
    "sub with a text": lambda: re.sub(r"\d+", "#", "a1b22", count=1),
    "sub with a function": lambda: re.sub(r"\d+", lambda m: str(int(m[0]) + 1), "a1b22"),
    "subn with a function": lambda: PATTERN.subn(lambda m: m["word"], "x-1 y-2"),
    "split": lambda: re.split(r",\s*", "a, b,c"),
    "a wrong pattern": lambda: _raised(lambda: re.compile("(")),
    "dumps": lambda: json.dumps({"a": [1, None, True], "b": "c"}, indent=1),
    "loads": lambda: json.loads('{"a": [1, 2.5]}'),
    "dates": lambda: (datetime.date(2020, 1, 31) + datetime.timedelta(days=1)).isoformat(),
    "times": lambda: datetime.datetime(2020, 1, 1, 5).strftime("%Y-%H"),
    "bisect": lambda: [bisect.bisect([1, 2, 2, 3], 2), bisect.bisect_left([1, 2, 2, 3], 2, key=lambda k: k)],
    "insort": lambda: _after(lambda items: bisect.insort(items, 2), [1, 3]),
    "heap": lambda: _heap([5, 2, 8, 1, 9, 3]),
    "an import": lambda: __import__("math").floor(2.5),
    "os.path": lambda: os.path.join("a", os.path.basename("b/c.txt")),
    "bytes": lambda: (bytes(3), bytes([1, 2]), bytes("a", "utf8"), len(b"")),
    "generic aliases": lambda: (list[int], dict[str, list[int]], typing.get_origin(list[int]), type[int]),
    "frozen sets": lambda: (sorted(frozenset("ba")), len(frozenset([1, 1])), "a" in {"a", "b"}),
}


def _raised(function):
    try:
        function()
    except re.error as error:
        return str(error)


def _after(change, items):
    change(items)
    return items


def _heap(items):
    heapq.heapify(items)
    heapq.heappush(items, 4)
    order = list(items)
    return order, heapq.heappop(items), heapq.heappushpop(items, 0), heapq.heapreplace(items, 7), items


@pytest.mark.parametrize("name", PROGRAMS)
def test_constants(name):
    program = PROGRAMS[name]
    assert_captured(lambda x: (x + 1, program()), matrix)


@pytest.mark.parametrize("n", range(9))
def test_heaps_have_the_layout_of_python(n):
    items = [(7 * k + 3) % 10 for k in range(n)]

    def f(x):
        heap = list(items)
        heapq.heapify(heap)
        layouts = [list(heap)]
        while heap:
            heapq.heappop(heap)
            layouts.append(list(heap))
        return x + 1, layouts

    assert_captured(f, matrix)


class Adapter(nn.Module):
    def forward(self, x, scale=2, *, bias: float = 1.0):
        return x * scale + bias


def test_the_signature_of_a_method():
    adapter = Adapter()

    def f(x):
        parameters = inspect.signature(adapter.forward).parameters
        return adapter(x, scale=parameters["scale"].default), list(parameters), "bias" in parameters

    assert_captured(f, matrix)


def test_a_changed_default_is_noticed():
    def run(x, scale=2):
        return x

    compiled = segue.compile(lambda x: x * inspect.signature(run).parameters["scale"].default, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    run.__defaults__ = (3,)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))


def test_settings_are_read_at_each_run():
    before = sys.getrecursionlimit()
    compiled = segue.compile(lambda x: x + sys.getrecursionlimit(), backend="eager")
    try:
        for limit in (before, before + 10):
            sys.setrecursionlimit(limit)
            assert torch.equal(compiled(torch.zeros(2)), torch.full((2,), float(limit)))
    finally:
        sys.setrecursionlimit(before)


def test_the_thread_is_the_one_that_runs():
    compiled = segue.compile(lambda x: (x + 1, threading.get_ident()), backend="eager")
    found = [compiled(torch.ones(2))[1]]
    thread = threading.Thread(target=lambda: found.append(compiled(torch.ones(2))[1]))
    thread.start()
    thread.join()
    assert found == [threading.get_ident(), thread.ident]


def test_locals_are_a_new_dict():
    def f(x):
        k = 3
        inside = lambda: k
        table = locals()
        table["new"] = 1
        return x + table["k"] + inside(), sorted(table)

    assert_captured(f, matrix)


def test_what_time_it_is_is_asked_in_the_interpreter():
    assert_breaks(lambda x: (x + 1, datetime.datetime.now() > datetime.datetime(2020, 1, 1)), "opaque-call", matrix)


def test_members_of_enumerations_are_operands_of_tensors():
    import enum

    class Bits(enum.IntFlag):
        A = 1
        B = 2

    assert_captured(lambda x: x * Bits.B + (Bits.A | Bits.B) + len(Bits), matrix)
