"""Classes: attributes, descriptors, metaclasses, special methods, inheritance."""

import abc

import torch

from tests.support.construct import area

construct = area("Classes")


class Slotted:
    """An object without a `__dict__`."""

    __slots__ = ("bias", "scale")

    def __init__(self, scale, bias):
        self.scale = scale
        self.bias = bias


class Fallback:
    """Missing attributes are made up."""

    def __init__(self):
        self.known = 2

    def __getattr__(self, name):
        if name.startswith("times_"):
            return int(name.removeprefix("times_"))
        raise AttributeError(name)


class Watched:
    """Every attribute read and write is noted."""

    def __init__(self):
        object.__setattr__(self, "notes", [])
        self.value = 1

    def __getattribute__(self, name):
        if not name.startswith("_") and name != "notes":
            object.__getattribute__(self, "notes").append(name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        self.notes.append(f"set {name}")
        object.__setattr__(self, name, value)


class Positive:
    """A data descriptor that checks what is stored."""

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name)

    def __set__(self, instance, value):
        if value <= 0:
            raise ValueError(f"{self.name[1:]} must be positive")
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        delattr(instance, self.name)


class Lazy:
    """A non-data descriptor that computes once."""

    def __init__(self, function):
        self.function = function

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        value = instance.__dict__[self.name] = self.function(instance)
        return value


class Described:
    scale = Positive()

    def __init__(self, scale):
        self.scale = scale

    @Lazy
    def double(self):
        return self.scale * 2


class Registry(type):
    """A metaclass with a method, an attribute for each class, and its own call."""

    made: dict = {}

    def __new__(cls, name, bases, namespace, **options):
        made = super().__new__(cls, name, bases, namespace)
        made.options = options
        cls.made[name] = made
        return made

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.ready = True
        return instance

    def __len__(cls):
        return 7

    def describe(cls):
        return cls.__name__.lower()


class Registered(metaclass=Registry, kind="layer"):
    def __init__(self, scale):
        self.scale = scale


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


class Position:
    def __index__(self):
        return 2

    def __float__(self):
        return 2.5


class Deleting:
    def __init__(self):
        self.notes = []

    def __delattr__(self, name):
        self.notes.append(name)
        super().__delattr__(name)


class Resource:
    """Notes when it is given up."""

    def __init__(self, notes):
        self.notes = notes

    def __del__(self):
        self.notes.append("gone")


class Mixin:
    def doubled(self, x):
        return self.run(x) * 2


class Mixed(Mixin, Base):
    pass


class Vector:
    """Arithmetic and comparison by special methods."""

    def __init__(self, t):
        self.t = t

    def __add__(self, other):
        return Vector(self.t + getattr(other, "t", other))

    def __radd__(self, other):
        return Vector(other + self.t)

    def __mul__(self, other):
        return NotImplemented if isinstance(other, str) else Vector(self.t * getattr(other, "t", other))

    __rmul__ = __mul__

    def __matmul__(self, other):
        return Vector(self.t @ other.t)

    def __neg__(self):
        return Vector(-self.t)

    def __iadd__(self, other):
        self.t = self.t + other
        return self

    def __getitem__(self, key):
        return self.t[key]

    def __setitem__(self, key, value):
        self.t = self.t.clone()
        self.t[key] = value

    def __call__(self, x):
        return self.t + x

    def __len__(self):
        return self.t.shape[0]

    def __bool__(self):
        return True

    def __eq__(self, other):
        return isinstance(other, Vector) and self.t.shape == other.t.shape

    def __hash__(self):
        return 5

    def __lt__(self, other):
        return len(self) < len(other)

    def __repr__(self):
        return f"Vector({len(self)})"

    def __format__(self, spec):
        return f"<{spec}>"

    def __contains__(self, item):
        return item == 3


@construct("an object made in the function")
def made(x):
    object_ = Slotted(2, x)
    object_.scale += 1
    return x * object_.scale + object_.bias


@construct("`__slots__`", state=lambda: (Slotted(2, 1),))
def slots(x, slotted):
    slotted.bias = 3
    return x * slotted.scale + slotted.bias


