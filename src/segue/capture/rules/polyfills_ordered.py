"""Python equivalents of `bisect` and `heapq`; see `polyfills`.

They make the comparisons that the C functions make, so that the layout of a heap is the same.
"""

from __future__ import annotations

from typing import Any


def place(a: Any, x: Any, lo: int, hi: Any, key: Any, after_equals: bool) -> int:
    """Where `x` belongs in a sorted list: before or after the items that are equal to it."""
    if lo < 0:
        raise ValueError("lo must be non-negative")
    high = len(a) if hi is None else hi
    while lo < high:
        middle = (lo + high) // 2
        item = a[middle] if key is None else key(a[middle])
        if (not x < item) if after_equals else item < x:
            lo = middle + 1
        else:
            high = middle
    return lo


def bisect_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    return place(a, x, lo, hi, key, True)


def bisect_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    return place(a, x, lo, hi, key, False)


def insort_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def _rise(heap: Any, first: int, position: int) -> None:
    """Move an item up while it is less than its parent, but not above `first`."""
    item = heap[position]
    while position > first:
        parent = (position - 1) // 2
        if not item < heap[parent]:
            break
        heap[position] = heap[parent]
        position = parent
    heap[position] = item


def _sink(heap: Any, first: int) -> None:
    """Move an item down to a leaf along the smaller children, then up to where it belongs."""
    position, item = first, heap[first]
    while 2 * position + 1 < len(heap):
        child = 2 * position + 1
        if child + 1 < len(heap) and not heap[child] < heap[child + 1]:
            child += 1
        heap[position] = heap[child]
        position = child
    heap[position] = item
    _rise(heap, first, position)


def heappush(heap: Any, item: Any, /) -> None:
    heap.append(item)
    _rise(heap, 0, len(heap) - 1)


def heappop(heap: Any, /) -> Any:
    last = heap.pop()
    if not heap:
        return last
    least, heap[0] = heap[0], last
    _sink(heap, 0)
    return least


def heapreplace(heap: Any, item: Any, /) -> Any:
    least, heap[0] = heap[0], item
    _sink(heap, 0)
    return least


def heappushpop(heap: Any, item: Any, /) -> Any:
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        _sink(heap, 0)
    return item


def heapify(heap: Any, /) -> None:
    for position in range(len(heap) // 2 - 1, -1, -1):
        _sink(heap, position)
