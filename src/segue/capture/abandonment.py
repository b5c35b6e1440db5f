"""Generators that the program drops half-way: what closing them would run.

Python closes such a generator at once, by raising GeneratorExit where it is suspended.  If all that this runs is
`except` clauses for other exceptions, nobody can tell when it happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.capture.values.known import Known

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Handler, Instruction

_PASSED_OVER = frozenset("PUSH_EXC_INFO COPY POP_EXCEPT BUILD_TUPLE CHECK_EXC_MATCH".split())


def closes_silently(tr: Tracer, frame: Frame) -> bool:
    """Whether closing a suspended generator frame runs no code of the program."""
    handler = frame.code.instructions[frame.ip - 1].handler
    while handler is not None:
        reraise = _passes(tr, frame, handler)
        if reraise is None:
            return False
        handler = reraise.handler
    return True


def _passes(tr: Tracer, frame: Frame, handler: Handler) -> Instruction | None:
    """The instruction by which a handler lets GeneratorExit pass; None if it does anything else."""
    index = handler.target
    while True:
        i = frame.code.instructions[index]
        if i.opname == "RERAISE":
            return i
        if i.opname == "LOAD_GLOBAL" and not _is_other_exception(tr, frame, i.argval):
            return None
        if i.opname == "POP_JUMP_IF_FALSE" and i.target is not None:
            index = i.target
        elif i.opname in _PASSED_OVER or i.opname == "LOAD_GLOBAL":
            index += 1
        else:
            return None


def _is_other_exception(tr: Tracer, frame: Frame, name: str) -> bool:
    from segue.capture.opcodes.names import find_global

    found = tr.look(find_global(tr, frame, name))
    cls = found.concrete(tr) if isinstance(found, Known) else None
    return isinstance(cls, type) and issubclass(cls, BaseException) and not issubclass(GeneratorExit, cls)
