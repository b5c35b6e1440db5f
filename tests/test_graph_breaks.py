"""Graph breaks in straight-line code: where they stand, what breaks, and what is resumed around them."""

from __future__ import annotations

import contextlib
import time

import pytest
import torch
from torch import Tensor

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)
BREAKS = {"segue": segue.graph_break, "torch": torch._dynamo.graph_break}


@pytest.fixture(params=BREAKS)
def graph_break(request):
    """Segue's marker and PyTorch's."""
    return BREAKS[request.param]


# --- straight-line code ---------------------------------------------------------------------------


def test_one_break_makes_two_graphs(graph_break) -> None:
    def f(x):
        x = x + 1
        graph_break()
        return x + 2

    graphs = assert_same(f, X, graphs=2)
    assert graphs.graphs == [["add"], ["add"]]
    assert graphs.runs == 4


@pytest.mark.parametrize("n", [2, 3, 5])
def test_n_breaks_make_one_graph_more(n, graph_break) -> None:
    lines = ["x = torch.sin(x); graph_break()"] * n
    source = "\n    ".join(["def f(x):", *lines, "return torch.cos(x)"])
    scope = {"torch": torch, "graph_break": graph_break}
    exec(source, scope)
    assert_same(scope["f"], X, graphs=n + 1)


def test_no_break_is_one_graph() -> None:
    assert_same(lambda x: torch.cos(torch.sin(x) + 1), X, graphs=1)


def test_a_break_without_tensor_work_around_it_makes_no_graph(graph_break) -> None:
    def first(x):
        graph_break()
        return torch.cos(x)

    def last(x):
        y = torch.cos(x)
        graph_break()
        return y

    def twice(x):
        y = torch.sin(x)
        graph_break()
        graph_break()
        return torch.cos(y)

    def only(x):
        graph_break()
        return x

    for f, graphs in ((first, 1), (last, 1), (twice, 2), (only, 0)):
        assert_same(f, X, graphs=graphs)


def test_break_with_a_message() -> None:
    def f(x):
        x = torch.sin(x)
        segue.graph_break("for a reader")
        torch._dynamo.graph_break(msg="for a reader")
        return torch.cos(x)

    assert_same(f, X, graphs=2)


def test_side_effects_stay_in_order() -> None:
    def f(x, notes):
        notes.append("first")
        y = torch.sin(x)
        notes.append(y)
        segue.graph_break()
        record(len(notes))
        y = torch.cos(y)
        notes.append("last")
        segue.graph_break()
        record(len(notes))
        return y + 1

    assert_same(f, X, ["before"], graphs=3)


def test_locals_that_live_on_over_a_break() -> None:
    def f(x, flag, *rest, key=None, **more):
        number, text, items = 3, "text", [x, 1]
        y = torch.sin(x)
        table = {"y": y, "n": number}
        segue.graph_break()
        items.append(torch.cos(y))
        table["z"] = y + number
        return items, table, text, flag, rest, key, more

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        expected = f(X, True, 1, 2, key="k", other=[1])
        got = compiled(X, True, 1, 2, key="k", other=[1])
        torch.testing.assert_close(got[0], expected[0])
        assert list(got[1]) == list(expected[1])
        assert got[2:] == expected[2:]
    assert graphs.graphs == [["sin"], ["cos", "add"]]


def test_objects_keep_their_identity_over_a_break() -> None:
    def f(x, items):
        y = torch.sin(x)
        pair = [y, y]
        same = items
        segue.graph_break()
        same.append(torch.cos(y))
        return pair[0] is pair[1] is y, same is items, x, y, pair

    assert_same(f, X, [], sees="sin cos")


class Noted:
    """Records when it goes."""

    def __init__(self, name):
        self.name = name

    def __del__(self):
        record(("gone", self.name))


def dropped_by_none(x):
    thing = Noted("first")
    y = torch.sin(x)
    thing = Noted("second")
    segue.graph_break()
    y = torch.tanh(y)
    thing = None
    record(thing)
    return torch.cos(y)


def dropped_by_del(x):
    things = [Noted("a"), Noted("b")]
    y = torch.sin(x)
    segue.graph_break()
    del things[0]
    y = torch.tanh(y)
    record("after a")
    del things
    record("after b")
    return torch.cos(y)


