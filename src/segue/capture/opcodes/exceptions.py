"""Raising, handling, `with`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture.attributes import special_method
from segue.capture.breaks import Raised, graph_break
from segue.capture.opcodes import opcode
from segue.capture.values.base import Value
from segue.capture.values.known import Known
from segue.capture.values.object import ExceptionValue

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("RAISE_VARARGS")
def raise_varargs(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exception if arg > 0, cause if arg > 1 -- )"""
    cause = frame.pop() if i.arg > 1 else None
    if i.arg == 0:
        handled = tr.handled
        if not isinstance(handled, ExceptionValue):
            graph_break("raise", type="an exception")
        raise Raised(handled)
    exception = _exception(tr, frame.pop())
    if cause is not None:
        cause = tr.look(cause)
        exception.set_attribute(tr, "__cause__", cause if cause.real is None else _exception(tr, cause))
    exception.was_raised(tr, tr.handled)
    raise Raised(exception)


def _exception(tr: Tracer, value: Value) -> ExceptionValue:
    value = tr.look(value)
    if isinstance(value, Known) and isinstance(value.real, type) and issubclass(value.real, BaseException):
        value = tr.look(tr.call(value, [], {}))
    if not isinstance(value, ExceptionValue):
        if issubclass(value.python_type(tr), BaseException):
            graph_break("raise", type=value.python_type(tr).__name__)
        tr.raise_error(TypeError, "exceptions must derive from BaseException")
    return value


@opcode("RERAISE")
def reraise(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(values[arg], exception -- values[arg])"""
    exception = tr.look(frame.pop())
    if not isinstance(exception, ExceptionValue):
        graph_break("raise", type="an exception")
    raise Raised(exception)


@opcode("PUSH_EXC_INFO")
def push_exc_info(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exception -- previously handled, exception)"""
    exception = frame.pop()
    frame.push(tr.handled)
    frame.push(exception)
    tr.handled = tr.look(exception)
    tr.changed()


@opcode("POP_EXCEPT")
def pop_except(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(previously handled -- )"""
    tr.handled = tr.look(frame.pop())
    tr.changed()


@opcode("CHECK_EXC_MATCH")
def check_exc_match(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exception, types -- exception, whether it matches)"""
    wanted = tr.look(frame.pop())
    exception = tr.look(frame.stack[-1])
    classes = [tr.look(w) for w in tr.unpack(wanted)] if not isinstance(wanted, Known) else [wanted]
    objects = [c.concrete(tr) for c in classes]
    if not all(isinstance(c, type) and issubclass(c, BaseException) for c in objects):
        tr.raise_error(TypeError, "catching classes that do not inherit from BaseException is not allowed")
    frame.push(tr.constant(issubclass(exception.python_type(tr), tuple(objects))))


@opcode("CHECK_EG_MATCH")
def check_eg_match(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exception, types -- the rest of it, what matches)"""
    from segue.capture.rules.exceptions import star_match

    wanted, exception = tr.look(frame.pop()), tr.look(frame.pop())
    match, rest = star_match(tr, exception, wanted)
    frame.push(rest)
    frame.push(match)
    if isinstance(match, ExceptionValue):
        tr.handled = match
        tr.changed()


@opcode("PREP_RERAISE_STAR")
def prep_reraise_star(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exception, what the handlers raised or left -- what to raise or None)"""
    from segue.capture.rules.exceptions import star_rest

    left, exception = tr.unpack(frame.pop()), tr.look(frame.pop())
    frame.push(star_rest(tr, exception, left))


@opcode("LOAD_ASSERTION_ERROR")
def load_assertion_error(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- AssertionError)"""
    frame.push(tr.constant(AssertionError))


@opcode("BEFORE_WITH")
def before_with(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(manager -- exit, entered)"""
    manager = tr.look(frame.pop())
    enter, leave = special_method(tr, manager, "__enter__"), special_method(tr, manager, "__exit__")
    if enter is None or leave is None:
        name = manager.python_type(tr).__name__
        tr.raise_error(TypeError, f"'{name}' object does not support the context manager protocol")
    frame.push(leave)
    frame.push(tr.call(enter, [], {}))


@opcode("WITH_EXCEPT_START")
def with_except_start(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(exit, lasti, previous, exception -- exit, lasti, previous, exception, result)"""
    exception = tr.look(frame.stack[-1])
    if not isinstance(exception, ExceptionValue):
        graph_break("raise", type="an exception")
    args = [tr.constant(exception.cls), exception, tr.traceback_of(exception)]
    frame.push(tr.call(frame.stack[-4], args, {}))
