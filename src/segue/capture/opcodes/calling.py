"""Calls, function making, classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture.breaks import graph_break
from segue.capture.calls import make_function
from segue.capture.opcodes import opcode
from segue.capture.values.base import NULL
from segue.capture.values.function import CellValue

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("CALL")
def call(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(NULL, callable, args[arg] -- result) or (callable, self, args[arg] -- result)"""
    args = frame.popn(i.arg)
    callee, below = frame.pop(), frame.pop()
    if below is not NULL:
        args.insert(0, callee)
        callee = below
    n_positional = len(args) - len(i.kwnames)
    kwargs = dict(zip(i.kwnames, args[n_positional:], strict=True))
    tr.is_direct = True
    frame.push(tr.call(callee, args[:n_positional], kwargs))


@opcode("CALL_FUNCTION_EX")
def call_function_ex(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(NULL, callable, args, kwargs if arg & 1 -- result)"""
    kwargs = {}
    if i.arg & 1:
        for key, value in tr.mapping_items(tr.look(frame.pop())):
            kwargs[tr.look(key).concrete(tr)] = value
    args = tr.unpack(frame.pop())
    callee = frame.pop()
    frame.pop()
    tr.is_direct = True
    frame.push(tr.call(callee, list(args), kwargs))


@opcode("MAKE_FUNCTION")
def make_function_(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(defaults if arg & 1, kwdefaults if & 2, annotations if & 4, closure if & 8, code -- function)"""
    code = tr.look(frame.pop()).real
    closure = tr.unpack(frame.pop()) if i.arg & 8 else []
    annotations = frame.pop() if i.arg & 4 else None
    keyword = tr.mapping_items(frame.pop()) if i.arg & 2 else []
    defaults = tr.unpack(frame.pop()) if i.arg & 1 else []
    cells = [cell for cell in map(tr.look, closure) if isinstance(cell, CellValue)]
    keyword_defaults = {tr.look(k).concrete(tr): v for k, v in keyword}
    made = make_function(tr, code, frame.function_value, list(defaults), keyword_defaults, cells)
    made.annotations = annotations
    frame.push(made)


@opcode("LOAD_BUILD_CLASS")
def load_build_class(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- builder)"""
    frame.push(tr.constant(__build_class__))


@opcode("SETUP_CLEANUP", "SETUP_FINALLY", "SETUP_WITH")
def pseudo(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """Pseudo instructions of the compiler, never in code objects."""
    graph_break("unsupported-instruction", opname=i.opname)
