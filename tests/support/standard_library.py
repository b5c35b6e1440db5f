"""The standard library beyond containers, functools and itertools."""

import abc
import bisect
import copy
import datetime
import decimal
import fractions
import heapq
import inspect
import math
import numbers
import os
import pathlib
import random
import statistics
import threading
import time
import typing
import uuid
import weakref
from typing import Any, Generic, Literal, Optional, Protocol, TypedDict, TypeVar, Union, runtime_checkable

import torch

from tests.support.construct import NEW_CLASS, area

construct = area("Standard library")

DRAWN = "a number is drawn at its point in the order of effects, and what it is is not known before"

T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self, item: T):
        self.item = item

    def get(self) -> T:
        return self.item


@runtime_checkable
class Runs(Protocol):
    def run(self, x): ...


class Runner:
    def run(self, x):
        return x + 1


class Options(TypedDict, total=False):
    scale: int


UserId = typing.NewType("UserId", int)


@typing.final
class Tree:
    def __init__(self, t, children=()):
        self.t = t
        self.children = list(children)


class Copied:
    def __init__(self, k):
        self.k = k

    def __copy__(self):
        return Copied(self.k + 1)

    def __deepcopy__(self, memo):
        return Copied(self.k + 10)


@construct("math: roots, logarithms, trigonometry, constants")
def math_real(x):
    return x * math.sqrt(x.shape[0]) + math.log(2) + math.sin(1.0) + math.pi * math.exp(1) + math.log2(8) + math.tau


@construct("math: `floor`, `ceil`, `trunc`, `gcd`, `lcm`, `comb`, `factorial`, `prod`, `isqrt`, `dist`, `hypot`")
def math_integers(x):
    n = math.floor(2.5) + math.ceil(2.5) + math.trunc(-2.5) + math.gcd(12, 18) + math.comb(5, 2) + math.factorial(4)
    return x * n + math.prod(x.shape) + math.isqrt(17) + math.hypot(3, 4) + math.lcm(2, 3) + math.dist([0], [3])


@construct("math: `isnan`, `isinf`, `isclose`, `copysign`, `fmod`, `frexp`, `modf`, `fsum`")
def math_floats(x):
    flags = math.isnan(math.nan) + math.isinf(math.inf) + math.isclose(0.1 + 0.2, 0.3) + math.isfinite(1.0)
    return x + flags + math.copysign(1, -2) + math.fmod(7, 3) + math.fsum([0.1] * 10), math.frexp(8.0), math.modf(2.5)


@construct("math on a symbolic size", inputs=lambda: (torch.randn(4, 8),))
def math_on_sizes(x):
    return x / math.sqrt(x.shape[-1]) + math.ceil(x.shape[0] / 3)


@construct(
    "`cmath`, `fractions`, `decimal`, `statistics`, `numbers`",
    breaks="arithmetic of decimals sets flags of the thread's context",
)
def other_numbers(x):
    import cmath

    ratio = fractions.Fraction(1, 3) + fractions.Fraction(1, 6)
    y = x * float(ratio) + cmath.sqrt(-4).imag + float(decimal.Decimal("1.5") * 2)
    return y + statistics.mean([1, 2, 3]) + isinstance(3, numbers.Integral)


@construct("`copy.copy` of lists, dicts, objects")
def copy_(x):
    items, table, tree = [1, [x]], {"a": [1]}, Tree(x)
    a, b, c = copy.copy(items), copy.copy(table), copy.copy(tree)
    a.append(2)
    b["b"] = 3
    c.t = x + 1
    return a[1][0] + len(items) + tree.t, a[1] is items[1], b, c.children is tree.children, table


@construct("`copy.deepcopy` of containers")
def deepcopy_containers(x):
    items = [1, {"a": [2, (3, [4])]}]
    other = copy.deepcopy(items)
    other[1]["a"].append(5)
    return x + len(items[1]["a"]), other, other[1]["a"][1][1] is items[1]["a"][1][1]


