"""Branches on tensors: the interpreter decides, both sides are compiled as they are reached."""

from __future__ import annotations

import pytest
import torch

import segue
from tests import with_asserts
from tests.backends_for_tests import assert_same_calls
from tests.case import record
from tests.graphs import Graphs

LOW, HIGH = torch.full((4,), -1.0), torch.full((4,), 1.0)
BOTH = [(LOW,), (HIGH,), (LOW,), (HIGH,)]


def statement(x):
    y = torch.sin(x)
    if y.sum() > 0:
        y = torch.tanh(y)
        record("above")
    else:
        y = torch.sigmoid(y)
        record("below")
    return torch.cos(y)


def without_an_else(x):
    y = torch.sin(x)
    if (y > 0).any():
        y = torch.tanh(y)
    z = torch.sigmoid(y)
    return torch.cos(z)


def with_a_return(x):
    y = torch.sin(x)
    if y.mean() > 0:
        return torch.cos(torch.tanh(y))
    y = torch.sigmoid(y)
    return torch.cos(y)


def expression(x):
    y = torch.sin(x)
    return torch.cos(torch.tanh(y) if y.sum() > 0 else torch.sigmoid(y))


def negated(x):
    y = torch.sin(x)
    if not (y > 0).all():
        y = torch.sigmoid(y)
    else:
        y = torch.tanh(y)
    return torch.cos(y)


def chain(x):
    y = torch.sin(x)
    if y.sum() > 3.5:
        y = torch.exp(y)
    elif y.sum() > 0:
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def nested(x):
    y = torch.sin(x)
    if y[0] > -2:
        if y[1] > 0:
            y = torch.tanh(y)
        else:
            y = torch.sigmoid(y)
    return torch.cos(y)


def conjunction(x):
    y = torch.sin(x)
    if y.sum() > 0 and y[0] > 0 and record(True):
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def disjunction(x):
    y = torch.sin(x)
    if torch.isnan(y).any() or y[0] > 0:
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def value_of_or(x):
    y = torch.sin(x)
    flag = (y > 0).all() or torch.sigmoid(y).sum()
    record(flag)
    return torch.cos(torch.tanh(y) + flag)


def value_of_not(x):
    y = torch.sin(x)
    flag = not (y > 0).all()
    record(flag)
    return torch.cos(torch.tanh(y)) * flag + torch.sigmoid(y)


def chained_comparison(x):
    y = torch.sin(x)
    if 0 < y.sum() < 10:
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def bool_of_a_tensor(x):
    y = torch.sin(x)
    record(bool(y.sum() > 0))
    y = torch.tanh(y) if bool(y.sum() > 0) else torch.sigmoid(y)
    return torch.cos(y)


def on_an_item(x):
    y = torch.sin(x)
    if y.sum().item() > 0:
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def in_a_loop(x):
    y = torch.sin(x)
    for step in range(4):
        if y.sum() > 0:
            y = torch.tanh(y) - step
        else:
            y = torch.sigmoid(y) - 0.1
    return torch.cos(y)


def that_leaves_a_loop(x):
    y = torch.sin(x)
    for _ in range(10):
        y = torch.tanh(y) - 0.5
        if y.sum() < -2:
            break
        y = torch.sigmoid(y)
    else:
        record("all")
    return torch.cos(y)


def that_continues_a_loop(x):
    y = torch.sin(x)
    for step in range(4):
        y = -y
        if y[0] > 0:
            record(step)
            continue
        y = torch.tanh(y)
    return torch.cos(torch.sigmoid(y))


def in_a_while(x):
    y, steps = torch.sin(x), 0
    while y.sum() < 3:
        y = torch.sigmoid(torch.tanh(y)) + 0.3 * steps
        steps += 1
    return torch.cos(y), steps


def in_a_while_with_else(x):
    y, steps = torch.sin(x), 0
    while (y < 2).any():
        y = torch.tanh(y) + steps
        steps += 1
        if steps == 9:
            break
    else:
        y = torch.sigmoid(y)
    return torch.cos(y), steps


def in_a_comprehension(x):
    y = torch.sin(x)
    kept = [torch.tanh(row) for row in torch.stack([y, -y, 2 * y]) if row.sum() > 0]
    return torch.cos(torch.sigmoid(torch.stack(kept)))


def in_any_and_all(x):
    y = torch.sin(x)
    if any(row > 0 for row in y) and all(row > -9 for row in y):
        y = torch.tanh(y)
    else:
        y = torch.sigmoid(y)
    return torch.cos(y)


def in_a_callee(x):
    def pick(y):
        if y.sum() > 0:
            return torch.tanh(y)
        return torch.sigmoid(y)

    return torch.cos(pick(torch.sin(x)))


def in_a_with_in_a_try(x):
    y = torch.sin(x)
    try:
        with torch.no_grad():
            if y.sum() > 0:
                raise KeyError("above")
            y = torch.sigmoid(y)
    except KeyError as error:
        record(error)
        y = torch.tanh(y)
    return torch.cos(y)


def in_a_match(x):
    y = torch.sin(x)
    match y.shape[0]:
        case 4 if y.sum() > 0:
            y = torch.tanh(y)
        case 4:
            y = torch.sigmoid(y)
    return torch.cos(y)


def by_max_of_numbers(x):
    y = torch.sin(x)
    larger = max(y[0], y[1] * 2)
    y = torch.tanh(y) * larger + torch.sigmoid(y)
    return torch.cos(y)


