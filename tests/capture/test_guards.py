"""Facts that change between calls: whatever a graph was made from, a change of it is seen by the next call."""

from __future__ import annotations

import abc
import builtins
import collections
import copy
import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same_calls
from tests.graphs import Graphs
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)

Changing = tuple[Callable[..., Any], Callable[[], None]]
"""A function of one tensor, and what changes a fact that its result depends on."""


def assert_change_is_seen(f: Callable[..., Any], change: Callable[[], None]) -> None:
    """Call `f` plain and compiled before and after a change that makes a difference."""
    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    seen = []
    for step in (None, change):
        if step is not None:
            step()
        for _ in range(2):
            expected, got = observe(f, (X,)), observe(compiled, (X,))
            found = difference(expected, got)
            assert found is None, f"{'after' if step else 'before'} the change: {found}"
        seen.append(expected)
        assert graphs.runs, "no graph ran: the test shows nothing"
    assert difference(*seen), "the change makes no difference: the test shows nothing"


# --- classes --------------------------------------------------------------------------------------


def getter_of_a_descriptor() -> Changing:
    class Constant:
        def __get__(self, instance, owner):
            return 1

    class Holder:
        value = Constant()

    def change():
        Constant.__get__ = lambda self, instance, owner: 1000

    holder = Holder()
    return lambda x: x * holder.value, change


def a_descriptor_that_becomes_a_data_descriptor() -> Changing:
    """What the instance holds under the name is hidden from then on."""

    class Constant:
        def __get__(self, instance, owner):
            return 1000

    class Holder:
        value = Constant()

    def change():
        Constant.__set__ = lambda self, instance, value: None

    holder = Holder()
    holder.__dict__["value"] = 1
    return lambda x: x * holder.value, change


def property_of_a_metaclass() -> Changing:
    class Meta(type):
        @property
        def scale(cls):
            return 1

    class Holder(metaclass=Meta):
        pass

    def change():
        Meta.scale = 1000

    return lambda x: x * Holder.scale, change


def a_name_that_the_metaclass_gets() -> Changing:
    class Meta(type):
        pass

    class Holder(metaclass=Meta):
        scale = 1

    def change():
        Meta.scale = property(lambda cls: 1000)

    return lambda x: x * Holder.scale, change


def method_replaced() -> Changing:
    class Layer:
        def forward(self, x):
            return torch.sin(x)

    def change():
        Layer.forward = lambda self, x: torch.cos(x)

    layer = Layer()
    return lambda x: layer.forward(x), change


def method_shadowed_by_the_instance() -> Changing:
    class Layer:
        def forward(self, x):
            return torch.sin(x)

    def change():
        layer.forward = torch.cos

    layer = Layer()
    return lambda x: layer.forward(x), change


def code_of_a_method_replaced() -> Changing:
    """As tools do that reload modules in place."""

    class Layer:
        def forward(self, x):
            return torch.sin(x)

    def change():
        Layer.forward.__code__ = (lambda self, x: torch.cos(x)).__code__

    layer = Layer()
    return lambda x: layer.forward(x), change


def method_of_a_base_overridden() -> Changing:
    class Base:
        def scale(self):
            return 1

    class Derived(Base):
        pass

    def change():
        Derived.scale = lambda self: 1000

    derived = Derived()
    return lambda x: x * derived.scale(), change


def class_attribute() -> Changing:
    class Layer:
        scale = 1.0

    def change():
        Layer.scale = 2.0

    layer = Layer()
    return lambda x: x * layer.scale, change


def class_attribute_removed() -> Changing:
    class Base:
        scale = 1.0

    class Derived(Base):
        scale = 2.0

    def change():
        del Derived.scale

    derived = Derived()
    return lambda x: x * derived.scale, change


def class_attribute_that_there_was_not() -> Changing:
    class Layer:
        pass

    def change():
        Layer.scale = 2.0

    layer = Layer()
    return lambda x: x * getattr(layer, "scale", 1.0), change


def getattr_added() -> Changing:
    class Layer:
        pass

    def change():
        Layer.__getattr__ = lambda self, name: 2.0

    layer = Layer()
    return lambda x: x * (layer.scale if hasattr(layer, "scale") else 1.0), change


def class_of_an_instance() -> Changing:
    class First:
        scale = 1

    class Second:
        scale = 2

    def change():
        holder.__class__ = Second

    holder = First()
    return lambda x: x * holder.scale, change


