"""Instances of user classes that derive from built-in containers: contents, attributes, methods of the class."""

from __future__ import annotations

import copy
import types
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import segue
from tests.graphs import Graphs


class Tagged(list):
    def __init__(self, *given, tag=None):
        super().__init__(*given)
        self.tag = tag

    def total(self):
        return sum(self)


class Doubling(list):
    def __getitem__(self, index):
        return super().__getitem__(index) * 2

    def append(self, item):
        self.n_appended = getattr(self, "n_appended", 0) + 1
        super().append(item)

    def __len__(self):
        return 7


class Sparse(list):
    __slots__ = ("default",)


class Attributes(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    __setattr__ = dict.__setitem__


class Squares(dict):
    def __missing__(self, key):
        self[key] = key * key
        return self[key]


class Shouting(dict):
    def __getitem__(self, key):
        return super().__getitem__(key.lower())

    def __contains__(self, key):
        return super().__contains__(key.lower())


class Noting(OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        self.last = key


@dataclass
class Output(OrderedDict):
    """As the outputs of transformers are: fields are entries and attributes, absent ones are None."""

    first: Any = None
    second: Any = None

    def __post_init__(self):
        for name in ("first", "second"):
            if getattr(self, name) is not None:
                self[name] = getattr(self, name)

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class Grouped(defaultdict):
    pass


class Chained(set):
    def add(self, item):
        super().add(item)
        return self


class Vector(namedtuple("Vector", "x y")):
    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)


class Sized(tuple):
    def __new__(cls, *items):
        made = super().__new__(cls, items)
        made.n_items = len(items)
        return made


class Letters(frozenset):
    pass


def tensor():
    return torch.arange(3.0)


def described(value: Any) -> Any:
    """All that can be seen of an object, as plain data."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist()
    if not isinstance(value, (list, tuple, dict, set, frozenset)):
        return value
    parts: list[Any] = [type(value)]
    if isinstance(value, dict):
        base = OrderedDict if isinstance(value, OrderedDict) else dict
        parts += [(k, described(dict.__getitem__(value, k))) for k in base.__iter__(value)]
    elif isinstance(value, (set, frozenset)):
        parts.append(sorted(map(repr, value)))
    else:
        base = list if isinstance(value, list) else tuple
        parts += [described(item) for item in base.__iter__(value)]
    if isinstance(value, defaultdict):
        parts.append(value.default_factory)
    names = [n for c in type(value).__mro__ for n in vars(c).get("__slots__", ()) if hasattr(value, n)]
    parts.append({n: described(getattr(value, n)) for n in names})
    parts.append({n: described(v) for n, v in getattr(value, "__dict__", {}).items()})
    return parts


def check(function: types.FunctionType, *make: Any) -> None:
    """One graph, no break; results and arguments are afterwards as after the plain function."""
    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    for _ in range(3):
        expected_args, args = [m() for m in make], [m() for m in make]
        expected, got = function(*expected_args), compiled(*args)
        assert described(got) == described(expected)
        assert described(args) == described(expected_args)
    assert [e.reason for e in compiled.compiler.log.of_kind("break", "skip", "failure")] == []
    assert graphs.count == 1


def list_with_attribute(x):
    made = Tagged([x, x + 1], tag="a")
    made.append(x * 2)
    made.more = 3
    return made, made.total(), len(made), made.tag, type(made), bool(made), made[1:], made + [1], [0] + made


def overridden_operators(x):
    made = Doubling()
    made.append(x)
    made.append(x + 1)
    return made, made[0], len(made), made.n_appended, list(made), bool(made), [i for i in made if i is not None]


def list_methods(x):
    made = Tagged([3, 1, 2])
    made.sort()
    made.insert(0, 7)
    made.extend((8, 9))
    made.remove(1)
    del made[0]
    made[0] = 5
    made += [4]
    made *= 2
    return made, made.pop(), made.index(9), made.count(4), 8 in made, made == [1], made.copy(), made[::-1], x + 1


def slots(x):
    made = Sparse([x])
    made.default = x + 1
    return made, made.default


def dict_by_attributes(x):
    made = Attributes(a=x)
    made.b = x + 1
    made["c"] = made.a + made.b
    return made, dict(made), {**made}, list(made.items()), hasattr(made, "d"), "b" in made, made | {"e": 1}


def missing(x):
    made = Squares()
    return made[2], made[3], len(made), made.get(4), x + 1, made


def overridden_reads(x):
    made = Shouting(a=x)
    return made["A"], "A" in made, {**made}, dict(made), made.get("A"), made == {"b": 1}, x + 1


def ordered(x):
    made = Noting(a=x)
    made["b"] = x + 1
    made.update(c=2)
    made.move_to_end("a")
    return made, made.last, list(made), next(iter(made.values())), made.pop("b")


def dataclass_of_entries(x):
    made = Output(first=x + 1)
    before = len(made), made.to_tuple(), made["first"], made.second
    made.second = x * 2
    made["second"] = x * 3
    return made, made[0], made[1:], before


def default_dicts(x):
    plain, derived = defaultdict(list), Grouped(int)
    plain["a"].append(x)
    plain["a"].append(x + 1)
    derived["z"] += 1
    return plain, derived, len(plain), derived.default_factory, "q" in derived


def counted(x):
    found = Counter()
    for letter in "abca":
        found[letter] += 1
    return found, found["z"], x + 1


def sets(x):
    made = Chained([1, 2])
    made.add(3).add(4)
    return made, 3 in made, len(made), made | {9}, made & {1}, made - {1}, made ^ {1, 11}, made >= {1}, x + 1


def frozen(x):
    made = Letters("ab")
    return made, {made: x}[frozenset("ba")], made | {"c"}, x + 1


def named_tuples(x):
    made = Vector(x, x + 1) + Vector(x, x)
    return made, made.x, made[1], tuple(made), made._replace(y=1)


def tuples_with_attributes(x):
    made = Sized(x, 2)
    return made, made.n_items, made[0], len(made), made[1:], made + (1,), 2 in made[1:], x + 1


def in_each_other(x):
    outer, inner = Tagged(tag="outer"), Attributes()
    inner.up = outer
    outer.append(inner)
    outer.append(inner)
    outer.tag = inner
    return outer[0] is outer[1], outer.tag is inner, outer[0].up is outer, x + 1


@pytest.mark.parametrize(
    "function",
    [
        list_with_attribute, overridden_operators, list_methods, slots, dict_by_attributes, missing, overridden_reads,
        ordered, dataclass_of_entries, default_dicts, counted, sets, frozen, named_tuples, tuples_with_attributes,
        in_each_other,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_made_inside(function):
    check(function, tensor)


def change_list(given, x):
    given.append(x + 1)
    given.tag = "new"
    return given.tag, given[0] + x, len(given), given, given.total()


def change_attributes(given, x):
    given.b = x + 1
    given.pop("a")
    return given.b, list(given), given


def change_output(given, x):
    given.second = x + 1
    return given[0] + 1, given.to_tuple(), given


def change_ordered(given, x):
    given["q"] = x + 1
    given["l"] = x
    return given, given.last, given["a"]


def change_set(given, x):
    given.add(7)
    given.discard(1)
    return given, x + 1, 2 in given


def read_sized(given, x):
    return given.n_items, given[0] + x, given


def read_default(given, x):
    return given["n"] + x, given


def read_doubling(given, x):
    return given[0] + x, len(given), [i + x for i in given]


@pytest.mark.parametrize(
    "function, make",
    [
        (change_list, lambda: Tagged([tensor()], tag="old")),
        (change_attributes, lambda: Attributes(a=tensor())),
        (change_output, lambda: Output(first=tensor())),
        (change_ordered, lambda: Noting(a=tensor())),
        (change_set, lambda: Chained([1, 2])),
        (read_sized, lambda: Sized(tensor(), 2)),
        (read_default, lambda: Grouped(int, k=4)),
        (read_doubling, lambda: Doubling([tensor()])),
    ],
    ids=lambda f: f.__name__.strip("<>"),
)
def test_given_from_outside(function, make):
    check(function, make, tensor)


def test_identity_and_aliases_are_kept():
    def function(a, b, x):
        a.append(x + 1)
        return a is b, len(b), b

    compiled = segue.compile(function, backend="eager")
    shared = Tagged([1])
    same, length, given_back = compiled(shared, shared, tensor())
    assert same and length == 2 and given_back is shared
    one, other = Tagged([1]), Tagged([1])
    assert compiled(one, other, tensor())[:2] == (False, 1)
    assert (len(one), len(other)) == (2, 1)


def test_the_classes_methods_are_guarded():
    class Own(list):
        def __getitem__(self, index):
            return super().__getitem__(index) + 1

    def function(given, x):
        return given[0] + x

    compiled = segue.compile(function, backend="eager")
    assert compiled(Own([1]), tensor()).tolist() == [2.0, 3.0, 4.0]
    Own.__getitem__ = lambda self, index: 10
    assert compiled(Own([1]), tensor()).tolist() == [10.0, 11.0, 12.0]


def test_no_code_of_the_class_runs_when_an_instance_is_rebuilt():
    calls = []

    class Loud(dict):
        def __setitem__(self, key, value):
            if not torch.compiler.is_compiling():
                calls.append(key)
            super().__setitem__(key, value)

    def function(x):
        made = Loud()
        dict.__setitem__(made, "a", x + 1)
        return made

    compiled = segue.compile(function, backend="eager")
    assert type(compiled(tensor())) is Loud
    assert calls == []


def copies(x):
    tags, made, groups = Chained([1, 2]), Noting(a=x), defaultdict(list, {1: [2]})
    tags.extra = [3]
    deep = [copy.deepcopy(each) for each in (tags, groups, {1, 2}, OrderedDict(b=1))]
    shallow = [copy.copy(each) for each in (tags, made, groups, {5})]
    deep[0].extra.append(4)
    return deep, shallow, tags, groups, x + 1


def set_order(x):
    names = set("one two three four five six".split())
    more = names | {"seven"}
    more.discard("one")
    more.add("eight")
    return list(names), list(more), list(names & more), list(names ^ more), [*more.copy()], x + 1


@pytest.mark.parametrize("function", [copies, set_order], ids=lambda f: f.__name__)
def test_copied_and_listed(function):
    check(function, tensor)


def test_order_of_a_set_that_grew_and_shrank():
    def function(x):
        numbers = set(range(100))
        for number in range(1, 99):
            numbers.discard(number)
        numbers |= {64, 8}
        more = set(numbers)
        more.update({7: 1, 1000: 2})
        return list(numbers), list(more), x + 1

    check(function, tensor)