def dropped_at_the_end_of_a_callee(x):
    def inner(y):
        thing = Noted("inner")
        return torch.tanh(y), thing.name

    y, name = inner(torch.sin(x))
    record(name)
    return torch.cos(y)


@pytest.mark.parametrize(
    "f", [dropped_by_none, dropped_by_del, dropped_at_the_end_of_a_callee], ids=lambda f: f.__name__
)
def test_finalisers_run_where_they_run_in_eager(f) -> None:
    assert_same(f, X, sees="sin tanh cos")


# --- what breaks by itself ------------------------------------------------------------------------


def by_print(y):
    print("y has", tuple(y.shape))


def by_item(y):
    record(y.sum().item() > 0)


def by_float(y):
    record(float(y.sum()) > 0)


def by_tolist(y):
    record(len(y.tolist()))


def by_numpy(y):
    record(y.detach().numpy().shape)


def by_repr(y):
    record(len(repr(y)) > 3)


def by_time(y):
    record(time.perf_counter() > 0)


def by_open(y):
    with open(__file__) as file:
        record(len(file.readline()))


def by_nonzero(y):
    record(tuple(torch.nonzero(y > 0.3).shape))


def by_len_of_unique(y):
    record(len(torch.unique(y)))


def by_exec(y):
    exec("record(2)", {"record": record})


@pytest.mark.parametrize(
    "breaks",
    [
        by_print,
        by_item,
        by_float,
        by_tolist,
        by_numpy,
        by_repr,
        by_time,
        by_open,
        by_nonzero,
        by_len_of_unique,
        by_exec,
    ],
    ids=lambda f: f.__name__,
)
def test_what_cannot_be_captured_breaks(breaks, capsys) -> None:
    def f(x):
        y = torch.sin(x)
        breaks(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin cos")


def test_prints_come_out_in_order(capsys) -> None:
    def f(x):
        print("first")
        y = torch.sin(x)
        print("second", y.shape[0])
        y = torch.cos(y)
        print("third", end="!\n")
        return y

    compiled = segue.compile(f)
    for _ in range(3):
        compiled(X)
        assert capsys.readouterr().out == "first\nsecond 4\nthird!\n"


# --- half-built expressions -----------------------------------------------------------------------


def noted(value):
    segue.graph_break()
    return value


def pair(a, b=0, *rest, key=0, **more):
    return (a, b, *rest, key, *more.values())


def in_an_argument(x):
    return torch.cos(torch.add(torch.sin(x), noted(torch.tanh(x))))


def in_a_nested_argument(x):
    return pair(torch.sin(x), pair(1, noted(torch.tanh(x)), 3), torch.cos(x))


def in_a_keyword(x):
    return pair(torch.sin(x), key=noted(torch.tanh(x)), other=torch.cos(x))


def in_stars(x):
    return pair(torch.sin(x), *noted([torch.tanh(x)]), **{"key": noted(torch.cos(x))})


def in_an_operand(x):
    return torch.sin(x) + noted(torch.tanh(x)) * torch.cos(x)


def in_a_list_display(x):
    return [torch.sin(x), noted(torch.tanh(x)), *noted([1]), torch.cos(x)]


def in_a_dict_display(x):
    return {"a": torch.sin(x), noted("b"): torch.tanh(x), **noted({"c": torch.cos(x)})}


def in_a_set_display(x):
    y = torch.sin(x)
    return {1, noted(2), int(noted(3))}, torch.cos(torch.tanh(y))


def in_a_subscript(x):
    return torch.sin(x)[noted(1) : noted(3)] + torch.tanh(x)[noted(0)] + torch.cos(x)[1]


def in_a_conditional(x):
    return torch.sin(x) + (torch.tanh(x) if noted(True) else x) + torch.cos(x)


def in_a_comparison(x):
    y = torch.sin(x)
    return 0 < noted(1) < noted(2) < noted(1), torch.tanh(y) + torch.cos(y)


def in_an_fstring(x):
    return f"{torch.sin(x).shape[0]} of {noted(4)!r:>3}", torch.tanh(x) + torch.cos(x)


def in_a_method_call(x):
    return torch.sin(x).mul(noted(2)).add(torch.tanh(x), alpha=noted(3)).cos()


def in_a_walrus(x):
    return (y := noted(torch.sin(x))) + torch.tanh(y) + noted(y).cos()


def in_a_lambda_argument(x):
    return pair(torch.sin(x), (lambda z: noted(torch.tanh(z)))(x), torch.cos(x))


def in_an_augmented_assignment(x):
    y = torch.sin(x)
    y += noted(torch.tanh(x))
    items = [y, 2]
    items[noted(1)] *= noted(torch.cos(x))
    return items


def in_a_boolean_expression(x):
    return noted(0) or noted("") or torch.sin(x), noted(1) and torch.tanh(x), torch.cos(x)


def in_a_starred_assignment(x):
    a, *b = torch.sin(x), *noted([torch.tanh(x), torch.cos(x)])
    return a, b


EXPRESSIONS = [f for name, f in list(globals().items()) if name.startswith("in_a") or name == "in_stars"]


@pytest.mark.parametrize("f", EXPRESSIONS, ids=lambda f: f.__name__)
def test_break_in_the_middle_of_an_expression(f) -> None:
    assert_same(f, X, sees="sin tanh cos")


def test_the_evaluation_order_of_a_half_built_call() -> None:
    def step(value):
        record(value)
        segue.graph_break()
        return value

    def f(x):
        step(pair)(step(1), step(2), *step([3, 4]), key=step(5), **step({"z": 6}))
        return torch.cos(x)

    assert_same(f, X, sees="cos")


# --- context managers that PyTorch resumes in -----------------------------------------------------


def state() -> tuple:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
    )


