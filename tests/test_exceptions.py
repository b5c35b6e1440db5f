"""Exceptions: those of tensor operations are caught as in eager, the user's own keep their type and their traceback."""

from __future__ import annotations

import traceback

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls, tracebacks_of
from tests.case import record
from tests.graphs import Graphs

X = torch.linspace(0, 1, 4)


class Unfit(Exception):
    """A user's own exception."""

    def __init__(self, k, rows):
        super().__init__(f"{k} does not fit {rows} rows")
        self.k = k


# --- errors of tensor operations ------------------------------------------------------------------

FAILING = {
    "shape mismatch": (lambda y: y + torch.ones(3), RuntimeError),
    "matmul": (lambda y: y @ torch.ones(3, 3), RuntimeError),
    "index out of range": (lambda y: y[10], IndexError),
    "index tensor out of range": (lambda y: y[torch.tensor([0, 40])], IndexError),
    "dimension out of range": (lambda y: y.sum(dim=3), IndexError),
    "singular matrix": (lambda y: torch.linalg.inv(torch.zeros(2, 2)), RuntimeError),
    "not positive definite": (lambda y: torch.linalg.cholesky(-torch.eye(2)), RuntimeError),
    "view": (lambda y: y.view(3), RuntimeError),
    "reshape": (lambda y: y.reshape(5, -1), RuntimeError),
    "cat": (lambda y: torch.cat([y.view(2, 2), torch.ones(1, 3)]), RuntimeError),
    "wrong dtype": (lambda y: torch.nn.functional.embedding(y, torch.ones(2, 2)), RuntimeError),
    "wrong argument": (lambda y: torch.sin(y, nothing=1), TypeError),
    "wrong type": (lambda y: torch.sin("text"), TypeError),
    "no such method": (lambda y: y.no_such_method(), AttributeError),
    "several elements": (lambda y: y.item(), RuntimeError),
    "truth of several": (lambda y: 1 if y else 2, RuntimeError),
    "leaf in place": (lambda y: torch.ones(2, requires_grad=True).add_(1), RuntimeError),
    "unpack": (lambda y: (lambda a, b: a)(*y), TypeError),
    "class index": (
        lambda y: torch.nn.functional.cross_entropy(y.view(1, 4), torch.tensor([9])),
        IndexError,
    ),
}


@pytest.fixture(params=FAILING)
def failing(request):
    return FAILING[request.param]


def test_an_error_of_a_tensor_operation_is_caught(failing) -> None:
    operation, kind = failing

    def f(x):
        y = torch.sin(x)
        try:
            y = operation(torch.tanh(y))
        except kind as error:
            record(type(error).__name__)
            record(str(error))
            y = torch.sigmoid(y)
        else:
            record("no error")
        finally:
            record("finally")
        return torch.cos(y)

    assert_same(f, X, calls=3, sees="sin tanh sigmoid cos")


def test_an_error_of_a_tensor_operation_leaves_the_function(failing) -> None:
    operation, kind = failing

    def f(x):
        y = torch.tanh(torch.sin(x))
        return torch.cos(operation(y))

    assert_same(f, X, calls=3, sees="sin tanh")
    with pytest.raises(kind):
        segue.compile(f, backend=Graphs())(X)


def test_an_error_is_not_caught_by_the_wrong_handler(failing) -> None:
    operation, kind = failing

    def f(x):
        try:
            return torch.cos(operation(torch.tanh(x)))
        except (KeyError, ZeroDivisionError):
            record("never")
        finally:
            record("finally")

    assert_same(f, X, sees="tanh")


def test_only_some_calls_fail() -> None:
    """The same graph fails for some data and not for others."""

    def solve(a, b):
        try:
            return torch.linalg.solve(a, b)
        except RuntimeError as error:
            record(type(error).__name__)
            return torch.linalg.lstsq(a, b).solution

    def pick(table, index):
        y = torch.sin(table)
        try:
            y = y[index]
        except IndexError as error:
            record(str(error))
            y = torch.tanh(y)
        return torch.cos(y)

    good, singular = torch.eye(2) * 2, torch.zeros(2, 2)
    b = torch.ones(2, 1)
    assert_same_calls(solve, [(a, b) for a in (good, singular, good, singular, good)])
    inside, outside = torch.tensor([1, 2]), torch.tensor([1, 40])
    assert_same_calls(pick, [(X, i) for i in (inside, outside, inside, outside)], sees="sin tanh cos")


@pytest.mark.parametrize("catches", [False, True])
def test_side_effects_before_an_error_happen_once(catches) -> None:
    def f(x, index, notes):
        notes.append("before")
        y = torch.sin(x)
        x.add_(1)
        record(len(notes))
        try:
            y = y[index]
        except IndexError:
            if not catches:
                raise
            x.mul_(2)
            notes.append("caught")
        notes.append("after")
        return torch.cos(y)

    assert_same_calls(f, [(X, torch.tensor([i]), []) for i in (1, 40, 2, 41)])


def test_an_error_that_is_caught_prints_nothing(capfd) -> None:
    def f(x, index):
        try:
            return torch.sin(x)[index]
        except IndexError:
            return torch.cos(x)

    compiled = segue.compile(f, backend="eager")
    for index in (1, 40, 2, 41):
        compiled(X, torch.tensor([index]))
    assert capfd.readouterr() == ("", "")


