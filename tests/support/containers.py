"""Lists, tuples, dictionaries, sets, those of `collections`, and user subclasses of them."""

import collections
import types
from collections.abc import Mapping, MutableMapping, Sequence
from typing import NamedTuple

import torch

from tests.support.construct import area

construct = area("Containers")

Point = collections.namedtuple("Point", "row column", defaults=[0])


class Output(NamedTuple):
    logits: object
    loss: object = None

    def total(self):
        return self.logits + (self.loss or 0)


class Attributes(dict):
    """A dictionary whose keys are attributes."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name, value):
        self[name] = value


class ModelOutput(collections.OrderedDict):
    """As models return them: keys, attributes and positions."""

    def __init__(self, **values):
        super().__init__(**values)
        for name, value in values.items():
            super().__setattr__(name, value)

    def __getitem__(self, key):
        return super().__getitem__(key) if isinstance(key, str) else self.to_tuple()[key]

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


class Stack(list):
    def push(self, item):
        self.append(item)
        return self

    def __getitem__(self, key):
        return super().__getitem__(key) if not isinstance(key, str) else len(self)


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def first(self):
        return self[0]


class Names(set):
    def add(self, name):
        super().add(name.lower())


class Defaults(collections.defaultdict):
    def __missing__(self, key):
        self[key] = len(key)
        return self[key]


@construct("list: `append`, `extend`, `insert`, `pop`, `remove`, `clear`, `index`, `count`")
def list_methods(x):
    items = [1]
    items.append(5)
    items.extend([2, 3, 2])
    items.insert(1, "a")
    items.remove(1)
    y = x + items.count(2) + items.index(3) + items.pop(2)
    items.append(y)
    last = items.pop()
    return items.pop(0), items, last


@construct("list: `sort`, `reverse`, `copy`, `+`, `*`, comparison")
def list_more(x):
    items = [3, 1, 2]
    items.sort(reverse=True)
    others = items.copy()
    others.reverse()
    return x + (items > others), items + others * 2, items == [3, 2, 1], [[0] * 2 for _ in range(2)]


@construct("list: `sort` with a key")
def list_sort_key(x):
    items = [("b", 2), ("a", 2), ("c", 1)]
    items.sort(key=lambda item: (-item[1], item[0]))
    return x + items[0][1], items


@construct("list in place: `+=`, `*=`, slice assignment, `del`", state=lambda: ([1, 2, 3],))
def list_in_place(x, items):
    items += [4]
    items[1:2] = [7, 8]
    items *= 2
    del items[3:]
    return x * items[1], items


@construct("a list of tensors as an argument", inputs=lambda: ([*torch.randn(3, 4)],))
def list_argument(items):
    items.append(items[0] + 1)
    items[1] = items[1] * 2
    return sum(items)


@construct("tuple: `index`, `count`, `+`, `*`, comparison, hashing")
def tuple_methods(x):
    t = (1, 2, 2)
    return x + t.count(2) + t.index(2), t + (x,), t * 2, t < (1, 3), {t: "a"}[1, 2, 2]


@construct("dict: `get`, `setdefault`, `pop`, `popitem`, `update`, `|`, `clear`")
def dict_methods(x):
    table = {"a": 1, "b": 2}
    table.setdefault("c", x)
    table.update(d=4, e=5)
    table |= {"f": 6}
    popped = table.pop("a"), table.pop("z", None), table.popitem()
    return table["c"] * table.get("b") + table.get("y", 9), table | {"g": 7}, popped


@construct("dict: iteration over keys, values, items, `reversed`, `in`, `len`")
def dict_iteration(x):
    table = {"a": x, "b": x * 2}
    total = sum(table.values())
    for name, value in table.items():
        total = total + value * len(name)
    return total, list(table), list(reversed(table)), "a" in table, len(table), sorted(table.keys() & {"a"})


@construct("dict: `fromkeys`, `dict(...)` in all forms, nested updates")
def dict_made(x):
    table = dict.fromkeys("ab", 0) | dict([("c", x)]) | dict(d=4) | dict(zip("ef", range(2), strict=True))
    table.setdefault("g", {}).setdefault("h", []).append(x + 1)
    return table


@construct("dict: changed while iterated raises `RuntimeError`")
def dict_changed(x):
    table = {"a": 1, "b": 2}
    try:
        for key in table:
            table[key + "x"] = 1
    except RuntimeError as error:
        return x + 1, str(error)


@construct("dict: keys of many kinds")
def dict_keys(x):
    table = {1: 1, "a": 2, (1, "b"): 3, None: 4, 2.5: 5, x.dtype: 6, int: 7, frozenset([1]): 8}
    return x * table[x.dtype] + table[int] + table[(1, "b")] + table[frozenset([1])] + table[True]


@construct("dict: tensors as keys", state=lambda: ({},))
def tensor_keys(x, table):
    y = x + 1
    local = {x: 1, y: 2}
    return y * local[x] + local[y]


@construct(
    "dict as an argument: written, deleted from, iterated",
    state=lambda: ({"scale": 2, "new": torch.zeros(4, 4), "old": 5},),
)
def dict_argument(x, table):
    del table["old"], table["new"]
    table["old"] = x + 1
    table["new"] = table.pop("old")
    table["old"] = 5
    return x * table["scale"], sorted(table)


@construct("set: `add`, `discard`, `|`, `&`, `-`, `^`, comparison, `update`")
def set_methods(x):
    a, b = {1, 2, 3}, {3, 4}
    a.add(5)
    a.discard(1)
    b.update([7])
    return x + len(a | b) + (3 in a & b) + (a >= {2}), sorted(a - b), sorted(a ^ b), a.isdisjoint({9})


@construct("set: `remove`, `pop`, `intersection_update`, `frozenset`")
def set_more(x):
    a = {1, 2, 3}
    a.intersection_update({1, 2})
    a.remove(1)
    return x * a.pop(), frozenset("ab") | {"c"}, a


@construct("set as an argument", state=lambda: ({"a", "b"},))
def set_argument(x, seen):
    seen.discard("b")
    seen.add("c")
    y = x + ("a" in seen) + len(seen)
    seen.add("b")
    seen.remove("c")
    return y


@construct("`range` and `slice` objects")
def range_slice(x):
    r = range(10, 0, -3)
    s = slice(1, None, 2)
    return x[s] * r[1] + len(r) + (4 in r) + r.index(4), list(r[::-1]), s.indices(4), s.start


@construct("`bytes`, `bytearray`, `memoryview`")
def bytes_(x):
    data = bytearray(b"abc")
    data[0] = 65
    data += b"d"
    return x + data[0] + len(memoryview(data)), bytes(data), data.decode(), b"a,b".split(b",")


@construct("sequences compared, nested")
def compared(x):
    return x + ([1, (2, {"a": 3})] == [1, (2, {"a": 3})]) + ((1, 2) < (1, 3)) + ({"a": [1]} != {"a": [2]})


@construct("`deque`: `append`, `appendleft`, `pop`, `popleft`, `extend`, `extendleft`")
def deque_ends(x):
    d = collections.deque([1, 2])
    d.append(x)
    d.appendleft(0)
    d.extend([3])
    d.extendleft([4, 5])
    return d.pop() + d.pop() + d.popleft(), list(d)


@construct("`deque`: `maxlen`, `rotate`, indexing, `count`, `remove`, `reverse`, `insert`, `clear`, `copy`")
def deque_more(x):
    d = collections.deque(range(10), maxlen=4)
    d.rotate(1)
    d.reverse()
    d.remove(7)
    d.insert(1, 20)
    d[0] = 30
    e = d.copy()
    d.clear()
    return x * e[1] + e.count(20) + len(d) + e.maxlen + e.index(20), e, 20 in e, list(reversed(e))


@construct("`deque` as an argument", state=lambda: (collections.deque(maxlen=2),))
def deque_argument(x, history):
    history.append(x.shape)
    return x + len(history)


@construct("`deque` of tensors as an argument", state=lambda: (collections.deque([0.0], maxlen=2),))
def deque_of_tensors(x, history):
    history.append(x * 2)
    return sum(history)


@construct("`Counter`: counts, `most_common`, `elements`, `update`, `subtract`, `total`")
def counter(x):
    c = collections.Counter("abca")
    c.update("ab")
    c.subtract(c=2)
    return x * c["a"] + c["missing"] + c.total(), c.most_common(1), sorted(c.elements()), c


@construct("`Counter` arithmetic")
def counter_arithmetic(x):
    a, b = collections.Counter(a=3, b=1), collections.Counter(a=1, b=2)
    return x + (a + b)["a"], a - b, a & b, a | b, +a, a <= b


@construct("`ChainMap`")
def chain_map(x):
    m = collections.ChainMap({"a": 1}, {"a": 2, "b": x})
    m["c"] = 3
    child = m.new_child({"d": 4})
    return m["b"] * m["a"] + child["d"], sorted(m), len(m), m.parents["a"], m.maps[0], m.get("z")


@construct("`OrderedDict`: `move_to_end`, `popitem`, equality")
def ordered_dict(x):
    d = collections.OrderedDict(a=1, b=x, c=3)
    d.move_to_end("a")
    d.move_to_end("c", last=False)
    first = d.popitem(last=False)
    return d["b"] * first[1], list(d), d == collections.OrderedDict(b=1), list(reversed(d))


@construct("`defaultdict` of lists, ints, and a lambda")
def defaultdict(x):
    lists, counts, others = (collections.defaultdict(f) for f in (list, int, lambda: x))
    lists["a"].append(x)
    counts["k"] += 2
    return lists["a"][0] * counts["k"] + others["z"], lists, dict(counts), lists.default_factory is list


@construct("`defaultdict` as an argument", state=lambda: (collections.defaultdict(list, shapes=[1]),))
def defaultdict_argument(x, table):
    y = x + len(table["missing"]) + len(table["shapes"])
    del table["missing"]
    return y


@construct("`namedtuple`: fields, `_replace`, `_asdict`, `_make`, `_fields`, defaults")
def namedtuple(x):
    p = Point(x, 2)
    q = p._replace(column=5)
    r = Point._make([1, 2])
    return p.row * q.column + q[1], p._asdict(), r, Point._fields, Point(1), p._field_defaults, r == (1, 2)


@construct("`NamedTuple` class with a method and a default")
def named_tuple_class(x):
    out = Output(x * 2)
    logits, loss = out
    return out, out.total() + logits, loss, out._replace(loss=1).total()


@construct("`namedtuple` made in the function")
def namedtuple_in_function(x):
    Local = collections.namedtuple("Local", ["a", "b"])
    return Local(x, 1).a + 1


@construct("`namedtuple` as an argument", inputs=lambda: (Point(torch.randn(4), 2),))
def namedtuple_argument(p):
    return p.row * p.column, p


@construct("PyTorch's named results: `max(dim)`, `sort`, `topk`")
def torch_named(x):
    values, indices = x.max(dim=1)
    return values + x.sort(dim=0).values[0], indices, x.topk(2), x.min(dim=0)


@construct("a subclass of `dict` with attributes")
def dict_subclass(x):
    a = Attributes(scale=2)
    a.bias = x
    return x * a.scale + a.bias + a["scale"], hasattr(a, "missing"), a


@construct("a subclass of `dict` as an argument", state=lambda: (Attributes(scale=2),))
def dict_subclass_argument(x, a):
    a.last = x + 1
    return x * a.scale


class Folded(dict):
    def __missing__(self, key):
        return 7

    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __contains__(self, key):
        return super().__contains__(key.lower())


@construct("a subclass of `dict` with `__missing__`, `__getitem__`, `__setitem__`, `__contains__`")
def dict_subclass_hooks(x):
    d = Folded()
    d["A"] = x
    return d["a"] + d["z"], "A" in d, d.get("z"), len(d)


@construct("a subclass of `OrderedDict`, as models return")
def ordered_dict_subclass(x):
    out = ModelOutput(logits=x * 2, hidden=x + 1)
    out["loss"] = out[0].sum()
    return out, out.logits + out["hidden"], len(out), list(out.keys())


@construct("a subclass of `OrderedDict` as an argument", inputs=lambda: (ModelOutput(a=torch.ones(2)),))
def ordered_dict_subclass_argument(out):
    return out.a + out["a"] + out[0]


@construct("a subclass of `defaultdict`")
def defaultdict_subclass(x):
    d = Defaults(list)
    return x * d["abc"], d


@construct("a subclass of `list`")
def list_subclass(x):
    s = Stack([1])
    s.push(x).push(3)
    return s[1] * s["size"], s, len(s), [*s], isinstance(s, list), s + [4]


@construct("a subclass of `list` as an argument", state=lambda: (Stack([1, 2]),))
def list_subclass_argument(x, stack):
    y = x * stack[0]
    stack.push(5)
    stack.pop()
    return y


@construct("a subclass of `tuple`")
def tuple_subclass(x):
    p = Pair(x, 2)
    a, b = p
    return p.first * b + a, p, isinstance(p, tuple), len(p)


@construct("a subclass of `set`")
def set_subclass(x):
    names = Names()
    names.add("ABC")
    return x + ("abc" in names) + len(names | {"d"}), names


class Meters(float):
    def doubled(self):
        return Meters(self * 2)


class Name(str):
    def shout(self):
        return self.upper() + "!"


class Level(int):
    pass


@construct("subclasses of `int`, `float`, `str`")
def number_subclass(x):
    return x * Meters(1.5).doubled() + Level(3) + len(Name("abc").shout())


@construct("`collections.UserDict`, `UserList`")
def user_containers(x):
    d, items = collections.UserDict(a=x), collections.UserList([1, 2])
    items.append(3)
    d["b"] = 2
    return d["a"] * d["b"] + sum(items), len(d), items.data


class Table(MutableMapping):
    def __init__(self):
        self.data = {}

    def __getitem__(self, key):
        return self.data[key]

    def __setitem__(self, key, value):
        self.data[key] = value

    def __delitem__(self, key):
        del self.data[key]

    def __iter__(self):
        return iter(self.data)

    def __len__(self):
        return len(self.data)


class Twice(Sequence):
    def __getitem__(self, i):
        if i > 1:
            raise IndexError
        return i * 2

    def __len__(self):
        return 2


@construct("`MutableMapping` and `Sequence` of one's own")
def abstract_containers(x):
    table = Table()
    table["a"] = x
    table.update(b=2)
    table.setdefault("c", 3)
    return table["a"] * table.pop("b") + table.get("z", 1), list(table.items()), list(Twice()), 2 in Twice()


@construct("`isinstance` of `Mapping`, `Sequence`, `Iterable`, `Callable`, `Hashable`")
def abstract_checks(x):
    from collections.abc import Callable, Hashable, Iterable

    flags = [isinstance({}, Mapping), isinstance([], Sequence), isinstance(x, Iterable), isinstance(len, Callable)]
    return x + sum(flags) + isinstance([], Hashable), flags


@construct("`types.SimpleNamespace`")
def simple_namespace(x):
    options = types.SimpleNamespace(scale=2)
    options.bias = x
    return x * options.scale + options.bias, options == types.SimpleNamespace(scale=2), vars(options)["scale"]


@construct("`types.MappingProxyType`")
def mapping_proxy(x):
    view = types.MappingProxyType({"scale": 3})
    try:
        view["scale"] = 4
    except TypeError:
        return x * view["scale"] + len(view)


@construct("a list that contains itself")
def self_containing(x):
    items = [x + 1]
    items.append(items)
    return items


@construct("the same list twice in a result", inputs=lambda: ([torch.randn(3)] * 2,))
def same_twice(items):
    items[0] = items[1] + 1
    return items, items, [items[0]] * 2
