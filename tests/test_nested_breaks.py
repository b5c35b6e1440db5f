"""A break below the function that is compiled: only that one instruction is interpreted."""

from __future__ import annotations

import functools

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same
from tests.case import record

X = torch.linspace(0, 1, 4)


# --- comprehensions -------------------------------------------------------------------------------


def in_a_list(x):
    y = torch.sin(x)
    parts = [(torch.tanh(y) * i, segue.graph_break())[0] for i in range(3)]
    return torch.cos(torch.stack(parts))


def in_a_set(x):
    y = torch.sin(x)
    sizes = {record(float((torch.tanh(y) * i).sum()) > 1) for i in range(3)}
    return torch.cos(y), sizes


def in_a_dict(x):
    y = torch.sin(x)
    parts = {i: (torch.tanh(y) + i, segue.graph_break())[0] for i in range(3)}
    return torch.cos(parts[0] + parts[2]), list(parts)


def in_its_condition(x):
    y = torch.sin(x)
    parts = [torch.tanh(y) * i for i in range(6) if not segue.graph_break() and i % 2]
    return torch.cos(sum(parts))


def in_a_nested_one(x):
    y = torch.sin(x)
    rows = [[(torch.tanh(y) * i + j, segue.graph_break())[0] for j in range(2)] for i in range(2)]
    return torch.cos(torch.stack([torch.stack(row) for row in rows]))


def in_its_first_iterable(x):
    def items():
        segue.graph_break()
        return [1, 2]

    y = torch.sin(x)
    parts = [torch.tanh(y) * i for i in items()]
    return torch.cos(parts[0] + parts[1])


@pytest.mark.parametrize(
    "f",
    [in_a_list, in_a_set, in_a_dict, in_its_condition, in_a_nested_one, in_its_first_iterable],
    ids=lambda f: f.__name__,
)
def test_break_in_a_comprehension(f) -> None:
    assert_same(f, X, sees="sin tanh cos")


# --- generators that the function consumes --------------------------------------------------------


def numbers():
    for i in range(3):
        record(("before", i))
        segue.graph_break()
        yield i
    record("end")


def tensors(y):
    yield torch.tanh(y)
    segue.graph_break()
    yield torch.sigmoid(y)


def by_a_for(x):
    y = torch.sin(x)
    for i in numbers():
        y = torch.tanh(y) + i
    return torch.cos(y)


def by_list(x):
    y = torch.sin(x)
    found = list(numbers())
    return torch.cos(y) * found[1]


def by_sum(x):
    y = torch.sin(x)
    total = sum((segue.graph_break(), i)[1] for i in range(4))
    return torch.cos(y) * total


def by_next(x):
    y = torch.sin(x)
    it = numbers()
    first = next(it)
    y = torch.tanh(y) + first
    second = next(it, None)
    return torch.cos(y) * second


def by_unpacking(x):
    y = torch.sin(x)
    a, b, c = numbers()
    return torch.cos(y) * a + b - c


def by_star(x):
    y = torch.sin(x)
    first, *rest = numbers()
    return torch.cos(y) * first, rest


def of_tensors(x):
    y = torch.sin(x)
    a, b = tensors(y)
    return torch.cos(a + b)


def left_half_way(x):
    y = torch.sin(x)
    for i in numbers():
        if i == 1:
            break
        y = torch.tanh(y) + i
    return torch.cos(y)


def by_yield_from(x):
    def outer():
        yield 10
        yield from numbers()

    y = torch.sin(x)
    return torch.cos(y), list(outer())


@pytest.mark.parametrize(
    "f",
    [
        by_a_for,
        by_list,
        by_sum,
        by_next,
        by_unpacking,
        by_star,
        of_tensors,
        left_half_way,
        by_yield_from,
    ],
    ids=lambda f: f.__name__,
)
def test_break_in_a_generator(f) -> None:
    assert_same(f, X, sees="sin cos")


# --- callees --------------------------------------------------------------------------------------


def level0(x):
    x = torch.tanh(x)
    segue.graph_break()
    return torch.sigmoid(x)


def level1(x):
    return torch.exp(level0(torch.abs(x)))


def level2(x):
    return torch.relu(level1(torch.neg(x)))


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_break_in_a_callee_at_any_depth(depth) -> None:
    callee = [level0, level1, level2][depth]

    def f(x):
        return torch.cos(callee(torch.sin(x)))

    graphs = assert_same(f, X, sees="sin tanh sigmoid cos" + ["", " abs exp", " abs exp neg relu"][depth])
    assert graphs.count <= 2 * (depth + 2)


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_one_break_at_any_depth_makes_two_graphs_of_what_is_around_it(depth) -> None:
    """What runs before the break and what runs after it never share a graph."""
    callee = [level0, level1, level2][depth]
    graphs = assert_same(lambda x: torch.cos(callee(torch.sin(x))), X)
    before, after = {"sin", "neg", "abs", "tanh"}, {"sigmoid", "exp", "relu", "cos"}
    for graph in graphs.graphs:
        assert set(graph) <= before or set(graph) <= after


