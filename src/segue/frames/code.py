"""The normal form of a function's bytecode: instructions, stack shapes, liveness, loops.

Example:
    >>> def double(x):
    ...     return x + x
    >>> print(Code.of(double.__code__))  # doctest: +SKIP
    double(x)
      0    1  RESUME           0                    []
      1    2  LOAD_FAST        0 (x)                []
      2    2  LOAD_FAST        0 (x)                [v]
      3    2  BINARY_OP        0 (+)                [v v]
      4    2  RETURN_VALUE                          [v]
"""

from __future__ import annotations

import inspect
import reprlib
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from types import CodeType
from typing import Any, Literal, NamedTuple

from .cpython311 import (
    BINARY_OPERATORS,
    COMPARISONS,
    TERMINAL,
    WITH_NAME,
    WITH_SLOT,
    Handler,
    Position,
    Range,
    Raw,
    Shape,
    decode,
    exception_ranges,
    shape_after,
)

__all__ = ["Code", "Handler", "Instruction", "Loop", "Position", "Shape", "Slot"]

Kind = Literal["local", "cell", "free"]


class Slot(NamedTuple):
    """One slot of a frame's `localsplus`. An argument that is also a cell variable is a "cell"."""

    name: str
    kind: Kind

    def __str__(self) -> str:
        return self.name if self.kind == "local" else f"{self.name}:{self.kind}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of the normal form; see docs/architecture.md for what the fields mean."""

    index: int
    opname: str
    arg: int
    argval: Any
    position: Position
    handler: Handler | None = None
    target: int | None = None
    backward: bool = False
    push_null: bool = False
    kwnames: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"{self.opname:<20}"]
        if self.target is not None:
            words.append(f"to {self.target}" + (" (backward)" if self.backward else ""))
        elif self.argval is not None or self.opname == "LOAD_CONST":
            words.append(f"{self.arg} ({self._shown_argval()})")
        elif self.arg:
            words.append(str(self.arg))
        if self.push_null:
            words.append("+NULL")
        if self.kwnames:
            words.append(f"kw={','.join(self.kwnames)}")
        return " ".join(words).rstrip()

    def _shown_argval(self) -> str:
        if isinstance(self.argval, CodeType):
            return f"<code {self.argval.co_name}>"
        if isinstance(self.argval, str) and self.opname != "LOAD_CONST":
            return self.argval
        return reprlib.repr(self.argval)


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: the instructions from which control can come back to its header."""

    header: int
    body: frozenset[int]
    is_for: bool


# A function that names one of these may have all its locals read by a call.
_FRAME_READERS = frozenset(
    {
        "locals",
        "vars",
        "dir",
        "eval",
        "exec",
        "breakpoint",
        "set_trace",
        "_getframe",
        "currentframe",
        "stack",
    }
)
_CALLS = frozenset({"CALL", "CALL_FUNCTION_EX"})
_GENERATOR_FLAGS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)


class Code:
    """What there is to know about one code object, in the normal form.

    Attributes:
        instructions: the instructions, the prologue (up to RESUME) included.
        start: index of the first instruction after the prologue.
        localsplus: the frame's slots, names and kinds.
        n_args: argument slots, keyword-only ones, *args and **kwargs included.
        has_generator: whether a call makes a generator, coroutine or asynchronous generator.
        is_generator: whether a call makes a generator.
        name, filename, firstlineno, stack_size: as in the code object.
    """

    def __init__(self, original: CodeType) -> None:
        self._original = weakref.ref(original)
        self.name = original.co_qualname
        self.filename = original.co_filename
        self.firstlineno = original.co_firstlineno
        self.stack_size = original.co_stacksize
        self.localsplus = _localsplus(original)
        self.n_args = _n_args(original)
        self.has_generator = bool(original.co_flags & _GENERATOR_FLAGS)
        self.is_generator = original.co_flags & _GENERATOR_FLAGS == inspect.CO_GENERATOR
        self.instructions = _normalise(original, self.localsplus)
        self.start = 1 + next((i.index for i in self.instructions if i.opname == "RESUME"), -1)
        self._names = frozenset(original.co_names)

    @staticmethod
    def of(original: CodeType) -> Code:
        """The normal form of a code object, made once as long as the code object lives.

        Args:
            original: any code object compiled by this Python.

        Raises:
            TypeError: `original` is not a code object.
        """
        known = _known.get(id(original))
        if known is not None:
            return known
        if not isinstance(original, CodeType):
            raise TypeError(f"Code.of takes a code object, not {type(original).__name__}")
        # Code objects are equal by content, which would mix up two functions: key by identity.
        key = id(original)
        made = _known[key] = Code(original)
        weakref.finalize(original, _known.pop, key, None).atexit = False
        return made

    @property
    def original(self) -> CodeType:
        """The code object. `Code` does not keep it alive; ReferenceError when it is gone."""
        original = self._original()
        if original is None:
            raise ReferenceError(f"the code object of {self.name} is gone")
        return original

    def __len__(self) -> int:
        return len(self.instructions)

    # --- control flow ----------------------------------------------------------------------------

    def successors(self, index: int) -> tuple[int, ...]:
        """Where control can go after an instruction: the next one, jump target, handler."""
        return self._successors[index]

    @cached_property
    def _successors(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(dict.fromkeys(_successors(i))) for i in self.instructions)

    def is_place(self, index: int) -> bool:
        """Whether control can be handed over right before an instruction.

        Not in the prologue, and not between a SEND and its yield or a yield and its RESUME: a
        suspended generator is recognised by these neighbours.
        """
        if index < self.start or self.shapes[index] is None:
            return False
        opname = self.instructions[index].opname
        return opname != "RESUME" and not (opname == "YIELD_VALUE" and self.instructions[index - 1].opname == "SEND")

    def resumptions(self) -> tuple[int, ...]:
        """Where a generator goes on: at the top, and after each yield that is not part of a
        `yield from`."""
        after = [i.index + 1 for i in self.instructions if i.opname == "RESUME" and i.arg < 2]
        return tuple(index for index in after if self.shapes[index] is not None)

    @cached_property
    def shapes(self) -> tuple[Shape | None, ...]:
        """The stack before each instruction, bottom first: True a value, False NULL.

        None where control never comes.
        """
        shapes: list[Shape | None] = [None] * len(self.instructions)
        work: list[tuple[int, Shape]] = [(0, ())]
        while work:
            index, shape = work.pop()
            known = shapes[index]
            if known is not None:
                if known != shape:
                    raise ValueError(f"{self.name}: two stack shapes at {index}: {known} and {shape}")
                continue
            shapes[index] = shape
            work.extend(_flow(self.instructions[index], shape))
        return tuple(shapes)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The natural loops, by header; several back edges to one header make one loop."""
        tails: dict[int, set[int]] = {}
        for tail, header in _back_edges(self._successors):
            tails.setdefault(header, set()).add(tail)
        predecessors = _invert(self._successors)
        found = []
        for header in sorted(tails):
            body = _natural_loop(header, tails[header], predecessors)
            if header == 0 or 0 not in body:  # entered only through the header
                found.append(Loop(header, body, self.instructions[header].opname == "FOR_ITER"))
        return tuple(found)

    def handlers(self) -> tuple[int, ...]:
        """The first instructions of the exception handlers."""
        return tuple(sorted({i.handler.target for i in self.instructions if i.handler is not None}))

    def enclosing_loops(self, index: int) -> tuple[Loop, ...]:
        """The loops that an instruction is in, innermost first."""
        around = [loop for loop in self.loops if index in loop.body]
        return tuple(sorted(around, key=lambda loop: len(loop.body)))

    # --- liveness --------------------------------------------------------------------------------

    @cached_property
    def live(self) -> tuple[frozenset[int], ...]:
        """The slots of localsplus that may be read at or after each instruction.

        Reads in handlers count. Where a call may look into the frame (`locals`, `super`), it reads.
        """
        reads, writes = self._reads(), self._writes()
        masks = [0] * len(self.instructions)
        changed = True
        while changed:
            changed = False
            for index in reversed(range(len(masks))):
                instruction, after = self.instructions[index], 0
                for successor in self._successors[index]:
                    after |= masks[successor]
                mask = reads[index] | after & ~writes[index]
                if instruction.handler is not None:  # it may raise before it writes
                    mask |= masks[instruction.handler.target]
                if mask != masks[index]:
                    masks[index] = mask
                    changed = True
        sets = {mask: frozenset(_bits(mask)) for mask in set(masks)}
        return tuple(sets[mask] for mask in masks)

    def _reads(self) -> list[int]:
        by_call = self._slots_read_by_calls()
        return [
            1 << i.arg if i.opname in _READ_SLOT else by_call if i.opname in _CALLS else 0 for i in self.instructions
        ]

    def _writes(self) -> list[int]:
        first_free = sum(slot.kind != "free" for slot in self.localsplus)
        free = sum(1 << slot for slot in range(first_free, len(self.localsplus)))
        return [
            1 << i.arg if i.opname in _WRITE_SLOT else free if i.opname == "COPY_FREE_VARS" else 0
            for i in self.instructions
        ]

    def _slots_read_by_calls(self) -> int:
        names = [slot.name for slot in self.localsplus]
        if self._names & _FRAME_READERS:
            return (1 << len(names)) - 1
        if "__class__" in names and self.n_args:
            # super() reads the first argument and __class__ from the frame
            return 1 | 1 << names.index("__class__")
        return 0

    # --- printing --------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Code {self.name} at {self.filename}:{self.firstlineno}, {len(self)} instructions>"

    def __str__(self) -> str:
        lines = [f"{self.name}({', '.join(map(str, self.localsplus))})"]
        line = None
        for instruction, shape in zip(self.instructions, self.shapes, strict=True):
            lineno = instruction.position.lineno
            shown = "" if lineno is None or lineno == line else str(lineno)
            line = lineno
            lines.append(
                f"{instruction.index:5} {shown:>5}  {instruction!s:<44} {_shown_shape(shape)}"
                f"{_shown_handler(instruction.handler)}"
            )
        return "\n".join(lines)


