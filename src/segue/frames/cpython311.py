"""How CPython 3.11 encodes code: opcodes, stack effects, jumps, line and exception tables.

Everything here is about bytes and opcodes of this one version of CPython. `segue.frames.code`
builds the normal form on top of it, `segue.frames.rewrite` assembles with `Assembler`.
"""

from __future__ import annotations

import dis
import opcode
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from types import CodeType
from typing import NamedTuple, TypeVar

if sys.version_info[:2] != (3, 11):
    raise ImportError(f"segue.frames.cpython311 is for CPython 3.11, not {sys.version}")

Shape = tuple[bool, ...]
_T = TypeVar("_T")


class Position(NamedTuple):
    """Where an instruction comes from in the source; None where the compiler recorded nothing."""

    lineno: int | None
    end_lineno: int | None
    col: int | None
    end_col: int | None


NOWHERE = Position(None, None, None, None)


class Handler(NamedTuple):
    """Where an exception goes: the stack is cut to `depth`, then lasti (if `push_lasti`) and the
    exception are pushed. `target` is an index of the normal form, or a label of an `Assembler`."""

    target: int
    depth: int
    push_lasti: bool


class Raw(NamedTuple):
    """One encoded instruction, its EXTENDED_ARG prefixes applied and its caches dropped."""

    offset: int  # of the first prefix, in code units: what jumps and exception ranges refer to
    opname: str
    arg: int
    target: int | None  # in code units
    position: Position


class Range(NamedTuple):
    """One entry of the exception table; offsets in code units, `end` excluded."""

    start: int
    end: int
    target: int
    depth: int
    push_lasti: bool


# --- decoding ------------------------------------------------------------------------------------

_NB_OPS: list[tuple[str, str]] = opcode._nb_ops  # type: ignore[attr-defined]
BINARY_OPERATORS = tuple(symbol for _, symbol in _NB_OPS)
COMPARISONS: tuple[str, ...] = tuple(opcode.cmp_op)
WITH_NAME = frozenset(opcode.opname[op] for op in opcode.hasname)
WITH_SLOT = frozenset(opcode.opname[op] for op in (*opcode.haslocal, *opcode.hasfree))
_CACHES: tuple[int, ...] = tuple(opcode._inline_cache_entries)  # type: ignore[attr-defined]
_FORWARD = frozenset(op for op in opcode.hasjrel if "BACKWARD" not in opcode.opname[op])
_BACKWARD = frozenset(opcode.hasjrel) - _FORWARD


def decode(code: CodeType) -> Iterator[Raw]:
    """Yield the instructions of `code` in order, never a specialised one."""
    units = code.co_code  # CPython gives the unspecialised instructions here
    positions = [Position(*position) for position in code.co_positions()]
    unit = start = arg = 0
    while 2 * unit < len(units):
        op = units[2 * unit]
        arg |= units[2 * unit + 1]
        if op == dis.EXTENDED_ARG:
            arg <<= 8
            unit += 1
            continue
        end = unit + 1
        target = end + arg if op in _FORWARD else end - arg if op in _BACKWARD else None
        yield Raw(start, opcode.opname[op], arg, target, positions[unit])
        unit = start = end + _CACHES[op]
        arg = 0


def exception_ranges(code: CodeType) -> list[Range]:
    """The exception table of `code`: disjoint ranges in order."""
    numbers = _read_varints(code.co_exceptiontable)
    return [
        Range(start, start + length, target, depth_lasti >> 1, bool(depth_lasti & 1))
        for start, length, target, depth_lasti in zip(*[numbers] * 4, strict=True)
    ]


def _read_varints(table: bytes) -> Iterator[int]:
    value = 0
    for byte in table:
        value = value << 6 | byte & 63
        if not byte & 64:
            yield value
            value = 0


# --- stack effects -------------------------------------------------------------------------------

