"""Corpus: classes that decide their own protocols, functional helpers and library calls, with effects in between."""

import abc
import bisect
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import json
import operator
import re
import typing

import torch

from tests.case import case, record


def tensor():
    return torch.arange(4.0)


class Registry(type):
    """A metaclass that answers for its classes, and notes what it was asked."""

    def __call__(cls, *args):
        record(("call", cls.__name__, args))
        return super().__call__(*args)

    def __len__(cls):
        return record(2)

    def __contains__(cls, item):
        return record(item) == "in"

    def __getitem__(cls, key):
        return record(key) * 2

    def __getattr__(cls, name):
        return record(f"<{name}>")

    def __instancecheck__(cls, instance):
        return record(instance) == 3

    def __subclasscheck__(cls, other):
        return record(other) is int


class Registered(metaclass=Registry):
    scale = 1

    def __init__(self, scale):
        self.scale = record(scale)


@case(lambda: [(1,), (3,)])
def metaclass_protocols(k):
    made = Registered(k)
    checks = isinstance(k, Registered), issubclass(int, Registered), issubclass(str, Registered)
    return made.scale, len(Registered), "in" in Registered, Registered[k], Registered.missing, checks


class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return any("run" in vars(c) for c in other.__mro__) or NotImplemented

    @abc.abstractmethod
    def run(self): ...


@typing.runtime_checkable
class Sized(typing.Protocol):
    size: int


class Quiet:
    size = 3


@case(lambda: [(Quiet(),), (3,)])
def hooks_of_checks(obj):
    try:
        Hooked()
    except TypeError as error:
        record(str(error))
    return isinstance(obj, Hooked), isinstance(obj, Sized), isinstance(obj, int | str), isinstance(obj, (str, (Quiet,)))


class Counted:
    total = 0
    history: typing.ClassVar[list] = []

    @classmethod
    def count(cls, n):
        cls.total += n
        cls.history.append(n)
        return cls.total


class CountedToo(Counted):
    pass


@case(lambda: [(1,), (2,), (3,)])
def class_attributes_written(n):
    Counted.total = 0
    vars(CountedToo).get("total") is None or delattr(CountedToo, "total")
    first = Counted.count(n)
    second = CountedToo.count(n)
    record((Counted.total, CountedToo.total, "total" in vars(CountedToo)))
    return first, second, Counted().total


class Key:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        record(("eq", self.k, getattr(other, "k", other)))
        return isinstance(other, Key) and self.k == other.k

    def __hash__(self):
        record(("hash", self.k))
        return hash(self.k)

    def __lt__(self, other):
        record(("lt", self.k, other.k))
        return self.k < other.k


@case(lambda: [(1, 2), (2, 1), (1, 1)])
def keys_with_methods(a, b):
    table = {Key(a): "a"}
    table[Key(b)] = "b"
    order = [k.k for k in sorted([Key(b), Key(a), Key(0)], reverse=a > b)]
    return table[Key(a)], table.get(Key(9)), len(table), order, max(Key(a), Key(b)).k


class Vector:
    def __init__(self, *items):
        self.items = items

    def __add__(self, other):
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*map(operator.add, self.items, other.items))

    def __radd__(self, other):
        return record(Vector(*[other + i for i in self.items]))

    def __iadd__(self, other):
        record("in place")
        self.items = tuple(i + other for i in self.items)
        return self

    def __matmul__(self, other):
        return sum(map(operator.mul, self.items, other.items))

    def __repr__(self):
        return f"Vector{self.items}"


@case(lambda: [(1, "a"), (2.5, None)])
def operators_of_objects(k, wrong):
    v = Vector(1, 2)
    w = v
    w += k
    try:
        v + wrong
    except TypeError as error:
        record(str(error))
    return repr(k + v), repr(v + Vector(3, 4)), w is v, v @ v, repr(sum([v, v], 1))


@dataclasses.dataclass(order=True)
class Version:
    major: int
    minor: int = 0
    notes: list = dataclasses.field(default_factory=list, compare=False)


class Part(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    C = enum.auto()
    AB = A | B


@case(lambda: [(1, 2), (2, 1)])
def records_and_flags(a, b):
    versions = sorted([Version(a), Version(b, 1), Version(1, 5)])
    replaced = dataclasses.replace(versions[0], minor=9)
    parts = Part(a) | Part(b)
    return (
        [dataclasses.astuple(v) for v in versions],
        dataclasses.asdict(replaced),
        copy.deepcopy(replaced) == replaced,
        parts,
        [p.name for p in parts],
        Part.A in parts,
        ~parts,
        {p: p.value for p in Part}[Part.C],
    )


@case(lambda: [([3, 1, 2],), ([],), (["b", "a"],)])
def functional_helpers(items):
    ordered = sorted(items, key=functools.cmp_to_key(lambda a, b: record((a < b) - (a > b))))
    grouped = {k: record(list(g)) for k, g in itertools.groupby(ordered, type)}
    first, second = itertools.tee(iter(ordered))
    ahead = next(first, None)
    pairs = list(zip(itertools.compress(items, itertools.cycle([1, 0])), second, strict=False))
    picked = operator.itemgetter(slice(0, 2))(items)
    return ordered, list(grouped.values()), ahead, pairs, picked, list(itertools.permutations(items, 2)), list(first)


@case(lambda: [("a1-b22",), ("none",), ("",)])
def texts_matched(text):
    found = re.search(r"(?P<letter>[a-z])(\d+)", text)
    replaced = re.sub(r"\d", lambda m: record(m.group()) * 2, text)
    heap, places = [], []
    for part in re.split("-", text):
        heapq.heappush(heap, part)
        bisect.insort(places, len(part))
    return found and found.groupdict(), replaced, heap, places, json.loads(json.dumps({"t": text, "p": places}))


def described(a, b=2, *rest, c: int = 3, **more):
    return a


@case(lambda: [(1,), (2,)])
def introspection(k):
    signature = inspect.signature(described)
    bound = signature.bind(k, c=k)
    seen = {id(signature): 1, id(bound): 2}
    scope = locals()
    return list(signature.parameters), bound.arguments, seen[id(bound)], sorted(scope), described.__kwdefaults__


@case(lambda: [(tensor(), 2), (tensor(), 3)], "tensor")
def classes_around_tensors(x, k):
    Counted.total = 0
    v = Vector(x, x * k)
    v += 1
    seen = {id(x): "x", Key(k): "k"}
    copied = copy.copy(v)
    copied.items = operator.itemgetter(1, 0)(copied.items)
    y = sum(itertools.accumulate(v.items)) * Registered[k]
    Counted.count(len(seen))
    return y.sin(), copied.items, seen[id(x)], seen[Key(k)], Counted.total, isinstance(k, Registered)


@case(lambda: [(tensor(), "sin"), (tensor(), "cos")], "tensor")
def helpers_around_tensors(x, name):
    call = operator.methodcaller(name)
    halves = {k: torch.stack(list(g)) for k, g in itertools.groupby(x.unbind(), key=lambda t: record(t.ndim))}
    ordered = sorted([Version(2), Version(1)], key=operator.attrgetter("major"))
    parts = [call(h) * v.major for h, v in itertools.product(halves.values(), ordered)]
    return functools.reduce(operator.add, parts), re.sub("[sc]", "_", name), copy.deepcopy({"x": x})["x"] is x