@construct("`copy.deepcopy` of objects, shared parts stay shared")
def deepcopy_objects(x):
    shared = [1]
    tree = Tree(x, [Tree(1, shared), shared])
    tree.children[1] = tree.children[0]
    other = copy.deepcopy(tree)
    return other.t + 1, other.children[0] is other.children[1], other.children[0] is tree.children[0]


@construct("`copy.deepcopy` of a tensor and of a module")
def deepcopy_tensor(x):
    y = copy.deepcopy(x)
    layer = copy.deepcopy(torch.nn.Linear(4, 4, bias=False))
    y.add_(1)
    return y - x, layer.weight.shape


@construct("`__copy__` and `__deepcopy__`")
def copy_hooks(x):
    return x * copy.copy(Copied(1)).k + copy.deepcopy(Copied(1)).k


@construct("`copy.copy` of an argument", state=lambda: (Tree(2, [1, 2]),))
def copy_argument(x, tree):
    other = copy.copy(tree)
    other.t = 5
    return x * other.t + tree.t


@construct("`copy.deepcopy` of an argument", state=lambda: ({"scale": [2]},))
def deepcopy_argument(x, table):
    other = copy.deepcopy(table)
    other["scale"].append(3)
    return x * other["scale"][1] + len(table["scale"])


@construct("typing: `cast`, annotations, `Optional`, `Union`, `Any`")
def typing_(x):
    y = typing.cast(torch.Tensor, x + 1)
    z: Optional[Union[int, Any]] = 3
    return y * z


@construct("typing: `Generic` classes, subscripted")
def generic(x):
    return Box(x).get() + Box[int](3).get()


@construct("typing: `Protocol` by `isinstance`")
def protocol(x):
    return Runner().run(x) if isinstance(Runner(), Runs) and not isinstance(3, Runs) else x


@construct("typing: `TypedDict`, `Literal`, `get_args`, `get_origin`, `get_type_hints`")
def typing_more(x):
    options = Options(scale=3)
    return (
        x * options["scale"],
        typing.get_args(Literal["a", "b"]),
        typing.get_origin(list[int]),
        typing.get_type_hints(Options),
    )


@construct("typing: `overload`, `final`, `NewType`, `TYPE_CHECKING`, `assert_never`")
def typing_markers(x):
    if typing.TYPE_CHECKING:
        return x
    return x * UserId(3)


@construct("`inspect.signature`: parameters, defaults, `bind`")
def signature(x):
    def f(a, b=2, *args, c, **rest):
        return a

    found = inspect.signature(f)
    if "c" in found.parameters:
        x = x * found.parameters["b"].default
    return x, list(found.parameters), found.bind(1, c=3).arguments


@construct("`inspect.signature` of a module's `forward`", state=lambda: (torch.nn.Linear(4, 4),))
def signature_of_module(x, module):
    if "input" in inspect.signature(module.forward).parameters:
        return module(x)
    return x


@construct("`inspect.isfunction`, `isclass`, `ismethod`, `getattr_static`, `getfullargspec`")
def inspect_checks(x):
    flags = inspect.isfunction(signature), inspect.isclass(Box), inspect.ismethod(Runner().run), inspect.ismodule(math)
    return x + sum(flags), inspect.getfullargspec(Runner.run).args


@construct("`inspect.getsource`, `inspect.getmodule`", breaks="it reads the source file")
def inspect_source(x):
    return x + len(inspect.getsource(Runner)) * 0


@construct("`inspect.currentframe`, `sys._getframe`", breaks="a frame object shows the function as it runs")
def frames(x):
    frame = inspect.currentframe()
    return x + 1, frame.f_code.co_name


@construct("weakref: a reference read", state=lambda: ((t := Tree(3)), weakref.ref(t)))
def weak_reference(x, tree, reference):
    return x * reference().t + (reference() is tree)


@construct("weakref: a reference made in the function", state=lambda: (Tree(3),))
def weak_reference_made(x, tree):
    reference = weakref.ref(tree)
    return x * reference().t


@construct("weakref: to an object made in the function")
def weak_reference_to_made(x):
    tree = Tree(x)
    return weakref.ref(tree)().t + 1


