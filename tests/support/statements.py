"""Statements, functions and closures."""

import torch

from tests.support.construct import area

construct = area("Statements and functions")

SETTINGS = {"scale": 2}
counter = 0


@construct("`if`, `elif`, `else` on Python values")
def branches(x):
    if x.dim() == 3:
        return x
    elif x.shape[0] == 4 and x.is_contiguous():
        x = x + 1
    else:
        x = x + 2
    return x * 2


@construct("conditional expressions and chained comparison")
def chained(x):
    return x + (1 if 0 < x.shape[0] <= 4 != 5 else 2)


@construct("`and`, `or`, `not`")
def boolean(x):
    scale = None or 0 or 3
    return x * (scale and scale + 1) + (not scale)


@construct("`for`, `while` with `break`, `continue`, `else`")
def loops(x):
    for k in range(5):
        if k == 1:
            continue
        if k == 4:
            break
        x = x + k
    else:
        x = x * 0
    n = 3
    while n:
        n -= 1
        x = x * 2
    else:
        x = x + 1
    return x


@construct("a loop over 100 layers' worth of numbers")
def long_loop(x):
    for k in range(100):
        x = x + k
    return x


@construct("the walrus operator")
def walrus(x):
    if (n := x.shape[0]) > 3:
        x = x * n
    return x + sum(last := k for k in range(3)) + last


@construct("`match` on values, sequences, mappings, classes, guards")
def match(x):
    def pick(subject):
        match subject:
            case 1 | 2:
                return 10
            case [a, b, *rest] if rest:
                return a + b + len(rest)
            case {"scale": scale, **others}:
                return scale + len(others)
            case str() as text:
                return len(text)
            case torch.Size([rows, _]):
                return rows
            case _:
                return 0

    return x * pick(2) + pick([1, 2, 3]) + pick({"scale": 4, "k": 1}) + pick("abc") + pick(None)


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@construct("`match` on a class with `__match_args__` and nested patterns")
def match_class(x):
    match Point(1, (2, {"k": x})):
        case Point(1, (two, {"k": t})):
            return t * two


@construct("`del` of locals, items, attributes, slices")
def deletion(x):
    items, table = [1, 2, 3, 4], {"a": 1, "b": 2}
    y = x
    del y, items[0], table["a"], items[1:]
    try:
        return y
    except UnboundLocalError:
        return x + 1, items, table


@construct("starred assignment and nested unpacking")
def unpacking(x):
    a, *b, (c, d) = [1, 2, 3, (4, 5)]
    (rows, columns), e = x.shape, x
    first, *middle, last = x.unbind()
    return e * a + c * d + rows, b, columns, first + last, middle


@construct("starred calls and displays")
def starred(x):
    def f(a, *rest, k, **options):
        return a * k + sum(rest) + len(options)

    args, options = [x, 1, 2], {"k": 3, "m": 4}
    return f(*args, *(5, 6), **options, n=7), [*args[1:], *"ab"], {**options, "k": 0}


@construct("augmented assignment of names, items, attributes")
def augmented(x):
    items, n = [1, x], 7
    items[0] += 2
    items[1] *= 2
    n //= 2
    n **= 2
    n <<= 1
    n |= 1
    n ^= 2
    n %= 13
    items += [n]
    return items[1] + items[0] + n, items


@construct("slices of all kinds")
def slices(x):
    items = list(range(10))
    items[2:5] = "ab"
    items[::3] = [0] * len(items[::3])
    return x[1:, ::2] + x[..., :2].shape[1] * x[-3:, None, 0], items[-4:-1], items[slice(1, 6, 2)], x[:, [0, 1]]


@construct("global reads and writes")
def globals_(x):
    global counter
    counter = 5
    SETTINGS["scale"] = 3
    return x * counter * SETTINGS["scale"]


@construct("a global deleted and set again")
def global_deleted(x):
    global fleeting
    fleeting = 3
    y = x * fleeting
    del fleeting
    return y, "fleeting" in globals()


@construct("closures and `nonlocal`")
def closures(x):
    total = 0

    def add(k):
        nonlocal total
        total += k
        return x * total

    add(1)
    return add(2) + total


@construct("a cell that is deleted and an unbound free variable")
def unbound_cell(x):
    def inner():
        return late

    try:
        inner()
    except NameError as error:
        message = str(error)
    late = 3
    return x * inner(), message


@construct("closures made in a loop")
def closures_in_loop(x):
    late = [lambda: k for k in range(3)]
    early = [lambda k=k: k for k in range(3)]
    return x + sum(f() for f in late) + sum(f() * 10 for f in early)


@construct("a closure kept outside", state=lambda: ({},))
def closure_kept(x, table):
    y = x * 2

    def later():
        return y + 1

    table["later"] = later
    return later()


