"""Enumerations and flags."""

import enum

from tests.support.construct import NEW_CLASS, area

construct = area("Enumerations")


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"
    AVERAGE = "mean"

    @property
    def short(self):
        return self.value[:2]

    def apply(self, x):
        return x.sum() if self is Mode.SUM else x.mean()

    @classmethod
    def default(cls):
        return cls.SUM


class Level(enum.IntEnum):
    LOW = 1
    HIGH = enum.auto()


class Name(enum.StrEnum):
    RELU = enum.auto()
    GELU = "gelu_new"


class Parts(enum.Flag):
    WEIGHT = enum.auto()
    BIAS = enum.auto()
    NORM = enum.auto()
    ALL = WEIGHT | BIAS | NORM


class Bits(enum.IntFlag):
    A = 1
    B = 2


class Planet(enum.Enum):
    EARTH = (5.9, 6.3)
    MARS = (0.6, 3.3)

    def __init__(self, mass, radius):
        self.mass = mass
        self.radius = radius


@construct("members compared by `is` and `==`")
def compared(x):
    mode = Mode.SUM
    if mode is Mode.SUM and mode == Mode.SUM and mode != Mode.MEAN:
        x = x * 2
    return x, mode


@construct("a member as an argument", state=lambda: (Mode.MEAN,))
def argument(x, mode):
    return x + 1 if mode is Mode.MEAN else x


@construct("`name` and `value`")
def name_and_value(x):
    return x + len(Mode.MEAN.value), Mode.MEAN.name


@construct("lookup by value and by name")
def lookup(x):
    return x + (Mode("sum") is Mode.SUM) + (Mode["MEAN"] is Mode.MEAN) + (Mode.AVERAGE is Mode.MEAN)


@construct("lookup of a missing value raises")
def lookup_fails(x):
    try:
        Mode("median")
    except ValueError as error:
        return x + 1, str(error)


@construct("iteration, `len`, `in`, `__members__`")
def iteration(x):
    names = [m.name for m in Mode]
    return x * len(Mode) + (Mode.SUM in Mode), names, list(Mode.__members__)


@construct("methods, properties, class methods of members")
def methods(x):
    return Mode.default().apply(x), Mode.MEAN.short, Mode.MEAN.apply(x)


@construct("members as dictionary keys")
def keys(x):
    table = {Mode.SUM: 2, Mode.MEAN: 3}
    return x * table[Mode.MEAN] + len(table), hash(Mode.SUM) == hash(Mode.SUM)


@construct("`IntEnum`: arithmetic, comparison, indexing")
def int_enum(x):
    return x[Level.LOW] * Level.HIGH + (Level.LOW < 2) + [1, 2, 3][Level.HIGH], Level(2), int(Level.HIGH)


@construct("`StrEnum`")
def str_enum(x):
    return x + len(Name.GELU) + (Name.RELU == "relu"), f"{Name.RELU}", Name("gelu_new").upper()


@construct("`Flag`: `|`, `&`, `~`, `^`, `in`, truth")
def flag(x):
    parts = Parts.WEIGHT | Parts.BIAS
    if Parts.BIAS in parts and not parts & Parts.NORM:
        x = x * 2
    return x, parts, parts ^ Parts.BIAS, ~parts, bool(parts)


@construct("`Flag`: iteration, `name`, `value`, lookup")
def flag_more(x):
    return x * Parts.ALL.value + len(list(Parts.ALL)), (Parts.WEIGHT | Parts.NORM).name, Parts(3)


@construct("`IntFlag`")
def int_flag(x):
    return x * (Bits.A | Bits.B) + (Bits.A & 1), Bits(3)


@construct("members with several values and `__init__`")
def initialised(x):
    return x * Planet.EARTH.mass + Planet.MARS.radius


@construct("`match` on members")
def match(x):
    match Mode("mean"):
        case Mode.SUM:
            return x
        case Mode.MEAN:
            return x + 1


@construct("`str`, `repr`, format of members")
def texts(x):
    return x + 1, str(Mode.SUM), repr(Mode.SUM), f"{Level.HIGH}", f"{Mode.SUM}"


@construct("functional API, in the function")
def functional(x):
    Color = enum.Enum("Color", ["RED", "BLUE"])
    return x * Color.BLUE.value


@construct("an enumeration made in the function", breaks=NEW_CLASS)
def in_function(x):
    class Local(enum.Enum):
        A = 1
        B = 2

    return x * Local.B.value + len(Local)


@construct("an attribute set on a member raises or is kept as in Python")
def member_value(x):
    try:
        Mode.SUM.value = 3
    except AttributeError:
        return x + 1
