"""functools and operator."""

import functools
import operator

from tests.support.construct import area

construct = area("functools and operator")

CACHE = "the cache is asked at its point in the order of effects, and what it holds is not known before"


class Model:
    def __init__(self):
        self.computed = 0

    @functools.cached_property
    def scale(self):
        self.computed += 1
        return 3

    @functools.lru_cache
    def cached(self, k):
        return k * 2

    @functools.singledispatchmethod
    def show(self, value):
        return "object"

    @show.register
    def _(self, value: int):
        return "int"

    def plus(self, x, k):
        return x + k

    plus_two = functools.partialmethod(plus, k=2)


@functools.singledispatch
def describe(value):
    return 1


@describe.register(int)
def _(value):
    return 2


@describe.register
def _(value: list):
    return 3


@functools.total_ordering
class Ordered:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k

    def __lt__(self, other):
        return self.k < other.k


@functools.lru_cache(maxsize=8)
def table(n):
    return n * 2


@functools.cache
def mask(n):
    import torch

    return torch.ones(n, n).tril()


@construct("`partial`")
def partial(x):
    def f(a, b, *, c=1):
        return a * b + c

    g = functools.partial(f, x, c=5)
    return g(2), g.func is f, g.args[0], g.keywords, functools.partial(g, 3)(c=7)


@construct("`partial` of a built-in and of a torch function")
def partial_builtin(x):
    import torch

    return functools.partial(torch.add, alpha=2)(x, x) + functools.partial(max, 3)(2), functools.partial(int, base=2)(
        "11"
    )


@construct("`partial` as an argument", state=lambda: (functools.partial(operator.mul, 3),))
def partial_argument(x, f):
    return f(x)


@construct("`partialmethod`")
def partialmethod(x):
    return Model().plus_two(x)


@construct("`reduce`, with and without a start")
def reduce(x):
    return functools.reduce(operator.add, [x, x.sin(), x.cos()]), functools.reduce(lambda a, b: a * b, [1, 2, 3], x)


@construct("`lru_cache` on a function")
def lru_cache(x):
    return x * table(4) + table(4)


@construct("`lru_cache`: `cache_info`, `cache_clear`, `__wrapped__`", breaks=CACHE)
def lru_cache_info(x):
    table.cache_clear()
    table(3)
    table(3)
    return x + table.cache_info().hits, table.__wrapped__(2)


@construct("`lru_cache` on a function that makes tensors", breaks=CACHE)
def cached_tensor(x):
    return x * mask(4)


@construct("`lru_cache` on a method", breaks=CACHE)
def cached_method(x):
    return x * Model().cached(4)


@construct("`lru_cache` made in the function", breaks=CACHE)
def cached_in_function(x):
    calls = []

    @functools.cache
    def fibonacci(n):
        calls.append(n)
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    return x * fibonacci(8), calls


def warm_model():
    """A model whose property has been computed."""
    model = Model()
    return (model, model.scale)


@construct("`cached_property`, computed before", state=warm_model)
def cached_property(x, model, scale):
    return x * model.scale + model.scale + model.computed


@construct(
    "`cached_property`, computed by the first call",
    state=lambda: (Model(),),
    breaks="the first call finds no value, later ones do: two segments",
)
def cached_property_first(x, model):
    return x * model.scale


@construct("`cached_property` of an object made in the function")
def cached_property_made(x):
    model = Model()
    y = x * model.scale + model.scale + model.computed
    del model.scale
    return y + model.scale, model.computed


@construct("`singledispatch`")
def singledispatch(x):
    return x * describe(3) + describe([]) * 10 + describe("a") * 100


@construct("`singledispatch` on a tensor, `dispatch`, `registry`")
def singledispatch_more(x):
    return x + describe(x) + describe.dispatch(bool)(1) + len(describe.registry)


@construct("`singledispatchmethod`")
def singledispatchmethod(x):
    return x + 1, Model().show(3), Model().show("a")


@construct("`total_ordering`")
def total_ordering(x):
    a, b = Ordered(1), Ordered(2)
    return x + (a <= b) + (b > a) + (a >= b), max(a, b).k


@construct("`cmp_to_key`")
def cmp_to_key(x):
    return x + 1, sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a))


@construct("`wraps`, `update_wrapper`")
def wraps(x):
    def decorate(f):
        @functools.wraps(f)
        def wrapper(*args, **options):
            return f(*args, **options) + 1

        return wrapper

    @decorate
    def inner(y):
        """Doubles."""
        return y * 2

    return inner(x), inner.__name__, inner.__doc__, inner.__wrapped__(x)


@construct("operator: arithmetic and comparison functions")
def operator_arithmetic(x):
    y = operator.add(x, operator.mul(x, 2)) - operator.neg(x) + operator.truediv(x, 2) + operator.pow(x, 2)
    return operator.matmul(y, x) + operator.mod(7, 4) + operator.lt(1, 2), operator.ge(x, 0), operator.eq("a", "a")


@construct("operator: `floordiv`, `lshift`, `and_`, `or_`, `xor`, `invert`, `index`, `abs`, `pos`")
def operator_bits(x):
    n = operator.floordiv(7, 2) + operator.lshift(1, 3) + operator.and_(6, 3) + operator.or_(4, 1)
    return x * n + operator.xor(5, 1) + operator.invert(2) + operator.index(3) + operator.abs(-2) + operator.pos(1)


@construct("operator: in-place functions")
def operator_in_place(x):
    items = [1]
    operator.iadd(items, [2])
    return operator.iadd(x.clone(), 1) + operator.imul(3, 2), items


@construct("operator: `itemgetter`, one and several keys")
def itemgetter(x):
    get = operator.itemgetter(1)
    return get([1, x]) + 1, operator.itemgetter("a", "b")({"a": 1, "b": 2}), operator.itemgetter(slice(1, 3))([1, 2, 3])


@construct("operator: `attrgetter`, dotted and several")
def attrgetter(x):
    return x * len(operator.attrgetter("shape")(x)), operator.attrgetter("dtype.itemsize", "ndim")(x)


@construct("operator: `methodcaller`")
def methodcaller(x):
    return operator.methodcaller("clamp", min=0)(x) + 1, operator.methodcaller("upper")("a")


@construct("operator: `getitem`, `setitem`, `delitem`, `contains`, `concat`, `countOf`, `indexOf`, `length_hint`")
def operator_containers(x):
    items = [1, 2, 2, 3]
    operator.setitem(items, 0, 9)
    operator.delitem(items, 3)
    n = operator.countOf(items, 2) + operator.indexOf(items, 2) + operator.length_hint(items)
    return x[operator.getitem([0, 1], 1)] * n, operator.contains(items, 9), operator.concat([1], [2])


@construct("operator: `not_`, `truth`, `is_`, `is_not`, `call`")
def operator_truth(x):
    return operator.call(lambda y: y + operator.truth([1]), x) + operator.not_(0) + operator.is_(x, x), operator.is_not(
        x, 1
    )
