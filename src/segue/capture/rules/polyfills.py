"""Python equivalents of library functions written in C; capture inlines them.

They follow the descriptions in the Python documentation of the functions that they stand in for.
"""

from __future__ import annotations

from typing import Any

_MISSING: Any = object()


def any_(iterable: Any) -> bool:
    for item in iterable:
        if item:
            return True
    return False


def all_(iterable: Any) -> bool:
    for item in iterable:
        if not item:
            return False
    return True


def sum_(iterable: Any, /, start: Any = 0) -> Any:
    if isinstance(start, str):
        raise TypeError("sum() can't sum strings [use ''.join(seq) instead]")
    total = start
    for item in iterable:
        total = total + item
    return total


def extreme(name: str, better: Any, args: tuple[Any, ...], key: Any, default: Any) -> Any:
    items = iter(args[0]) if len(args) == 1 else iter(args)
    best = next(items, _MISSING)
    if best is _MISSING:
        if default is _MISSING:
            raise ValueError(name + "() arg is an empty sequence")
        return default
    best_key = best if key is None else key(best)
    for item in items:
        item_key = item if key is None else key(item)
        if better(item_key, best_key):
            best, best_key = item, item_key
    return best


def _less(a: Any, b: Any) -> Any:
    return a < b


def _greater(a: Any, b: Any) -> Any:
    return a > b