# (values popped, values pushed) when control goes on to the next instruction.
_FIXED: Mapping[str, tuple[int, int]] = {
    "ASYNC_GEN_WRAP": (1, 1),
    "BEFORE_ASYNC_WITH": (1, 2),
    "BEFORE_WITH": (1, 2),
    "BINARY_OP": (2, 1),
    "BINARY_SUBSCR": (2, 1),
    "CHECK_EG_MATCH": (2, 2),
    "CHECK_EXC_MATCH": (1, 1),
    "COMPARE_OP": (2, 1),
    "CONTAINS_OP": (2, 1),
    "COPY_FREE_VARS": (0, 0),
    "DELETE_ATTR": (1, 0),
    "DELETE_DEREF": (0, 0),
    "DELETE_FAST": (0, 0),
    "DELETE_GLOBAL": (0, 0),
    "DELETE_NAME": (0, 0),
    "DELETE_SUBSCR": (2, 0),
    "DICT_MERGE": (1, 0),
    "DICT_UPDATE": (1, 0),
    "END_ASYNC_FOR": (2, 0),
    "FOR_ITER": (0, 1),
    "GET_AITER": (1, 1),
    "GET_ANEXT": (0, 1),
    "GET_AWAITABLE": (1, 1),
    "GET_ITER": (1, 1),
    "GET_LEN": (0, 1),
    "GET_YIELD_FROM_ITER": (1, 1),
    "IMPORT_FROM": (0, 1),
    "IMPORT_NAME": (2, 1),
    "IMPORT_STAR": (1, 0),
    "IS_OP": (2, 1),
    "JUMP": (0, 0),
    "JUMP_IF_FALSE_OR_POP": (1, 0),
    "JUMP_IF_TRUE_OR_POP": (1, 0),
    "LIST_APPEND": (1, 0),
    "LIST_EXTEND": (1, 0),
    "LIST_TO_TUPLE": (1, 1),
    "LOAD_ASSERTION_ERROR": (0, 1),
    "LOAD_ATTR": (1, 1),
    "LOAD_BUILD_CLASS": (0, 1),
    "LOAD_CLASSDEREF": (0, 1),
    "LOAD_CLOSURE": (0, 1),
    "LOAD_CONST": (0, 1),
    "LOAD_DEREF": (0, 1),
    "LOAD_FAST": (0, 1),
    "LOAD_NAME": (0, 1),
    "MAKE_CELL": (0, 0),
    "MAP_ADD": (2, 0),
    "MATCH_CLASS": (3, 1),
    "MATCH_KEYS": (0, 1),
    "MATCH_MAPPING": (0, 1),
    "MATCH_SEQUENCE": (0, 1),
    "POP_EXCEPT": (1, 0),
    "POP_JUMP_IF_FALSE": (1, 0),
    "POP_JUMP_IF_NONE": (1, 0),
    "POP_JUMP_IF_NOT_NONE": (1, 0),
    "POP_JUMP_IF_TRUE": (1, 0),
    "POP_TOP": (1, 0),
    "PREP_RERAISE_STAR": (2, 1),
    "PRINT_EXPR": (1, 0),
    "PUSH_EXC_INFO": (1, 2),
    "RERAISE": (1, 0),
    "RESUME": (0, 0),
    "RETURN_GENERATOR": (0, 1),
    "RETURN_VALUE": (1, 0),
    "SEND": (1, 1),
    "SETUP_ANNOTATIONS": (0, 0),
    "SET_ADD": (1, 0),
    "SET_UPDATE": (1, 0),
    "STORE_ATTR": (2, 0),
    "STORE_DEREF": (1, 0),
    "STORE_FAST": (1, 0),
    "STORE_GLOBAL": (1, 0),
    "STORE_NAME": (1, 0),
    "STORE_SUBSCR": (3, 0),
    "UNARY_INVERT": (1, 1),
    "UNARY_NEGATIVE": (1, 1),
    "UNARY_NOT": (1, 1),
    "UNARY_POSITIVE": (1, 1),
    "WITH_EXCEPT_START": (0, 1),
    "YIELD_VALUE": (1, 1),
}
# The same for instructions where it depends on the argument.
_BY_ARG: Mapping[str, Callable[[int], tuple[int, int]]] = {
    "BUILD_CONST_KEY_MAP": lambda n: (n + 1, 1),
    "BUILD_LIST": lambda n: (n, 1),
    "BUILD_MAP": lambda n: (2 * n, 1),
    "BUILD_SET": lambda n: (n, 1),
    "BUILD_SLICE": lambda n: (n, 1),
    "BUILD_STRING": lambda n: (n, 1),
    "BUILD_TUPLE": lambda n: (n, 1),
    "CALL": lambda n: (n + 2, 1),
    "CALL_FUNCTION_EX": lambda flags: (3 + (flags & 1), 1),
    "FORMAT_VALUE": lambda flags: (1 + (flags >> 2 & 1), 1),
    "MAKE_FUNCTION": lambda flags: (1 + (flags & 15).bit_count(), 1),
    "RAISE_VARARGS": lambda n: (n, 0),
    "UNPACK_EX": lambda n: (1, (n & 255) + 1 + (n >> 8)),
    "UNPACK_SEQUENCE": lambda n: (1, n),
}
# The same for jumps that are taken, where that makes a difference.
_TAKEN: Mapping[str, tuple[int, int]] = {
    "FOR_ITER": (1, 0),
    "JUMP_IF_FALSE_OR_POP": (0, 0),
    "JUMP_IF_TRUE_OR_POP": (0, 0),
    "SEND": (2, 1),
}
# Instructions that never go on to the next one.
TERMINAL = frozenset({"JUMP", "RAISE_VARARGS", "RERAISE", "RETURN_VALUE"})