_known: dict[int, Code] = {}

# STORE_DEREF reads the cell, DELETE_FAST asks whether its slot is bound.
_READ_SLOT = WITH_SLOT - {"STORE_FAST"}
_WRITE_SLOT = frozenset({"STORE_FAST", "DELETE_FAST", "MAKE_CELL"})


def _shown_shape(shape: Shape | None) -> str:
    if shape is None:
        return "unreachable"
    return "[" + " ".join("v" if value else "0" for value in shape) + "]"


def _shown_handler(handler: Handler | None) -> str:
    if handler is None:
        return ""
    lasti = " lasti" if handler.push_lasti else ""
    return f"  except {handler.target} depth {handler.depth}{lasti}"


# --- building ------------------------------------------------------------------------------------


def _localsplus(code: CodeType) -> tuple[Slot, ...]:
    cells = frozenset(code.co_cellvars)
    names = frozenset(code.co_varnames)
    return (
        *(Slot(name, "cell" if name in cells else "local") for name in code.co_varnames),
        *(Slot(name, "cell") for name in code.co_cellvars if name not in names),
        *(Slot(name, "free") for name in code.co_freevars),
    )


def _n_args(code: CodeType) -> int:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars


def _normalise(code: CodeType, slots: tuple[Slot, ...]) -> tuple[Instruction, ...]:
    """Decode, drop and fold what the normal form does not have, turn offsets into indices."""
    # offset -> index of the instruction there, or of the next one that is kept
    at: dict[int, int] = {}
    steps: list[tuple[Raw, str, int, Any]] = []
    kwnames: dict[int, tuple[str, ...]] = {}
    for raw in decode(code):
        at[raw.offset] = len(steps)
        match raw.opname:
            case "NOP" | "PRECALL":
                pass
            case "KW_NAMES":
                kwnames[len(steps)] = code.co_consts[raw.arg]
            case "LOAD_METHOD":
                steps.append((raw, "LOAD_ATTR", raw.arg, code.co_names[raw.arg]))
                steps.append((raw, "PUSH_NULL", 0, None))
                steps.append((raw, "SWAP", 2, None))
            case _:
                steps.append((raw, *_named(raw, code, slots)))
    handlers = _handlers([raw.offset for raw, *_ in steps], exception_ranges(code), at)
    made = []
    for index, ((raw, opname, arg, argval), handler) in enumerate(zip(steps, handlers, strict=True)):
        target = None if raw.target is None else at[raw.target]
        made.append(
            Instruction(
                index,
                opname,
                arg,
                argval,
                raw.position,
                handler,
                target,
                backward=target is not None and target <= index,
                push_null=raw.opname == "LOAD_GLOBAL" and bool(raw.arg & 1),
                kwnames=kwnames.get(index, ()),
            )
        )
    return tuple(made)


