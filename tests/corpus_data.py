"""Corpus: expressions, calls, containers, closures, classes and the standard library's everyday helpers."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import io
import itertools
import operator
import typing

from tests.case import case, record
from tests.corpus_flow import AppError


def show(*args, **kwargs):
    """Record how it was called."""
    return record((args, kwargs))


def later(value, *rest, flag=False, **options):
    return value, rest, flag, options


# --- calls and half-built expressions ---


@case(lambda: [(1, [2, 3], {"k": 4}), (0, (), {}), (1, [2], {"flag": 1, "value": 5}), (1, 5, {})])
def half_built_calls(x, args, kwargs):
    return later(
        record(x) + later(record("a"), record("b"))[0].__len__(),
        *args,
        record("c"),
        *reversed(args),
        flag=record("d") == "d",
        **kwargs,
        last=later(1, *args, **kwargs),
    )


@case(lambda: [(3, 4), ("a", "b"), (1, "b")])
def keyword_calls(a, b):
    out = []
    show(b, out=out, first=a, nested=later(b, flag=a))
    out.append(dict(b=b, a=a))
    out.append(int("12", base=a + len(str(b))) if isinstance(a, int) else a)
    return out, a + b


@case(lambda: [("  Some Words here ",), ("",), (None,)])
def method_chain(text):
    return [
        text.strip().lower().replace(record("w"), "W").split(" ")[0].join(["<", ">"]),
        record(1),
    ][0].upper()


@case(lambda: [(1,), (1, 2), (1, 2, 3, 4)])
def rest_arguments(first, second=10, *rest, flag=True, **options):
    rest += (second,)
    options["flag"] = flag
    return first, rest, options


@case(lambda: [(), (5,)])
def mutable_default(x=1, seen={"calls": ()}):
    seen["calls"] = (x,)
    return seen, mutable_default.__defaults__ is not None


@case(lambda: [(str,), ("s",)])
def wrong_calls(x):
    found = []
    for arguments, options in (((), {}), ((1, 2), {}), ((1,), {"a": 2}), ((), {"b": 2})):
        try:
            found.append((lambda a, *, b=x: (a, b))(*arguments, **options))
        except TypeError as error:
            found.append(str(error))
    return found, x(1)


@case(lambda: [([3, 1, 2],), ([],), (["b", "a"],)])
def call_with_unpacked_twice(items):
    return (
        max(*items, *items, key=lambda v: record(v)),
        sorted(items, reverse=True),
        later(*items, end=""),
    )


# --- operators ---


@case(lambda: [(7, 2), (-7, 2), (7.5, -2.0), (True, 3), (2, 0)])
def arithmetic(a, b):
    out = [a + b, a - b, a * b, a**b, -a, +a, not a, abs(a)]
    out += [a / b, a // b, a % b, divmod(a, b)]
    return out


@case(lambda: [(0b1100, 0b1010), ({1, 2}, {2, 3}), (True, False), (1.0, 2)])
def bit_operations(a, b):
    out = [a & b, a | b, a ^ b]
    out.append(~a << 2 >> 1)
    return out


@case(lambda: [(1, 2, 3), (3, 2, 1), (2, 2, 2), (1, "x", 3)])
def chained_comparison(a, b, c):
    first = record(a) <= record(b) < record(c)
    second = a != b == c is not None
    third = a in (b, c) not in [True]
    return first, second, third, a is b, a >= b > c


@case(lambda: [(0, 1), (1, 0), ("", None), ([], "x")])
def boolean_short_circuit(a, b):
    first = record(a) and record(b)
    second = record(a) or record(b)
    third = not a and (b or not (a or b))
    if (a and b) or (not a and not b):
        record("both or none")
    while a and not b:
        a = None
    return first, second, third, a


@case(lambda: [(5,), (-5,), (0,)])
def conditional_expression(x):
    sign = "+" if x > 0 else "-" if x < 0 else "0"
    return sign, record(x) if x else record("zero"), (x or 1) if not x else (x and 2)


@case(lambda: [([1, 5, 2],), ([],)])
def walrus(items):
    if (n := len(items)) > 2 and (top := max(items)) > n:
        record((n, top))
    squares = [y := i * i for i in items]
    return n, squares, y, [total := 0, *[total := total + i for i in items], total]


class Box:
    def __init__(self, value):
        self.value = value
        self.items = {"k": [1]}


@case(lambda: [(Box(1), [1, 2, 3]), (Box([1]), [[1], 2, 3]), (Box("s"), [5, 5])])
def augmented_assignment(box, items):
    name = items[0]
    name += name
    box.value *= 2
    items[record(1)] -= 1
    box.items["k"] += [name]
    items[-1] **= 2
    items[0:1] += [8]
    box.value += record(box.value)
    name <<= 1
    return name


@case(lambda: [(1, 2), (5, 5)])
def more_augmented(a, b):
    c = a
    c |= b
    c &= 7
    c ^= 1
    c %= 5
    c //= 1
    c >>= 1
    c /= 2
    d = [a]
    e = d
    e += [b]
    e *= 2
    return c, d is e, d


# --- assignment and unpacking ---


@case(lambda: [([1, 2, 3, 4, 5],), ("ab",), ([1],), (7,)])
def starred_assignment(values):
    first, *middle, last = values
    a = b = [first]
    a, b[0] = b, last
    (x, y), z = (first, last), middle
    first, last = last, first
    p, q, r = last, x, first
    p, q, r = r, q, p
    [*copied] = values
    return first, middle, last, a, b, x, y, z, copied, (p, q, r)


@case(lambda: [([1, 2],), ([1, 2, 3],), ([1],), (None,), ({"a": 1, "b": 2},), (iter([1, 2]),)])
def unpacking_errors(values):
    try:
        a, b = values
    except (ValueError, TypeError) as error:
        record(str(error))
        a, b, *c = *"xyz", "w"
        return a, b, c
    return a, b


@case(lambda: [(list(range(10)),), ("abcdefghij",), (tuple(range(4)),)])
def slices(s):
    copied = s[:]
    parts = [s[1], s[-1], s[2:5], s[::2], s[::-1], s[-3:-1], s[slice(None, 2)], s[100:]]
    return copied is s, parts, operator.getitem(s, slice(1, None, 3))


@case(lambda: [(list(range(12)),), (list(range(6)),), ((1, 2),)])
def slice_assignment(items):
    items[1:3] = "xyz"
    items[::2] = [record(v) for v in items[::2]]
    del items[0], items[-2:]
    items[len(items) :] = [9]
    del items[7]
    return items


class Grid:
    def __getitem__(self, key):
        return key

    def __setitem__(self, key, value):
        record(("set", key, value))

    def __delitem__(self, key):
        record(("del", key))


@case(lambda: [(Grid(), 2), ([], 1)])
def extended_slices(grid, n):
    grid[n, ...] = grid[1:n, ::n, None]
    grid[n:] = grid[n]
    del grid[..., n:0:-1], grid[n]
    grid[0], grid[1] = record("a"), record("b")
    return grid[:, *range(n)]


@case(lambda: [(Box(3), "value"), (Box(4), "missing"), (Box(5), "nothing")])
def attributes(box, name):
    box.new = box.value
    box.copy, box.items["x"] = box.new, 1
    del box.new, box.items["k"]
    setattr(box, name, getattr(box, name, "default"))
    record((hasattr(box, "new"), sorted(vars(box))))
    try:
        return box.new
    except AttributeError as error:
        record(str(error))
    del box.nothing
    return box


@case(lambda: [(1,), ("s",)])
def annotated_assignment(x):
    y: int = x
    z: list[int]
    box = Box(y)
    box.value: str = record("v")
    try:
        return z
    except UnboundLocalError:
        return box, annotated_assignment.__annotations__


# --- strings, bytes, numbers ---


@case(lambda: [(3.14159, "é\n"), (10, "x"), (Box, None)])
def f_strings(x, s):
    width = 8
    name = getattr(x, "__name__", x)
    first = f"{name} {s!r} {s!s:>5} {s!a:*<10} {name=} {{braces}} {record(s)}"
    second = f"{'nested ' + f'{name!s:^{width}}'}|{x if isinstance(x, int) else 0:#06x}|{width:{'+'}d}"
    return first, second, f"", f"{x:.2f}"


@case(lambda: [("Hello, World",), ("",), ("ßlWl",)])
def string_methods(s):
    out = [
        s.upper(),
        s.title(),
        s.swapcase(),
        s.casefold(),
        s[::-1],
        s * 2,
        s.find("l"),
        s.count("l"),
    ]
    out += [
        s.partition(","),
        s.encode(),
        s.center(14, "."),
        "-".join(s[:3]),
        s.isalnum(),
        "%s|%5d" % (s, len(s)),
    ]
    out.append("{0!r:>4} {n[0]} {}".replace("{}", "").format(s[:1], n=[1]))
    return out, s.index("W"), ord(s[0]), s.translate({72: "J"})


@case(lambda: [(b"abc", 1), (b"", 2), ("text", 0)])
def bytes_and_bytearray(data, n):
    array = bytearray(data)
    array.append(n)
    array[0:1] = b"zz"
    return (
        bytes(array),
        data.hex(),
        data + b"!",
        b"%d" % n,
        int.from_bytes(data, "big"),
        memoryview(array)[n],
    )


@case(lambda: [(2, 3), (10**20, -7), (0, 0)])
def numbers(a, b):
    big = a**5 + 2**70 - b
    z = complex(a, b) * 1j - 2
    out = [
        big,
        big % 97,
        -big // 3,
        z,
        z.conjugate(),
        (a + 0.5).hex(),
        round(a / 3, 2),
        a.bit_length(),
    ]
    out += [
        float("inf") > big,
        float("nan") == float("nan"),
        0.1 + 0.2,
        1_000 ^ 0xFF,
        int("-12"),
        bool(b),
    ]
    return out, b / a, pow(a, -1, 7)


# --- containers and comprehensions ---


@case(lambda: [([1, 2, 3],), ([],), (["a"],)])
def container_displays(items):
    x = 1
    constant = [1, 2, 3, 4]
    built = [x, *items, x], (*items,), {x, *items}, {"a": x, **dict.fromkeys(items, x), "z": 2}
    return constant, built, {1: 2, 3: 4}, {5, 6, 7}, (), [], {}, (x, items), frozenset({1, 2}) | {x}


@case(lambda: [(3, 2), (0, 5), (2, "x")])
def comprehensions(n, k):
    squares = [i * i for i in range(n)]
    pairs = [(i, j) for i in range(n) if i % 2 == 0 for j in range(i, n) if j != 1]
    return (
        squares,
        pairs,
        {i % 2 for i in range(n)},
        {i: i * k for i in range(n)},
        [[k] * i for i in range(n) if i > k],
    )


@case(lambda: [([[1, 2], [3]], 10), ([], 0), ([[1], 5], 1)])
def nested_comprehensions(rows, offset):
    scale = 2
    table = [[record(value * scale + offset) for value in row] for row in rows]
    return (
        table,
        {len(row): {v for v in row} for row in rows},
        [f() for f in [lambda: scale + len(rows)]],
    )


@case(lambda: [([1, 2, 3],), ([0, 4],), ([],), ([1, "x"],)])
def generator_expressions(items):
    doubled = (record(i * 2) for i in items)
    total = sum(i + 1 for i in items)
    found = any(i > 2 for i in doubled)
    rest = list(doubled)
    return (
        total,
        found,
        rest,
        all(i for i in items),
        dict((i, i) for i in items),
        ",".join(str(i) for i in items),
    )


@case(lambda: [(4,), (0,)])
def generator_protocol(n):
    def count(limit):
        received = []
        try:
            for i in range(limit):
                received.append((yield i))
            yield from "ab"
        except ValueError as error:
            yield str(error)
        finally:
            record(received)
        return "returned"

    generator = count(n)
    out = [next(generator), next(generator)]
    if n:
        out += [generator.send("sent"), generator.throw(ValueError("thrown"))]
    out += list(generator)
    generator.close()
    first, *rest = count(2)
    return out, first, rest


@case(lambda: [(3,), (0,)])
def coroutine_driven_by_hand(n):
    class Ready:
        def __await__(self):
            return (yield "waiting")

    async def steps():
        async def source():
            for i in range(n):
                yield i

        total = await Ready()
        async for i in source():
            total += i
        async with contextlib.AsyncExitStack():
            return total, [i async for i in source() if i]

    coroutine = steps()
    record(coroutine.send(None))
    try:
        coroutine.send(100)
    except StopIteration as stop:
        return stop.value


@case(lambda: [({"a": 1, "b": 2}, {"b": 3}), ({}, {"x": 1}), ({"a": 1}, None)])
def dict_methods(left, right):
    merged = left | right
    left |= right
    left.setdefault("list", []).append(len(left))
    left.update(b=7, **right)
    items = [(k, v) for k, v in merged.items()]
    removed = left.pop("a", "none"), left.popitem(), left.get("zz"), "b" in left
    return (
        merged,
        items,
        removed,
        list(left),
        list(reversed(left.values())),
        {**right, "k": merged == left},
    )


@case(lambda: [({1, 2, 3}, {3, 4}), (set(), {1}), ({1}, [2])])
def set_operations(a, b):
    a.add(9)
    a.discard(1)
    out = [a | set(b), a.union(b), a - set(b), a ^ set(b), a <= set(b), a.isdisjoint(b)]
    a.update(b)
    a &= b
    return out, len(a)


@case(lambda: [([3, 1, 2], 1), ([], 0), (["b", "a"], "a")])
def list_methods(items, x):
    items.append(x)
    items.extend([x, x])
    items.insert(0, items.pop())
    position = items.index(x), items.count(x)
    items.remove(x)
    items.sort(key=lambda v: (v == x, v))
    items.reverse()
    return position, items + [x], items * 2, items == sorted(items), items < [x], items.clear()


@case(lambda: [([1, 2, 3, 4], "abc"), ([], ""), ([5, "x"], "ab")])
def builtin_iteration(items, text):
    zipped = list(zip(items, text, range(9), strict=False))
    mapped = list(map(lambda a, b: f"{a}{b}", items, text))
    kept = [*filter(None, items)], list(filter(lambda v: v != 2, items))
    back = [*reversed(items)], list(enumerate(text, start=3))
    return (
        zipped,
        mapped,
        kept,
        back,
        sum(items, 10),
        min(items, default=0),
        sorted(text, key=ord, reverse=True),
    )


@case(lambda: [([1, 2, 3],), ([],)])
def itertools_and_functools(items):
    chained = list(itertools.chain(items, "ab"))
    running = list(itertools.accumulate(items, operator.mul, initial=1))
    groups = [(k, list(g)) for k, g in itertools.groupby(items, key=lambda v: v > 1)]
    pairs = (
        list(itertools.product(items[:2], repeat=2)),
        list(itertools.islice(itertools.count(5), 3)),
    )
    add = functools.partial(later, 1, flag=2)
    return (
        chained,
        running,
        groups,
        pairs,
        add(*items, extra=3),
        functools.reduce(operator.add, items),
    )


# --- closures ---


@case(lambda: [(1, 5), ("a", "b")])
def captured_arguments(x, y):
    def inner(z):
        nonlocal x
        x = x + z
        return x, y

    first = inner(y)
    y = x
    second = inner(y)
    return first, second, x, inner


def make_accumulator(start):
    total = start

    @case(lambda: [(1,), (5,), ("x",)])
    def captures_outer_cell(step):
        nonlocal total
        total = start
        for _ in range(2):
            total += step
        return total, [total + i for i in range(2)]

    return captures_outer_cell


accumulator = make_accumulator(10)


@case(lambda: [(3,), (0,)])
def loop_creating_closures(n):
    functions = []
    for i in range(n):
        functions.append(lambda k=i: (k, i))
    late = [lambda: j for j in range(n)]
    return [f() for f in functions], [f() for f in late], [g(2) for g in [lambda v: v * n]]


@case(lambda: [(2,), (0,)])
def cells_modified_by_inner_functions(n):
    state, log = 0, []

    def bump(by):
        nonlocal state
        state += by

        def deeper():
            nonlocal state, log
            state *= 2
            log = [*log, state]

        return deeper

    for i in range(n):
        bump(i + 1)()
        state -= 1
    return state, log


@case(lambda: [(1,), (2,)])
def nested_function_signature(x):
    def inner(a: int, b=x, /, c: str = "c", *args: x, d, e=[x], **kw) -> "result":
        "Docstring."
        return a, b, c, args, d, e, kw

    record(sorted(inner.__annotations__.items(), key=str))
    return inner(1, d=2), inner(1, 2, "3", 4, d=5, e=6, f=7), inner.__doc__, inner.__kwdefaults__


def logged(prefix):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            record((prefix, function.__name__, args))
            return function(*args, **kwargs)

        return wrapper

    return decorate


@case(lambda: [(3,), (None,)])
def decorators(x):
    @logged("outer")
    @logged("inner")
    def double(v):
        "Doubles."
        return v * 2

    @functools.lru_cache(maxsize=None)
    def cached(v):
        return record(v)

    return double(x), double.__name__, double.__doc__, cached(1), cached(1)


# --- classes ---


@case(lambda: [(1,), ("a",)])
def class_inside(x):
    class Base:
        kind: str = "base"
        table = {x: "x"}
        __slots__ = ("value",)

        def __init__(self, value):
            self.value = value

        def describe(self):
            return f"{self.kind} {self.value}"

        @classmethod
        def make(cls):
            return cls(x)

        @staticmethod
        def helper(v):
            return v, x

    class Child(Base):
        kind = Base.kind + " child"

        def describe(self):
            return super().describe() + "!", __class__.__name__

    return (
        Child.make().describe(),
        Base.helper(2),
        Child(3).helper(4),
        Base.table,
        Base.__annotations__,
    )


class Registry(type):
    def __new__(meta, name, bases, namespace, **options):
        record((name, sorted(options.items())))
        return super().__new__(meta, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **options):
        super().__init__(name, bases, namespace)


@case(lambda: [(True,), (False,)])
def metaclass_and_hooks(flag):
    class Plugin(metaclass=Registry, flag=flag):
        def __init_subclass__(cls, tag="none"):
            record(tag)

    def mark(cls):
        cls.marked = True
        return cls

    @mark
    class Loaded(Plugin, tag="t"):
        if flag:
            extra = [i for i in range(2)]
        x, y = 1, 2
        del x

    return type(Loaded).__name__, Loaded.marked, Loaded.y, hasattr(Loaded, "x"), Loaded.extra


class Celsius:
    """Properties and a descriptor written by hand."""

    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return self if instance is None else record(getattr(instance, self.name, 0))

        def __set__(self, instance, value):
            if value < 0:
                raise ValueError(f"{self.name[1:]} is negative")
            setattr(instance, self.name, value)

    mass = Positive()

    def __init__(self, degrees):
        self.degrees = degrees

    @property
    def fahrenheit(self):
        return self.degrees * 9 / 5 + 32

    @fahrenheit.setter
    def fahrenheit(self, value):
        self.degrees = (value - 32) * 5 / 9

    @fahrenheit.deleter
    def fahrenheit(self):
        record("deleted")

    def __getattr__(self, name):
        if name.startswith("as_"):
            return name[3:], self.degrees
        raise AttributeError(name)


@case(lambda: [(Celsius(100), 5), (Celsius(0), -1), (Celsius(None), 1), (Celsius(1), 1)])
def properties_and_descriptors(temperature, mass):
    before = temperature.fahrenheit
    temperature.fahrenheit = 50
    temperature.fahrenheit += 9
    del temperature.fahrenheit
    temperature.mass = mass
    temperature.mass += 1
    return (
        before,
        temperature.degrees,
        temperature.as_kelvin,
        temperature.unknown if mass == 1 else mass,
    )


class Vector:
    """Operator methods written by hand."""

    def __init__(self, *values):
        self.values = values

    def __repr__(self):
        return f"Vector{self.values}"

    def __add__(self, other):
        if not isinstance(other, Vector):
            return NotImplemented
        return Vector(*map(operator.add, self.values, other.values))

    def __radd__(self, other):
        return record(("radd", other)) and self

    def __iadd__(self, other):
        self.values += (other,)
        return self

    def __mul__(self, k):
        return Vector(*[v * k for v in self.values])

    def __matmul__(self, other):
        return sum(a * b for a, b in zip(self.values, other.values, strict=True))

    def __neg__(self):
        return self * -1

    def __eq__(self, other):
        return isinstance(other, Vector) and self.values == other.values

    def __hash__(self):
        return hash(self.values)

    def __lt__(self, other):
        return self.values < other.values

    def __len__(self):
        return len(self.values)

    def __bool__(self):
        return any(self.values)

    def __contains__(self, value):
        return value in self.values

    def __getitem__(self, index):
        return self.values[index]

    def __call__(self, *args, **kwargs):
        return record((self.values, args, kwargs))

    def __format__(self, spec):
        return f"<{spec}>"

    def __index__(self):
        return self.values[0]


@case(lambda: [(Vector(1, 2), Vector(3, 4)), (Vector(0), Vector(0)), (Vector(1), 7)])
def operator_methods(a, b):
    out = [a + a, 1 + a, -a, a * 2, a == b, a != a, a in {a}, f"{a:x}", not a, a or b, a(1, k=2)]
    out += [1 in a, len(a), [*a], "abcd"[a], hex(a)]
    a += 5
    out.append(a @ b if a.values[1] == 5 else a)
    return out, a < b, b @ b, 1 + a, b + 1 if len(b) == 1 else None


@dataclasses.dataclass(order=True)
class Item:
    name: str
    price: float = 1.0
    tags: list[str] = dataclasses.field(default_factory=list, compare=False)

    def __post_init__(self):
        record(self.name)

    @property
    def cost(self):
        return self.price * 2


@case(lambda: [("a", 2.5), ("b", -1.0), ("c", "free")])
def dataclass_values(name, price):
    item = Item(name, price)
    item.tags.append("new")
    other = dataclasses.replace(item, name="z")
    return item, other, item == other, dataclasses.asdict(item), repr(item), item < other, item.cost


class Pair(typing.NamedTuple):
    left: int
    right: int = 5

    def total(self):
        return self.left + self.right


Triple = collections.namedtuple("Triple", "a b c", defaults=[0])


@case(lambda: [(1, 2), ("a", 3)])
def named_tuples(x, y):
    pair = Pair(x)
    left, right = pair
    triple = Triple(x, b=y)
    return (
        pair,
        left,
        right,
        triple._replace(c=pair),
        triple._asdict(),
        pair[0],
        pair == (x, 5),
        pair.total(),
    )


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

    @property
    def opposite(self):
        return Mode.SLOW if self is Mode.FAST else Mode.FAST


class Access(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()


@case(lambda: [("FAST", 1), ("SLOW", 2), ("NONE", 3)])
def enums(name, value):
    mode = Mode[name]
    both = Access.READ | Access.WRITE
    return (
        mode,
        Mode(value),
        mode.opposite.name,
        [m.value for m in Mode],
        Access.READ in both,
        mode is Mode.FAST,
    )


@case(lambda: [([1, 2, 2],), ([],)])
def collections_helpers(items):
    counts = collections.Counter(items)
    queue = collections.deque(items, maxlen=2)
    queue.appendleft(0)
    grouped = collections.defaultdict(list)
    for i in items:
        grouped[i % 2].append(i)
    chain = collections.ChainMap({"a": 1}, {"b": 2})
    return (
        dict(counts),
        list(queue),
        dict(grouped),
        chain["b"],
        collections.OrderedDict.fromkeys(items),
    )


@case(lambda: [(3,), (None,)])
def printing(x):
    stream = io.StringIO()
    print("x is", x, sep="=", end=";", file=stream)
    with contextlib.redirect_stdout(stream):
        print([x], flush=True)
    return record(stream.getvalue())


@case(lambda: [([1, [2, 3]],), ({"a": [1]},)])
def copies_and_identity(value):
    shallow, deep = copy.copy(value), copy.deepcopy(value)
    same = [shallow is value, deep is value, shallow == deep]
    value[list(value)[0] if isinstance(value, dict) else 1].append(9)
    return same, shallow, deep, isinstance(value, (list, str)), type(value) is dict, callable(value)


class Legacy(AppError):
    """An exception whose construction itself has effects."""

    def __init__(self, *args):
        record(("made", args))
        super().__init__("legacy", len(args))
        self.extra = args

    def __str__(self):
        return f"legacy {self.extra}"


@case(lambda: [(1,), (0,)])
def exceptions_with_state(x):
    try:
        if x:
            raise Legacy(x, "y")
        raise Legacy
    except AppError as error:
        text = f"{error} {error.code} {error!r}"
        raise LookupError(text) from error


@case(lambda: [(3,), (-1,)])
def everything_in_one_expression(n):
    table = {"f": [later, show]}
    return (
        [*table["f"][0](n, *[i for i in range(n)], flag=n > 2 or None)[1]],
        {k: (lambda v=k: v.upper())() for k in table},
        table["f"][-1](*(yes := (n,)), **{f"k{n}" if n > 0 else "neg": not yes})[0],
    )[record(0) - (n < 0)]
