"""Library functions written in C: JSON of constants, dates; `bisect` and `heapq`, which work on lists."""

from __future__ import annotations

import bisect
import datetime
import heapq
import json
import struct

from segue.capture.rules import folded, inline, polyfills_ordered

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

folded(json.dumps, json.loads)
folded(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, struct.Struct)
