"""Generators, iterators and comprehensions."""

import inspect

import torch

from tests.support.construct import area

construct = area("Generators and iteration")


def powers(x, n):
    """Yields powers and returns how many there were."""
    y = x
    for _ in range(n):
        yield y
        y = y * x
    return n


def delegating(x):
    count = yield from powers(x, 2)
    yield x + count
    yield from [x, x.sin()]


def averager(x):
    """A coroutine in the old sense: it takes what is sent and gives the mean so far."""
    total, count = torch.zeros_like(x), 0
    while True:
        value = yield total / max(count, 1)
        if value is None:
            return
        total, count = total + value, count + 1


def guarded(x, notes):
    """Notes what is thrown into it, and when it is closed."""
    try:
        while True:
            try:
                yield x
            except ValueError as error:
                notes.append(str(error))
                x = x * 2
    finally:
        notes.append("closed")


@construct("a generator in a `for` loop")
def in_a_loop(x):
    total = torch.zeros_like(x)
    for y in powers(x, 3):
        total = total + y
    return total


@construct("a generator unpacked and in `list`, `tuple`, `sum`")
def unpacked(x):
    a, b, *rest = powers(x, 4)
    return a + b, list(powers(x, 2)), tuple(powers(x, 3)), sum(powers(x, 2)), rest


@construct("`yield from` a generator and a list")
def delegated(x):
    return list(delegating(x))


@construct("nested `yield from`, three deep")
def nested_delegation(x):
    def outer():
        got = yield from middle()
        yield x + got

    def middle():
        got = yield from powers(x, 2)
        return got * 10

    return list(outer())


@construct("the value of a generator's `return`")
def return_value(x):
    def outer():
        n = yield from powers(x, 3)
        yield x * n

    return list(outer())[-1]


@construct("`StopIteration.value` of an exhausted generator")
def stop_iteration_value(x):
    generator = powers(x, 1)
    y = next(generator)
    try:
        next(generator)
    except StopIteration as stop:
        return y * stop.value


@construct("`send` into a generator")
def sent(x):
    mean = averager(x)
    next(mean)
    mean.send(x)
    return mean.send(x * 3)


@construct("`send` through `yield from`")
def sent_through(x):
    def outer():
        yield from averager(x)

    mean = outer()
    next(mean)
    mean.send(x)
    return mean.send(x.cos())


@construct(
    "`throw` into a generator that handles it",
    breaks="the generator is dropped half-way, and its `finally` has an effect: it runs when Python closes it",
)
def thrown(x):
    notes = []
    generator = guarded(x, notes)
    next(generator)
    y = generator.throw(ValueError("changed"))
    return y + 1, notes


@construct("`throw` into a generator that does not handle it")
def thrown_out(x):
    notes = []
    generator = guarded(x, notes)
    next(generator)
    try:
        generator.throw(KeyError("other"))
    except KeyError as error:
        notes.append(error.args)
    return x + 1, notes


@construct(
    "`throw` through `yield from`",
    breaks="the generator is dropped half-way, and its `finally` has an effect: it runs when Python closes it",
)
def thrown_through(x):
    notes = []

    def outer():
        yield from guarded(x, notes)

    generator = outer()
    next(generator)
    return generator.throw(ValueError("through")), notes


@construct("`close` runs `finally`")
def closed(x):
    notes = []
    generator = guarded(x, notes)
    y = next(generator)
    generator.close()
    return y * 2, notes


@construct("`GeneratorExit` is seen on `close`")
def generator_exit(x):
    notes = []

    def watchful():
        try:
            yield x
        except GeneratorExit:
            notes.append("exit")
            raise

    generator = watchful()
    y = next(generator)
    generator.close()
    return y + 1, notes


@construct("`next` with a default")
def next_default(x):
    generator = powers(x, 1)
    return next(generator), next(generator, None), next(iter([]), 3)


@construct("a generator that is never started")
def never_started(x):
    powers(x, 3)
    return x + 1


@construct("a generator left half way by `break`")
def left_half_way(x):
    total = x
    for number, y in enumerate(powers(x, 10)):
        if number == 2:
            break
        total = total + y
    else:
        total = total * 100
    return total


@construct("a generator with a `with` block inside")
def with_block_inside(x):
    def without_gradients():
        with torch.no_grad():
            yield x * 2
            yield x * 3

    return [y.requires_grad for y in without_gradients()], sum(without_gradients())


@construct("an endless generator, consumed in part")
def endless(x):
    def naturals():
        n = 0
        while True:
            yield n
            n += 1

    total = x
    for n in naturals():
        if n > 4:
            return total
        total = total + n


@construct("two generators that take turns")
def taking_turns(x):
    first, second = powers(x, 3), powers(x.cos(), 3)
    return [next(g) for _ in range(3) for g in (first, second)]


class Layers:
    def __init__(self):
        self.scales = [1.0, 2.0, 3.0]

    def outputs(self, x):
        for scale in self.scales:
            x = x * scale
            yield x

    @property
    def halves(self):
        for scale in self.scales:
            yield scale / 2


@construct("a generator method and a generator property")
def generator_method(x):
    layers = Layers()
    return list(layers.outputs(x)), [x * half for half in layers.halves]


@construct("a recursive generator")
def recursive(x):
    def leaves(tree):
        for node in tree:
            if isinstance(node, list):
                yield from leaves(node)
            else:
                yield node

    return sum(leaves([x, [x.sin(), [x.cos()]], x.tan()]))


