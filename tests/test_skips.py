"""Functions that run in the interpreter: skipped by `skip_frame()`, or kept out by `disable`."""

from __future__ import annotations

import functools
import sys

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


@pytest.fixture(params=["segue", "torch"])
def skip_frame(request):
    """Segue's marker and PyTorch's."""
    return {"segue": segue.skip_frame, "torch": torch._dynamo.skip_frame}[request.param]


DISABLES = {
    "segue": segue.disable,
    "torch.compiler": torch.compiler.disable,
    "torch._dynamo": torch._dynamo.disable,
}


@pytest.fixture(params=DISABLES)
def disable(request):
    """Segue's marker and PyTorch's."""
    return DISABLES[request.param]


def first(x):
    return torch.tanh(x) + 1


def second(x):
    return torch.sigmoid(x) * 2


# --- skip_frame -----------------------------------------------------------------------------------


def test_what_a_skipped_function_calls_is_compiled(skip_frame) -> None:
    """Called before the skip or after it: each helper is a function of its own."""

    def f(x):
        y = first(torch.exp(x))
        skip_frame()
        y = second(torch.abs(y))
        return torch.cos(y)

    graphs = assert_same(f, X, graphs=2, never="exp abs cos")
    assert graphs.graphs == [["tanh", "add"], ["sigmoid", "mul"]]
    assert graphs.runs == 4


def test_a_function_that_skips_first_or_last(skip_frame) -> None:
    def at_once(x):
        skip_frame()
        return first(torch.cos(x))

    def at_last(x):
        y = first(torch.cos(x))
        skip_frame()
        return y

    for f in (at_once, at_last):
        assert_same(f, X, graphs=1, never="cos", sees="tanh")


def test_a_function_with_nothing_but_a_skip_makes_no_graph(skip_frame) -> None:
    def f(x):
        y = torch.sin(x)
        skip_frame()
        return torch.cos(y)

    assert_same(f, X, graphs=0, calls=3)


def test_a_skip_in_a_callee_covers_only_the_callee(skip_frame) -> None:
    def inner(y):
        y = first(torch.exp(y))
        skip_frame()
        return torch.abs(y)

    def f(x):
        return torch.cos(inner(torch.sin(x)))

    graphs = assert_same(f, X, graphs=3, never="exp abs")
    assert sorted(g[0] for g in graphs.graphs) == ["cos", "sin", "tanh"]


def test_a_skip_two_calls_down(skip_frame) -> None:
    def deepest(y):
        skip_frame()
        return second(torch.abs(y))

    def inner(y):
        return torch.exp(deepest(torch.tanh(y)))

    def f(x):
        return torch.cos(inner(torch.sin(x)))

    assert_same(f, X, sees="sin tanh sigmoid exp cos", never="abs")


def test_a_skipped_function_between_two_levels(skip_frame) -> None:
    """outer and deepest are compiled, the one between them is not."""

    def deepest(y):
        y = torch.tanh(y)
        segue.graph_break()
        return torch.sigmoid(y)

    def between(y):
        skip_frame()
        return torch.abs(deepest(torch.abs(y)))

    def outer(x):
        return torch.cos(between(torch.sin(x)))

    assert_same(outer, X, graphs=4, sees="sin tanh sigmoid cos", never="abs")


def test_a_skip_under_a_condition_holds_from_then_on(skip_frame) -> None:
    def f(x, skips):
        y = torch.sin(x)
        if skips:
            skip_frame()
        return first(torch.cos(y))

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for skips in (False, True, False, True):
        torch.testing.assert_close(compiled(X, skips), f(X, skips))
    assert graphs.seen("sin") == graphs.seen("cos") == 1
    assert graphs.count == 2  # all of f, then `first` alone
    assert graphs.runs == 4


def test_a_skip_after_a_break(skip_frame) -> None:
    def f(x):
        y = torch.sin(x)
        segue.graph_break()
        y = first(y)
        skip_frame()
        record("skipped")
        return torch.cos(y)

    assert_same(f, X, sees="tanh", never="cos", calls=4)


def test_a_skip_in_a_loop(skip_frame) -> None:
    def f(x):
        for step in range(4):
            x = first(torch.abs(x)) + step
            if step == 2:
                skip_frame()
            record(step)
        return second(torch.exp(x))

    assert_same(f, X, calls=3, sees="tanh sigmoid", never="exp")