@construct("attributes of an argument: read, written, deleted", state=lambda: (Fallback(),))
def attributes(x, thing):
    thing.fresh = x + 1
    y = thing.fresh * thing.known
    del thing.fresh
    thing.last = y
    return y, hasattr(thing, "last")


@construct("`__getattr__`", state=lambda: (Fallback(),))
def getattr_(x, thing):
    return x * thing.times_3 + thing.known, hasattr(thing, "other"), getattr(thing, "another", 7)


@construct("`__getattribute__` and `__setattr__`", state=lambda: (Watched(),))
def getattribute(x, watched):
    y = x * watched.value
    watched.value = 2
    y = y + watched.value
    watched.value = 1
    return y


@construct("`__getattribute__` of an object made in the function")
def getattribute_made(x):
    watched = Watched()
    y = x * watched.value
    return y, watched.notes


@construct("`__delattr__`")
def delattr_(x):
    thing = Deleting()
    thing.a = 1
    del thing.a
    return x + 1, thing.notes, hasattr(thing, "a")


@construct("data descriptors", state=lambda: (Described(3),))
def descriptors(x, described):
    described.scale = 5
    y = x * described.scale
    try:
        described.scale = -1
    except ValueError as error:
        return y, str(error)


@construct("non-data descriptors that compute once")
def lazy_descriptor(x):
    described = Described(3)
    return x * described.double + described.double, "double" in vars(described)


@construct("a descriptor read from the class")
def descriptor_of_class(x):
    return x + 1, type(Described.scale).__name__


@construct("`__set_name__` in a class made in the function")
def set_name(x):
    class Local:
        scale = Positive()

    local = Local()
    local.scale = 2
    return x * local.scale, sorted(vars(local))


class Temperature:
    def __init__(self):
        self._celsius = 10

    @property
    def celsius(self):
        return self._celsius

    @celsius.setter
    def celsius(self, value):
        self._celsius = max(value, -273)

    @celsius.deleter
    def celsius(self):
        self._celsius = 0


@construct("properties with setter and deleter")
def properties(x):
    t = Temperature()
    t.celsius = -500
    y = x + t.celsius
    del t.celsius
    return y + t.celsius


@construct("metaclass: its call, attributes and methods")
def metaclass(x):
    thing = Registered(3)
    return x * thing.scale, thing.ready, len(Registered), Registered.describe(), Registered.options["kind"]


@construct("metaclass: a class made in the function")
def metaclass_in_function(x):
    class Local(metaclass=Registry, kind="local"):
        pass

    return x + 1, Local.options, Registry.made["Local"] is Local


class LookupMeta(type):
    def __getattr__(cls, name):
        return len(name)

    def __getitem__(cls, k):
        return k + 1


class Table(metaclass=LookupMeta):
    pass


@construct("metaclass with `__getattr__` and `__getitem__`")
def metaclass_lookup(x):
    return x * Table.anything + Table[3]


class PreparingMeta(type):
    @classmethod
    def __prepare__(mcs, name, bases):
        return {"scale": 3}


class Prepared(metaclass=PreparingMeta):
    double = scale * 2  # noqa: F821


@construct("`__prepare__` of a metaclass")
def metaclass_prepare(x):
    return x * Prepared.scale + Prepared.double


@construct("`__init_subclass__` with arguments")
def init_subclass(x):
    return Plugin.known["sine"]()(x) + len(SinePlugin.key)


@construct("`__init_subclass__` of a class made in the function")
def init_subclass_in_function(x):
    class Cosine(Plugin, key="cosine"):
        def __call__(self, x):
            return x.cos()

    return Plugin.known["cosine"]()(x), Cosine.key


class Sized:
    def __class_getitem__(cls, n):
        return n * 2


@construct("`__class_getitem__`")
def class_getitem(x):
    return x * Sized[4]


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


@construct("`ABC.register` and virtual subclasses")
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


class Counted:
    count = 0

    def __init__(self):
        type(self).count += 1


@construct("class attributes: read, shadowed, written through the class")
def class_attributes(x):
    Counted.count = 0
    Counted()
    second = Counted()
    second.count = 10
    return x * Counted.count + second.count


@construct("bound and unbound methods as values")
def method_values(x):
    bound, unbound = Left().run, Left.run
    return bound(x) + unbound(Left(), x), bound.__name__, bound.__self__.left, bound.__func__ is Left.run