def test_shapes_that_fail_in_a_later_call() -> None:
    def f(a, b):
        y = torch.sin(a)
        try:
            return torch.cos(y + b)
        except RuntimeError as error:
            record(str(error))
            return torch.tanh(y)

    three = torch.ones(3)
    assert_same_calls(f, [(X, X), (X, three), (three, three), (X, three)], sees="sin cos tanh")


def test_the_failing_line_is_in_the_traceback() -> None:
    def pick(table, index):
        return table[index]

    def f(x, index):
        y = torch.sin(x)
        return pick(y, index) + 1

    compiled = segue.compile(f, backend=Graphs())
    compiled(X, torch.tensor([1]))
    for index in (torch.tensor([40]), 40):
        with pytest.raises(IndexError) as eager:
            f(X, index)
        with pytest.raises(IndexError) as raised:
            compiled(X, index)
        names = [[e.name for e in traceback.extract_tb(r.tb)][-2:] for r in (eager, raised)]
        assert names == [["f", "pick"]] * 2
        lines = [tracebacks_of(r.value)[0][1:] for r in (eager, raised)]
        assert lines[0] == lines[1]
        assert str(raised.value) == str(eager.value)


# --- the user's own exceptions --------------------------------------------------------------------


def checked(x, k):
    if k > x.shape[0]:
        raise Unfit(k, x.shape[0])
    return torch.sin(x)[:k]


def in_a_callee(x, k):
    y = torch.tanh(x)
    return torch.cos(checked(y, k))


def after_work(x, k):
    y = torch.cos(torch.tanh(x))
    if k > 4:
        raise ValueError("too many")
    return torch.sin(y) * k


def chained(x, k):
    try:
        return checked(torch.cos(x), k)
    except Unfit as error:
        raise ValueError("chained") from error


def in_python(x, k):
    y = torch.sin(x)
    return y * [1, 2, 3, 4, 5][k]


def of_a_dict(x, k):
    return torch.sin(x) * {2: 1.0, 3: 2.0}[k]


OWN = [checked, in_a_callee, after_work, chained, in_python, of_a_dict]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("f", OWN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("first", ["fails", "succeeds"])
def test_own_exceptions(f, fullgraph, first) -> None:
    """The same type, arguments, attributes, chain and lines; under `fullgraph` too."""
    ks = [7, 2, 7, 3] if first == "fails" else [2, 7, 3, 7]
    assert_same_calls(f, [(X, k) for k in ks], sees="sin", fullgraph=fullgraph)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_caught_inside(fullgraph) -> None:
    """Raised and caught within one segment: one graph."""

    def f(x, k):
        y = torch.sin(x)
        try:
            y = checked(y, k)
        except Unfit as error:
            y = y * error.k
        return torch.cos(y)

    graphs = assert_same_calls(f, [(X, 2), (X, 7), (X, 2), (X, 7)], fullgraph=fullgraph)
    assert graphs.count == 2


def test_stop_iteration_of_next() -> None:
    def f(x):
        items = iter([1, 2])
        y = torch.sin(x)
        try:
            while True:
                y = torch.tanh(y) * next(items)
        except StopIteration:
            record("exhausted")
        return torch.cos(y)

    assert_same(f, X, graphs=1, fullgraph=True)


def test_a_break_under_fullgraph_has_no_side_effect() -> None:
    def f(x, notes):
        notes.append(1)
        x.add_(1)
        open("never")  # noqa: SIM115
        return torch.cos(x)

    x, notes = X.clone(), []
    for _ in range(2):
        with pytest.raises(segue.errors.GraphBreakError) as raised:
            segue.compile(f, fullgraph=True)(x, notes)
        assert "open" in str(raised.value)
        assert f"line {f.__code__.co_firstlineno + 3}" in str(raised.value)
    assert notes == []
    assert x.equal(X)


def test_exceptions_that_are_no_errors() -> None:
    """KeyboardInterrupt and SystemExit pass through as they are."""

    def f(x, kind):
        y = torch.sin(x)
        try:
            segue.graph_break()
            raise kind("stop")
        except Exception:
            record("never")
        finally:
            record("finally")
            y = torch.cos(y)
            record(y)

    assert_same_calls(f, [(X, KeyboardInterrupt), (X, SystemExit), (X, KeyboardInterrupt)])


def test_an_exception_object_is_raised_itself() -> None:
    error = Unfit(1, 2)

    def f(x):
        y = torch.sin(x)
        record(y)
        raise error

    compiled = segue.compile(f)
    for _ in range(2):
        with pytest.raises(Unfit) as raised:
            compiled(X)
        assert raised.value is error


def test_an_exception_with_notes() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            raise ValueError("v")
        except ValueError as error:
            error.add_note(f"shape {tuple(y.shape)}")
            segue.graph_break()
            raise

    assert_same(f, X)


def test_a_wrong_call_of_the_compiled_function() -> None:
    def f(x, *, k=1):
        return torch.sin(x) * k

    compiled = segue.compile(f)
    for args, kwargs in (((), {}), ((X, 1), {}), ((X,), {"q": 1})):
        with pytest.raises(TypeError) as eager:
            f(*args, **kwargs)
        with pytest.raises(TypeError) as raised:
            compiled(*args, **kwargs)
        assert str(raised.value) == str(eager.value)