def _named(raw: Raw, code: CodeType, slots: tuple[Slot, ...]) -> tuple[str, int, Any]:
    """Name, argument and argument's value of an instruction that stays one instruction."""
    opname, arg = raw.opname, raw.arg
    if raw.target is not None:
        return _undirected(opname), 0, None
    if opname == "LOAD_GLOBAL":
        return opname, arg >> 1, code.co_names[arg >> 1]
    if opname in WITH_NAME:
        return opname, arg, code.co_names[arg]
    if opname in WITH_SLOT:
        return opname, arg, slots[arg].name
    match opname:
        case "LOAD_CONST":
            return opname, arg, code.co_consts[arg]
        case "BINARY_OP":
            return opname, arg, BINARY_OPERATORS[arg]
        case "COMPARE_OP":
            return opname, arg, COMPARISONS[arg]
        case "IS_OP":
            return opname, arg, "is not" if arg else "is"
        case "CONTAINS_OP":
            return opname, arg, "not in" if arg else "in"
    return opname, arg, None


def _undirected(opname: str) -> str:
    if opname in ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"):
        return "JUMP"
    return opname.replace("_FORWARD", "").replace("_BACKWARD", "")


def _handlers(offsets: list[int], ranges: list[Range], at: dict[int, int]) -> Iterator[Handler | None]:
    """The handler of the instruction at each offset; both lists are in order."""
    following = iter(ranges)
    current = next(following, None)
    made: dict[Range, Handler] = {r: Handler(at[r.target], r.depth, r.push_lasti) for r in ranges}
    for offset in offsets:
        while current is not None and current.end <= offset:
            current = next(following, None)
        yield made[current] if current is not None and current.start <= offset else None