def test_break_in_a_recursive_callee() -> None:
    def descend(x, n):
        if n == 0:
            segue.graph_break()
            return torch.sigmoid(x)
        return torch.exp(descend(torch.tanh(x), n - 1))

    def f(x):
        return torch.cos(descend(torch.sin(x), 4))

    graphs = assert_same(f, X, sees="sin tanh sigmoid exp cos")
    assert graphs.count <= 12


def test_callee_called_twice_is_compiled_once() -> None:
    def f(x):
        return torch.cos(level0(level0(level0(torch.sin(x)))))

    assert_same(f, X, graphs=4, sees="sin tanh sigmoid cos")


@pytest.mark.parametrize("kind", ["method", "static", "class", "property", "call", "operator"])
def test_break_in_a_method(kind) -> None:
    class Tool:
        scale = 2.0

        def method(self, y):
            return level0(y) * self.scale

        @staticmethod
        def static(y):
            return level0(y)

        @classmethod
        def made(cls, y):
            return level0(y) * cls.scale

        @property
        def size(self):
            segue.graph_break()
            return self.scale

        def __call__(self, y):
            return level0(y) * self.scale

        def __matmul__(self, y):
            return level0(y) * self.scale

    tool = Tool()
    uses = {
        "method": lambda y: tool.method(y),
        "static": lambda y: Tool.static(y),
        "class": lambda y: tool.made(y),
        "property": lambda y: torch.tanh(y) * tool.size,
        "call": lambda y: tool(y),
        "operator": lambda y: tool @ y,
    }
    use = uses[kind]
    assert_same(lambda x: torch.cos(use(torch.sin(x))), X, sees="sin tanh cos")


def test_break_in_a_decorated_callee() -> None:
    def logged(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            record(("calling", function.__name__))
            result = function(*args, **kwargs)
            record("called")
            return result

        return call

    @logged
    def inner(y, *, scale):
        y = torch.tanh(y)
        segue.graph_break()
        return torch.sigmoid(y) * scale

    def f(x):
        return torch.cos(inner(torch.sin(x), scale=2))

    assert_same(f, X, sees="sin tanh sigmoid cos")


def test_break_in_a_partial() -> None:
    def inner(scale, y):
        y = torch.tanh(y)
        segue.graph_break()
        return torch.sigmoid(y) * scale

    half = functools.partial(inner, 0.5)
    assert_same(lambda x: torch.cos(half(torch.sin(x))), X, sees="sin tanh sigmoid cos")


def test_break_in_a_function_given_to_a_builtin() -> None:
    def f(x):
        y = torch.sin(x)
        parts = list(map(level0, [y, y + 1]))
        best = max(parts, key=lambda p: (segue.graph_break(), p.sum().item())[1])
        return torch.cos(best)

    assert_same(f, X, sees="sin tanh sigmoid cos")


def test_break_in_a_module_of_a_module() -> None:
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, y):
            y = self.linear(y)
            segue.graph_break()
            return torch.sigmoid(y)

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Tanh(), Inner(), torch.nn.ReLU())

        def forward(self, x):
            return torch.cos(self.layers(torch.sin(x)))

    model = Outer()
    assert_same(lambda x: model(x), X, sees="sin linear sigmoid cos")


# --- nested functions -----------------------------------------------------------------------------


def test_break_in_a_nested_function() -> None:
    def f(x):
        y = torch.sin(x)

        def inner(z):
            z = torch.tanh(z) + y
            segue.graph_break()
            return torch.sigmoid(z) * y

        return torch.cos(inner(y) + inner(x))

    assert_same(f, X, sees="sin tanh sigmoid cos")


def test_break_in_a_nested_function_that_writes_its_closure() -> None:
    def f(x):
        count = 0
        y = torch.sin(x)

        def inner():
            nonlocal y, count
            y = torch.tanh(y)
            count += 1
            segue.graph_break()
            y = torch.sigmoid(y)

        inner()
        z = torch.exp(y)
        inner()
        return torch.cos(y + z), count

    assert_same(f, X, sees="sin tanh sigmoid exp cos")


def test_break_in_a_lambda_and_in_a_default() -> None:
    def f(x):
        y = torch.sin(x)
        twice = lambda z, k=(segue.graph_break(), 2)[1]: (segue.graph_break(), torch.tanh(z) * k)[1]  # noqa: B008
        return torch.cos(twice(y)) + twice(y, 3)

    assert_same(f, X, sees="sin tanh cos")


def test_a_function_that_outlives_the_call() -> None:
    def f(x):
        y = torch.sin(x)

        def later(z):
            segue.graph_break()
            return torch.tanh(z) + y

        segue.graph_break()
        y = torch.cos(y)
        return later

    compiled = segue.compile(f)
    for _ in range(2):
        torch.testing.assert_close(compiled(X)(X), f(X)(X))


def test_exception_from_a_callee_after_its_break() -> None:
    def inner(y):
        y = torch.tanh(y)
        segue.graph_break()
        raise KeyError("from inner")

    def f(x):
        y = torch.sin(x)
        try:
            inner(y)
        except KeyError as error:
            record(error)
            y = torch.sigmoid(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid cos")
    assert_same(lambda x: torch.cos(inner(torch.sin(x))), X, sees="sin tanh")
