"""Breaks inside `with` and `try`: capture resumes inside, and everything happens once, in order."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

import pytest
import torch

import segue
from tests.backends_for_tests import assert_same, assert_same_calls
from tests.case import record
from tests.observation import difference, observe

X = torch.linspace(0, 1, 4)


class Span:
    """A user's context manager that records, and suppresses exceptions of the given kinds."""

    def __init__(self, name: str, *suppressed: type[BaseException]) -> None:
        self.name = name
        self.suppressed = suppressed

    def __enter__(self) -> Span:
        record(("enter", self.name))
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        record(("exit", self.name, kind, error, traceback is not None))
        return kind is not None and issubclass(kind, self.suppressed)


@contextlib.contextmanager
def span(name):
    record(("enter", name))
    try:
        yield name
    except KeyError as error:
        record(("seen", name, error))
        raise
    finally:
        record(("exit", name))


class Unequal(Exception):
    """A user's own exception."""


def handled() -> None:
    """Record which exception is being handled."""
    record(sys.exc_info()[1])


# --- with -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("manager", [Span, span], ids=["class", "contextmanager"])
def test_break_in_a_with(manager) -> None:
    def f(x):
        y = torch.sin(x)
        with manager("a"):
            y = torch.tanh(y)
            segue.graph_break()
            y = torch.sigmoid(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid cos")


def test_break_right_after_enter_and_right_before_exit() -> None:
    def f(x):
        y = torch.sin(x)
        with Span("a") as a:
            segue.graph_break()
            y = torch.tanh(y)
            segue.graph_break()
        return torch.cos(y), a.name

    assert_same(f, X, sees="sin tanh cos")


def test_break_in_nested_withs() -> None:
    def f(x):
        with Span("outer"):
            y = torch.sin(x)
            with Span("middle"), span("inner") as name:
                y = torch.tanh(y)
                record(name)
                segue.graph_break()
                y = torch.sigmoid(y)
            segue.graph_break()
            y = torch.exp(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp cos")


def test_enter_and_exit_that_break() -> None:
    class Breaking:
        def __enter__(self):
            record("before enter")
            segue.graph_break()
            record("after enter")
            return 2

        def __exit__(self, *error):
            record("before exit")
            segue.graph_break()
            record("after exit")

    def f(x):
        y = torch.sin(x)
        with Breaking() as two:
            y = torch.tanh(y) * two
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh cos")


@pytest.mark.parametrize("suppressed", [(), (ValueError,), (KeyError, IndexError)])
@pytest.mark.parametrize("error", [ValueError, IndexError, Unequal])
@pytest.mark.parametrize("where", ["before the break", "after the break"])
def test_exception_in_a_with(suppressed, error, where) -> None:
    def f(x):
        y = torch.sin(x)
        with Span("outer", *suppressed):
            with span("inner"):
                y = torch.tanh(y)
                if where == "before the break":
                    raise error("text")
                segue.graph_break()
                y = torch.sigmoid(y)
                raise error("text")
            record("not reached")
        return torch.cos(y)

    assert_same(f, X, sees="sin")


def test_return_break_and_continue_out_of_a_with() -> None:
    def f(x, limit):
        y = torch.sin(x)
        for step in range(5):
            with Span(f"step {step}"):
                y = torch.tanh(y)
                segue.graph_break()
                if step == 1:
                    continue
                if step == limit:
                    return torch.cos(y)
                if step == 3:
                    break
                y = torch.sigmoid(y)
        return torch.exp(y)

    assert_same_calls(f, [(X, 2), (X, 9), (X, 2), (X, 0)], sees="sin tanh sigmoid cos exp")


def test_exit_sees_the_exception_with_the_users_traceback() -> None:
    lines = []

    class Watching:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, traceback):
            while traceback is not None:
                lines.append((traceback.tb_frame.f_code.co_name, traceback.tb_lineno))
                traceback = traceback.tb_next
            return True

    def fail(y):
        segue.graph_break()
        raise ValueError(1)

    def f(x):
        with Watching():
            y = torch.tanh(x)
            segue.graph_break()
            fail(torch.sigmoid(y))
        return torch.cos(x)

    f(X)
    expected = list(lines)
    compiled = segue.compile(f)
    for _ in range(3):
        lines.clear()
        compiled(X)
        assert lines == expected


def test_exit_stack() -> None:
    def f(x, n):
        y = torch.sin(x)
        with contextlib.ExitStack() as stack:
            for i in range(n):
                stack.enter_context(Span(f"s{i}"))
                y = torch.tanh(y)
            stack.callback(record, "callback")
            segue.graph_break()
            y = torch.sigmoid(y)
        return torch.cos(y)

    assert_same_calls(f, [(X, 2), (X, 3)], sees="tanh sigmoid cos")


def test_suppress_and_closing() -> None:
    class Resource:
        def close(self):
            record("closed")

    def f(x):
        with contextlib.closing(Resource()), contextlib.suppress(KeyError):
            y = torch.tanh(x)
            segue.graph_break()
            x = torch.sigmoid(y)
            {}["missing"]
        return torch.cos(x)

    assert_same(f, X, sees="tanh sigmoid cos")


# --- try ------------------------------------------------------------------------------------------


def test_break_in_try_body_else_and_finally() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            segue.graph_break()
            y = torch.sigmoid(y)
        except ValueError:
            record("never")
        else:
            y = torch.exp(y)
            segue.graph_break()
            y = torch.relu(y)
        finally:
            y = torch.abs(y)
            segue.graph_break()
            record("finally")
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp relu abs cos")


def test_break_in_a_handler() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            raise Unequal("u")
        except Unequal as error:
            handled()
            y = torch.sigmoid(y)
            segue.graph_break()
            handled()
            y = torch.exp(y)
            record(error)
        handled()
        return torch.cos(y)

    assert_same(f, X, sees="sin cos")


@pytest.mark.parametrize("breaks", ["before", "after", "both"])
def test_exception_raised_around_a_break(breaks) -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            if breaks != "after":
                segue.graph_break()
            y = torch.sigmoid(y)
            raise Unequal("u", 1)
        except (KeyError, Unequal) as error:
            y = torch.exp(y)
            if breaks != "before":
                segue.graph_break()
            record(error.args)
            handled()
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp cos")


NATIVE = {
    "key": lambda: {}["missing"],
    "index": lambda: [][3],
    "attribute": lambda: record.nothing,
    "number": lambda: int("no number"),
    "division": lambda: 1 // 0,
    "type": lambda: "a" + 1,
    "unpack": lambda: (lambda a, b: a)(*[1]),
    "stop": lambda: next(iter([])),
    "shape": lambda: torch.ones(2) + torch.ones(3),
    "tensor index": lambda: torch.ones(2)[5],
    "tensor value": lambda: bool(torch.ones(2)),
}


@pytest.mark.parametrize("error", NATIVE)
def test_an_instruction_that_raises_by_itself(error) -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            NATIVE[error]()
            record("not reached")
        except (LookupError, AttributeError, ValueError, TypeError) as caught:
            record(type(caught).__name__)
            y = torch.sigmoid(y)
        except (ArithmeticError, StopIteration, RuntimeError):
            handled()
            y = torch.exp(y)
        finally:
            handled()
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh cos")


@pytest.mark.parametrize("error", NATIVE)
def test_an_exception_that_leaves_the_function(error) -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            segue.graph_break()
            NATIVE[error]()
        finally:
            record("finally")
            y = torch.sigmoid(y)
            record(y)
        return torch.cos(y)

    assert_same(f, X, calls=3, sees="sin tanh")


def test_context_and_cause() -> None:
    def f(x, chained):
        y = torch.sin(x)
        try:
            try:
                y = torch.tanh(y)
                segue.graph_break()
                raise KeyError("first")
            except KeyError as error:
                segue.graph_break()
                y = torch.sigmoid(y)
                if chained == "cause":
                    raise Unequal("second") from error
                if chained == "none":
                    raise Unequal("second") from None
                raise Unequal("second")  # noqa: B904
        finally:
            handled()
            segue.graph_break()

    assert_same_calls(f, [(X, c) for c in ("cause", "none", "context", "cause")], sees="sin tanh sigmoid")


def test_reraise() -> None:
    def f(x, again):
        y = torch.sin(x)
        try:
            segue.graph_break()
            raise Unequal("u")
        except Unequal:
            y = torch.tanh(y)
            segue.graph_break()
            if again:
                raise
        handled()
        return torch.cos(y)

    assert_same_calls(f, [(X, True), (X, False), (X, True)], sees="sin tanh cos")


def test_context_of_an_exception_handled_in_a_callee() -> None:
    def inner(y):
        try:
            segue.graph_break()
            raise KeyError("inner")
        except KeyError:
            handled()
            segue.graph_break()
        handled()
        return torch.tanh(y)

    def f(x):
        try:
            raise ValueError("outer")
        except ValueError:
            record(inner(torch.sin(x)))
            handled()
            segue.graph_break()
            handled()
            raise Unequal("last") from None

    assert_same(f, X, sees="sin tanh")


def test_the_callers_handled_exception_stays() -> None:
    def f(x):
        handled()
        y = torch.sin(x)
        segue.graph_break()
        handled()
        return torch.cos(y)

    compiled = segue.compile(f)

    def calls(function):
        try:
            raise Unequal("of the caller")
        except Unequal:
            record(function(X))
            handled()
        handled()

    expected = observe(lambda: calls(f), ())
    for _ in range(3):
        assert difference(expected, observe(lambda: calls(compiled), ())) is None


def test_nested_handlers() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            raise KeyError(1)
        except KeyError:
            try:
                segue.graph_break()
                y = torch.tanh(y)
                raise IndexError(2)
            except IndexError:
                handled()
                segue.graph_break()
                y = torch.sigmoid(y)
            handled()
            segue.graph_break()
            handled()
        handled()
        return torch.cos(y)

    assert_same(f, X, sees="tanh sigmoid cos")


def test_the_exceptions_name_is_unbound_after_its_handler() -> None:
    def f(x):
        try:
            segue.graph_break()
            raise KeyError(1)
        except KeyError as error:
            y = torch.tanh(x)
            segue.graph_break()
            record(error.args)
        segue.graph_break()
        z = torch.cos(y)
        try:
            record(error)
        except NameError as unbound:
            record(str(unbound))
        return z

    assert_same(f, X, sees="tanh cos")


@pytest.mark.parametrize("how", ["return", "break", "continue", "raise"])
def test_finally_that_takes_over(how) -> None:
    def f(x):
        y = torch.sin(x)
        for step in range(3):
            try:
                y = torch.tanh(y)
                segue.graph_break()
                if step == 1:
                    raise KeyError(step)
                y = torch.sigmoid(y)
            finally:
                record(("finally", step))
                segue.graph_break()
                y = torch.exp(y)
                if how == "return" and step == 1:
                    return torch.cos(y)  # noqa: B012
                if how == "break" and step == 1:
                    break  # noqa: B012
                if how == "continue":
                    continue  # noqa: B012
                if how == "raise" and step == 1:
                    raise Unequal("in finally")
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp" + (" cos" if how != "raise" else ""))


def test_return_through_finally_keeps_its_value() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            segue.graph_break()
            return torch.tanh(y)
        finally:
            y = torch.cos(y)
            segue.graph_break()
            record(y)

    assert_same(f, X, sees="sin tanh cos")


def test_try_in_a_loop_in_a_try() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            for step in range(6):
                try:
                    y = torch.tanh(y)
                    segue.graph_break()
                    if step % 2:
                        raise KeyError(step)
                    if step == 4:
                        raise ValueError(step)
                except KeyError as error:
                    y = torch.sigmoid(y)
                    segue.graph_break()
                    record(error)
                    handled()
                finally:
                    record(step)
        except ValueError as error:
            record(error)
            y = torch.exp(y)
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp cos")


def test_exception_group() -> None:
    def f(x):
        y = torch.sin(x)
        try:
            y = torch.tanh(y)
            segue.graph_break()
            raise ExceptionGroup("both", [KeyError(1), ValueError(2), IndexError(3)])
        except* KeyError as group:
            y = torch.sigmoid(y)
            segue.graph_break()
            record(group.exceptions)
        except* (ValueError, IndexError) as group:
            y = torch.exp(y)
            record(len(group.exceptions))
        return torch.cos(y)

    assert_same(f, X, sees="sin tanh sigmoid exp cos")


def test_graphs_are_as_many_in_later_calls_however_they_end() -> None:
    """Ten calls that raise and ten that do not: no gate captures twice for it."""

    def f(x, fails):
        y = torch.sin(x)
        with Span("a", KeyError):
            y = torch.tanh(y)
            segue.graph_break()
            if fails:
                raise KeyError("k")
            y = torch.sigmoid(y)
        return torch.cos(y)

    few = assert_same_calls(f, [(X, True), (X, False)] * 2)
    many = assert_same_calls(f, [(X, True), (X, False)] * 10)
    assert few.graphs == many.graphs