class Secret:
    def __init__(self):
        self.__scale = 3

    def run(self, x):
        return x * self.__scale


@construct("private names are mangled")
def mangled(x):
    return Secret().run(x), Secret()._Secret__scale


@construct("arithmetic special methods, reflected and in place")
def arithmetic(x):
    v = Vector(x)
    w = 2 * v + 1 + (1 + v) @ v
    w += 3
    return (-w).t


@construct("`NotImplemented` falls through to `TypeError`")
def not_implemented(x):
    try:
        Vector(x) * "text"
    except TypeError:
        return x + 1


@construct("comparison, hashing and truth by special methods")
def comparison(x):
    v, w = Vector(x), Vector(x[:2])
    table = {v: 1}
    return x + (w < v) + (v == Vector(x)) + bool(v) + table[Vector(x)] + (v != w), sorted([v, w])[0].t


@construct("`__getitem__`, `__setitem__`, `__len__`, `__contains__`")
def items(x):
    v = Vector(x)
    v[0] = 1.0
    return v[1:3] + len(v), v.t, 3 in v, 4 in v


@construct("`__call__`")
def callable_object(x):
    return Vector(x)(x)


@construct("`__index__`, `__float__`")
def conversions(x):
    p = Position()
    return x[p] + float(p), [10, 20, 30][p], range(p)


@construct("`__repr__`, `__str__`, `__format__`")
def texts(x):
    v = Vector(x)
    return x + 1, repr(v), str(v), f"{v:abc} {v!r}"


class Scaled(float):
    def __new__(cls, value):
        return super().__new__(cls, value * 2)


@construct("`__new__` with arguments")
def new(x):
    return x * Scaled(1.5)


@construct("`__del__`", breaks="the finaliser must run at its point in the order of effects")
def finaliser(x):
    notes = []

    resource = Resource(notes)
    y = x + 1
    del resource
    return y, notes


@construct("a class body with code in the function")
def class_body(x):
    scale = 3

    class Local:
        factors = [k * scale for k in range(3)]
        total = 0
        for factor in factors:
            total += factor

        def run(self, x):
            return x * self.total

    return Local().run(x)


@construct("`type(name, bases, namespace)`")
def type_call(x):
    made = type("Made", (Base,), {"run": lambda self, x: x * 9})
    return made().run(x), made.__name__


@construct("`type(x)`, `x.__class__`, `isinstance` with tuples and unions")
def type_reads(x):
    if type(x) is torch.Tensor and x.__class__ is torch.Tensor and isinstance(3, int | str):
        x = x + isinstance(x, (int, torch.Tensor))
    return x + issubclass(Left, (str, Base)) + isinstance(True, int)


@construct("`__class__` assigned")
def class_assigned(x):
    thing = Left()
    thing.__class__ = Right
    return thing.run(x)


@construct("`vars`, `dir`, `__dict__` writes", state=lambda: (Fallback(),))
def instance_dict(x, thing):
    thing.__dict__["more"] = 4
    return x * thing.more + vars(thing)["known"], "more" in thing.__dict__, "known" in dir(thing)


class Options:
    def __init__(self, **options):
        self.__dict__.update(options)


@construct("`__dict__.update` in `__init__`")
def dict_update(x):
    return x * Options(scale=3).scale


def with_scale(cls):
    cls.scale = 4
    return cls


@with_scale
class Decorated:
    pass


@construct("a class decorator")
def class_decorator(x):
    return x * Decorated.scale


class Key:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k


@construct("`__eq__` and `__ne__` of objects in lists: `in`, `index`, `count`, `remove`")
def equality_in_lists(x):
    keys = [Key(1), Key(2), Key(1)]
    keys.remove(Key(2))
    return x + keys.count(Key(1)) + keys.index(Key(1)), Key(3) in keys


class Node:
    pass


@construct("an object that refers to itself")
def self_reference(x):
    node = Node()
    node.self, node.t = node, x * 2
    return node.self.self.t, node


@construct("a singleton held by its class", state=lambda: (type("Holder", (), {"current": None}),))
def class_state(x, holder):
    holder.current = 5
    return x * holder.current
