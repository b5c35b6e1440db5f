"""Recompiling: what changes from call to call makes no graph each, and the limit is announced."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import segue
from tests.backends_for_tests import assert_same_calls
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


# --- what changes from call to call ---------------------------------------------------------------


class Counter(torch.nn.Module):
    """Counts its calls; what it does with the count is given."""

    def __init__(self, use: str) -> None:
        super().__init__()
        self.use = use
        self.calls = 0
        self.seen: list[Any] = []
        self.stats: dict[str, Any] = {}
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        y = torch.tanh(self.linear(x))
        if self.use == "scale":
            y = y * self.calls
        if self.use == "alternate":
            y = torch.sin(y) if self.calls % 2 else torch.cos(y)
        if self.use == "warm up" and self.calls < 4:
            y = torch.sin(y)
        if self.use == "list":
            self.seen.append(y.detach())
        if self.use == "numbers":
            self.seen.append(self.calls)
        if self.use == "length":
            y = y + len(self.seen)
            self.seen.append(None)
        if self.use == "keys":
            self.stats[f"call {self.calls}"] = y.detach()
        if self.use == "same key":
            self.stats["last"] = self.calls
        if self.use == "text":
            self.seen.append(f"call {self.calls} of {tuple(y.shape)}")
        return y


MOST = {
    "nothing": 2,
    "scale": 3,
    "alternate": 4,
    "warm up": 4,
    "list": 2,
    "numbers": 2,
    "length": 3,
    "keys": 4,
    "same key": 3,
    "text": 3,
}


@pytest.mark.parametrize("use", MOST)
def test_a_counter(use) -> None:
    """Twenty-five calls: few graphs, and each call runs one."""
    plain, module = Counter(use), Counter(use)
    module.load_state_dict(plain.state_dict())
    graphs = Graphs()
    compiled = segue.compile(module, backend=graphs)
    with warnings.catch_warnings():
        warnings.simplefilter("error", segue.errors.RecompileLimitWarning)
        for _ in range(25):
            torch.testing.assert_close(compiled(X), plain(X))
    assert (module.calls, len(module.seen)) == (plain.calls, len(plain.seen))
    assert list(module.stats) == list(plain.stats)
    for mine, theirs in zip(module.seen, plain.seen, strict=True):
        assert mine.equal(theirs) if isinstance(theirs, torch.Tensor) else mine == theirs
    assert graphs.count <= MOST[use]
    assert graphs.runs >= 25


calls_so_far = 0


def test_a_global_counter() -> None:
    global calls_so_far

    def f(x):
        global calls_so_far
        calls_so_far += 1
        return torch.sin(x)

    calls_so_far = 0
    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for number in range(1, 26):
        compiled(X)
        assert calls_so_far == number
    assert graphs.count <= 2
    assert graphs.runs == 25


def test_a_counter_in_a_closure() -> None:
    def make():
        count = 0

        def f(x):
            nonlocal count
            count += 1
            return torch.sin(x) + count

        return f

    plain, graphs = make(), Graphs()
    compiled = segue.compile(make(), backend=graphs)
    for _ in range(25):
        torch.testing.assert_close(compiled(X), plain(X))
    assert graphs.count <= 3
    assert graphs.runs == 25


NUMBERS = {
    "int": list(range(30)),
    "large int": [10**6 * i for i in range(30)],
    "negative int": list(range(5, -25, -1)),
    "float": [0.5**i for i in range(30)],
    "learning rate": [0.1 * 0.9**i for i in range(30)],
    "bool": [i % 2 == 0 for i in range(30)],
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_given_as_an_argument(kind) -> None:
    def f(x, k):
        return torch.sin(x) * k + 1

    graphs = assert_same_calls(f, [(X, k) for k in NUMBERS[kind]])
    assert graphs.count <= 4  # once for the first value, once symbolic; 0 and 1 may be special
    assert graphs.runs == 30


def test_an_argument_that_nothing_depends_on() -> None:
    def f(x, epoch, name, options):
        return torch.sin(x)

    calls = [(X, i, f"epoch {i}", {"step": i, str(i): [i] * i}) for i in range(20)]
    assert_same_calls(f, calls, graphs=1)


def test_a_list_that_grows() -> None:
    def f(past, x):
        past.append(torch.sin(x))
        return torch.tanh(x), len(past)

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    mine, theirs = [], []
    for _ in range(25):
        torch.testing.assert_close(compiled(mine, X), f(theirs, X))
    torch.testing.assert_close(mine, theirs)
    assert graphs.count <= 3
    assert graphs.runs == 25


def test_a_list_that_grows_and_is_stacked() -> None:
    """The graph depends on the length: it may compile up to the limit, is announced, and stays right."""

    def f(past, x):
        past.append(torch.sin(x))
        return torch.stack(past).sum(0)

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    mine, theirs = [], []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(25):
            torch.testing.assert_close(compiled(mine, X), f(theirs, X))
    assert len(mine) == 25
    assert graphs.runs == 25 or any(w.category is segue.errors.RecompileLimitWarning for w in caught)


def test_new_keys_of_a_dict() -> None:
    def f(table, key, x):
        table[key] = torch.sin(x)
        table.setdefault("first", 0)
        return torch.tanh(x)

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    mine, theirs = {}, {}
    for number in range(25):
        torch.testing.assert_close(compiled(mine, f"k{number}", X), f(theirs, f"k{number}", X))
    torch.testing.assert_close(mine, theirs)
    assert list(mine) == list(theirs)
    assert graphs.count <= 4


def test_the_name_and_the_index_of_a_layer() -> None:
    """One class, many instances with their own names and numbers: the layers share their graphs."""

    class Layer(torch.nn.Module):
        def __init__(self, index):
            super().__init__()
            self.index, self.name = index, f"layer {index}"
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x, log):
            log.append((self.name, self.index))
            return torch.tanh(self.linear(x))

    layers = [Layer(i) for i in range(20)]
    graphs = Graphs()
    compiled = segue.compile(Layer.forward, backend=graphs)
    log = []
    x = y = X
    with warnings.catch_warnings():
        warnings.simplefilter("error", segue.errors.RecompileLimitWarning)
        for layer in layers:
            x, y = compiled(layer, x, log), layer(y, [])
            torch.testing.assert_close(x, y)
    assert log == [(layer.name, layer.index) for layer in layers]
    assert graphs.count <= 3
    assert graphs.runs == 20


def test_a_layer_called_by_a_loop_that_breaks() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(20))

    def f(x):
        for index, layer in enumerate(layers):
            x = torch.tanh(layer(x)) * index
            segue.graph_break()
        return torch.cos(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error", segue.errors.RecompileLimitWarning)
        graphs = assert_same_calls(f, [(X,)] * 2, sees="tanh cos")
    assert graphs.count <= 5


def test_new_objects_of_the_same_kind() -> None:
    class Batch:
        def __init__(self, data, number):
            self.data, self.number = data, number

    def f(batch):
        return torch.sin(batch.data)

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for number in range(20):
        torch.testing.assert_close(compiled(Batch(X + number, number)), torch.sin(X + number))
    assert graphs.count == 1


def test_new_closures_of_the_same_code() -> None:
    def scaled(k):
        return lambda y: torch.tanh(y) * k

    def f(x, g):
        return g(torch.sin(x))

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for k in range(20):
        torch.testing.assert_close(compiled(X, scaled(k)), f(X, scaled(k)))
    assert graphs.count <= 4


def test_a_change_that_the_graph_depends_on_is_never_missed() -> None:
    class Settings:
        scale, shift, mode = 1.0, 0, "sin"

    settings = Settings()

    def f(x):
        y = getattr(torch, settings.mode)(x)
        return y * settings.scale + settings.shift

    compiled = segue.compile(f, backend=Graphs())
    for name, value in (
        ("scale", 2.0),
        ("shift", 3),
        ("mode", "cos"),
        ("scale", 1.0),
        ("mode", "tanh"),
        ("shift", -0.5),
        ("scale", True),
        ("mode", "sin"),
    ):
        setattr(settings, name, value)
        torch.testing.assert_close(compiled(X), f(X), rtol=0, atol=0)


# --- one call does not decide for the others ------------------------------------------------------


def test_a_call_that_breaks_does_not_forbid_compiling_later_ones() -> None:
    def f(x, loud):
        y = torch.sin(x)
        if loud:
            segue.graph_break()
        return torch.cos(y)

    graphs = assert_same_calls(f, [(X, True), (X, False), (X, True), (X, False)])
    assert ["sin", "cos"] in graphs.graphs
    assert graphs.count == 3
    assert graphs.runs == 6


class Recording(TorchDispatchMode):
    """Counts the operations that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


