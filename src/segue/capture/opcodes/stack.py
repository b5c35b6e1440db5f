"""Instructions that move values and apply operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture import operators
from segue.capture.opcodes import opcode
from segue.capture.values.base import NULL

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("NOP", "RESUME")
def no_operation(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""


@opcode("POP_TOP")
def pop_top(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- )"""
    tr.dropping(frame.stack[-1])
    frame.pop()


@opcode("PUSH_NULL")
def push_null(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- NULL)"""
    frame.push(NULL)


@opcode("COPY")
def copy(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(bottom, unused[arg-1] -- bottom, unused[arg-1], bottom)"""
    frame.push(frame.stack[-i.arg])


@opcode("SWAP")
def swap(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(bottom, unused[arg-2], top -- top, unused[arg-2], bottom)"""
    stack = frame.stack
    stack[-1], stack[-i.arg] = stack[-i.arg], stack[-1]


@opcode("UNARY_NEGATIVE", "UNARY_POSITIVE", "UNARY_INVERT")
def unary(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- result)"""
    frame.push(operators.unary(tr, i.opname, frame.pop()))


@opcode("UNARY_NOT")
def unary_not(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- result)"""
    frame.push(tr.constant(not tr.truth(frame.pop())))


@opcode("BINARY_OP")
def binary_op(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(left, right -- result)"""
    right, left = frame.pop(), frame.pop()
    frame.push(operators.binary(tr, i.argval, left, right))


@opcode("COMPARE_OP")
def compare_op(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(left, right -- result)"""
    right, left = frame.pop(), frame.pop()
    frame.push(operators.compare(tr, i.argval, left, right))


@opcode("IS_OP")
def is_op(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(left, right -- result)"""
    right, left = frame.pop(), frame.pop()
    frame.push(tr.constant(operators.identical(tr, left, right) != bool(i.arg)))


@opcode("CONTAINS_OP")
def contains_op(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(item, container -- result)"""
    container, item = frame.pop(), frame.pop()
    frame.push(tr.constant(tr.look(container).contains(tr, item) != bool(i.arg)))


@opcode("BINARY_SUBSCR")
def binary_subscr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(container, key -- item)"""
    key, container = frame.pop(), frame.pop()
    frame.push(tr.look(container).get_item(tr, key))


@opcode("STORE_SUBSCR")
def store_subscr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value, container, key -- )"""
    key, container, value = frame.pop(), frame.pop(), frame.pop()
    tr.look(container).set_item(tr, key, value)


@opcode("DELETE_SUBSCR")
def delete_subscr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(container, key -- )"""
    key, container = frame.pop(), frame.pop()
    tr.look(container).delete_item(tr, key)