@construct("weakref: `proxy`", state=lambda: ((t := Tree(3)), weakref.proxy(t)))
def weak_proxy(x, tree, proxy):
    return x * proxy.t


@construct(
    "weakref: `WeakKeyDictionary`, `WeakValueDictionary`, `WeakSet` read",
    state=lambda: (
        (t := Tree(3)),
        weakref.WeakKeyDictionary({t: 2}),
        weakref.WeakValueDictionary({"t": t}),
        weakref.WeakSet([t]),
    ),
)
def weak_containers(x, tree, by_key, by_value, members):
    return x * by_key[tree] + by_value["t"].t + (tree in members)


@construct("`heapq`")
def heap(x):
    items = [3, 1, 2]
    heapq.heapify(items)
    heapq.heappush(items, 0)
    return (
        x + heapq.heappop(items),
        items,
        heapq.nlargest(2, [1, 3, 2]),
        heapq.nsmallest(1, [3, 2]),
        list(heapq.merge([1], [0])),
    )


@construct("`bisect`")
def bisection(x):
    items = [1, 3, 5]
    bisect.insort(items, 4)
    return x * bisect.bisect_left(items, 3) + bisect.bisect(items, 5), items


@construct("`random` of Python", breaks=DRAWN)
def random_(x):
    return x * random.random() + random.randint(1, 5)


@construct("`random` of Python, a condition on it", breaks=DRAWN)
def random_branch(x):
    if random.random() < 2.0:
        x = x + 1
    return x


@construct("`time.perf_counter`, `time.time`", breaks="the clock is read at its point in the order of effects")
def clock(x):
    start = time.perf_counter()
    y = x + 1
    return y, time.perf_counter() - start >= 0


@construct("`datetime`, `uuid`")
def dates(x):
    day = datetime.date(2020, 1, 2) + datetime.timedelta(days=3)
    return x * day.day, day.isoformat(), uuid.UUID(int=5).hex[-1]


@construct("`os.environ` read")
def environment(x):
    return x + (os.environ.get("SEGUE_SURELY_NOT_SET", "0") == "1") + ("HOME" in os.environ) * 0


@construct("`os.path`, `pathlib` on names")
def paths(x):
    path = pathlib.PurePosixPath("a") / "b.txt"
    return x + len(path.parts), path.suffix, os.path.basename("a/b"), os.path.splitext("a.py")


@construct("`threading.local`, `threading.get_ident`", state=lambda: (threading.local(),))
def thread_local(x, local):
    local.scale = 2
    return x * local.scale + (threading.get_ident() == threading.get_ident())


@construct("an abstract class and its subclass made in the function", breaks=NEW_CLASS)
def abstract_in_function(x):
    class Local(abc.ABC):
        @abc.abstractmethod
        def run(self): ...

    class Done(Local):
        def run(self):
            return 3

    return x * Done().run()


@construct("`sys` reads: `version_info`, `maxsize`, `modules`, `getrecursionlimit`")
def system(x):
    import sys

    return (
        x
        + (sys.version_info >= (3, 8))
        + (sys.maxsize > 2**32)
        + ("torch" in sys.modules)
        + (sys.getrecursionlimit() > 0)
    )


@construct("`struct`, `base64`, `hashlib`")
def binary(x):
    import base64
    import hashlib
    import struct

    return x + struct.calcsize("if"), base64.b64encode(b"a"), hashlib.md5(b"a").hexdigest()


@construct("`pickle` of plain values", breaks="unpickling runs whatever the bytes say")
def pickled(x):
    import pickle

    return x + len(pickle.loads(pickle.dumps([1, 2])))


@construct("`json` round trip")
def json_(x):
    import json

    return x * json.loads(json.dumps({"a": 2}))["a"]


@construct("`contextvars`, `queue`", state=lambda: (__import__("queue").SimpleQueue(),))
def queues(x, queue):
    queue.put(3)
    return x * queue.get()


@construct(
    "`argparse.Namespace`, `configparser`-style options", state=lambda: (__import__("argparse").Namespace(lr=2.0),)
)
def namespace(x, options):
    return x * options.lr + hasattr(options, "wd")