def shape_after(shape: Shape, opname: str, arg: int, push_null: bool, taken: bool) -> Shape:
    """The stack after an instruction of the normal form.

    Args:
        shape: the stack before it, bottom first; True for a value, False for NULL.
        opname, arg, push_null: the instruction.
        taken: whether the instruction's jump is taken.

    Raises:
        ValueError: the opcode is unknown or takes more than there is.
    """
    match opname:
        case "PUSH_NULL":
            return (*shape, False)
        case "LOAD_GLOBAL":
            return (*shape, False, True) if push_null else (*shape, True)
        case "COPY":
            return (*shape, shape[-arg])
        case "SWAP":
            return (*shape[:-arg], shape[-1], *shape[len(shape) - arg + 1 : -1], shape[-arg])
    effect = _TAKEN.get(opname) if taken else None
    effect = effect or _FIXED.get(opname)
    if effect is None:
        if opname not in _BY_ARG:
            raise ValueError(f"unknown opcode {opname}")
        effect = _BY_ARG[opname](arg)
    popped, pushed = effect
    if popped > len(shape):
        raise ValueError(f"{opname} {arg} pops {popped} of {len(shape)} stack slots")
    return shape[: len(shape) - popped] + (True,) * pushed


# --- assembling -----------------------------------------------------------------------------------

# Jumps of the normal form: the opcode that jumps forward and the one that jumps backward.
_DIRECTED: dict[str, tuple[str, str]] = {
    "JUMP": ("JUMP_FORWARD", "JUMP_BACKWARD"),
    **{
        f"POP_JUMP_IF_{test}": (f"POP_JUMP_FORWARD_IF_{test}", f"POP_JUMP_BACKWARD_IF_{test}")
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    },
}


class Encoded(NamedTuple):
    """The byte strings of a code object."""

    code: bytes
    linetable: bytes
    exceptiontable: bytes


class _Op(NamedTuple):
    opname: str
    arg: int
    target: int | None
    position: Position
    handler: Handler | None


