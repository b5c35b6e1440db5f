"""itertools: every function."""

import itertools
import operator

from tests.support.construct import area

construct = area("itertools")


@construct("`accumulate`, of tensors and of numbers")
def accumulate(x):
    return list(itertools.accumulate(x.unbind())), list(itertools.accumulate([1, 2, 3], operator.mul))


@construct("`accumulate` with a start")
def accumulate_initial(x):
    return list(itertools.accumulate([1, 2], lambda a, b: a * b, initial=x))


@construct("`chain`")
def chain(x):
    return sum(itertools.chain([x], (x.sin(), 1), range(2)))


@construct("`chain.from_iterable`")
def chain_from_iterable(x):
    return list(itertools.chain.from_iterable([[x, 1], "ab", {"k": 1}]))


@construct("`combinations`")
def combinations(x):
    return sum(a * b for a, b in itertools.combinations(x.unbind(), 2)), list(itertools.combinations("abc", 2))


@construct("`combinations_with_replacement`")
def combinations_with_replacement(x):
    return sum(a * b for a, b in itertools.combinations_with_replacement([x, x.sin()], 2))


@construct("`compress`")
def compress(x):
    return sum(itertools.compress(x.unbind(), [1, 0, True, False]))


@construct("`count`, with a step, in `zip`")
def count(x):
    return [a * k for a, k in zip(x, itertools.count(2, 3), strict=False)], next(itertools.count(0.5))


@construct("`cycle`")
def cycle(x):
    signs = itertools.cycle([1, -1])
    return sum(a * next(signs) for a in x)


@construct("`dropwhile`")
def dropwhile(x):
    return x + 1, list(itertools.dropwhile(lambda k: k < 2, [1, 2, 1]))


@construct("`filterfalse`")
def filterfalse(x):
    return [x * k for k in itertools.filterfalse(lambda k: k % 2, range(4))], list(itertools.filterfalse(None, [0, 1]))


@construct("`groupby`")
def groupby(x):
    groups = {key: list(group) for key, group in itertools.groupby("aabbb")}
    return x * len(groups["b"]), [k for k, _ in itertools.groupby([1, 1, 2, 1])]


@construct("`groupby` with a key")
def groupby_key(x):
    total = x
    for even, group in itertools.groupby([2, 4, 1, 3], key=lambda k: k % 2 == 0):
        total = total * len(list(group)) + even
    return total


@construct("`islice`, in all forms")
def islice(x):
    return (
        sum(itertools.islice(x, 2)),
        list(itertools.islice("abcdef", 1, None, 2)),
        list(itertools.islice("abc", 1, 2)),
    )


@construct("`pairwise`")
def pairwise(x):
    return [b - a for a, b in itertools.pairwise(x)]


@construct("`permutations`")
def permutations(x):
    return sum(a - b for a, b in itertools.permutations([x, x.sin()])), list(itertools.permutations("abc", 2))


@construct("`product`, with `repeat`")
def product(x):
    return [x[i, j] for i, j in itertools.product(range(2), repeat=2)], list(itertools.product("ab", [1, 2]))


@construct("`repeat`, bounded and in `map`")
def repeat(x):
    return sum(itertools.repeat(x, 3)), list(map(pow, range(3), itertools.repeat(2)))


@construct("`starmap`")
def starmap(x):
    return sum(itertools.starmap(lambda a, k: a * k, [(x, 2), (x.sin(), 3)]))


@construct("`takewhile`")
def takewhile(x):
    return [x + k for k in itertools.takewhile(lambda k: k < 2, itertools.count())]


@construct("`tee`")
def tee(x):
    first, second = itertools.tee(y * 2 for y in x)
    next(second)
    return [a - b for a, b in zip(first, second, strict=False)]


@construct("`zip_longest`")
def zip_longest(x):
    return [a + b for a, b in itertools.zip_longest([x, x], [1], fillvalue=5)]


@construct("iterators of itertools passed to one another")
def nested(x):
    items = itertools.islice(itertools.chain.from_iterable(itertools.repeat([x, x.sin()])), 5)
    return sum(itertools.starmap(operator.mul, zip(items, itertools.count(1), strict=False)))


@construct("an iterator of itertools as an argument", state=lambda: (itertools.count(5),))
def argument(x, numbers):
    next(numbers)
    return x + 1


@construct(
    "an iterator of itertools returned",
)
def returned(x):
    return itertools.chain([x + 1], [2])