def bases_of_a_class() -> Changing:
    class First:
        scale = 1

    class Second:
        scale = 2

    class Derived(First):
        pass

    def change():
        Derived.__bases__ = (Second,)

    derived = Derived()
    return lambda x: x * derived.scale, change


def operator_of_a_class() -> Changing:
    class Scale:
        def __mul__(self, other):
            return other * 1

    def change():
        Scale.__mul__ = lambda self, other: other * 2

    scale = Scale()
    return lambda x: scale * x, change


def length_of_a_class() -> Changing:
    class Few:
        def __len__(self):
            return 1

    def change():
        Few.__len__ = lambda self: 0

    few = Few()
    return lambda x: torch.sin(x) if few else torch.cos(x), change


def registration_with_an_abc() -> Changing:
    class Interface(abc.ABC):  # noqa: B024
        pass

    class Plain:
        pass

    def change():
        Interface.register(Plain)

    plain = Plain()
    return lambda x: x + 1 if isinstance(plain, Interface) else x - 1, change


def registration_asked_of_the_class() -> Changing:
    class Interface(abc.ABC):  # noqa: B024
        pass

    class Plain:
        pass

    def change():
        Interface.register(Plain)

    return lambda x: x + 1 if issubclass(Plain, Interface) else x - 1, change


def value_of_an_enum_member() -> Changing:
    class Mode(enum.Enum):
        FAST = "fast"
        SLOW = "slow"

    class Holder:
        mode = Mode.FAST

    def change():
        Holder.mode = Mode.SLOW

    return lambda x: torch.sin(x) if Holder.mode is Mode.FAST else torch.cos(x), change


CLASSES = [
    getter_of_a_descriptor,
    a_descriptor_that_becomes_a_data_descriptor,
    property_of_a_metaclass,
    a_name_that_the_metaclass_gets,
    method_replaced,
    method_shadowed_by_the_instance,
    code_of_a_method_replaced,
    method_of_a_base_overridden,
    class_attribute,
    class_attribute_removed,
    class_attribute_that_there_was_not,
    getattr_added,
    class_of_an_instance,
    bases_of_a_class,
    operator_of_a_class,
    length_of_a_class,
    registration_with_an_abc,
    registration_asked_of_the_class,
    value_of_an_enum_member,
]


@pytest.mark.parametrize("make", CLASSES, ids=lambda f: f.__name__)
def test_a_change_of_a_class_is_seen(make) -> None:
    assert_change_is_seen(*make())


# --- functions and their variables ----------------------------------------------------------------

scale = 1.0
settings = {"scale": 1.0}


def helper(x):
    return torch.sin(x)


def times_the_global(x):
    return x * scale


def through_the_global(x):
    return helper(x)


def times_a_setting(x):
    return x * settings["scale"]


@pytest.mark.parametrize(
    ("f", "name", "value"),
    [
        (times_the_global, "scale", 2.0),
        (times_the_global, "scale", True),
        (times_the_global, "scale", torch.tensor([5.0])),
        (through_the_global, "helper", torch.cos),
        (through_the_global, "helper", lambda x: torch.cos(x)),
        (times_a_setting, "settings", {"scale": 2.0}),
    ],
    ids=["number", "bool", "tensor", "operation", "function", "dict"],
)
def test_a_global_that_is_replaced(monkeypatch, f, name, value) -> None:
    if value is True:
        monkeypatch.setitem(globals(), name, 2)
    assert_change_is_seen(f, lambda: monkeypatch.setitem(globals(), name, value))


def test_a_global_that_is_deleted(monkeypatch) -> None:
    """What is found then is the builtin of that name, or nothing."""
    monkeypatch.setitem(globals(), "oct", lambda n: "0o77")

    def f(x):
        return x + len(oct(1)) * 10, oct(8)

    assert_change_is_seen(f, lambda: monkeypatch.delitem(globals(), "oct"))
    assert_change_is_seen(times_the_global, lambda: monkeypatch.delitem(globals(), "scale"))


def test_a_global_that_hides_a_builtin(monkeypatch) -> None:
    def f(x):
        return x + 1, oct(8)

    assert_change_is_seen(f, lambda: monkeypatch.setitem(globals(), "oct", lambda n: "hidden"))


