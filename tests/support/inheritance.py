"""Inheritance: `super` in all forms, abstract bases, checks of classes."""

import abc

import torch

from tests.support.construct import NEW_CLASS, area

construct = area("Classes: inheritance")


class Plugin:
    """Subclasses register themselves."""

    known: dict = {}

    def __init_subclass__(cls, key=None, **rest):
        super().__init_subclass__(**rest)
        cls.key = key
        Plugin.known[key] = cls


class SinePlugin(Plugin, key="sine"):
    def __call__(self, x):
        return x.sin()


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

    @property
    @abc.abstractmethod
    def name(self): ...

    def describe(self):
        return f"{self.name}: {self.area()}"


class Square(Shape):
    name = "square"

    def __init__(self, side):
        self.side = side

    def area(self):
        return self.side**2


class Base:
    def __init__(self, **rest):
        self.order = ["Base"]

    def run(self, x):
        return x + 1

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def helper(x):
        return x * 3

    @property
    def size(self):
        return 4


class Left(Base):
    def __init__(self, left=1, **rest):
        super().__init__(**rest)
        self.order.append("Left")
        self.left = left

    def run(self, x):
        return super().run(x) * 2


class Right(Base):
    def __init__(self, right=2, **rest):
        super().__init__(**rest)
        self.order.append("Right")

    def run(self, x):
        return super().run(x) - 5


class Diamond(Left, Right):
    def run(self, x):
        return super().run(x) + 100

    @classmethod
    def make(cls):
        made = super().make()
        made.order.append("made")
        return made

    @property
    def size(self):
        return super().size + 1


class Mixin:
    def doubled(self, x):
        return self.run(x) * 2


class Mixed(Mixin, Base):
    pass


@construct("`__init_subclass__` with arguments")
def init_subclass(x):
    return Plugin.known["sine"]()(x) + len(SinePlugin.key)


@construct("`__init_subclass__` of a class made in the function", breaks=NEW_CLASS)
def init_subclass_in_function(x):
    class Cosine(Plugin, key="cosine"):
        def __call__(self, x):
            return x.cos()

    return Plugin.known["cosine"]()(x), Cosine.key


@construct("abstract base classes")
def abstract(x):
    square = Square(3)
    return x * square.area(), square.describe(), isinstance(square, Shape)


@construct("an abstract class cannot be made")
def abstract_raises(x):
    try:
        Shape()
    except TypeError as error:
        return x + 1, "abstract" in str(error)


class Adopting(abc.ABC):
    pass


@construct(
    "`ABC.register` and virtual subclasses",
    breaks="registering empties the caches of all abstract classes of the process",
)
def virtual_subclass(x):
    Adopting.register(int)
    return x + 1 if isinstance(3, Adopting) and not isinstance("", Adopting) else x


class HasRun(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "run")


@construct("`__subclasshook__`")
def subclasshook(x):
    return x + 1 if isinstance(Base(), HasRun) and not issubclass(int, HasRun) else x


class ClaimingMeta(type):
    def __instancecheck__(cls, instance):
        return instance == 3

    def __subclasscheck__(cls, other):
        return other is int


class Three(metaclass=ClaimingMeta):
    pass


@construct("`__instancecheck__` and `__subclasscheck__`")
def instancecheck(x):
    return x + 1 if isinstance(3, Three) and issubclass(int, Three) and not isinstance(4, Three) else x


@construct("multiple inheritance with cooperative `super`")
def diamond(x):
    thing = Diamond.make()
    return thing.run(x), thing.order, thing.size, [c.__name__ for c in Diamond.__mro__]


@construct("mixins")
def mixins(x):
    return Mixed().doubled(x)


class Explicit(Base):
    def run(self, x):
        return super(Explicit, self).run(x) * 2


@construct("`super(Class, self)`")
def super_with_arguments(x):
    return Explicit().run(x)


@construct("`super(Class, instance)` outside of the class")
def super_outside(x):
    return super(Left, Diamond()).run(x)


class Forms(Base):
    @classmethod
    def make(cls):
        return super().make()

    @property
    def size(self):
        return super().size * 2

    def run(self, x):
        parent = super()

        def inner():
            return parent.run(x)

        return inner() + super().helper(x)


@construct("`super()` in a class method, static call, property, and nested function")
def super_forms(x):
    child = Forms.make()
    return child.run(x) * child.size


class Special(Base):
    def __init__(self):
        super().__init__()
        super().__setattr__("extra", 5)

    def __getattribute__(self, name):
        return super().__getattribute__(name)


@construct("`super().__getattribute__`, `super().__setattr__`, `super().__init__`")
def super_special(x):
    return x * Special().extra


class Single:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
        return cls.instance


@construct("`super().__new__`")
def super_new(x):
    return x + (Single() is Single())


@construct("an unbound `super` object as an attribute")
def super_attribute(x):
    return x + 1, super(Left, Diamond).__thisclass__.__name__


@construct("class methods and static methods")
def class_and_static(x):
    return Base.make().helper(x) + Base.helper(x)


@construct("bound and unbound methods as values")
def method_values(x):
    bound, unbound = Left().run, Left.run
    return bound(x) + unbound(Left(), x), bound.__name__, bound.__self__.left, bound.__func__ is Left.run


@construct("`type(x)`, `x.__class__`, `isinstance` with tuples and unions")
def type_reads(x):
    if type(x) is torch.Tensor and x.__class__ is torch.Tensor and isinstance(3, int | str):
        x = x + isinstance(x, (int, torch.Tensor))
    return x + issubclass(Left, (str, Base)) + isinstance(True, int)