@construct("a generator that raises")
def raising(x):
    def failing():
        yield x
        raise RuntimeError("half way")

    got = []
    try:
        for y in failing():
            got.append(y * 2)
    except RuntimeError as error:
        got.append(str(error))
    return got


@construct("`StopIteration` inside a generator becomes `RuntimeError`")
def stop_inside(x):
    def stopping():
        yield x
        raise StopIteration

    try:
        return list(stopping())
    except RuntimeError as error:
        return x + 1, str(error)


@construct("a generator expression")
def generator_expression(x):
    return sum(x * k for k in range(4) if k != 2)


@construct("nested generator expressions")
def nested_expressions(x):
    return sum(y + k for y in (x * j for j in range(2)) for k in range(2))


@construct("`all` and `any` over a generator expression")
def all_and_any(x):
    shapes = [x.shape, x.t().shape]
    if all(s[0] == 4 for s in shapes) and any(len(s) == 2 for s in shapes) and not any(s == () for s in shapes):
        return x + 1
    return x


@construct("list, set and dict comprehensions")
def comprehensions(x):
    return [x * k for k in range(3)], {k % 2 for k in range(5)}, {k: x + k for k in "ab" for k in range(2)}


@construct("nested comprehensions with conditions")
def nested_comprehensions(x):
    return [[x[i, j] for j in range(4) if j != i] for i in range(4) if i % 2]


@construct("a comprehension that closes over locals")
def comprehension_closure(x):
    scale = 3
    return [(lambda k: x * scale + k)(k) for k in range(3)]


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@construct("a class with `__iter__` and `__next__`")
def iterator_class(x):
    total = x
    for n in Countdown(3):
        total = total + n
    return total, list(Countdown(2))


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __iter__(self):
        yield self.a
        yield self.b


@construct("a class with `__iter__` as a generator")
def iterable_class(x):
    a, b = Pair(x, x * 2)
    return a + b, [*Pair(1, 2)], dict([Pair("k", x)])


class Rows:
    def __init__(self, t):
        self.t = t

    def __getitem__(self, i):
        if i >= 4:
            raise IndexError(i)
        return self.t[i]


@construct("a class that iterates by `__getitem__`")
def sequence_protocol(x):
    return sum(Rows(x)), len(list(Rows(x)))


@construct("`iter` with a sentinel")
def iter_sentinel(x):
    items = [1, 2, 3, 0, 9]
    return [x * k for k in iter(lambda: items.pop(0), 0)], items


@construct("`reversed`, `enumerate` with a start, `zip`")
def reversed_enumerate_zip(x):
    return [a * i + b for i, (a, b) in enumerate(zip(x, reversed(x.unbind()), strict=False), start=1)]


@construct("`zip(strict=True)` of equal lengths")
def zip_strict(x):
    return [a * b for a, b in zip([x, x + 1], [1, 2], strict=True)]


@construct("`zip(strict=True)` of unequal lengths raises")
def zip_strict_raises(x):
    got = []
    try:
        for a, b in zip([x, x + 1, x], [1, 2], strict=True):
            got.append(a * b)
    except ValueError as error:
        got.append(str(error))
    return got


@construct("`map` and `filter`, also with several iterables and `None`")
def map_and_filter(x):
    doubled = map(lambda a, b: a * b, [x, x.sin()], [2, 3])
    return list(doubled), list(filter(None, [0, 1, "", "a"])), [x + k for k in filter(lambda k: k > 1, range(4))]


class Bag:
    def __len__(self):
        return 3

    def __contains__(self, k):
        return k < 3

    def __reversed__(self):
        return iter([3, 2, 1])


@construct("`__reversed__`, `__len__` and `__contains__` of a class")
def container_protocol(x):
    bag = Bag()
    if 2 in bag and 5 not in bag:
        x = x * len(bag)
    return [x * k for k in reversed(bag)]


@construct("iteration over a tensor")
def over_a_tensor(x):
    first, *rest = x
    return first, sum(rest), [row.sum() for row in x]


@construct("an iterator passed to the function", state=lambda: (iter(range(100)),))
def iterator_argument(x, numbers):
    next(numbers)
    return x + 1


@construct(
    "a generator object passed to the function",
    state=lambda: ((k for k in range(100)),),
    breaks="a generator's frame belongs to its object: the interpreter resumes it",
)
def generator_object_argument(x, numbers):
    next(numbers)
    return x * 2


@construct("a generator returned from the function")
def generator_returned(x):
    y = x * 2
    return powers(y + 1, 2)


@construct("`inspect.isgenerator` and `gi_frame` reads")
def generator_attributes(x):
    generator = powers(x, 2)
    return next(generator) * 2, inspect.isgenerator(generator), generator.__name__


@construct("a coroutine awaited by hand", breaks="coroutines run in the interpreter")
def coroutine_by_hand(x):
    async def double(y):
        return y * 2

    running = double(x + 1)
    try:
        running.send(None)
    except StopIteration as stop:
        return stop.value


@construct("`async for` and `async with` under `asyncio.run`", breaks="coroutines run in the interpreter")
def asynchronous(x):
    import asyncio

    async def numbers():
        for k in range(3):
            yield k

    async def main():
        return [x * k async for k in numbers()]

    return asyncio.run(main())