@pytest.mark.parametrize("name", ["oct", "bin", "ascii"])
def test_a_builtin_that_is_replaced(monkeypatch, name) -> None:
    """Functions that neither PyTorch nor the compiler use."""
    calls = {
        "oct": lambda x: (x + 1, oct(8)),
        "bin": lambda x: (x + 1, bin(8)),
        "ascii": lambda x: (x + 1, ascii(8)),
    }
    assert_change_is_seen(calls[name], lambda: monkeypatch.setattr(builtins, name, lambda n: f"patched {n}"))


def test_a_name_that_a_program_puts_into_builtins(monkeypatch) -> None:
    """As `gettext.install` does."""
    monkeypatch.setattr(builtins, "translated", lambda text: f"de: {text}", raising=False)

    def f(x):
        return x + 1, translated("yes")  # noqa: F821

    assert_change_is_seen(f, lambda: monkeypatch.setattr(builtins, "translated", lambda text: f"fr: {text}"))
    assert_change_is_seen(f, lambda: monkeypatch.delattr(builtins, "translated"))


def variable_of_a_closure() -> Changing:
    def set_to(value):
        nonlocal factor
        factor = value

    factor = 1.0
    return lambda x: x * factor, lambda: set_to(2.0)


def variable_of_a_closure_that_becomes_unbound() -> Changing:
    def change():
        nonlocal factor
        del factor

    factor = 1.0

    def f(x):
        try:
            return x * factor
        except NameError as error:
            return x, str(error)

    return f, change


def function_in_a_closure() -> Changing:
    def change():
        nonlocal operation
        operation = lambda x: torch.cos(x)

    operation = lambda x: torch.sin(x)
    return lambda x: operation(x), change


def variable_of_a_called_closure() -> Changing:
    def scaled(factor):
        return lambda x: x * factor

    inner = scaled(1.0)

    def change():
        inner.__closure__[0].cell_contents = 2.0

    return lambda x: torch.sin(inner(x)), change


def default_of_a_called_function() -> Changing:
    def inner(x, factor=1.0):
        return x * factor

    def change():
        inner.__defaults__ = (2.0,)

    return lambda x: inner(x), change


def keyword_default_of_a_called_function() -> Changing:
    def inner(x, *, factor=1.0):
        return x * factor

    def change():
        inner.__kwdefaults__["factor"] = 2.0

    return lambda x: inner(x), change


def attribute_of_a_function() -> Changing:
    def inner(x):
        return x * inner.factor

    inner.factor = 1.0

    def change():
        inner.factor = 2.0

    return lambda x: inner(x), change


FUNCTIONS = [
    variable_of_a_closure,
    variable_of_a_closure_that_becomes_unbound,
    function_in_a_closure,
    variable_of_a_called_closure,
    default_of_a_called_function,
    keyword_default_of_a_called_function,
    attribute_of_a_function,
]


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_change_of_what_a_function_refers_to_is_seen(make) -> None:
    assert_change_is_seen(*make())


# --- values that are equal but not the same -------------------------------------------------------


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


class Name(str):
    pass


def parts_of_a_range(r, x):
    return repr(r), r.start, r.stop, r.step, x + len(r)


def elements(items, x):
    return list(items), [x * item for item in items]


def keys(table, x):
    return list(table), x + table[1]


def as_a_number(n, x):
    return x * n, [10, 20, 30][n], n == 1, n + 1, f"{n}", type(n)


def as_a_factor(n, x):
    return x * n, n


def member(color, x):
    return x + (1 if color is Color.RED else 2), color.value, Color(2), list(Color), {color: 1}, repr(color)


def flags(access, x):
    return x + (1 if access & Access.WRITE else 2), access | Access.WRITE, ~access, bool(access), Access.READ in access


def as_a_text(text, x):
    return x + len(text), text.upper(), type(text)


