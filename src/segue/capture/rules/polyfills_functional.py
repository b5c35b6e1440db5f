"""Python equivalents of the C functions of `operator`, `functools` and sorting; see `polyfills`."""

from __future__ import annotations

from typing import Any


def items_of(keys: tuple[Any, ...], obj: Any, /) -> Any:
    """`operator.itemgetter(*keys)(obj)`"""
    if len(keys) == 1:
        return obj[keys[0]]
    return tuple([obj[key] for key in keys])


def attributes_of(names: tuple[str, ...], obj: Any, /) -> Any:
    """`operator.attrgetter(*names)(obj)`"""
    found = []
    for dotted in names:
        value = obj
        for name in dotted.split("."):
            value = getattr(value, name)
        found.append(value)
    return found[0] if len(found) == 1 else tuple(found)


def method_called(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], obj: Any, /) -> Any:
    """`operator.methodcaller(name, *args, **kwargs)(obj)`"""
    return getattr(obj, name)(*args, **kwargs)


def count_of(iterable: Any, value: Any, /) -> int:
    found = 0
    for item in iterable:
        if item is value or item == value:
            found += 1
    return found


def index_of(iterable: Any, value: Any, /) -> int:
    for position, item in enumerate(iterable):
        if item is value or item == value:
            return position
    raise ValueError("sequence.index(x): x not in sequence")


def length_hint(obj: Any, default: int = 0, /) -> int:
    if hasattr(type(obj), "__len__"):
        return len(obj)
    if hasattr(type(obj), "__length_hint__"):
        hint = type(obj).__length_hint__(obj)
        return default if hint is NotImplemented else hint
    return default


def call_(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def sorted_places(keys: list[Any]) -> list[int]:
    """The order of a stable sort, by the comparisons that CPython makes for short lists, in their order."""
    places = list(range(len(keys)))
    if len(keys) < 2:
        return places
    run = 2
    if keys[1] < keys[0]:
        while run < len(keys) and keys[run] < keys[run - 1]:
            run += 1
        places = places[:run][::-1] + places[run:]
    else:
        while run < len(keys) and not keys[run] < keys[run - 1]:
            run += 1
    for start in range(run, len(keys)):
        low, high = 0, start
        while low < high:
            middle = (low + high) // 2
            if keys[start] < keys[places[middle]]:
                high = middle
            else:
                low = middle + 1
        places.insert(low, places.pop(start))
    return places


class ComparedKey:
    """What `functools.cmp_to_key(compare)` makes of an object."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) >= 0
