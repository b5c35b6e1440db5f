"""Instructions for locals, cells, globals, attributes, imports."""

from __future__ import annotations

import builtins
import sys
from typing import TYPE_CHECKING, NoReturn

from segue.capture.breaks import graph_break
from segue.capture.opcodes import opcode
from segue.capture.values.base import MISSING, NULL, Value
from segue.capture.values.function import CellValue
from segue.guards.source import DictItem, Local, Pinned, Stack

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction


@opcode("LOAD_CONST")
def load_const(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- value)"""
    frame.push(tr.plain_value(i.argval))


@opcode("LOAD_FAST")
def load_fast(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- value)"""
    value = frame.slots[i.arg]
    if value is None:
        _unbound(tr, frame, i)
    frame.push(tr.bound(value) if isinstance(value.source, Local) else value)


@opcode("STORE_FAST")
def store_fast(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- )"""
    _drop(tr, frame, frame.slots[i.arg])
    frame.slots[i.arg] = frame.pop()


@opcode("DELETE_FAST")
def delete_fast(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""
    value = frame.slots[i.arg]
    if value is None:
        _unbound(tr, frame, i)
    _drop(tr, frame, tr.bound(value))
    frame.slots[i.arg] = None


def _drop(tr: Tracer, frame: Frame, value: Value | None) -> None:
    """A local gives up a value; what an inlined function was given belongs to something else as well."""
    if frame.level is not None or value is None or value.source is None or isinstance(value.source, Stack):
        tr.dropping(value)


@opcode("MAKE_CELL")
def make_cell(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""
    cell = CellValue(frame.slots[i.arg])
    cell.born = tr.here
    frame.slots[i.arg] = cell


@opcode("COPY_FREE_VARS")
def copy_free_vars(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""
    first = len(frame.slots) - i.arg
    frame.slots[first:] = frame.function_value.closure


@opcode("LOAD_CLOSURE")
def load_closure(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- cell)"""
    frame.push(_cell(frame, i))


@opcode("LOAD_DEREF")
def load_deref(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- value)"""
    value = _cell(frame, i).contents
    if value is None:
        if frame.code.localsplus[i.arg].kind == "free":
            tr.raise_error(
                NameError,
                f"cannot access free variable '{i.argval}' where it is not associated with a value in enclosing scope",
            )
        _unbound(tr, frame, i)
    frame.push(tr.bound(value))


@opcode("STORE_DEREF")
def store_deref(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- )"""
    _cell(frame, i).store(tr, frame.pop())


@opcode("DELETE_DEREF")
def delete_deref(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""
    cell = _cell(frame, i)
    if cell.contents is None:
        _unbound(tr, frame, i)
    tr.bound(cell.contents)
    cell.store(tr, None)


def _cell(frame: Frame, i: Instruction) -> CellValue:
    cell = frame.slots[i.arg]
    assert isinstance(cell, CellValue)
    return cell


def _unbound(tr: Tracer, frame: Frame, i: Instruction) -> NoReturn:
    if (frame.level, i.arg) in tr.unbound:
        step = ("caller_unbound", frame.level, i.arg) if frame.level else ("unbound", i.arg)
        tr.program.check_plain(*step)
    tr.raise_error(
        UnboundLocalError, f"cannot access local variable '{i.argval}' where it is not associated with a value"
    )


@opcode("LOAD_GLOBAL")
def load_global(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- NULL if push_null, value)"""
    if i.push_null:
        frame.push(NULL)
    frame.push(find_global(tr, frame, i.argval))


_BUILTINS = Pinned(vars(builtins))


def find_global(tr: Tracer, frame: Frame, name: str) -> Value:
    """A name from the globals or else the builtins."""
    found = frame.function_value.namespace.find(tr, name)
    if found is not None:
        return found
    builtin = vars(builtins).get(name, MISSING)
    if builtin is MISSING:
        tr.raise_error(NameError, f"name '{name}' is not defined")
    return tr.bound(tr.wrap(builtin, DictItem(_BUILTINS, name)))


@opcode("STORE_GLOBAL")
def store_global(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value -- )"""
    frame.function_value.namespace.store(tr, i.argval, tr.constant(i.argval), frame.pop())


@opcode("DELETE_GLOBAL")
def delete_global(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """( -- )"""
    if frame.function_value.namespace.remove(tr, i.argval) is None:
        tr.raise_error(NameError, f"name '{i.argval}' is not defined")


@opcode("LOAD_ATTR")
def load_attr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(owner -- value)"""
    frame.push(tr.look(frame.pop()).get_attribute(tr, i.argval))


@opcode("STORE_ATTR")
def store_attr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(value, owner -- )"""
    owner, value = frame.pop(), frame.pop()
    tr.look(owner).set_attribute(tr, i.argval, value)


@opcode("DELETE_ATTR")
def delete_attr(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(owner -- )"""
    tr.look(frame.pop()).delete_attribute(tr, i.argval)


@opcode("IMPORT_NAME")
def import_name(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(level, fromlist -- module)"""
    fromlist, level = tr.look(frame.pop()), tr.look(frame.pop())
    name, depth = i.argval, level.concrete(tr)
    if depth:
        package = frame.function_value.namespace.find(tr, "__package__")
        parts = str(tr.look(package).concrete(tr)).split(".") if package is not None else []
        name = ".".join([*parts[: len(parts) - depth + 1], *([name] if name else [])])
    wanted = name if fromlist.truth(tr) else name.partition(".")[0]
    module = sys.modules.get(wanted)
    if module is None or name not in sys.modules:
        graph_break("side-effect-call", function=f"import {name}")
    frame.push(tr.wrap(module, DictItem(Pinned(sys.modules), wanted)))


@opcode("IMPORT_FROM")
def import_from(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """(module -- module, attribute)"""
    frame.push(tr.look(frame.stack[-1]).get_attribute(tr, i.argval))


@opcode(
    "LOAD_NAME", "STORE_NAME", "DELETE_NAME", "LOAD_CLASSDEREF", "IMPORT_STAR", "SETUP_ANNOTATIONS", "PRINT_EXPR"
)  # fmt: skip
def not_in_functions(tr: Tracer, frame: Frame, i: Instruction) -> None:
    """Instructions of class bodies and modules."""
    graph_break("unsupported-instruction", opname=i.opname)
