"""Classes as objects: protocols of metaclasses, writes to classes, instance checks, copies, weak references."""

# ruff: noqa: B024, UP007, UP045

from __future__ import annotations

import abc
import copy
import typing
import weakref

import pytest
import torch

import segue
from tests.capturing import assert_breaks, assert_captured
from tests.graphs import Graphs


def matrix():
    return torch.randn(4, 4)


class Meta(type):
    def __len__(cls):
        return 3

    def __contains__(cls, item):
        return item == "in"

    def __getattr__(cls, name):
        return len(name)

    def __getitem__(cls, key):
        return key * 2

    def __bool__(cls):
        return False


class Odd(metaclass=Meta):
    pass


def test_the_special_methods_of_a_metaclass():
    def f(x):
        return x + len(Odd) + ("in" in Odd) + Odd.abc + Odd[5] + bool(Odd), "out" in Odd

    assert_captured(f, matrix)


class Logged(type):
    def __getattribute__(cls, name):
        return super().__getattribute__(name) if name.startswith("_") else f"<{name}>"


class Shown(metaclass=Logged):
    scale = 3


def test_a_metaclass_that_decides_every_read():
    assert_captured(lambda x: (x + 1, Shown.scale), matrix)


def test_a_counter_on_a_class_is_one_graph():
    class Counted:
        calls = 0

    def f(x):
        Counted.calls += 1
        return x * Counted.calls

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for n in range(1, 6):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), float(n)))
        assert Counted.calls == n
    assert graphs.count <= 2


def test_a_written_class_attribute_is_seen_by_instances_and_subclasses():
    class Base:
        scale = 2

    class Derived(Base):
        pass

    def f(x):
        before = Derived().scale
        Base.scale = 5
        inherited = Derived.scale
        Derived.scale = 7
        return x * Derived().scale, before, inherited, Base.scale

    compiled = segue.compile(f, backend="eager")
    x = torch.ones(2)
    out, *numbers = compiled(x)
    assert numbers == [2, 5, 5] and torch.equal(out, x * 7)
    assert Base.scale == 5 and vars(Derived)["scale"] == 7
    assert compiled(x)[1] == 7


def test_an_instance_attribute_hides_the_written_class_attribute():
    class Settings:
        scale = 2

    def f(x):
        own = Settings()
        own.scale = 3
        Settings.scale = 4
        return x * own.scale + Settings.scale

    assert_captured(f, matrix)


def test_functions_written_to_a_class_are_left_to_the_interpreter():
    class Open:
        pass

    def f(x):
        Open.run = lambda self, y: y + 1
        return Open().run(x)

    compiled = segue.compile(f, backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


class HasRun(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return any("run" in vars(c) for c in other.__mro__)


class Runner:
    def run(self):
        return 1


class Adopting(abc.ABC):
    pass


class Adopted:
    pass


Adopting.register(Adopted)


@typing.runtime_checkable
class Runs(typing.Protocol):
    limit: int

    def run(self): ...


class Limited(Runner):
    limit = 3


class NotRunning:
    run = None
    limit = 1


@pytest.mark.parametrize(
    ("obj", "cls"),
    [
        (Runner(), HasRun),
        (3, HasRun),
        (Adopted(), Adopting),
        (Runner(), Adopting),
        (Limited(), Runs),
        (Runner(), Runs),
        (NotRunning(), Runs),
        (3, int | str),
        ("a", typing.Union[int, str]),
        (None, typing.Optional[int]),
        (2.5, (int, (str, float))),
        (True, typing.SupportsIndex),
        ([], typing.Sequence),
    ],
    ids=lambda value: getattr(value, "__name__", None) or type(value).__name__,
)
def test_instance_checks(obj, cls):
    expected = isinstance(obj, cls)
    graphs = Graphs()
    compiled = segue.compile(lambda x: x + 1 if isinstance(obj, cls) else x - 1, backend=graphs, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2) + (1 if expected else -1))
    assert graphs.count == 1


def test_a_class_registered_later_is_noticed():
    class Base(abc.ABC):
        pass

    class Late:
        pass

    compiled = segue.compile(lambda x: x + isinstance(Late(), Base), backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.ones(2))
    Base.register(Late)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_a_protocol_that_cannot_be_checked_raises():
    class Plain(typing.Protocol):
        def run(self): ...

    def f(x):
        try:
            return isinstance(x, Plain)
        except TypeError as error:
            return x + 1, str(error)

    assert_captured(f, matrix)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @abc.abstractmethod
    def sides(self): ...


def test_an_abstract_class_refuses_as_in_python():
    def f(x):
        try:
            Shape()
        except TypeError as error:
            return x + 1, str(error)

    assert_captured(f, matrix)


class Point:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return isinstance(other, Point) and (self.a, self.b) == (other.a, other.b)

    def __hash__(self):
        return hash((self.a, self.b))


class Slotted:
    __slots__ = ("a", "b")

    def __init__(self, a):
        self.a = a


def test_equal_objects_are_one_key():
    def f(x):
        table = {Point(1, 2): 10, (Point(0, 0), "k"): 20}
        table[Point(1, 2)] = 30
        return (
            x + table[Point(1, 2)] + table[Point(0, 0), "k"],
            len(table),
            Point(9, 9) in table,
            len({Point(1, 1), Point(1, 1)}),
        )

    assert_captured(f, matrix)


def test_a_dict_of_the_program_with_such_keys_is_left_to_the_interpreter():
    table = {Point(1, 2): 10}
    compiled = segue.compile(lambda x: x + table[Point(1, 2)], backend="eager")
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 11.0))
    table[Point(1, 2)] = 20
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 21.0))


