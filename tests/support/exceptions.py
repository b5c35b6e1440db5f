"""Exceptions raised, caught, chained and grouped."""

import sys
import traceback

import torch

from tests.support.construct import area

construct = area("Exceptions")


class ModelError(Exception):
    """An exception with attributes."""

    def __init__(self, message, code=0):
        super().__init__(message, code)
        self.code = code

    def __str__(self):
        return f"{self.args[0]} ({self.code})"


@construct("`try`/`except`/`else`/`finally`")
def try_statement(x):
    notes = []
    for k in (0, 1):
        try:
            notes.append(1 // k)
        except ZeroDivisionError as error:
            notes.append(str(error))
        else:
            x = x + 1
        finally:
            notes.append("finally")
    return x, notes


@construct("nested `try`, re-raise")
def reraised(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            x = x + 1
            raise
    except LookupError as error:
        return x, error.args


@construct("user exceptions with attributes")
def user_exception(x):
    try:
        raise ModelError("bad", code=3)
    except ModelError as error:
        return x * error.code, str(error), repr(error), error.args


@construct("`raise from`")
def raise_from(x):
    try:
        try:
            {}["k"]
        except KeyError as error:
            raise ModelError("outer") from error
    except ModelError as error:
        return x + 1, type(error.__cause__).__name__, error.__suppress_context__


@construct("`raise from None`")
def raise_from_none(x):
    try:
        try:
            [][0]
        except IndexError:
            raise ValueError("clean") from None
    except ValueError as error:
        return x + 1, error.__cause__, type(error.__context__).__name__, error.__suppress_context__


@construct("implicit `__context__`")
def context(x):
    try:
        try:
            int("a")
        except ValueError:
            raise KeyError("k")
    except KeyError as error:
        return x + 1, str(error.__context__)


@construct("an exception leaves the function")
def leaves(x):
    y = x + 1
    raise ModelError(f"shape {tuple(y.shape)}", code=2)


@construct("an exception leaves with a cause")
def leaves_with_cause(x):
    y = x + 1
    try:
        {}["k"]
    except KeyError as error:
        raise ModelError("outer", y.dim()) from error


@construct("an exception leaves through `finally`", state=lambda: ([],))
def leaves_through_finally(x, notes):
    try:
        y = x + 1
        raise ValueError
    finally:
        notes.append(y)


@construct("an exception raised in a callee, caught by the caller")
def from_callee(x):
    def check(t):
        if t.dim() != 3:
            raise ValueError(f"got {t.dim()} dimensions")
        return t

    try:
        check(x)
    except ValueError as error:
        return x * 2, str(error)


@construct("`except` with several types and order of handlers")
def several_types(x):
    names = []
    for error in (KeyError("a"), ValueError("b"), OSError("c")):
        try:
            raise error
        except (KeyError, IndexError) as e:
            names.append(("lookup", e.args))
        except ValueError:
            names.append("value")
        except Exception as e:
            names.append(type(e).__name__)
    return x + 1, names


@construct("native errors: `AttributeError`, `IndexError`, `KeyError`, `TypeError`, `ValueError`, ...")
def native_errors(x):
    got = []
    for action in (
        lambda: x.missing,
        lambda: [1][5],
        lambda: {"a": 1}["b"],
        lambda: 1 + "a",
        lambda: int("b"),
        lambda: 1 / 0,
        lambda: undefined,
        lambda: (1, 2)["a"],
        lambda: next(iter([])),
        lambda: len(3),
    ):
        try:
            action()
        except Exception as error:
            got.append((type(error).__name__, str(error)))
    return x + 1, got


@construct("too many and too few values to unpack")
def unpacking_errors(x):
    got = []
    for items in ([1], [1, 2, 3]):
        try:
            a, b = items
        except ValueError as error:
            got.append(str(error))
    return x + 1, got


@construct(
    "a tensor operation that fails, caught", breaks="the operation is run by PyTorch so that its error is its own"
)
def tensor_error(x):
    y = x + 1
    try:
        return y @ torch.ones(7)
    except RuntimeError as error:
        return y * 2, str(error)[:20]


@construct("`sys.exc_info` in a handler")
def exc_info(x):
    try:
        raise KeyError("k")
    except KeyError:
        kind, value, trace = sys.exc_info()
        return x + 1, kind.__name__, value.args, trace is not None, sys.exc_info() != (None, None, None)


@construct("`traceback.format_exc` in a handler", breaks="the text shows the frames of the interpreter")
def format_exc(x):
    try:
        y = x + 1
        raise KeyError("k")
    except KeyError:
        return y, traceback.format_exc().splitlines()[-1]


@construct("exception objects kept, not raised")
def kept(x):
    error = ModelError("later", code=4)
    return x * error.code, error


@construct("`with_traceback`, `add_note`")
def notes(x):
    try:
        error = ValueError("v")
        error.add_note("see also")
        raise error.with_traceback(None)
    except ValueError as caught:
        return x + 1, caught.__notes__


@construct("`ExceptionGroup` raised and caught by `except`")
def exception_group(x):
    try:
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
    except ExceptionGroup as group:
        return x + len(group.exceptions), group.message, str(group)


@construct("`except*`")
def except_star(x):
    got = []
    try:
        raise ExceptionGroup("several", [ValueError("a"), KeyError("b"), ValueError("c")])
    except* ValueError as group:
        got.append([e.args for e in group.exceptions])
        x = x + 1
    except* KeyError as group:
        got.append([e.args for e in group.exceptions])
    return x, got


@construct("`except*` that leaves a rest")
def except_star_rest(x):
    try:
        try:
            raise ExceptionGroup("several", [ValueError("a"), KeyError("b")])
        except* ValueError:
            x = x + 1
    except ExceptionGroup as rest:
        return x, [type(e).__name__ for e in rest.exceptions]


@construct("`ExceptionGroup.split`, `subgroup`, `derive`")
def group_methods(x):
    group = ExceptionGroup("several", [ValueError("a"), ExceptionGroup("inner", [KeyError("b")])])
    match, rest = group.split(ValueError)
    return x + 1, len(match.exceptions), rest.message, group.subgroup(OSError)


@construct("`return` in `finally` swallows")
def return_in_finally(x):
    def inner():
        try:
            raise ValueError
        finally:
            return x + 1

    return inner()


@construct("`break` and `continue` in `try`")
def break_in_try(x):
    notes = []
    for k in range(4):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
        finally:
            notes.append(k)
    return x, notes


@construct("the name of a handler is unbound after it")
def handler_name(x):
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        return error
    except NameError:
        return x + 1


@construct("`warnings` turned into errors")
def warning_as_error(x):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("careful")
        except UserWarning as warning:
            return x + 1, str(warning)


class Stop(BaseException):
    pass


@construct("`KeyboardInterrupt` and `BaseException` subclasses")
def base_exception(x):
    try:
        raise Stop
    except BaseException as error:
        return x + 1, type(error).__name__


class Layer:
    def run(self):
        raise NotImplementedError


@construct("`NotImplementedError` raised by a base class's method")
def not_implemented_method(x):
    try:
        Layer().run()
    except NotImplementedError:
        return x + 1


@construct("an exception raised with a tensor as its argument")
def tensor_argument(x):
    try:
        raise ModelError(x * 2)
    except ModelError as error:
        return error.args[0] + 1