MANAGERS = {
    "nullcontext": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "set_grad_enabled(False)": lambda: torch.set_grad_enabled(False),
    "set_grad_enabled(True)": lambda: torch.set_grad_enabled(True),
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference_mode": torch.inference_mode,
}


@pytest.fixture(params=MANAGERS)
def manager(request):
    return MANAGERS[request.param]


def test_break_in_a_context_manager_of_pytorch(manager, graph_break) -> None:
    def f(x):
        y = torch.sin(x)
        with manager():
            y = torch.tanh(y @ y)
            record(state())
            graph_break()
            record(state())
            y = torch.sigmoid(y)
            record(y.requires_grad)
        record(state())
        return torch.cos(y)

    assert_same(f, torch.ones(2, 2, requires_grad=True), sees="sin tanh sigmoid cos")


def test_state_after_a_body_that_raises(manager, graph_break) -> None:
    def f(x, where):
        y = torch.sin(x)
        try:
            with manager():
                y = torch.tanh(y)
                if where == "before":
                    raise KeyError(where)
                graph_break()
                y = torch.sigmoid(y)
                if where == "after":
                    raise KeyError(where)
        except KeyError:
            record(state())
        return torch.cos(y)

    assert_same_calls(f, [(X, "before"), (X, "after"), (X, "never"), (X, "after")], sees="sin tanh sigmoid cos")
    assert state() == (True, False, False)


def test_exception_that_leaves_through_a_context_manager(manager) -> None:
    def f(x):
        y = torch.sin(x)
        with manager():
            y = torch.tanh(y)
            segue.graph_break()
            raise KeyError("out")

    assert_same(f, X, sees="sin tanh")
    assert state() == (True, False, False)


def test_nested_context_managers(graph_break) -> None:
    def f(x):
        with torch.no_grad():
            y = torch.sin(x)
            with torch.enable_grad():
                y = y + torch.tanh(x)
                graph_break()
                record(state())
                y = torch.sigmoid(y)
            record((state(), y.requires_grad))
            graph_break()
            z = torch.exp(y)
            record(z.requires_grad)
        return torch.cos(z)

    assert_same(f, X.clone().requires_grad_(), sees="sin tanh sigmoid exp cos")


# Inference mode is held by an object in C++ that only the interpreter can make: entering and leaving it are breaks.
@pytest.mark.parametrize("name", [name for name in MANAGERS if name != "inference_mode"])
def test_number_of_graphs_around_a_break_in_a_context_manager(name) -> None:
    """One break, two graphs: the context manager itself does not break."""
    manager = MANAGERS[name]

    def f(x):
        y = torch.sin(x)
        with manager():
            y = torch.tanh(y)
            segue.graph_break()
            y = torch.sigmoid(y)
        return torch.cos(y)

    graphs = assert_same(f, X, graphs=2)
    operations = {"sin", "tanh", "sigmoid", "cos"}
    assert [[n for n in graph if n in operations] for graph in graphs.graphs] == [
        ["sin", "tanh"],
        ["sigmoid", "cos"],
    ]