def test_a_first_call_under_a_mode() -> None:
    graphs = Graphs()
    compiled = segue.compile(lambda x: torch.cos(torch.sin(x)), backend=graphs)
    for _ in range(2):
        with Recording() as mode:
            compiled(X)
        assert mode.seen == ["sin", "cos"]
        compiled(X)
    assert graphs.count == 1


def test_a_first_call_that_raises() -> None:
    def f(x, k):
        y = torch.sin(x)
        if k < 0:
            raise ValueError(k)
        return torch.cos(y) * k

    graphs = assert_same_calls(f, [(X, -1), (X, 2), (X, -1), (X, 2)])
    assert graphs.seen("cos")


def test_a_first_call_with_arguments_that_are_no_tensors() -> None:
    def f(x, y):
        return x + y

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for args in ((1, 2), ("a", "b"), ([1], [2]), (X, X), (1.5, X), (X, 2)):
        expected, got = f(*args), compiled(*args)
        assert type(got) is type(expected)
        torch.testing.assert_close(got, expected) if args[1] is X else None
    assert graphs.runs == 3


def test_a_path_found_late() -> None:
    def f(x, way):
        y = torch.sin(x)
        if way == 9:
            segue.graph_break()
            return torch.exp(y)
        return torch.cos(y)

    calls = [(X, way) for way in (0, 1, 2, 9, 3, 9, 0)]
    assert_same_calls(f, calls, sees="sin cos exp")