def test_a_skip_in_a_try_and_in_a_with(skip_frame) -> None:
    def f(x):
        try:
            with torch.no_grad():
                y = first(x)
                skip_frame()
                record(torch.is_grad_enabled())
                raise KeyError("k")
        except KeyError:
            record(torch.is_grad_enabled())
            y = second(y)
        finally:
            record("finally")
        return torch.cos(y)

    assert_same(f, X, calls=3, sees="tanh sigmoid", never="cos")


def test_a_skip_of_a_method_and_of_a_forward(skip_frame) -> None:
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())

        def forward(self, x):
            skip_frame()
            return torch.abs(self.inner(torch.abs(x)))

    model = Model()
    assert_same(lambda x: torch.cos(model(torch.sin(x))), X, sees="sin linear cos", never="abs")
    graphs = Graphs()
    compiled = segue.compile(model, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), model(X))
    assert graphs.seen("linear") and not graphs.seen("abs")


def test_a_skip_is_of_the_function_not_of_the_helper_that_asks_for_it() -> None:
    """`skip_frame` speaks of the function that calls it."""

    def asks():
        segue.skip_frame()

    def f(x):
        y = torch.sin(x)
        asks()
        return torch.cos(y)

    assert_same(f, X, graphs=2, sees="sin cos")


def test_one_compile_call_does_not_skip_for_another() -> None:
    def f(x, skips):
        if skips:
            segue.skip_frame()
        return torch.cos(x)

    skipped, kept = Graphs(), Graphs()
    segue.compile(f, backend=skipped)(X, True)
    compiled = segue.compile(f, backend=kept)
    torch.testing.assert_close(compiled(X, False), torch.cos(X))
    assert (skipped.count, kept.count) == (0, 1)


# --- disable --------------------------------------------------------------------------------------


def test_calling_a_disabled_function_is_a_break(disable) -> None:
    @disable
    def inner(y):
        record("inner")
        return second(torch.abs(y))

    def f(x):
        y = inner(torch.sin(x))
        return torch.cos(y)

    graphs = assert_same(f, X, graphs=2, never="abs sigmoid")
    assert graphs.graphs == [["sin"], ["cos"]]


def test_nothing_below_a_disabled_function_is_compiled(disable) -> None:
    def deepest(y):
        return torch.exp(y)

    def deeper(y):
        return deepest(torch.abs(y))

    @disable
    def inner(y):
        return deeper(sum(map(deeper, [torch.relu(y)])))

    def f(x):
        return torch.cos(inner(torch.sin(x)))

    assert_same(f, X, graphs=2, never="exp abs relu")


def test_what_is_disabled_below_is_compiled_elsewhere(disable) -> None:
    """Being called by a disabled function does not stick to the callee."""
    inner = disable(lambda y: first(y))

    def f(x):
        return torch.cos(first(inner(torch.sin(x))))

    graphs = assert_same(f, X, graphs=2)
    assert graphs.graphs == [["sin"], ["tanh", "add", "cos"]]