EQUALS = {
    "ranges": (parts_of_a_range, [range(0, 3, 2), range(0, 4, 2), range(0), range(1, 1), range(5, 1, 2)]),
    "sets of equal items": (elements, [{1}, {True}, {1.0}, {1}]),
    "sets in another order": (elements, [{8, 0}, {0, 8}, {8, 0}]),
    "signed zeros in a set": (elements, [{0.0}, {-0.0}, {0}]),
    "frozen sets": (elements, [frozenset([1]), frozenset([True]), frozenset([8, 0]), frozenset([0, 8])]),
    "tuples": (elements, [(1, 2), (True, 2), (1.0, 2), (1, 2, 3), ()]),
    "lists": (elements, [[1], [True], [1.0], [1, 1], []]),
    "keys": (keys, [{1: 5}, {True: 5}, {1.0: 5}, {2: 0, 1: 5}, {1: 5, 2: 0}]),
    "ordered keys": (keys, [collections.OrderedDict(p) for p in ([(1, 5), (2, 0)], [(2, 0), (1, 5)])]),
    "numbers": (as_a_number, [Level.LOW, Level.HIGH, 1, True, 2]),
    "signed zeros": (as_a_factor, [0.0, -0.0, 0, False]),
    "not a number": (as_a_factor, [float("nan"), float("inf"), float("nan")]),
    "members": (member, list(Color)),
    "flags": (flags, [Access.READ, Access.WRITE, Access(0), Access.READ | Access.WRITE]),
    "texts": (as_a_text, ["ab", Name("ab"), "abc", ""]),
}


@pytest.mark.parametrize("kind", EQUALS)
def test_equal_values_are_told_apart(kind) -> None:
    f, values = EQUALS[kind]
    assert_same_calls(f, [(value, X) for value in values])
    assert_same_calls(f, [(value, X) for value in reversed(values)])


@pytest.mark.parametrize(
    "value",
    [range(3), {1, 2}, (1, 2), Color.RED, Access.READ, Level.LOW, "ab", NotImplemented],
    ids=lambda v: type(v).__name__,
)
def test_the_same_value_again_compiles_nothing(value) -> None:
    assert_same_calls(lambda v, x: (repr(v), torch.sin(x)), [(copy.copy(value), X) for _ in range(4)], graphs=1)


# --- state of PyTorch -----------------------------------------------------------------------------


def test_the_number_of_threads_is_not_remembered() -> None:
    def change():
        torch.set_num_threads(2)

    assert_change_is_seen(lambda x: (torch.sin(x), torch.get_num_threads()), change)


def test_the_place_of_a_view_in_its_storage() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    for f in (lambda x: (x.storage_offset(), x + 1), lambda x: torch.sin(x.as_strided((2,), (1,)))):
        compiled = segue.compile(f, backend=Graphs())
        for x in (base[:2], base[1:], base[:2], base[:2, 1:], base[1:, 1:]):
            assert difference(observe(f, (x,)), observe(compiled, (x,))) is None


# --- one object in two places ---------------------------------------------------------------------


def append_and_look(first, second, x):
    first.append(torch.sin(x))
    return torch.cos(x) * len(second)


def write_and_read(first, second, x):
    first[0] = 5
    return torch.cos(x) * second[0]


def clear_one(first, second, x):
    first.clear()
    return torch.cos(x) + len(second), second is first


@pytest.mark.parametrize("f", [append_and_look, write_and_read, clear_one], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shared_first", [False, True])
@pytest.mark.parametrize("through", ["arguments", "attributes", "items"])
def test_lists_that_are_one_in_some_calls(f, shared_first, through) -> None:
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second

    outer = {
        "arguments": f,
        "attributes": lambda a, b, x: f(Pair(a, b).first, Pair(a, b).second, x),
        "items": lambda a, b, x: f([a, b][0], {"b": b}["b"], x),
    }[through]
    compiled = segue.compile(outer, backend=Graphs())
    for number in range(6):
        mine, theirs = [1, 2], [1, 2]
        shared = (number % 2 == 0) is shared_first
        expected = observe(outer, (theirs, theirs if shared else [1, 2], X))
        assert difference(expected, observe(compiled, (mine, mine if shared else [1, 2], X))) is None


def test_a_list_that_is_an_argument_and_a_global(monkeypatch) -> None:
    def f(items, x):
        items.append(1)
        return torch.sin(x) * len(kept)  # noqa: F821

    compiled = segue.compile(f, backend=Graphs())
    for shared in (False, True, False, True):
        seen = []
        for function in (f, compiled):
            monkeypatch.setitem(globals(), "kept", [1])
            seen.append(observe(function, (globals()["kept"] if shared else [1], X)))
        assert difference(*seen) is None


def test_an_object_that_holds_itself() -> None:
    def f(items, x):
        items.append(torch.sin(x))
        return torch.cos(x) + len(items[0])

    compiled = segue.compile(f, backend=Graphs())
    for shared in (True, False, True):
        mine, theirs = [[1]], [[1]]
        if shared:
            mine[0], theirs[0] = mine, theirs
        assert difference(observe(f, (theirs, X)), observe(compiled, (mine, X))) is None
