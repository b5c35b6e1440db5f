"""Jumps, loops, returns, generators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture.breaks import Raised, graph_break
from segue.capture.opcodes import opcode
from segue.capture.operators import identical
from segue.capture.values.iterator import GeneratorValue, ProgramIterator

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("JUMP")
def jump(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """( -- )"""
    assert i.target is not None
    if i.backward:
        tr.loop_back(frame, i.target)
    return i.target


@opcode("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")
def pop_jump_if(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """(condition -- )"""
    from segue.capture.conditions import join

    joined = join(tr, frame, i)
    if joined is not None:
        return joined
    taken = tr.truth(frame.stack[-1]) == i.opname.endswith("TRUE")
    frame.pop()
    return _go(tr, frame, i, taken)


@opcode("POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def pop_jump_if_none(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """(value -- )"""
    is_none = identical(tr, frame.pop(), tr.constant(None))
    return _go(tr, frame, i, is_none != i.opname.endswith("NOT_NONE"))


@opcode("JUMP_IF_TRUE_OR_POP", "JUMP_IF_FALSE_OR_POP")
def jump_if_or_pop(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """(value -- value if it jumps)"""
    if tr.truth(frame.stack[-1]) == ("TRUE" in i.opname):
        return i.target
    frame.pop()
    return None


def _go(tr: Tracer, frame: Frame, i: Instruction, taken: bool) -> int | None:
    if not taken:
        return None
    assert i.target is not None
    if i.backward or i.target <= i.index:
        tr.loop_back(frame, i.target)
    return i.target


@opcode("GET_ITER")
def get_iter(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(iterable -- iterator)"""
    frame.push(tr.look(frame.pop()).iterate(tr))


@opcode("FOR_ITER")
def for_iter(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """(iterator -- iterator, item) or at the end (iterator -- )"""
    iterator = tr.look(frame.stack[-1])
    if isinstance(iterator, ProgramIterator):
        tr.keep_in_place(frame, i.index)
    item = iterator.next(tr)
    if item is None:
        frame.pop()
        tr.loop_done(frame, i.index)
        return i.target
    tr.loop_iteration(frame, i.index)
    frame.push(item)
    return None


@opcode("RETURN_VALUE")
def return_value(tr: Tracer, frame: Frame, i: Instruction) -> int:
    """(value -- )"""
    from segue.capture.frame import RETURNED

    if frame.level is not None and tr.outer_codes:
        tr.dropping_locals(frame)
    frame.result = frame.pop()
    return RETURNED


@opcode("RETURN_GENERATOR")
def return_generator(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- None): the first resumption of a generator"""
    frame.push(tr.constant(None))


@opcode("YIELD_VALUE")
def yield_value(tr: Tracer, frame: Frame, i: Instruction) -> int:
    """(value -- sent)"""
    from segue.capture.frame import YIELDED

    frame.result = frame.pop()
    return YIELDED


@opcode("GET_YIELD_FROM_ITER")
def get_yield_from_iter(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(iterable -- iterator)"""
    frame.push(tr.look(frame.pop()).iterate(tr))


@opcode("SEND")
def send(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """(receiver, sent -- receiver, yielded) or at the end (receiver, sent -- result)"""
    sent = frame.pop()
    receiver = tr.look(frame.stack[-1])
    try:
        if isinstance(receiver, GeneratorValue):
            yielded = receiver.send(tr, sent if receiver.started else None)
            result = receiver.frame.result
        else:
            if not identical(tr, sent, tr.constant(None)):
                graph_break("generator", what="sending into an iterator")
            yielded, result = receiver.next(tr), tr.constant(None)
    except Raised:
        frame.pop()
        raise
    if yielded is not None:
        frame.push(yielded)
        return None
    frame.pop()
    frame.push(result or tr.constant(None))
    return i.target


@opcode("GET_AWAITABLE", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH")
def asynchronous(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """Instructions of coroutines."""
    graph_break("unsupported-instruction", opname=i.opname)
