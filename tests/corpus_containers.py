"""Corpus: instances of classes that derive from built-in containers, with effects in between."""

import copy
import functools
from collections import OrderedDict, defaultdict, namedtuple

import torch

from tests.case import case, record

tensor_case = functools.partial(case, group="tensor")


def tensor():
    return torch.arange(3.0)


class Row(list):
    """A list with an attribute, whose methods note what is done to it."""

    def __init__(self, *given, name=""):
        super().__init__(*given)
        self.name = record(name)

    def append(self, item):
        record("append")
        super().append(item)

    def __getitem__(self, index):
        record(("item", index))
        return super().__getitem__(index)


class Fields(OrderedDict):
    """Entries that are attributes too."""

    def __setitem__(self, key, value):
        record(("set", key))
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name, value):
        if name in self:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def to_tuple(self):
        return tuple(self[key] for key in self)


class Fallback(dict):
    def __missing__(self, key):
        self[key] = record(key) * 2
        return self[key]


class Bag(set):
    def add(self, item):
        record(("add", item))
        super().add(item)
        return self


class Point(namedtuple("Point", "x y")):
    def __new__(cls, x, y=None):
        made = super().__new__(cls, x, record(y))
        made.note = "new"
        return made

    def __add__(self, other):
        return Point(self.x + other[0], self.y)


@tensor_case(lambda: [(tensor(), Row([1], name="given"), 3), (tensor(), Row(name="empty"), 0), (tensor(), [5], 1)])
def rows(x, given, n):
    made = Row([x], name="made")
    for i in range(n):
        made.append(x + i)
        given.append(record(i))
    try:
        last = given[n] + made[n]
    except IndexError as e:
        last = record(str(e))
    made.extra = given
    given += [n]
    return list(made), vars(made), last, made[-1] * 2, len(given), type(made[:1])


@tensor_case(lambda: [(tensor(), Fields(a=1)), (tensor(), Fields()), (tensor(), Fields(b=tensor(), a=2))])
def fields(x, given):
    made = Fields(first=x + 1)
    for key, value in given.items():
        made[key] = value
    made.first = x * 2
    given["new"] = made.first + record(len(given))
    made.move_to_end("first")
    given.pop("a", record(None))
    return made.to_tuple(), list(made), vars(made), given.to_tuple(), {**made}, made == given


@tensor_case(lambda: [(tensor(), Fallback(a=1), "a"), (tensor(), Fallback(), "b")])
def fallbacks(x, given, key):
    counts = defaultdict(list)
    for k in (key, "c", key):
        counts[k].append(x + len(given[k] if isinstance(given[k], str) else "one"))
    return given[key], dict(given), counts, given.get("z"), x.sum() + record(len(given))


@tensor_case(lambda: [(tensor(), Bag([1, 2])), (tensor(), Bag()), (tensor(), Bag([3]))])
def bags(x, given):
    given.add(3).add(record(4))
    other = Bag(given) | {7}
    given.discard(1)
    y = x * len(other)
    return sorted(given), sorted(other), 3 in given, type(other), given >= {3}, y, [*set("q")]


@tensor_case(lambda: [(tensor(), Point(tensor(), 1)), (tensor(), (tensor(), 2))])
def points(x, given):
    made = Point(x, 3) + given
    made.note = record("changed")
    x, *rest = made
    return made, made.note, x + 1, rest, made[:1], isinstance(made, tuple), getattr(given, "note", None)


@tensor_case(lambda: [(tensor(), Row([[1]], name="n")), (tensor(), Fields(a=[2]))])
def copied(x, given):
    shallow, deep = copy.copy(given), copy.deepcopy(given)
    first = next(iter(deep))
    deep.added = record(x + 1)
    return type(shallow), list(shallow), first, vars(deep), hasattr(given, "added")