@construct("a function returned from the function")
def function_returned(x):
    y = x * 2

    def later(k=3, *, m=y):
        return y + k + m

    return y, later


@construct("default arguments, keyword-only, positional-only, annotations")
def parameters(x):
    def f(a, /, b: int = 2, *, c: float = 3.0, d=None) -> torch.Tensor:
        return a * b + c + (d or 0)

    return f(x) + f(x, 4, c=1) + f(x, b=5, d=6)


@construct("wrong arguments raise `TypeError`")
def wrong_arguments(x):
    def f(a, *, b):
        return a

    messages = []
    for args, options in [((x,), {}), ((), {"b": 1}), ((x, x), {"b": 1}), ((x,), {"b": 1, "c": 2})]:
        try:
            f(*args, **options)
        except TypeError as error:
            messages.append(str(error))
    return x + 1, messages


@construct("a mutable default that is written")
def mutable_default(x):
    def f(k, seen=[]):
        seen.append(k)
        return len(seen)

    f(1)
    return x * f(2)


@construct("recursion")
def recursion(x):
    def power(n):
        return x if n == 1 else x * power(n - 1)

    return power(5)


@construct("mutual recursion and functions as arguments")
def mutual_recursion(x):
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    def apply(f, *args):
        return x + f(*args)

    return apply(even, 10) + apply(odd, 7)


@construct("decorators with and without arguments, stacked")
def decorators(x):
    def scale(k):
        def decorate(f):
            def wrapper(*args):
                return f(*args) * k

            return wrapper

        return decorate

    def plus_one(f):
        return lambda *args: f(*args) + 1

    @scale(3)
    @plus_one
    def inner(y):
        return y.sin()

    return inner(x)


@construct("lambdas, also in tables and as defaults")
def lambdas(x):
    table = {"double": lambda t: t * 2, "shift": lambda t, by=1: t + by}
    for name in ("double", "shift", "double"):
        x = table[name](x)
    return (lambda *a, **k: a[0] + k["b"])(x, b=2)


@construct("function attributes")
def function_attributes(x):
    def f(y):
        f.calls += 1
        return y * f.calls

    f.calls = 0
    f(x)
    return f(x), f.__name__, f.__qualname__, f.__defaults__, f.__doc__, f.__code__.co_argcount


@construct("`assert` with a message, true and false")
def assertions(x):
    assert x.dim() == 2, f"{x.dim()} dimensions"
    try:
        assert x.shape[0] == 5, f"{x.shape[0]} rows"
    except AssertionError as error:
        return x + 1, str(error)


@construct("`assert` on a tensor", breaks="the interpreter decides on a tensor's value")
def tensor_assertion(x):
    y = x * x
    assert (y >= 0).all(), "negative"
    return y + 1


@construct("`pass`, `...`, docstrings, annotated assignment")
def no_effect(x):
    """A docstring."""
    y: torch.Tensor = x + 1
    z: int
    ...
    pass
    return y


@construct("an import inside the function")
def imports(x):
    import math
    from collections import OrderedDict as Ordered
    from os import path

    import torch.nn.functional as F

    return F.relu(x) * math.pi + len(Ordered(a=1)), path.join("a", "b")


@construct("tuple, list, set and dict displays with tensors")
def displays(x):
    return (x, [x + 1, {"a": x * 2, ("k", 1): (x,)}], {1, 2, "a"}, frozenset([1]))


@construct("swapping and multiple assignment")
def swapping(x):
    a, b = x, x * 2
    a, b = b, a
    c = d = a + b
    items = [1, 2]
    items[0], items[1] = items[1], items[0]
    return a - b, c is d, items


@construct("integer, float, complex and bit arithmetic")
def numbers(x):
    n = (7 // 2) * 3 % 4 - 2**3 | 5 & 6 ^ 1 << 2 >> 1
    z = (1 + 2j) * abs(-3) + divmod(7, 3)[1]
    return x * n + ~3 + z.real + 7 / 2 + (-7 // 2) + pow(3, 4, 5)


@construct("an integer argument that changes", inputs=lambda: (torch.randn(4), int(torch.randint(100, ()))))
def changing_integer(x, n):
    return x + 1, n + 1


@construct("string arguments that change", inputs=lambda: (torch.randn(4), f"name {torch.rand(())}"))
def changing_text(x, name):
    return x + 1, name + "!"


@construct("a counter in a list, counted up", state=lambda: ([0],))
def counting(x, calls):
    calls[0] += 1
    return x + 1


@construct("a list that grows from call to call", state=lambda: ([],))
def growing(x, seen):
    seen.append(x.shape[0])
    return x * 2
