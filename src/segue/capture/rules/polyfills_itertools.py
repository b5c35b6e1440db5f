"""Python equivalents of the iterators of `itertools` that hold more state than a loop; see `polyfills`."""

from __future__ import annotations

from typing import Any

_MISSING: Any = object()


def compress_(data: Any, selectors: Any) -> Any:
    for item, selected in zip(data, selectors, strict=False):
        if selected:
            yield item


def filterfalse_(function: Any, iterable: Any, /) -> Any:
    for item in iterable:
        if not (item if function is None else function(item)):
            yield item


def permutations_(iterable: Any, r: Any = None) -> Any:
    pool = tuple(iterable)
    places: list[Any] = [()]
    for _ in range(len(pool) if r is None else r):
        places = [(*before, i) for before in places for i in range(len(pool)) if i not in before]
    for chosen in places:
        yield tuple([pool[i] for i in chosen])


def combinations_with_replacement_(iterable: Any, r: int) -> Any:
    pool = tuple(iterable)
    places: list[Any] = [()]
    for _ in range(r):
        places = [(*before, i) for before in places for i in range(before[-1] if before else 0, len(pool))]
    for chosen in places:
        yield tuple([pool[i] for i in chosen])


def tee_(iterable: Any, n: int = 2, /) -> Any:
    iterator = iter(iterable)
    read: list[Any] = []

    def branch() -> Any:
        position = 0
        while True:
            if position == len(read):
                item = next(iterator, _MISSING)
                if item is _MISSING:
                    return
                read.append(item)
            yield read[position]
            position += 1

    return tuple([branch() for _ in range(n)])


def groupby_(iterable: Any, key: Any = None) -> Any:
    iterator = iter(iterable)
    item = item_key = wanted = _MISSING
    serial = 0

    def group(number: int, group_key: Any) -> Any:
        nonlocal item, item_key
        while number == serial:
            if item is _MISSING:
                item = next(iterator, _MISSING)
                if item is _MISSING:
                    return
                item_key = item if key is None else key(item)
            if not (item_key is group_key or group_key == item_key):
                return
            given, item = item, _MISSING
            yield given

    while True:
        serial += 1
        while item_key is _MISSING or (wanted is not _MISSING and (wanted is item_key or wanted == item_key)):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                return
            item_key = item if key is None else key(item)
        wanted = item_key
        yield item_key, group(serial, item_key)