# --- the limit ------------------------------------------------------------------------------------

OPERATIONS = ["sin", "cos", "tan", "exp", "tanh", "abs", "neg", "relu", "sigmoid", "floor", "ceil"]


def by_name(x, name):
    y = torch.square(x)
    return getattr(torch, name)(y)


def by_name_after_a_break(x, name):
    y = torch.square(x)
    segue.graph_break()
    y = getattr(torch, name)(y)
    segue.graph_break()
    return torch.log1p(y.abs())


def limits_reached(f, graphs, names) -> list[warnings.WarningMessage]:
    """Call `f` with each name; the warnings about the limit."""
    compiled = segue.compile(f, backend=graphs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name in names:
            torch.testing.assert_close(compiled(X, name), f(X, name), equal_nan=True)
    return [w for w in caught if w.category is segue.errors.RecompileLimitWarning]


@pytest.mark.parametrize("setting", ["recompile_limit", "cache_size_limit"])
@pytest.mark.parametrize("limit", [1, 3, 5])
def test_the_limit_of_a_gate(setting, limit) -> None:
    graphs = Graphs()
    with segue.config.patch(**{setting: limit}):
        found = limits_reached(by_name, graphs, OPERATIONS * 2)
    assert graphs.count == limit
    assert len(found) == 1


def test_the_limit_is_eight() -> None:
    graphs = Graphs()
    assert len(limits_reached(by_name, graphs, OPERATIONS)) == 1
    assert graphs.count == 8


def test_no_warning_below_the_limit() -> None:
    graphs = Graphs()
    assert limits_reached(by_name, graphs, OPERATIONS[:8] * 3) == []
    assert (graphs.count, graphs.runs) == (8, 24)


@segue.config.patch(recompile_limit=3)
def test_the_warning_names_the_function_the_line_and_the_guard() -> None:
    (warning,) = limits_reached(by_name, Graphs(), OPERATIONS)
    text = str(warning.message)
    assert "by_name" in text
    assert __file__ in text
    assert f"line {by_name.__code__.co_firstlineno}" in text
    assert "name" in text.split("guard", 1)[1].split("kept failing")[0].replace("by_name", "")
    assert "recompile_limit" in text


@segue.config.patch(recompile_limit=3)
def test_the_warning_for_a_module_names_its_forward() -> None:
    class Model(torch.nn.Module):
        def forward(self, x, name):
            return getattr(torch, name)(x)

    found = limits_reached(Model(), Graphs(), OPERATIONS)
    assert found
    for warning in found:
        assert "Model.forward" in str(warning.message)
        assert f"line {Model.forward.__code__.co_firstlineno}" in str(warning.message)


@segue.config.patch(recompile_limit=3)
def test_the_warning_can_be_made_an_error() -> None:
    compiled = segue.compile(by_name, backend=Graphs())
    with warnings.catch_warnings():
        warnings.simplefilter("error", segue.errors.RecompileLimitWarning)
        with pytest.raises(segue.errors.RecompileLimitWarning):
            for name in OPERATIONS:
                compiled(X, name)


@segue.config.patch(recompile_limit=3)
def test_other_gates_stay_compiled() -> None:
    graphs = Graphs()
    found = limits_reached(by_name_after_a_break, graphs, OPERATIONS * 2)
    assert len(found) == 1
    assert f"line {by_name_after_a_break.__code__.co_firstlineno}" not in str(found[0].message)
    assert graphs.seen("square") == graphs.seen("log1p") == 1
    assert graphs.runs >= 2 * 22 + 3


@segue.config.patch(recompile_limit=3)
def test_each_function_has_its_own_limit() -> None:
    def caller(x, name):
        y = by_name(x, name) if name in OPERATIONS[:3] else torch.square(x)
        segue.graph_break()
        return torch.cos(y)

    graphs = Graphs()
    limits_reached(by_name, graphs, OPERATIONS)
    limits_reached(caller, graphs, OPERATIONS)
    assert graphs.seen("cos") >= 1


def test_reset_opens_gates_again() -> None:
    graphs = Graphs()
    compiled = segue.compile(by_name, backend=graphs)
    with segue.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in OPERATIONS[:4]:
            compiled(X, name)
        assert graphs.count == 1
        segue.reset()
        compiled(X, "exp")
    assert graphs.count == 2
    assert graphs.seen("exp") == 1
