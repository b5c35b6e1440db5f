"""Library functions written in C: JSON of constants, dates; `bisect` and `heapq`, which work on lists."""

from __future__ import annotations

import bisect
import datetime
import heapq
import json
import struct
from typing import TYPE_CHECKING

from segue.capture.rules import inline, polyfills_ordered, rule
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

for _python, *_targets in (
    (polyfills_ordered.bisect_right, bisect.bisect_right, bisect.bisect),
    (polyfills_ordered.bisect_left, bisect.bisect_left),
    (polyfills_ordered.insort_right, bisect.insort_right, bisect.insort),
    (polyfills_ordered.insort_left, bisect.insort_left),
    (polyfills_ordered.heappush, heapq.heappush),
    (polyfills_ordered.heappop, heapq.heappop),
    (polyfills_ordered.heapreplace, heapq.heapreplace),
    (polyfills_ordered.heappushpop, heapq.heappushpop),
    (polyfills_ordered.heapify, heapq.heapify),
):
    inline(_python, *_targets)


@rule(json.dumps)
def _dumps(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tr.fold(json.dumps, args, kwargs)


@rule(json.loads)
def _loads(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    return tr.fold(json.loads, args, kwargs)


def _constant_maker(cls: type) -> None:
    """A class whose instances never change: one that is made of constants is a constant."""

    def make(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tr.fold(cls, args, kwargs)

    rule(cls)(make)


for _cls in (datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, struct.Struct):
    _constant_maker(_cls)