def test_identities_are_keys():
    def f(x, y):
        seen = {id(x): "x", id(y): "y"}
        z = x + 1
        seen[id(z)] = "z"
        return z, seen[id(x)], seen[id(z)], id(x) == id(y), id(x) != id(z), id(3.5) in seen

    assert_captured(f, matrix, matrix)


def test_an_identity_looked_up_in_a_dict_of_the_program():
    class Owner:
        pass

    known, other = Owner(), Owner()
    table = {id(known): 5}

    def f(x, owner):
        return x + table.get(id(owner), 1)

    compiled = segue.compile(f, backend="eager")
    assert torch.equal(compiled(torch.ones(2), known), torch.full((2,), 6.0))
    assert torch.equal(compiled(torch.ones(2), other), torch.full((2,), 2.0))
    assert torch.equal(compiled(torch.ones(2), known), torch.full((2,), 6.0))


def test_copies_of_objects():
    def f(x):
        inner = [x, 1]
        first = Point(inner, {"k": inner})
        shallow, deep = copy.copy(first), copy.deepcopy(first)
        slotted = copy.copy(Slotted(x))
        return (
            shallow.a is first.a, deep.a is first.a, deep.a is deep.b["k"], deep.a[0] + 1, slotted.a + 1,
            hasattr(slotted, "b"), type(deep) is Point,
        )  # fmt: skip

    assert_captured(f, matrix)


def test_a_deep_copy_of_a_tensor_is_another_tensor():
    def f(x):
        copied = copy.deepcopy({"x": x, "again": x})
        copied["x"].add_(1)
        return x * 2, copied["again"], copied["x"] is copied["again"]

    assert_captured(f, matrix)


def test_weak_references():
    class Tree:
        pass

    tree = Tree()

    def f(x):
        reference = weakref.ref(tree)
        local = Tree()
        local.t = x
        return reference() is tree, weakref.ref(local)().t + 1, reference == weakref.ref(tree)

    assert_captured(f, matrix)


def test_a_weak_reference_to_what_may_be_gone():
    class Tree:
        pass

    compiled = segue.compile(lambda x: (x + 1, weakref.ref(Tree())()), backend="eager")
    assert compiled(torch.ones(2))[1] is None


class Left:
    def name(self):
        return "left"


class Right:
    def name(self):
        return "right"


def test_the_class_of_an_object_is_changed():
    thing = Left()

    def f(x):
        made = Left()
        made.__class__ = Right
        before = thing.name()
        thing.__class__ = Right
        return x + 1, made.name(), before, thing.name(), type(made)

    compiled = segue.compile(f, backend=(graphs := Graphs()), fullgraph=True)
    assert compiled(torch.ones(2))[1:] == ("right", "left", "right", Right)
    assert type(thing) is Right and graphs.count == 1


def test_the_namespace_of_a_class():
    class Options:
        scale = 2
        offset = 1

    def f(x):
        names = [n for n in vars(Options) if not n.startswith("_")]
        return x * vars(Options)["scale"], names, "offset" in Options.__dict__, "_x" in dir(Options)

    compiled = segue.compile(f, backend=(graphs := Graphs()))
    assert compiled(torch.ones(2))[1:] == (["scale", "offset"], True, False)
    Options.extra = 4
    assert compiled(torch.ones(2))[1] == ["scale", "offset", "extra"]
    assert graphs.count == 2


def test_super_in_a_metaclass_and_with_arguments():
    class Base:
        def run(self, x):
            return x + 1

        @classmethod
        def make(cls):
            return cls.__name__

    class Derived(Base):
        def run(self, x):
            return super().run(x) * 2

        @classmethod
        def make(cls):
            return super().make() + "!"

    assert_captured(lambda x: (Derived().run(x), Derived.make(), super(Derived, Derived()).run(x)), matrix)


def test_a_new_class_is_made_by_the_interpreter():
    def f(x):
        class Local:
            scale = 3

        return x * Local.scale

    assert_breaks(f, "opaque-call", matrix)
