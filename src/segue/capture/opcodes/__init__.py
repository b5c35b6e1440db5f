"""The instructions of CPython 3.11: one function per opcode, by subject.

A handler gets the tracer, the frame and the instruction, changes the frame, and returns None (go on), the index to jump
to, or `frame.RETURNED` / `frame.YIELDED`.  Each docstring quotes the stack effect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction

Handler = Callable[["Tracer", "Frame", "Instruction"], "int | None"]

HANDLERS: dict[str, Handler] = {}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for opcodes of the normal form."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return register


from segue.capture.opcodes import (  # noqa: E402
    building,
    calling,
    control,
    exceptions,
    names,
    stack,
)

__all__ = ["HANDLERS", "building", "calling", "control", "exceptions", "names", "opcode", "stack"]
