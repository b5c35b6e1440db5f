"""Exceptions that the captured code makes: their texts, what they are chained to, exception groups."""

import sys

import pytest
import torch

import segue
from tests.capturing import assert_captured
from tests.graphs import Graphs


class ModelError(Exception):
    def __init__(self, message, code=0):
        super().__init__(message, code)
        self.code = code


class WithText(ModelError):
    def __str__(self):
        return f"{self.args[0]} <{self.code}> {super().__str__()}"


ERRORS = [
    lambda: ValueError(),
    lambda: ValueError("one"),
    lambda: ValueError("one", 2),
    lambda: KeyError("k"),
    lambda: KeyError(),
    lambda: KeyError("a", "b"),
    lambda: StopIteration(3),
    lambda: SystemExit(2),
    lambda: ModelError("bad", code=3),
    lambda: WithText("bad", code=3),
    lambda: ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    lambda: BaseExceptionGroup("one", [ValueError("a")]),
]


@pytest.mark.parametrize("number", range(len(ERRORS)))
def test_texts(number):
    make = ERRORS[number]

    def function(x):
        error = make()
        try:
            raise error
        except BaseException as caught:
            return x + 1, str(caught), f"{caught!r}", repr([caught]), len(caught.args), caught is error

    assert_captured(function, lambda: torch.ones(2))


def test_chains():
    def function(x):
        try:
            try:
                {}["k"]
            except KeyError as inner:
                raise ModelError("outer") from inner
        except ModelError as error:
            first = type(error.__cause__).__name__, error.__cause__ is error.__context__, error.__suppress_context__
        try:
            try:
                int("a")
            except ValueError:
                raise KeyError("k") from None
        except KeyError as error:
            second = error.__cause__, str(error.__context__), error.__suppress_context__
        return x + 1, first, second, sys.exception()

    assert_captured(function, lambda: torch.ones(2))


def test_notes_and_tracebacks():
    def function(x):
        try:
            error = ValueError("v")
            error.add_note("see also")
            error.add_note("and")
            raise error.with_traceback(None)
        except ValueError as caught:
            kind, value, trace = sys.exc_info()
            return x + 1, caught.__notes__, kind, value is caught, trace is not None

    assert_captured(function, lambda: torch.ones(2))


def test_a_new_exception_is_given_out():
    def function(x):
        error = ModelError("later", code=4)
        error.__cause__ = ValueError("before")
        return x * error.code, [error]

    compiled = segue.compile(function, backend=Graphs(), fullgraph=True)
    result, [error] = compiled(torch.ones(2))
    assert result.tolist() == [4.0, 4.0]
    assert (type(error), error.args, vars(error)) == (ModelError, ("later", 4), {"code": 4})
    assert repr(error.__cause__) == "ValueError('before')"
    assert error.__suppress_context__
    assert error.__traceback__ is None


def shape(error):
    """The tree of exceptions in a group, as text."""
    if isinstance(error, BaseExceptionGroup):
        return [error.message, *map(shape, error.exceptions)]
    return repr(error)


def nested():
    inner = ExceptionGroup("inner", [KeyError("c"), ValueError("d"), OSError("e")])
    return ExceptionGroup("outer", [ValueError("a"), inner, TypeError("f")])


def handled_in_parts(make):
    got = []
    try:
        raise make()
    except* ValueError as group:
        got.append(shape(group))
    except* (KeyError, OSError) as group:
        got.append(shape(group))
    except* TypeError as group:
        got.append(shape(group))
    return got


def with_a_rest(make):
    try:
        try:
            raise make()
        except* ValueError:
            pass
    except BaseException as rest:
        return shape(rest)


def raising_in_handlers(make):
    try:
        try:
            raise make()
        except* ValueError as group:
            raise RuntimeError(len(group.exceptions))  # noqa: B904
        except* KeyError:
            raise
    except BaseException as rest:
        return shape(rest)


def split(make):
    error = make()
    if not isinstance(error, BaseExceptionGroup):
        return None
    match, rest = error.split((ValueError, OSError))
    return [match and shape(match), rest and shape(rest), error.subgroup(lambda e: isinstance(e, KeyError)) is None]


GROUPS = [nested, lambda: ValueError("alone"), lambda: KeyError("alone"), lambda: ExceptionGroup("g", [ValueError(1)])]


@pytest.mark.parametrize(
    "function", [handled_in_parts, with_a_rest, raising_in_handlers, split], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_groups(function, number):
    make = GROUPS[number]

    def program(x):
        try:
            return x + 1, function(make)
        except KeyError as error:
            return x + 2, repr(error)

    assert_captured(program, lambda: torch.ones(2))
