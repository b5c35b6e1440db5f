"""Special methods."""

from tests.support.construct import area

construct = area("Classes: special methods")


class Position:
    def __index__(self):
        return 2

    def __float__(self):
        return 2.5


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
