"""Calls of functions under `functools.lru_cache`.

The cache is state of the program: what a call gives may be older than what the function would give now, and hits are
counted.  So the cache is asked at each run, once it is certain that the segment runs but for what the cache says. What
to expect of it is what it holds, or else what capturing the function shows.
"""

from __future__ import annotations

import functools
import gc
from typing import TYPE_CHECKING, Any, NoReturn

from segue.capture.breaks import GraphBreak, graph_break
from segue.capture.values.base import Value
from segue.capture.values.known import PRIMITIVES, Known
from segue.capture.values.sequence import TupleValue
from segue.guards.source import Attr, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

CACHE: type = type(functools.lru_cache(lambda: None))


def call_cached(tr: Tracer, cache: Known, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a cached function of the program: one without effects, that gives plain constants for constants.

    To ask the cache earlier than the program does makes no difference as long as nothing has been written before, or
    it holds the result and so does not call the function.
    """
    function: Any = cache.concrete(tr)
    looked = [tr.look(a) for a in args]
    given = {name: tr.look(value) for name, value in kwargs.items()}
    values = (*looked, *given.values())
    if not all(map(_is_plain, values)):
        _refuse(function)
    objects = tuple(a.concrete(tr) for a in looked)
    held = held_by(function, objects) if not given else None
    if tr.written or tr.program.effects:
        if held is None:
            _refuse(function)
        tr.program.check_plain("predicate", functools.partial(_holds, function, objects), ())
    if held is not None and _is_plain_object(held):
        result = tr.look(tr.plain_value(held[0]))
    else:
        result = _captured(tr, cache, args, kwargs, objects)
    program = tr.program
    operands = tuple(program.constant(value.concrete(tr)) for value in values)
    answer = program.register()
    tr.last_checks += [
        ("call", answer, program.constant(function), operands, tuple(given)),
        ("equals", answer, result.concrete(tr)),
    ]
    return result


def _captured(tr: Tracer, cache: Known, args: list[Value], kwargs: dict[str, Value], objects: tuple[Any, ...]) -> Value:
    """What the function gives, if it has no effects; else it breaks for as long as the cache does not hold it."""
    function: Any = cache.real
    before = len(tr.graph.graph.nodes)
    tr.is_direct = False  # a segment that leaves off inside the function would leave the cache out
    inside = tr.wrap(function.__wrapped__, Attr(cache.source or Pinned(function), "__wrapped__"))
    try:
        result = tr.look(tr.call(inside, args, kwargs))
        if tr.written or tr.program.effects or len(tr.graph.graph.nodes) != before or not _is_plain(result):
            _refuse(function)
    except GraphBreak:
        if not kwargs:
            tr.program.check_plain("predicate", functools.partial(_holds_not, function, objects), ())
        raise
    return result


def _holds(function: Any, args: tuple[Any, ...]) -> bool:
    return held_by(function, args) is not None


def _holds_not(function: Any, args: tuple[Any, ...]) -> bool:
    return held_by(function, args) is None


def held_by(function: Any, args: tuple[Any, ...]) -> tuple[Any] | None:
    """The result that a cached function holds for positional arguments, without asking it: asking counts.

    The garbage collector sees what a cache refers to: the dict of its keys, and each key with the result after it.
    """
    if function.cache_parameters()["typed"]:
        return None
    referents = gc.get_referents(function)
    entries = next((r for r in referents if type(r) is dict and r is not function.__dict__), None)
    is_short = len(args) == 1 and type(args[0]) in (int, str)
    key = args[0] if is_short else args
    if entries is None or key not in entries:
        return None
    if function.cache_parameters()["maxsize"] is None:
        return (entries[key],)
    stored = next(k for k in entries if k == key)
    place = next((i for i, r in enumerate(referents) if r is stored), None)
    return None if place is None else (referents[place + 1],)


def _is_plain_object(obj: Any) -> bool:
    return type(obj) in PRIMITIVES or (type(obj) is tuple and all(map(_is_plain_object, obj)))


def _is_plain(value: Value) -> bool:
    if isinstance(value, TupleValue):
        return value.cls is tuple and all(map(_is_plain, value._items))
    return isinstance(value, Known) and type(value.real) in PRIMITIVES


def _refuse(function: Any) -> NoReturn:
    graph_break("opaque-call", function=f"{function.__wrapped__.__qualname__}() under lru_cache")