def test_a_context_manager_that_a_callee_enters_and_leaves() -> None:
    def inner(y):
        with torch.no_grad():
            y = torch.tanh(y)
            segue.graph_break()
            record(state())
        record(state())
        return torch.sigmoid(y)

    assert_same(
        lambda x: torch.cos(inner(torch.sin(x))),
        X.clone().requires_grad_(),
        sees="sin tanh sigmoid cos",
    )


def test_decorators_of_pytorch() -> None:
    @torch.no_grad()
    def inner(y):
        y = torch.tanh(y)
        segue.graph_break()
        record(state())
        return torch.sigmoid(y)

    assert_same(
        lambda x: torch.cos(inner(torch.sin(x)) + x),
        X.clone().requires_grad_(),
        sees="sin tanh sigmoid cos",
    )


def test_set_grad_enabled_as_a_function() -> None:
    def f(x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = torch.sin(x)
        segue.graph_break()
        record((state(), y.requires_grad))
        y = torch.tanh(y)
        torch.set_grad_enabled(before)
        return torch.cos(y)

    assert_same(f, X.clone().requires_grad_(), sees="sin tanh cos")
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("enabled", [True, False])
def test_grad_mode_of_the_caller_is_kept(enabled) -> None:
    def f(x):
        y = torch.sin(x)
        segue.graph_break()
        record((state(), y.requires_grad))
        return torch.cos(y)

    with torch.set_grad_enabled(enabled):
        assert_same(f, X.clone().requires_grad_(), graphs=2)
        assert torch.is_grad_enabled() is enabled


# --- the rewrites that PyTorch's documentation recommends -----------------------------------------


@pytest.mark.parametrize("n", [1, 3, 6])
def test_a_loop_unrolled_through_a_nested_function_with_nonlocal(n, graph_break) -> None:
    def f(x):
        y = torch.sin(x)

        def step():
            nonlocal y
            y = torch.tanh(y)
            graph_break()
            y = torch.sigmoid(y)

        if n > 0:
            step()
        if n > 1:
            step()
            step()
        if n > 3:
            step()
            step()
            step()
        return torch.cos(y)

    graphs = assert_same(f, X, sees="sin tanh sigmoid cos")
    assert graphs.count == n + 1  # each break splits one graph in two


def test_a_break_moved_between_two_withs(graph_break) -> None:
    def f(x):
        with torch.no_grad():
            y = torch.sin(x)
        graph_break()
        with torch.no_grad():
            y = torch.tanh(y)
        return torch.cos(y)

    assert_same(f, X.clone().requires_grad_(), graphs=2, sees="sin tanh cos")


def test_a_break_moved_between_two_trys(graph_break) -> None:
    def f(x):
        try:
            y = torch.sin(x)
        except ValueError:
            y = x
        graph_break()
        try:
            y = torch.tanh(y)
            if y.shape[0] == 4:
                raise KeyError("caught")
        except KeyError:
            y = torch.sigmoid(y)
        return torch.cos(y)

    assert_same(f, X, graphs=2, sees="sin tanh sigmoid cos")


@pytest.mark.parametrize("how", ["breaks", "skips", "disabled", "disabled as in pytorch"])
def test_the_problem_isolated_in_a_helper(how) -> None:
    def problem(y: Tensor) -> float:
        if how == "breaks":
            segue.graph_break()
        if how == "skips":
            segue.skip_frame()
        return record(round(y.sum().item(), 3))

    helper = {
        "disabled": segue.disable(problem),
        "disabled as in pytorch": torch.compiler.disable(problem),
    }.get(how, problem)

    def f(x):
        y = torch.sin(x)
        scale = helper(y)
        y = torch.tanh(y) * scale
        return torch.cos(y)

    graphs = assert_same(f, X, sees="sin tanh cos")
    assert ["sin"] in graphs.graphs
    assert graphs.seen("cos") == 1
