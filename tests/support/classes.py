"""Classes: attributes, descriptors, metaclasses."""

from tests.support.construct import NEW_CLASS, NEW_NAMES, area
from tests.support.inheritance import Base, Left, Right

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


@construct("`__set_name__` in a class made in the function", breaks=NEW_CLASS)
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


@construct("metaclass: a class made in the function", breaks=NEW_CLASS)
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
    double = scale * 2


@construct("`__prepare__` of a metaclass")
def metaclass_prepare(x):
    return x * Prepared.scale + Prepared.double


class Sized:
    def __class_getitem__(cls, n):
        return n * 2


@construct("`__class_getitem__`")
def class_getitem(x):
    return x * Sized[4]


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


class Secret:
    def __init__(self):
        self.__scale = 3

    def run(self, x):
        return x * self.__scale


@construct("private names are mangled")
def mangled(x):
    return Secret().run(x), Secret()._Secret__scale


@construct("`__del__`", breaks="the finaliser must run at its point in the order of effects")
def finaliser(x):
    notes = []

    resource = Resource(notes)
    y = x + 1
    del resource
    return y, notes


@construct("a class body with code in the function", breaks=NEW_CLASS)
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


@construct("`type(name, bases, namespace)`", breaks=NEW_CLASS)
def type_call(x):
    made = type("Made", (Base,), {"run": lambda self, x: x * 9})
    return made().run(x), made.__name__


@construct("`__class__` assigned")
def class_assigned(x):
    thing = Left()
    thing.__class__ = Right
    return thing.run(x)


@construct("`vars`, `dir`, `__dict__` writes", breaks=NEW_NAMES, state=lambda: (Fallback(),))
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