BRANCHES = [
    f
    for f in list(globals().values())
    if getattr(f, "__module__", None) == __name__ and f.__code__.co_varnames[:1] == ("x",)
]


@pytest.mark.parametrize("f", BRANCHES, ids=lambda f: f.__name__)
def test_both_sides_are_compiled(f) -> None:
    graphs = assert_same_calls(f, BOTH, sees="sin cos")
    assert graphs.seen("tanh") or graphs.seen("sigmoid")


@pytest.mark.parametrize(
    "f",
    [statement, with_a_return, expression, negated, chain, nested, conjunction, in_a_callee],
    ids=lambda f: f.__name__,
)
def test_each_side_is_in_a_graph(f) -> None:
    assert_same_calls(f, BOTH, sees="sin tanh sigmoid cos")


def test_one_branch_makes_three_graphs() -> None:
    """What is before the branch, and each side with all that follows it."""
    graphs = assert_same_calls(statement, BOTH, graphs=3)
    assert graphs.graphs[0][0] == "sin"
    assert sorted(g[0] for g in graphs.graphs[1:]) == ["sigmoid", "tanh"]
    assert graphs.runs == 8


def test_a_side_that_is_never_reached_is_never_compiled() -> None:
    assert_same_calls(statement, [(LOW,)] * 3, graphs=2, never="tanh")


@pytest.mark.parametrize("f", BRANCHES, ids=lambda f: f.__name__)
def test_later_calls_compile_nothing_new(f) -> None:
    few, many = assert_same_calls(f, BOTH), assert_same_calls(f, BOTH * 5)
    assert few.graphs == many.graphs


@pytest.mark.parametrize(
    "f",
    [
        with_asserts.on_a_tensor,
        with_asserts.without_a_message,
        with_asserts.after_a_break,
        with_asserts.in_a_loop,
    ],
    ids=lambda f: f.__name__,
)
def test_assert_on_a_tensor(f) -> None:
    calls = [(HIGH, 99), (HIGH, 0), (HIGH, 99), (HIGH, 0)]
    assert_same_calls(f, calls, sees="sin cos")


def test_a_tensor_of_several_elements_has_no_truth_value() -> None:
    def f(x):
        y = torch.sin(x)
        if y > 0:
            record("never")
        return torch.cos(y)

    assert_same_calls(f, BOTH, sees="sin")


def test_data_dependent_number_of_steps_makes_no_graph_each() -> None:
    """Newton's method: the number of steps depends on the data."""

    def root(a, tolerance):
        x = torch.ones_like(a)
        steps = 0
        while ((x * x - a) / a).abs().max() > tolerance:
            x = (x + a / x) / 2
            steps += 1
        return torch.cos(x), steps

    calls = [(torch.tensor([k, 2.0 * k]).double(), 1e-9) for k in (2, 2000, 2e6, 2e9, 3)]
    few, many = assert_same_calls(root, calls[:1]), assert_same_calls(root, calls)
    assert few.graphs == many.graphs
    assert many.seen("div") or many.seen("truediv")


def test_branch_under_grad() -> None:
    def f(x):
        y = torch.sin(x)
        y = torch.tanh(y) if y.sum() > 0 else torch.sigmoid(y)
        return torch.cos(y).sum()

    graphs = Graphs()
    compiled = segue.compile(f, backend=graphs)
    for x in (LOW, HIGH, LOW):
        mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        compiled(mine).backward()
        f(theirs).backward()
        torch.testing.assert_close(mine.grad, theirs.grad)
    assert graphs.count == 3


# --- what is computed although Python might not -----------------------------------------------------


@pytest.mark.parametrize(
    "second",
    [
        lambda x, n: torch.linalg.inv(x).sum() > 0,
        lambda x, n: torch.linalg.cholesky(x - 5).sum() > 0,
        lambda x, n: torch.div(n, n - 9, rounding_mode="floor").sum() > 2,
        lambda x, n: torch.pow(n, -1).sum() > 2,
        lambda x, n: torch.quantile(x, n.float()) > 2,
        lambda x, n: x[n, 0].sum() > 2,
    ],
)
def test_a_second_condition_that_would_fail_is_not_computed(second) -> None:
    def f(x, n):
        x.add_(1)
        if (x == 0).all() or second(x, n):
            return torch.sin(x)
        return torch.cos(x)

    assert_same_calls(f, [(-torch.ones(3, 3), torch.tensor([9]))] * 2, sees="sin")


def test_an_arm_of_a_loop_that_is_never_reached_does_not_count() -> None:
    """Both arms are captured when one is reached; a marker, a break or a failure in the other shows only if it is."""

    def f(x, limit):
        for _ in range(4):
            x = torch.sin(x)
            if x.sum() > limit:
                x = torch.tanh(x)
                segue.skip_frame()
            else:
                x = torch.cos(x)
            x = torch.sigmoid(x)
        return x

    def no_tanh(module, examples):
        assert "tanh" not in module.code
        return module.forward

    compiled = segue.compile(f, backend=no_tanh)
    assert torch.equal(compiled(HIGH, 100), f(HIGH, 100))
    assert not compiled.compiler.log.of_kind("skip")
    assert_same_calls(f, [(HIGH, 100), (HIGH, -100), (HIGH, 100)], sees="cos sigmoid")
