"""A captured frame: runs bytecode over values instead of objects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from segue.capture.breaks import GraphBreak, Raised
from segue.capture.leaving import LoopFacts, Place
from segue.capture.opcodes import HANDLERS
from segue.capture.values.base import NULL, Value
from segue.capture.values.known import Known
from segue.frames.code import Code, Instruction

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer
    from segue.capture.values.function import FunctionValue
    from segue.capture.values.object import ExceptionValue

RETURNED = -1
YIELDED = -2


@dataclass
class Resumable:
    """What a resumable frame keeps, to leave off before an instruction that breaks."""

    path: Place
    loops: LoopFacts
    stack: list[Value] = field(default_factory=list)
    """The stack before the instruction."""
    changes: int = 0
    """The tracer's count of changes before the instruction."""
    entered: set[int] = field(default_factory=set)
    """Headers of the loops that this segment has entered."""

    def place(self, i: Instruction) -> Place:
        """An instruction of this frame."""
        return (*self.path, i.index)


class Frame:
    """The state of one function activation during capture.

    `slots` are localsplus (None: unbound; cells are `CellValue`), `stack` the value stack, `ip` the next instruction.
    `result` holds what was returned or yielded last.

    A segment can leave off in the middle of a frame that is *resumable*: the one at the gate, its callers, and those
    that such a frame calls directly, so that what they return is the result of the caller's instruction.
    """

    def __init__(self, code: Code, slots: list[Value | None], function_value: FunctionValue) -> None:
        self.code = code
        self.slots = slots
        self.function_value = function_value
        self.stack: list[Value] = []
        self.ip = 0
        self.result: Value | None = None
        self.current: Instruction | None = None
        self.level: int | None = None
        """For the frame at the gate 0, for its callers 1 and up."""
        self.caller: Frame | None = None
        self.resumable: Resumable | None = None
        self.has_locals_dict = False

    def push(self, value: Value) -> None:
        """Push onto the value stack."""
        self.stack.append(value)

    def pop(self) -> Value:
        """Pop the top of the value stack."""
        return self.stack.pop()

    def popn(self, n: int) -> list[Value]:
        """Pop the `n` topmost values, in the order in which they were pushed."""
        if n == 0:
            return []
        taken = self.stack[-n:]
        del self.stack[-n:]
        return taken

    def run(self, tr: Tracer) -> Value:
        """Run until the function returns or yields; what it yields, or its return value.

        A generator's frame gives `NULL` when it has returned (the value is then in `result`).
        """
        resumable, outer = self.resumable, tr.at
        tr.frames.append(self)
        try:
            while True:
                instruction = self.code.instructions[self.ip]
                self.current = instruction
                if resumable is not None:
                    tr.before_instruction(self, resumable, instruction)
                try:
                    tr.count_instruction()
                    outcome = HANDLERS[instruction.opname](tr, self, instruction)
                except Raised as raised:
                    self._unwind(tr, instruction, raised)
                    continue
                except GraphBreak as broke:
                    tr.locate(broke)
                    if resumable is not None:
                        tr.broke(self, resumable, instruction, broke)
                    raise
                if outcome is None:
                    self.ip += 1
                elif outcome >= 0:
                    self.ip = outcome
                elif outcome == RETURNED:
                    assert self.result is not None
                    return NULL if self.code.has_generator else self.result
                else:
                    self.ip += 1
                    assert self.result is not None
                    return self.result
        finally:
            tr.frames.pop()
            tr.at = outer

    def throw(self, tr: Tracer, exception: ExceptionValue) -> Value:
        """Resume a suspended generator frame by raising at its yield."""
        self._unwind(tr, self.code.instructions[self.ip - 1], Raised(exception))
        return self.run(tr)

    def delegate(self) -> Value | None:
        """The iterator that a suspended generator frame delegates to by `yield from`."""
        is_delegating = self.ip > 1 and self.code.instructions[self.ip - 2].opname == "SEND"
        return self.stack[-1] if is_delegating else None

    def delegate_returned(self, tr: Tracer, result: Value) -> Value:
        """Resume after the `yield from` of a suspended generator frame."""
        self.stack[-1] = result
        target = self.code.instructions[self.ip - 2].target
        assert target is not None
        self.ip = target
        return self.run(tr)

    def _unwind(self, tr: Tracer, instruction: Instruction, raised: Raised) -> None:
        """Go on at the handler of the exception table, or let the exception leave the frame."""
        handler = instruction.handler
        if handler is None:
            if self is tr.root:
                tr.root_raised(self, instruction, raised)
            raised.value.is_raised = True
            raise raised
        exception = raised.value
        exception.is_raised = True
        if self.resumable is not None and exception.origin is None:
            exception.origin = self.resumable.place(instruction)
        tr.changed()
        del self.stack[handler.depth :]
        if handler.push_lasti:
            self.stack.append(Known(instruction.index))
        self.stack.append(exception)
        self.ip = handler.target
