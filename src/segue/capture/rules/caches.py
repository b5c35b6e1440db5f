"""Calls of functions under `functools.lru_cache`.

The cache is state of the program: what a call gives may be older than what the function would give now, and hits are
counted.  So the cache is asked at each run, once it is certain that the segment runs but for what the cache says, and
the function is captured to know what to expect of it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture.breaks import graph_break
from segue.capture.values.base import Value
from segue.capture.values.known import PRIMITIVES, Known
from segue.capture.values.sequence import TupleValue
from segue.guards.source import Attr, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

CACHE: type = type(functools.lru_cache(lambda: None))


def call_cached(tr: Tracer, cache: Known, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a cached function of the program: one without effects, that gives plain constants for constants.

    To ask the cache earlier than the program does makes no difference as long as nothing has been written before.
    """
    function: Any = cache.concrete(tr)
    looked = [tr.look(a) for a in args]
    given = {name: tr.look(value) for name, value in kwargs.items()}
    if tr.written or tr.program.effects or not all(map(_is_plain, (*looked, *given.values()))):
        _refuse(function)
    before = len(tr.graph.graph.nodes)
    tr.is_direct = False  # a segment that leaves off inside the function would leave the cache out
    inside = tr.wrap(function.__wrapped__, Attr(cache.source or Pinned(function), "__wrapped__"))
    result = tr.look(tr.call(inside, args, kwargs))
    if tr.written or tr.program.effects or len(tr.graph.graph.nodes) != before or not _is_plain(result):
        _refuse(function)
    program = tr.program
    operands = tuple(program.constant(value.concrete(tr)) for value in (*looked, *given.values()))
    answer = program.register()
    tr.last_checks += [
        ("call", answer, program.constant(function), operands, tuple(given)),
        ("equals", answer, result.concrete(tr)),
    ]
    return result


def _is_plain(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return value.cls is tuple and all(isinstance(i, Known | TupleValue) and _is_plain(i) for i in value._items)
    return isinstance(value, Known) and type(value.real) in PRIMITIVES


def _refuse(function: Any) -> NoReturn:
    graph_break("opaque-call", function=f"{function.__wrapped__.__qualname__}() under lru_cache")