def min_(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    return extreme("min", _less, args, key, default)


def max_(*args: Any, key: Any = None, default: Any = _MISSING) -> Any:
    return extreme("max", _greater, args, key, default)


def enumerate_(iterable: Any, start: int = 0) -> Any:
    n = start
    for item in iterable:
        yield n, item
        n += 1


def zip_(*iterables: Any, strict: bool = False) -> Any:
    iterators = [iter(i) for i in iterables]
    while iterators:
        items = []
        for position, iterator in enumerate(iterators):
            item = next(iterator, _MISSING)
            if item is _MISSING:
                if strict:
                    _check_all_ended(iterators, position)
                return
            items.append(item)
        yield tuple(items)


def _check_all_ended(iterators: list[Any], position: int) -> None:
    if position > 0:
        before = "argument 1" if position == 1 else f"arguments 1-{position}"
        raise ValueError(f"zip() argument {position + 1} is shorter than {before}")
    for index in range(1, len(iterators)):
        if next(iterators[index], _MISSING) is not _MISSING:
            before = "argument 1" if index == 1 else f"arguments 1-{index}"
            raise ValueError(f"zip() argument {index + 1} is longer than {before}")


def map_(function: Any, *iterables: Any) -> Any:
    for items in zip_(*iterables):
        yield function(*items)


def filter_(function: Any, iterable: Any) -> Any:
    for item in iterable:
        if item if function is None else function(item):
            yield item


def reversed_(sequence: Any) -> Any:
    index = len(sequence) - 1
    while index >= 0:
        yield sequence[index]
        index -= 1


def reduce_(function: Any, iterable: Any, initial: Any = _MISSING, /) -> Any:
    iterator = iter(iterable)
    value = initial
    if value is _MISSING:
        value = next(iterator, _MISSING)
        if value is _MISSING:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        value = function(value, item)
    return value


def chain_(*iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables: Any, /) -> Any:
    for iterable in iterables:
        yield from iterable


def repeat_(item: Any, times: Any = None) -> Any:
    if times is None:
        while True:
            yield item
    for _ in range(times):
        yield item


def count_(start: Any = 0, step: Any = 1) -> Any:
    n = start
    while True:
        yield n
        n += step


def cycle_(iterable: Any, /) -> Any:
    saved = []
    for item in iterable:
        yield item
        saved.append(item)
    while saved:
        yield from saved


def islice_(iterable: Any, /, *bounds: Any) -> Any:
    limits = slice(*bounds)
    start, stop, step = limits.start or 0, limits.stop, limits.step or 1
    position = 0
    wanted = start
    iterator = iter(iterable)
    while stop is None or wanted < stop:
        item = next(iterator, _MISSING)
        if item is _MISSING:
            return
        if position == wanted:
            yield item
            wanted += step
        position += 1


def product_(*iterables: Any, repeat: int = 1) -> Any:
    pools = [tuple(i) for i in iterables] * repeat
    results: list[Any] = [()]
    for pool in pools:
        results = [(*before, item) for before in results for item in pool]
    yield from results


def pairwise_(iterable: Any, /) -> Any:
    iterator = iter(iterable)
    before = next(iterator, _MISSING)
    if before is _MISSING:
        return
    for item in iterator:
        yield before, item
        before = item


def accumulate_(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    iterator = iter(iterable)
    total = initial
    if total is None:
        total = next(iterator, _MISSING)
        if total is _MISSING:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def starmap_(function: Any, iterable: Any, /) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile_(predicate: Any, iterable: Any, /) -> Any:
    for item in iterable:
        if not predicate(item):
            return
        yield item


def dropwhile_(predicate: Any, iterable: Any, /) -> Any:
    iterator = iter(iterable)
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def zip_longest_(*iterables: Any, fillvalue: Any = None) -> Any:
    iterators = [iter(i) for i in iterables]
    running = len(iterators)
    ended = [False] * running
    while running:
        items = []
        for position, iterator in enumerate(iterators):
            item = _MISSING if ended[position] else next(iterator, _MISSING)
            if item is _MISSING:
                if not ended[position]:
                    ended[position] = True
                    running -= 1
                item = fillvalue
            items.append(item)
        if running:
            yield tuple(items)


def combinations_(iterable: Any, r: int) -> Any:
    pool = tuple(iterable)
    n = len(pool)
    if r > n:
        return
    indices = list(range(r))
    yield tuple([pool[i] for i in indices])
    while True:
        place = r - 1
        while place >= 0 and indices[place] == place + n - r:
            place -= 1
        if place < 0:
            return
        indices[place] += 1
        for later in range(place + 1, r):
            indices[later] = indices[later - 1] + 1
        yield tuple([pool[i] for i in indices])


def list_index(self: Any, value: Any, start: int = 0, stop: Any = None, /) -> int:
    for index in range(start, len(self) if stop is None else min(stop, len(self))):
        if self[index] is value or self[index] == value:
            return index
    raise ValueError(f"{value!r} is not in list")


def tuple_index(self: Any, value: Any, start: int = 0, stop: Any = None, /) -> int:
    for index in range(start, len(self) if stop is None else min(stop, len(self))):
        if self[index] is value or self[index] == value:
            return index
    raise ValueError("tuple.index(x): x not in tuple")


def sequence_count(self: Any, value: Any, /) -> int:
    found = 0
    for item in self:
        if item is value or item == value:
            found += 1
    return found


def list_remove(self: Any, value: Any, /) -> None:
    for index in range(len(self)):
        if self[index] is value or self[index] == value:
            del self[index]
            return
    raise ValueError("list.remove(x): x not in list")


def dict_update(self: Any, other: Any = (), /, **kwargs: Any) -> None:
    if hasattr(other, "keys"):
        for key in other.keys():  # noqa: SIM118
            self[key] = other[key]
    else:
        for key, value in other:
            self[key] = value
    for key, value in kwargs.items():
        self[key] = value


def ordered_copy(self: Any) -> Any:
    made = type(self)()
    for key in self:
        made[key] = self[key]
    return made


def move_to_end(self: Any, key: Any, last: Any = True) -> None:
    value = self.pop(key)
    if last:
        self[key] = value
        return
    others = list(self.items())
    self.clear()
    self[key] = value
    self.update(others)


def dict_fromkeys(cls: Any, iterable: Any, value: Any = None) -> Any:
    made = cls()
    for key in iterable:
        made[key] = value
    return made


def set_issubset(self: Any, other: Any, /) -> bool:
    if not isinstance(other, (set, frozenset)):
        other = set(other)
    for item in self:
        if item not in other:
            return False
    return True


def set_issuperset(self: Any, other: Any, /) -> bool:
    for item in other:
        if item not in self:
            return False
    return True
