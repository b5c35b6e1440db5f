"""Side effects of a segment: the same ones, in eager's order, once each, and none of them lost when something fails."""

from __future__ import annotations

import functools
import traceback
import weakref
from types import SimpleNamespace

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs
from tests.observation import Raised, difference, observe

X = torch.linspace(0, 1, 4)


# --- order ----------------------------------------------------------------------------------------

written_global = 0


def in_several_containers(x):
    log, table, holder = [], {}, SimpleNamespace(steps=0)
    log.append("first")
    table["a"] = torch.sin(x)
    holder.steps += 1
    log.append((holder.steps, len(table)))
    table["b"] = table.pop("a") * 2
    holder.last = log[-1]
    del log[0]
    log.insert(0, "again")
    return log, table, holder


def to_the_arguments(x, log, table, holder):
    log.append(torch.sin(x))
    table["k"] = log
    holder.log = table["k"]
    log.append(torch.cos(x))
    table["n"] = len(holder.log)
    holder.log = None
    return log[-1] is table["k"][-1], torch.tanh(x)


def to_one_place_twice(x, log, table, holder):
    for number in range(3):
        holder.value = torch.sin(x) * number
        table["value"] = holder.value
        log[:] = [number]
    del table["value"]
    table["value"] = "last"
    return torch.cos(holder.value)


def to_a_global_and_a_closure(x, log, table, holder):
    global written_global

    def inner():
        global written_global
        nonlocal count
        count += 1
        written_global += count
        log.append((count, written_global))

    count = 0
    written_global = 10
    inner()
    y = torch.sin(x)
    inner()
    return torch.cos(y), count, written_global


def keys_in_order(x, log, table, holder):
    table["b"] = torch.sin(x)
    table["a"] = torch.cos(x)
    table["first"] = table.pop("first")
    table.update(c=1, b=2)
    holder.z = 1
    holder.a = 2
    return list(table), list(vars(holder)), torch.tanh(x)


def reversed_and_sorted(x, log, table, holder):
    log.extend([3, 1, 2])
    y = torch.sin(x)
    log.sort()
    log.reverse()
    log += [len(log)]
    return torch.cos(y), log.index(1)


def with_a_callee_that_is_interpreted(x, log, table, holder):
    log.append("before")
    y = torch.sin(x)
    record(list(log))
    log.append("between")
    y = torch.cos(y)
    record((list(log), y))
    log.clear()
    return torch.tanh(y)


TO_ARGUMENTS = [
    to_the_arguments,
    to_one_place_twice,
    to_a_global_and_a_closure,
    keys_in_order,
    reversed_and_sorted,
    with_a_callee_that_is_interpreted,
]