def test_a_disabled_function_in_a_loop_and_in_a_try(disable) -> None:
    @disable
    def inner(y, step):
        if step == 2:
            raise KeyError(step)
        return torch.abs(y)

    def f(x):
        y = torch.sin(x)
        for step in range(4):
            try:
                y = inner(torch.tanh(y), step)
            except KeyError as error:
                record(error)
                y = torch.sigmoid(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid cos", never="abs")


def test_a_disabled_method(disable) -> None:
    class Tool:
        scale = 2

        @disable
        def inner(self, y, *, more=1):
            return torch.abs(y) * self.scale + more

    tool = Tool()
    assert_same(lambda x: torch.cos(tool.inner(torch.sin(x), more=3)), X, graphs=2, never="abs")


def test_a_disabled_forward(disable) -> None:
    class Inner(torch.nn.Module):
        @disable
        def forward(self, y):
            return torch.abs(y)

    model = torch.nn.Sequential(torch.nn.Tanh(), Inner(), torch.nn.Sigmoid())
    assert_same(lambda x: torch.cos(model(torch.sin(x))), X, sees="sin cos", never="abs")


def test_a_disabled_callback_given_as_an_argument(disable) -> None:
    @disable
    def callback(y):
        record(round(y.sum().item(), 3))

    def f(x, call):
        y = torch.sin(x)
        call(y)
        y = torch.tanh(y)
        functools.partial(call, y)()
        return torch.cos(y)

    assert_same(lambda x: f(x, callback), X, graphs=3, sees="sin tanh cos")


def test_a_disabled_function_can_be_called_without_compiling(disable) -> None:
    @disable
    def inner(y, k=2):
        """Its text."""
        return torch.abs(y) * k

    torch.testing.assert_close(inner(X, k=3), X * 3)
    assert inner.__name__ == "inner"
    assert inner.__doc__ == "Its text."


def test_disabling_at_the_place_of_the_call(disable) -> None:
    quiet = disable(second)

    def f(x):
        return torch.cos(second(quiet(torch.sin(x))))

    graphs = assert_same(f, X, graphs=2)
    assert graphs.graphs == [["sin"], ["sigmoid", "mul", "cos"]]


# --- disable(recursive=False) ---------------------------------------------------------------------


def test_only_the_one_frame_is_kept_out(disable) -> None:
    @disable(recursive=False)
    def inner(y):
        return second(torch.abs(y))

    def f(x):
        return torch.cos(inner(torch.sin(x)))

    graphs = assert_same(f, X, graphs=3, never="abs")
    assert sorted(g[0] for g in graphs.graphs) == ["cos", "sigmoid", "sin"]


def test_only_one_frame_of_several_levels(disable) -> None:
    def deepest(y):
        y = torch.tanh(y)
        segue.graph_break()
        return torch.exp(y)

    @disable(recursive=False)
    def inner(y):
        return deepest(torch.abs(deepest(y)))

    def f(x):
        return torch.cos(inner(torch.sin(x)))

    assert_same(f, X, graphs=4, sees="sin tanh exp cos", never="abs")


def test_only_the_frame_of_a_method(disable) -> None:
    class Tool:
        @disable(recursive=False)
        def inner(self, y):
            return self.helper(torch.abs(y))

        def helper(self, y):
            return torch.sigmoid(y)

    tool = Tool()
    assert_same(lambda x: torch.cos(tool.inner(torch.sin(x))), X, graphs=3, never="abs", sees="sigmoid")


def test_only_the_frame_of_the_compiled_function_itself(disable) -> None:
    @disable(recursive=False)
    def f(x):
        return torch.cos(first(torch.sin(x)))

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), torch.cos(torch.tanh(torch.sin(X)) + 1))
    assert not graphs.seen("sin") and not graphs.seen("cos")


def test_a_recursive_one_below_one_that_is_not(disable) -> None:
    @disable
    def whole(y):
        return second(torch.exp(y))

    @disable(recursive=False)
    def frame(y):
        return first(whole(first(torch.abs(y))))

    def f(x):
        return torch.cos(frame(torch.sin(x)))

    assert_same(f, X, graphs=3, sees="sin tanh cos", never="abs exp sigmoid")


# --- what they leave alone ------------------------------------------------------------------------


def test_an_exception_through_skipped_and_disabled_functions(skip_frame, disable) -> None:
    def fails(y):
        y = torch.tanh(y)
        raise KeyError("deep")

    @disable
    def disabled(y):
        return fails(y)

    def skipped(y):
        skip_frame()
        return disabled(y)

    def f(x):
        y = torch.sin(x)
        try:
            return skipped(y)
        except KeyError as error:
            record(error)
        return torch.cos(y)

    assert_same(f, X, sees="sin cos", never="tanh")
    assert_same(lambda x: skipped(torch.sin(x)), X, sees="sin")


def test_later_calls_of_the_caller_stay_compiled(skip_frame) -> None:
    """A skip or a break in one call never forbids compiling another path of the caller later."""

    def skipped(y):
        skip_frame()
        return torch.abs(y)

    def f(x, way):
        y = torch.sin(x)
        if way == 0:
            return torch.cos(skipped(y))
        return torch.exp(y) if way == 1 else torch.sigmoid(y)

    assert_same_calls(f, [(X, 0), (X, 1), (X, 0), (X, 2), (X, 1)], sees="sin cos exp sigmoid", never="abs")


# --- imports --------------------------------------------------------------------------------------


def test_what_an_import_runs_is_not_compiled(tmp_path, monkeypatch) -> None:
    """A function called while its module is imported runs in the interpreter; called later it is compiled."""
    (tmp_path / "imported_late.py").write_text(
        "import torch\n\n\ndef double(x):\n    return x * 2\n\n\nTWO = double(torch.ones(4))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_late", raising=False)

    @segue.disable(recursive=False)
    def f(x):
        import imported_late

        return imported_late.double(x) + imported_late.TWO

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    assert compiled(X).equal(X * 2 + 2)
    assert graphs.graphs == [["mul"]]
    assert compiled(X).equal(X * 2 + 2)
    assert (graphs.count, graphs.runs) == (1, 2)
