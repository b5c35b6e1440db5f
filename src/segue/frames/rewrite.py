"""Versions of a function: its own bytecode with a landing, gate crossings and exit pads spliced in.

The layout of a version:

    prologue        COPY_FREE_VARS, MAKE_CELL, RESUME
    landing         ask it; a tuple goes to the ladder at depth 0
    body            the instructions; before the instruction of a gate, in the same exception range:
                    ask the crossing; a tuple goes to the ladder at the gate's stack depth
    ladder          drops the stack slots below the tuple, one step per slot     (from here on
    switch          unpacks the tuple and selects by its pad number               outside every
    pads            put the exit's stack in place and jump to its instruction     exception range)

An exit inside a call has a pad that goes on with a continuation, in the exception range and at the
line of the original call. What it gives is the call's result; TRANSFER is passed on, for a caller
further out.

Landings, crossings and continuations are asked by UNARY_INVERT, and RESUME has an argument by which
it serves no signals: what a signal handler raises after a segment has run must be raised where the
segment left off, and CALL, RESUME and jumps back would raise it on the way there.

A value of lasti on the stack of an exception handler is passed on as it is, although it counts the
code units of the version that raised. Versions only grow, so it stays a valid offset, and CPython
uses it for nothing but the `f_lineno` of the frame after RERAISE; tracebacks hold their own lines.

A generator's frame belongs to its object, so it cannot be left for another one. It yields TRANSFER
to the frame hook, which lets the same frame go on in the newest version, at the landing. All
versions of a generator have the same stack size, for which its object has room.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Literal, TypedDict

from segue import _core

from .code import Code, Handler, Instruction
from .cpython311 import Assembler, Position

Where = Literal["past", "gate", "call"]

CALLS = frozenset({"CALL", "CALL_FUNCTION_EX"})
"""Instructions whose result is what the function that they call returns."""


@dataclass(frozen=True, slots=True)
class Exit:
    """A place where a segment hands control back to the interpreter.

    Attributes:
        index: the instruction to go on with.
        where: "gate", the gate before the instruction; "past", the instruction itself; "call", inside
            the call that the instruction makes, which a continuation on top of the stack goes on with.
    """

    index: int
    where: Where = "past"

    def __str__(self) -> str:
        return f"{self.where} {self.index}"

    def check(self, code: Code) -> None:
        """Raise ValueError unless control can be handed back there."""
        check_place(code, self.index)
        if self.where == "call" and code.instructions[self.index].opname not in CALLS:
            raise ValueError(f"instruction {self.index} of {code.name} is no call")

    def shape(self, code: Code) -> tuple[bool, ...]:
        """The stack that the pad puts in place, without a continuation: True for a value, False for NULL."""
        shape = code.shapes[self.index + 1 if self.where == "call" else self.index] or ()
        return shape[:-1] if self.where == "call" else shape


def check_place(code: Code, index: int) -> None:
    """Raise ValueError unless a gate or an exit may stand before instruction `index` of `code`."""
    if not 0 <= index < len(code):
        raise ValueError(f"{code.name} has no instruction {index}; it has {len(code)}")
    if index < code.start:
        raise ValueError(f"instruction {index} of {code.name} is in the prologue")
    if code.shapes[index] is None:
        raise ValueError(f"control never comes to instruction {index} of {code.name}")
    if not code.is_place(index):
        raise ValueError(f"instruction {index} of {code.name} belongs to the yield before it")


def build_version(code: Code, gates: Mapping[int, object], exits: Sequence[Exit], landing: object) -> CodeType:
    """Rewrite a function so that it can leave to and be entered from compiled code.

    Args:
        code: the code of a function or generator function, not of a coroutine.
        gates: the crossing of each gate, by instruction index; its `__invert__` returns None (go on)
            or a tuple `(pad, payload)`.
        exits: one pad is made for each, numbered in this order.
        landing: asked like a crossing, at the top.

    Returns:
        A code object that takes all `code.n_args` argument slots positionally.

    Raises:
        ValueError: a coroutine, or a gate or exit where none can be.
    """
    if code.has_generator and not code.is_generator:
        raise ValueError(f"{code.name} is a coroutine: those are not rewritten")
    for index in gates:
        check_place(code, index)
    for exit in exits:
        exit.check(code)
        if exit.where == "gate" and exit.index not in gates:
            raise ValueError(f"exit to the gate at {exit.index} of {code.name}: there is no gate")
    return _Rewriter(code, gates, exits).build(landing)


_ASKING_DEPTH = 1  # stack slots that asking a landing or a crossing takes
_CONTINUATION_DEPTH = 3  # the result of a continuation, the result again, TRANSFER
_SWITCH_DEPTH = 4  # payload, pad number, pad number again, a number to compare with
_LESS = 0  # COMPARE_OP's argument for <
_RESUME_UNDISTURBED = 2  # RESUME's argument with which it serves no signals


class _At(TypedDict):
    position: Position
    handler: Handler | None


class _Rewriter:
    """Emits one version. Labels: i is where control arrives natively at instruction i, the gate
    included; `_past(i)` is the instruction itself; the rest is numbered from `2 * len(code)` on."""

    def __init__(self, code: Code, gates: Mapping[int, object], exits: Sequence[Exit]) -> None:
        self.code = code
        self.gates = gates
        self.exits = exits
        self.original = code.original
        self.consts: list[object] = list(self.original.co_consts)
        self.places = {id(value): place for place, value in enumerate(self.consts)}
        self.assembler = Assembler(self.original.co_firstlineno)
        self.deepest = max((self._depth(index) for index in gates), default=0)
        self.first_rung = 2 * len(code)
        self.next_label = self.first_rung + self.deepest + 1
        line = self.original.co_firstlineno
        self.nowhere = Position(line, line, None, None)

    def build(self, landing: object) -> CodeType:
        for instruction in self.code.instructions[: self.code.start]:
            self._prologue(instruction)
        self._leave_if_told(landing, 0, self.nowhere, None)
        for instruction in self.code.instructions[self.code.start :]:
            index = instruction.index
            self.assembler.place(index)
            if index in self.gates:
                crossing, depth = self.gates[index], self._depth(index)
                self._leave_if_told(crossing, depth, instruction.position, instruction.handler)
            self.assembler.place(self._past(index))
            self._instruction(instruction)
        self._ladder()
        self._emit("UNPACK_SEQUENCE", 2)
        self._switch(-1, len(self.exits))
        return self._assembled()

    def _assembled(self) -> CodeType:
        encoded = self.assembler.finish()
        return self.original.replace(
            co_argcount=self.code.n_args,
            co_posonlyargcount=0,
            co_kwonlyargcount=0,
            co_flags=self.original.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
            co_code=encoded.code,
            co_consts=tuple(self.consts),
            co_linetable=encoded.linetable,
            co_exceptiontable=encoded.exceptiontable,
            co_stacksize=self._stack_size(),
        )

    def _stack_size(self) -> int:
        code = self.code
        if code.is_generator:
            return max(code.stack_size + _ASKING_DEPTH, _SWITCH_DEPTH)
        inside = [len(e.shape(code)) + _CONTINUATION_DEPTH for e in self.exits if e.where == "call"]
        deepest = max((*(len(e.shape(code)) for e in self.exits), *inside), default=0)
        return max(code.stack_size, self.deepest + _ASKING_DEPTH, deepest, _SWITCH_DEPTH)

    # --- parts of the layout --------------------------------------------------------------------

    def _leave_if_told(self, asked: object, depth: int, position: Position, handler: Handler | None) -> None:
        """Ask a landing or crossing; on a tuple, go to the ladder with it on top of the stack."""
        where: _At = {"position": position, "handler": handler}
        emit = self.assembler.emit
        emit("LOAD_CONST", self._const(asked), **where)
        emit("UNARY_INVERT", **where)
        emit("JUMP_IF_TRUE_OR_POP", target=self.first_rung + depth, **where)

    def _ladder(self) -> None:
        for depth in range(self.deepest, 0, -1):
            self.assembler.place(self.first_rung + depth)
            self._emit("SWAP", 2)
            self._emit("POP_TOP")
        self.assembler.place(self.first_rung)

    def _switch(self, low: int, high: int) -> None:
        """Select among the pads low, …, high - 1 by halving; the stack is payload, number."""
        if high - low == 1:
            self._emit("POP_TOP")
            self._pad(low)
            return
        middle = (low + high) // 2
        below = self.next_label
        self.next_label += 1
        self._emit("COPY", 1)
        self._emit("LOAD_CONST", self._const(middle))
        self._emit("COMPARE_OP", _LESS)
        self._emit("POP_JUMP_IF_TRUE", target=below)
        self._switch(middle, high)
        self.assembler.place(below)
        self._switch(low, middle)

    def _pad(self, number: int) -> None:
        """Put the stack of an exit in place and go there; the stack is the payload."""
        if number < 0:
            self._emit("YIELD_VALUE" if self.code.is_generator else "RETURN_VALUE")
            return
        exit = self.exits[number]
        shape = exit.shape(self.code)
        if exit.where == "call":
            shape = (*shape, True)
        if shape:
            self._emit("UNPACK_SEQUENCE", len(shape))
        else:
            self._emit("POP_TOP")
        for place, has_value in enumerate(shape):
            if not has_value:
                self._null(len(shape) - place)
        if exit.where == "call":
            self._go_on_inside(exit.index)
            return
        target = exit.index if exit.where == "gate" else self._past(exit.index)
        # Nothing may be raised here, outside the exception ranges: no interrupt is served.
        self._emit("JUMP_BACKWARD_NO_INTERRUPT", target=target)

    def _go_on_inside(self, index: int) -> None:
        """Go on inside the call of instruction `index`, with the continuation on top of the stack."""
        instruction = self.code.instructions[index]
        where: _At = {"position": instruction.position, "handler": instruction.handler}
        passed_on = self.next_label
        self.next_label += 1
        self.assembler.emit("UNARY_INVERT", **where)
        self._emit("COPY", 1)
        self._emit("LOAD_CONST", self._const(_core.TRANSFER))
        self._emit("IS_OP", 0)
        self._emit("POP_JUMP_IF_TRUE", target=passed_on)
        self._emit("JUMP_BACKWARD_NO_INTERRUPT", target=index + 1)
        self.assembler.place(passed_on)
        self._emit("RETURN_VALUE")  # the frame drops the rest of its stack

    def _null(self, from_top: int) -> None:
        """Replace the value at a stack place (1 is the top) by NULL."""
        if from_top > 1:
            self._emit("SWAP", from_top)
        self._emit("POP_TOP")
        self._emit("PUSH_NULL")
        if from_top > 1:
            self._emit("SWAP", from_top)

    # --- instructions ---------------------------------------------------------------------------

    def _prologue(self, instruction: Instruction) -> None:
        if instruction.opname == "RESUME" and not self.code.is_generator:
            where: _At = {"position": instruction.position, "handler": instruction.handler}
            self.assembler.emit("RESUME", _RESUME_UNDISTURBED, **where)
        else:
            self._instruction(instruction)

    def _instruction(self, instruction: Instruction) -> None:
        """Emit an instruction of the normal form in CPython's own encoding."""
        where: _At = {"position": instruction.position, "handler": instruction.handler}
        emit = self.assembler.emit
        if instruction.kwnames:
            emit("KW_NAMES", self._const(instruction.kwnames), **where)
        arg = instruction.arg
        if instruction.opname == "CALL":
            emit("PRECALL", arg, **where)
        elif instruction.opname == "LOAD_GLOBAL":
            arg = arg << 1 | instruction.push_null
        opname = instruction.opname
        if instruction.backward and self._is_send(instruction.target):
            opname = "JUMP_BACKWARD_NO_INTERRUPT"  # the innermost generator serves interrupts
        emit(opname, arg, target=instruction.target, **where)

    def _is_send(self, index: int | None) -> bool:
        return index is not None and self.code.instructions[index].opname == "SEND"

    def _emit(self, opname: str, arg: int = 0, target: int | None = None) -> None:
        self.assembler.emit(opname, arg, target=target, position=self.nowhere)

    def _const(self, value: object) -> int:
        place = self.places.get(id(value))
        if place is None:
            place = self.places[id(value)] = len(self.consts)
            self.consts.append(value)
        return place

    def _past(self, index: int) -> int:
        return len(self.code) + index

    def _depth(self, index: int) -> int:
        return len(self.code.shapes[index] or ())