# --- analysis ------------------------------------------------------------------------------------


def _successors(instruction: Instruction) -> Iterator[int]:
    if instruction.opname not in TERMINAL:
        yield instruction.index + 1
    if instruction.target is not None:
        yield instruction.target
    if instruction.handler is not None:
        yield instruction.handler.target


def _flow(instruction: Instruction, shape: Shape) -> Iterator[tuple[int, Shape]]:
    """Where control goes from an instruction, and the stack there."""
    opname, arg, null = instruction.opname, instruction.arg, instruction.push_null
    if instruction.handler is not None:
        target, depth, push_lasti = instruction.handler
        yield target, shape[:depth] + (True,) * (1 + push_lasti)
    if instruction.target is not None:
        yield instruction.target, shape_after(shape, opname, arg, null, taken=True)
    if instruction.opname not in TERMINAL:
        yield instruction.index + 1, shape_after(shape, opname, arg, null, taken=False)


def _back_edges(successors: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, int]]:
    """Edges to an instruction that is on the current path of a depth-first walk from the top."""
    on_path: set[int] = set()
    seen: set[int] = set()
    path: list[tuple[int, Iterator[int]]] = []

    def enter(index: int) -> None:
        seen.add(index)
        on_path.add(index)
        path.append((index, iter(successors[index])))

    enter(0)
    while path:
        index, rest = path[-1]
        following = next(rest, None)
        if following is None:
            on_path.discard(index)
            path.pop()
        elif following in on_path:
            yield index, following
        elif following not in seen:
            enter(following)


def _invert(successors: tuple[tuple[int, ...], ...]) -> list[list[int]]:
    predecessors: list[list[int]] = [[] for _ in successors]
    for index, following in enumerate(successors):
        for successor in following:
            predecessors[successor].append(index)
    return predecessors


def _natural_loop(header: int, tails: Iterable[int], predecessors: list[list[int]]) -> frozenset[int]:
    body = {header}
    work = list(tails)
    while work:
        index = work.pop()
        if index not in body:
            body.add(index)
            work.extend(predecessors[index])
    return frozenset(body)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