@pytest.mark.parametrize("f", TO_ARGUMENTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("break_before_return", [False, True])
def test_writes_come_in_order(f, break_before_return) -> None:
    def broken(*args):
        result = f(*args)
        segue.graph_break()
        return result

    chosen = broken if break_before_return else f
    assert_same(chosen, X, [], {"first": 1}, SimpleNamespace(), calls=3)


def test_writes_to_what_the_function_makes() -> None:
    assert_same(in_several_containers, X, calls=3, sees="sin")


def test_an_attribute_that_records_its_writes() -> None:
    """A property's setter and `__setattr__` run once for each write, in order with the others."""

    class Noting:
        def __setattr__(self, name, value):
            record((name, value))
            super().__setattr__(name, value)

        @property
        def doubled(self):
            return self.plain * 2

        @doubled.setter
        def doubled(self, value):
            record("setter")
            self.plain = value / 2

    def f(x, thing):
        thing.plain = 1.0
        y = torch.sin(x)
        thing.doubled = 6.0
        record("end")
        return torch.cos(y) * thing.plain, thing.doubled

    assert_same(f, X, Noting(), calls=3, sees="sin cos")


# --- keys of dicts --------------------------------------------------------------------------------


def look_up(d, x):
    return d[1] + x, list(d)


def overwrite(d, x):
    d[1.0] = x * 2
    return list(d)


def delete_and_set(d, x):
    del d[1]
    d[1.0] = x * 2
    return list(d)


def set_default(d, x):
    return d.setdefault(1.0, 7) + x, list(d)


def update(d, x):
    d.update({1.0: 8, 2: 9})
    return torch.sin(x), list(d)


def pop_and_get(d, x):
    return d.get(True), d.pop(1.0) + x, list(d)


@pytest.mark.parametrize(
    "f", [look_up, overwrite, delete_and_set, set_default, update, pop_and_get], ids=lambda f: f.__name__
)
def test_a_dict_keeps_the_key_that_it_has(f) -> None:
    """1, True and 1.0 are one key; the dict keeps the object that was put in first."""
    tables = [{True: 5}, {1: 5}, {1.0: 5}, {0: 1, 1.0: 5, 3: 4}]
    assert_same_calls(f, [(table, X) for table in tables])
    assert_same_calls(f, [(table, X) for table in reversed(tables)])


# --- finalisers and weak references ---------------------------------------------------------------


class Noted:
    """Records when it goes."""

    def __init__(self, name):
        self.name = name

    def __del__(self):
        record(("gone", self.name))


def local_replaced(x):
    thing = Noted("first")
    x = x + 1
    thing = Noted("second")
    record("between")
    del thing
    record("end")
    return x * 2


def attribute_replaced(x):
    holder = SimpleNamespace(thing=Noted("first"))
    y = torch.sin(x)
    holder.thing = Noted("second")
    record("replaced")
    holder.thing = None
    record("none")
    return torch.cos(y)


def attribute_deleted(x):
    holder = SimpleNamespace(thing=Noted("first"))
    y = torch.sin(x)
    del holder.thing
    record("deleted")
    return torch.cos(y)


def list_cleared(x):
    things = [Noted("a"), Noted("b")]
    y = torch.sin(x)
    things.clear()
    record("cleared")
    return torch.cos(y)


def item_replaced(x):
    things = [Noted("a"), Noted("b")]
    y = torch.sin(x)
    things[0] = None
    record("replaced")
    things.pop()
    record("popped")
    return torch.cos(y)


def value_of_a_dict_replaced(x):
    table = {"k": Noted("first")}
    y = torch.sin(x)
    table["k"] = Noted("second")
    record("replaced")
    del table["k"]
    record("deleted")
    return torch.cos(y)


@pytest.mark.parametrize(
    "f",
    [local_replaced, attribute_replaced, attribute_deleted, list_cleared, item_replaced, value_of_a_dict_replaced],
    ids=lambda f: f.__name__,
)
def test_a_finaliser_runs_when_the_last_reference_goes(f) -> None:
    assert_same(f, X, calls=3)


def test_finalisers_of_what_the_caller_gives() -> None:
    def f(holder, things, x):
        holder.thing = None
        record("a")
        things.clear()
        record("b")
        return torch.sin(x)

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(3):
        expected, got = (
            observe(function, (SimpleNamespace(thing=Noted(1)), [Noted(2)], X)) for function in (f, compiled)
        )
        assert expected.events != ()
        assert difference(expected, got) is None


def test_callbacks_of_weak_references() -> None:
    class Thing:
        pass

    def f(things, x):
        y = torch.sin(x)
        things.clear()
        record("cleared")
        return torch.cos(y)

    def watched(function):
        def run(x):
            things = [Thing()]
            reference = weakref.ref(things[0], lambda gone: record("gone"))
            return function(things, x), reference()

        return run

    compiled = segue.compile(f, backend=Graphs())
    for _ in range(3):
        expected, got = observe(watched(f), (X,)), observe(watched(compiled), (X,))
        assert expected.events[1] == (("str", "gone"), ("str", "cleared"))
        assert difference(expected, got) is None


def test_a_weak_reference_dies_with_the_last_local() -> None:
    class Thing:
        pass

    def f(x):
        thing = Thing()
        reference = weakref.ref(thing, lambda gone: record("gone"))
        y = torch.sin(x)
        record(reference() is thing)
        del thing
        record(reference())
        return torch.cos(y)

    assert_same(f, X, calls=3)


# --- caches ---------------------------------------------------------------------------------------


def test_a_cached_function_is_called_through_its_cache() -> None:
    """The body runs on a miss only, the cached object comes back itself, and the cache counts."""

    def make():
        state = [1]

        @functools.lru_cache
        def cached(n):
            record(("computed", n))
            return [n * state[0]]

        def f(x, n, factor):
            state[0] = factor
            return torch.sin(x) + len(cached(n)), cached(n) is cached(n), cached(n)[0], tuple(cached.cache_info())

        return f

    plain, compiled = make(), segue.compile(make(), backend=Graphs())
    for args in ((X, 1, 1), (X, 1, 100), (X, 2, 100), (X, 1, 5)):
        assert difference(observe(plain, args), observe(compiled, args)) is None


def test_a_cache_that_is_filled_and_cleared_by_others() -> None:
    @functools.cache
    def cached(n):
        return n * state[0]

    def f(x):
        return torch.sin(x) * cached(3)

    state = [1.0]
    compiled = segue.compile(f, backend=Graphs())
    torch.testing.assert_close(compiled(X), f(X))
    state[0] = 2.0
    torch.testing.assert_close(compiled(X), torch.sin(X) * 3)
    cached.cache_clear()
    torch.testing.assert_close(compiled(X), torch.sin(X) * 6)


def test_a_cached_property_is_computed_once() -> None:
    class Layer:
        @functools.cached_property
        def weight(self):
            record("computed")
            return torch.ones(4) * 3

    def f(layer, x):
        return torch.sin(x) * layer.weight, layer.weight is layer.weight, list(vars(layer))

    compiled = segue.compile(f, backend=Graphs())
    mine, theirs = Layer(), Layer()
    for _ in range(3):
        assert difference(observe(f, (theirs, X)), observe(compiled, (mine, X))) is None


# --- before something fails -----------------------------------------------------------------------


def list_append(holder):
    holder.items.append("written")


def dict_set(holder):
    holder.table["written"] = True


def attribute_set(holder):
    holder.value = "written"


def tensor_written(holder):
    holder.tensor.add_(1)


def tensor_item_written(holder):
    holder.tensor[1] = 5


def tensor_and_list(holder):
    holder.tensor.mul_(2)
    holder.items.append(holder.tensor.clone())


WRITES = [
    list_append,
    dict_set,
    attribute_set,
    tensor_written,
    tensor_item_written,
    tensor_and_list,
]


def wrong_shape(y, index):
    return y + torch.ones(int(index.shape[0]) + 1)


def wrong_index(y, index):
    return y[index + 40]


def own_error(y, index):
    raise ValueError("own")


def error_of_a_builtin(y, index):
    return y * {}["missing"]


FAILURES = [wrong_shape, wrong_index, own_error, error_of_a_builtin]


@pytest.mark.parametrize("fail", FAILURES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("where", ["leaves", "caught", "finally"])
def test_a_write_before_a_failure_has_happened_once(write, fail, where) -> None:
    def leaves(holder, x, index):
        write(holder)
        return torch.cos(fail(torch.sin(x), index))

    def caught(holder, x, index):
        y = torch.sin(x)
        try:
            write(holder)
            y = fail(y, index)
        except (RuntimeError, LookupError, ValueError) as error:
            record((type(error).__name__, list(holder.items), dict(holder.table), holder.value, holder.tensor))
        return torch.cos(y) + holder.tensor

    def through_finally(holder, x, index):
        y = torch.sin(x)
        try:
            write(holder)
            y = fail(y, index)
        finally:
            holder.items.append("finally")
        return torch.cos(y)

    f = {"leaves": leaves, "caught": caught, "finally": through_finally}[where]
    compiled = segue.compile(f, backend=Graphs())
    for _ in range(3):
        expected, got = (
            observe(
                function,
                (SimpleNamespace(items=[], table={}, value=None, tensor=torch.ones(4)), X, torch.tensor([1, 2])),
            )
            for function in (f, compiled)
        )
        assert isinstance(expected.exception, Raised) is (where != "caught")
        assert difference(expected, got) is None


# --- exceptions with attributes -------------------------------------------------------------------


class Unfit(Exception):
    """Keeps what did not fit."""

    def __init__(self, number, limit=2):
        super().__init__(number)
        self.number, self.limit = number, limit


def raised_past_finally(x, n):
    try:
        x = x + 1
        if n == 0:
            raise Unfit(n, limit=5)
    finally:
        y = x * 2
    return y


def raised_past_two_finallys(x, n):
    try:
        try:
            y = torch.sin(x)
            if n == 0:
                raise Unfit(n)
        finally:
            y = torch.cos(y)
    finally:
        record(y)
    return y


def raised_again(x, n):
    try:
        y = torch.sin(x)
        if n == 0:
            raise Unfit(n)
    except Unfit as error:
        error.limit += 1
        error.seen = torch.cos(y)
        raise
    return torch.cos(y)


def raised_in_a_loop(x, n):
    for number in range(3, -1, -1):
        x = torch.tanh(x)
        if number == n:
            raise Unfit(number, limit=[n])
    return x


@pytest.mark.parametrize(
    "f",
    [raised_past_finally, raised_past_two_finallys, raised_again, raised_in_a_loop],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("numbers", [(0, 1, 0), (9, 0, 9, 0)], ids=["fails first", "succeeds first"])
def test_an_exception_with_attributes_keeps_them_and_its_traceback(f, numbers) -> None:
    """`assert_same_calls` compares attributes and the lines of the traceback."""
    assert_same_calls(f, [(X, n) for n in numbers])


def test_the_traceback_has_the_users_frames_only() -> None:
    with pytest.raises(Unfit) as raised:
        segue.compile(raised_past_finally, backend=Graphs())(X, 0)
    names = [entry.name for entry in traceback.extract_tb(raised.tb)]
    assert names == ["test_the_traceback_has_the_users_frames_only", "raised_past_finally"]
