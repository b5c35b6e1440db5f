"""Data classes."""

import dataclasses
import functools
from dataclasses import KW_ONLY, InitVar, dataclass, field
from typing import ClassVar

import torch

from tests.support.construct import NEW_CLASS, area

construct = area("Data classes")


@dataclass
class Config:
    hidden: int
    scale: float = 2.0
    layers: list = field(default_factory=list)
    hidden_note: str = field(default="", repr=False, compare=False)
    kind: ClassVar[str] = "config"

    def doubled(self):
        return self.scale * 2


@dataclass(frozen=True)
class Frozen:
    scale: float
    bias: float = 1.0


@dataclass(slots=True)
class Slots:
    scale: float
    items: list = field(default_factory=list)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    major: int
    minor: int = 0


@dataclass
class Derived:
    size: int
    factor: InitVar[int] = 2
    total: int = field(init=False)

    def __post_init__(self, factor):
        self.total = self.size * factor


@dataclass
class Child(Config):
    extra: int = 5
    _: KW_ONLY
    named: int = 6


@dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple = ()

    def __getitem__(self, k):
        return (self.logits, self.hidden)[k]


@construct("made, read, written, method called")
def made(x):
    c = Config(4)
    c.scale = 3.0
    return x * c.scale + c.doubled() + c.hidden, c


@construct("`field(default_factory)` makes a new one each time")
def default_factory(x):
    a, b = Config(1), Config(2)
    a.layers.append(x)
    return a.layers[0] + len(b.layers), a, b


@construct("as an argument, read and written", state=lambda: (Config(3),))
def argument(x, c):
    c.layers = [x + 1]
    return x * c.scale + c.hidden


@construct("a frozen one: read, written raises")
def frozen(x):
    f = Frozen(2.0)
    try:
        f.scale = 3.0
    except dataclasses.FrozenInstanceError as error:
        return x * f.scale + f.bias, str(error)


@construct("a frozen one as an argument", state=lambda: (Frozen(2.0),))
def frozen_argument(x, f):
    return x * f.scale + f.bias


@construct("`object.__setattr__` on a frozen one")
def frozen_set(x):
    f = Frozen(2.0)
    object.__setattr__(f, "scale", 5.0)
    return x * f.scale


@construct("`slots=True`")
def slots(x):
    s = Slots(3.0)
    s.items.append(x)
    s.scale += 1
    return x * s.scale + s.items[0], s


@construct("frozen with slots, as an argument", state=lambda: (Version(2, 3),))
def frozen_slots_argument(x, v):
    return x * v.major + v.minor


@construct("`order=True`, equality, hashing")
def ordering(x):
    a, b = Version(1, 2), Version(1, 3)
    return x + (a < b) + (a == Version(1, 2)) + {a: 5}[Version(1, 2)], max(a, b), sorted([b, a])


@construct("`replace`")
def replace(x):
    a = dataclasses.replace(Config(4), scale=5.0)
    b = dataclasses.replace(Frozen(1.0), bias=x)
    return x * a.scale + b.bias, a


@construct("`__post_init__`, `InitVar`, `field(init=False)`")
def post_init(x):
    return x * Derived(3).total + Derived(3, factor=5).total


@construct("inheritance, `KW_ONLY`")
def inheritance(x):
    c = Child(1, named=7)
    return x * c.named + c.extra + c.scale, c


@construct("`asdict`, `astuple`")
def as_dict(x):
    c = Config(4, layers=[Frozen(1.0)])
    return x + len(dataclasses.asdict(c)), dataclasses.asdict(c), dataclasses.astuple(c)


@construct("`fields`, `is_dataclass`, `__dataclass_fields__`")
def fields(x):
    names = [f.name for f in dataclasses.fields(Config)]
    for f in dataclasses.fields(Frozen(3.0)):
        x = x * getattr(Frozen(3.0), f.name)
    return x, names, dataclasses.is_dataclass(Config), "scale" in Config.__dataclass_fields__


@construct("`repr` and `==`")
def text(x):
    return x + (Config(1) == Config(1, hidden_note="other")), repr(Config(1)), Config(1) != Config(2)


@construct("a data class of tensors returned")
def of_tensors(x):
    out = Output(x * 2, (x, x + 1))
    return out, out[0] + out.hidden[1]


@construct("a data class of tensors as an argument", inputs=lambda: (Output(torch.randn(4)),))
def of_tensors_argument(out):
    return out.logits * 2, Output(out.logits + 1, (out,))


@construct("a class var and a class attribute")
def class_var(x):
    return x + len(Config.kind) + Config.scale


@construct("`@dataclass` applied in the function", breaks=NEW_CLASS)
def in_function(x):
    @dataclass
    class Local:
        scale: int = 3

    return x * Local().scale


@construct("`make_dataclass`", breaks=NEW_CLASS)
def make_dataclass(x):
    Local = dataclasses.make_dataclass("Local", [("scale", int)])
    return x * Local(4).scale


@construct("`match` on a data class")
def match(x):
    match Frozen(2.0, 3.0):
        case Frozen(scale=s, bias=b):
            return x * s + b


@dataclass
class Computed:
    scale: int = 3

    @functools.cached_property
    def double(self):
        return self.scale * 2

    @property
    def half(self):
        return self.scale / 2


@construct("`property` and `cached_property` of a data class")
def properties(x):
    item = Computed()
    return x * item.double + item.double + item.half