class Assembler:
    """Turns instructions with labels into the byte strings of a code object.

    Labels are integers of the caller's choice. Opcodes are CPython's own, except that jumps may be
    given without their direction (`JUMP`, `POP_JUMP_IF_TRUE`, ...).

    Example:
        >>> assembler = Assembler(firstlineno=1)
        >>> assembler.emit("RESUME")
        >>> assembler.place(7)
        >>> assembler.emit("JUMP", target=7)
        >>> assembler.finish().code.hex()
        '97008c01'
    """

    def __init__(self, firstlineno: int) -> None:
        self._firstlineno = firstlineno
        self._ops: list[_Op] = []
        self._labels: dict[int, int] = {}

    def place(self, label: int) -> None:
        """Make `label` mean the instruction that is emitted next."""
        self._labels[label] = len(self._ops)

    def emit(
        self,
        opname: str,
        arg: int = 0,
        *,
        target: int | None = None,
        position: Position = NOWHERE,
        handler: Handler | None = None,
    ) -> None:
        """Append an instruction; `target` and `handler.target` are labels."""
        self._ops.append(_Op(opname, arg, target, position, handler))

    def finish(self) -> Encoded:
        """Encode everything.

        Raises:
            ValueError: a jump goes backward that can only go forward, or the other way round.
        """
        opcodes = [self._opcode(place, op) for place, op in enumerate(self._ops)]
        offsets, args = self._layout(opcodes)
        return Encoded(
            b"".join(map(_encoded, opcodes, args)),
            self._linetable(offsets),
            self._exceptiontable(offsets),
        )

    def _opcode(self, place: int, op: _Op) -> int:
        if op.target is None:
            return dis.opmap[op.opname]
        backward = self._labels[op.target] <= place
        opname = _DIRECTED[op.opname][backward] if op.opname in _DIRECTED else op.opname
        number = dis.opmap[opname]
        if (number in _BACKWARD) != backward:
            raise ValueError(f"{opname} cannot jump {'backward' if backward else 'forward'}")
        return number

    def _layout(self, opcodes: list[int]) -> tuple[list[int], list[int]]:
        """Offsets in code units (one more than there are instructions) and arguments."""
        args = [op.arg for op in self._ops]
        jumps = [(place, self._labels[op.target]) for place, op in enumerate(self._ops) if op.target is not None]
        while True:
            sizes = [_CACHES[number] + 1 for number in opcodes]
            offsets = [0, *accumulate(map(int.__add__, sizes, map(_prefixes, args)))]
            # Jumps grow when their prefixes do; nothing shrinks, so this ends.
            longer = [(place, abs(offsets[goal] - offsets[place + 1])) for place, goal in jumps]
            if all(args[place] == distance for place, distance in longer):
                return offsets, args
            for place, distance in longer:
                args[place] = max(distance, args[place])

    def _linetable(self, offsets: list[int]) -> bytes:
        table = bytearray()
        line = self._firstlineno
        for position, first, last in _runs([op.position for op in self._ops]):
            units = offsets[last] - offsets[first]
            while units > 0:
                _write_location(table, position, line, min(units, 8))
                line = line if position.lineno is None else position.lineno
                units -= 8
        return bytes(table)

    def _exceptiontable(self, offsets: list[int]) -> bytes:
        table = bytearray()
        for handler, first, last in _runs([op.handler for op in self._ops]):
            if handler is None:
                continue
            entry = len(table)
            _write_varint(table, offsets[first])
            _write_varint(table, offsets[last] - offsets[first])
            _write_varint(table, offsets[self._labels[handler.target]])
            _write_varint(table, handler.depth << 1 | handler.push_lasti)
            table[entry] |= 128  # marks the first byte of an entry
        return bytes(table)


def _prefixes(arg: int) -> int:
    return (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF)


def _encoded(number: int, arg: int) -> bytes:
    unit = bytes((number, arg & 255)) + bytes(2 * _CACHES[number])
    while arg := arg >> 8:
        unit = bytes((dis.EXTENDED_ARG, arg & 255)) + unit
    return unit


def _runs(values: Sequence[_T]) -> Iterator[tuple[_T, int, int]]:
    """Runs of equal values: the value, first place, last place + 1."""
    first = 0
    for value, run in groupby(values):
        last = first + len(list(run))
        yield value, first, last
        first = last


def _write_varint(table: bytearray, value: int) -> None:
    """Six bits a byte, most significant first (the exception table)."""
    for shift in range(6 * ((max(value.bit_length(), 1) - 1) // 6), 0, -6):
        table.append(64 | value >> shift & 63)
    table.append(value & 63)


def _write_location(table: bytearray, position: Position, line: int, units: int) -> None:
    """One entry of the line table: code 15 nothing known, 13 only a line, 14 everything."""
    lineno, end_lineno, col, end_col = position
    if lineno is None:
        table.append(0x80 | 15 << 3 | units - 1)
        return
    more: tuple[int, ...] = ()
    if end_lineno is not None and col is not None and end_col is not None:
        more = (end_lineno - lineno, col + 1, end_col + 1)
    table.append(0x80 | (14 if more else 13) << 3 | units - 1)
    delta = lineno - line
    _write_location_number(table, delta << 1 if delta >= 0 else -delta << 1 | 1)
    for number in more:
        _write_location_number(table, number)


def _write_location_number(table: bytearray, value: int) -> None:
    """Six bits a byte, least significant first (the line table)."""
    while value > 63:
        table.append(64 | value & 63)
        value >>= 6
    table.append(value)
