"""Built-in functions."""

import torch

from tests.support.construct import NEW_NAMES, area

construct = area("Built-in functions")


class Thing:
    scale = 2

    def run(self, x):
        return x * self.scale


@construct("`getattr`, `setattr`, `hasattr`, `delattr`", state=lambda: (Thing(),))
def attribute_functions(x, thing):
    setattr(thing, "bias", 3)
    y = x * getattr(thing, "scale") + getattr(thing, "bias") + getattr(thing, "missing", 1)
    delattr(thing, "bias")
    return y + hasattr(thing, "bias") + hasattr(thing, "scale")


@construct("`getattr` by a computed name, of modules and tensors")
def computed_names(x):
    for name in ("sin", "cos"):
        x = getattr(torch, name)(x) + getattr(x, name)()
    return getattr(torch.nn.functional, "re" + "lu")(x)


@construct("`sorted` with key and `reverse`, stable")
def sorted_(x):
    pairs = [("b", 1), ("a", 1), ("c", 0)]
    return (
        x + sorted([3, 1, 2])[0],
        sorted(pairs, key=lambda p: p[1]),
        sorted("bca", reverse=True),
        sorted({"b": 1, "a": 2}),
    )


@construct("`min` and `max` with key, default, several arguments")
def min_max(x):
    words = ["aaa", "b", "cc"]
    return x + min(3, 1, 2) + max([1, 5]), max(words, key=len), min([], default=7), min(words, key=lambda w: -len(w))


@construct("`min` and `max` of tensors", breaks="the comparison decides on tensors' values")
def min_max_tensors(x):
    return max(x.sum(), x.mean()) + 1


@construct("`sum` with a start, of tensors and of lists")
def sum_(x):
    return sum([x, x.sin()], start=torch.ones(4)), sum([[1], [2]], []), sum(range(5))


@construct("`abs`, `round`, `divmod`, `pow`, of numbers and tensors")
def arithmetic(x):
    return abs(x) + abs(-2) + round(2.567, 2) + pow(x, 2) + divmod(7, 3)[1], divmod(-7, 2), round(2.5)


@construct("`len`, `bool`, `int`, `float` of sizes and of tensors with known shape")
def conversions(x):
    return x * len(x) + bool(x.shape) + int(x.shape[0] / 2) + float(x.numel()) + len(x.shape)


@construct("`all`, `any`")
def all_any(x):
    return x + all([1, True, "a"]) + any([0, None, ""]) + all([]) + any(k > 2 for k in range(5))


@construct("`range`, `enumerate`, `zip`, `reversed`, `iter`, `next`")
def iteration(x):
    it = iter([x, x * 2])
    a = next(it)
    return (
        a + sum(i * k for i, k in enumerate(range(3), 1)),
        list(zip("ab", [1, 2], strict=True)),
        list(reversed(range(3))),
    )


@construct("`isinstance` and `issubclass` of many kinds")
def class_checks(x):
    flags = [
        isinstance(x, torch.Tensor),
        isinstance(3, (int, str)),
        isinstance(None, type(None)),
        issubclass(bool, int),
        isinstance(torch.nn.Linear, type),
        isinstance(x, torch.nn.Parameter),
        isinstance(x.shape, tuple),
        isinstance(lambda: 0, type(abs)),
        isinstance(2.0, int | float),
    ]
    return x + sum(flags), flags


@construct("`callable`, `id` compared, `hash`, `is`")
def identity(x):
    y = x
    return x + callable(torch.sin) + (id(x) == id(y)) + (x is y) + (hash((1, 2)) == hash((1, 2))) + callable(3)


@construct("`type`, `type(x)(...)`")
def type_(x):
    kind = type([])
    return x + len(kind([1, 2])), type(3) is int, type(x).__name__, type(Thing()).__name__


@construct("`vars`, `dir`", breaks=NEW_NAMES, state=lambda: (Thing(),))
def vars_dir(x, thing):
    thing.a = 1
    return x + vars(thing)["a"], "run" in dir(thing), sorted(vars(Thing))[-1]


@construct("`locals()` read")
def locals_(x):
    a, b = 2, x + 1
    table = locals()
    return table["b"] * table["a"], sorted(table)


@construct("`globals()` read")
def globals_(x):
    return x * globals()["Thing"].scale + ("absent" in globals())


@construct("`globals()` written")
def globals_written(x):
    globals()["_written"] = 3
    return x * _written


@construct("`eval`, `exec`, `compile`", breaks="the code is made while the function runs")
def evaluated(x):
    return x + eval("1 + 2")


@construct("`open` and input/output", breaks="it reads a file at its point in the order of effects")
def opened(x):
    y = x + 1
    with open(__file__) as file:
        return y * len(file.readline()) * 0


@construct("`bin`, `hex`, `oct`, `chr`, `ord`, `ascii`, `repr`, `format`")
def texts(x):
    return x + ord("a"), bin(5), hex(255), oct(8), chr(97), ascii("é"), repr([1]), format(3, "03")


@construct("`slice`, `complex`, `bytes`, `frozenset`, `object()`")
def constructors(x):
    sentinel = object()
    return x[slice(0, 2)] + complex(1, 2).imag + len(bytes(3)) + len(frozenset("aab")) + (sentinel is object())


@construct("`list`, `tuple`, `dict`, `set` of other containers and of iterators")
def containers(x):
    return list((1, x + 1)), tuple({"a": 1}), dict(a=x), set("aab"), list(map(str, [1, 2])), tuple(x.shape)


@construct("`map` with a method and a class", state=lambda: (Thing(),))
def mapped(x, thing):
    return sum(map(thing.run, [x, x + 1])), list(map(int, "123")), list(map(torch.sin, [x]))


@construct("`staticmethod`, `classmethod`, `property` called")
def descriptors(x):
    double = staticmethod(lambda y: y * 2)
    return double(x) + 1


@construct("`super` without a class raises")
def super_fails(x):
    try:
        super().run()
    except RuntimeError:
        return x + 1


@construct("`breakpoint()`", breaks="a debugger stops in the user's frame")
def breakpoint_(x):
    import sys

    before, sys.breakpointhook = sys.breakpointhook, lambda: None
    try:
        y = x + 1
        breakpoint()
        return y * 2
    finally:
        sys.breakpointhook = before


@construct("`__import__` and `importlib.import_module`")
def imported(x):
    import importlib

    return x * importlib.import_module("math").floor(2.5) + __import__("math").ceil(0.5)


@construct("`__debug__`, `__name__`, `__file__` read")
def module_names(x):
    return x + 1 if __debug__ and __name__.endswith("builtins_") and __file__ else x
