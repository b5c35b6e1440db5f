"""Calls of modules, and reads of their parameters, buffers and submodules: most of what capture sees of a model.

Both are Python code of PyTorch, which capture could look into; here it finds out the same with fewer steps.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING

import torch

from segue.capture.attributes import class_attribute
from segue.capture.opcodes import HANDLERS
from segue.capture.rules import call_inlined, rule, shortcut
from segue.capture.values.base import MISSING, Value
from segue.capture.values.function import CellValue, MethodValue
from segue.capture.values.known import Known
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ObjectValue
from segue.frames.code import Code

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer

_GETATTR = torch.nn.Module.__getattr__


@rule(_GETATTR)
def _attribute(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What the Python function finds, read from its dicts directly; anything else it does itself."""
    if len(args) == 2 and not kwargs:
        module, name = tr.look(args[0]), tr.look(args[1])
        if isinstance(module, ObjectValue) and isinstance(name, Known) and type(name.real) is str:
            found = _registered(tr, module, name.concrete(tr))
            if found is not None:
                return found
    return call_inlined(tr, _GETATTR, args, kwargs)


def _registered(tr: Tracer, module: ObjectValue, name: str) -> Value | None:
    own = module.namespace(tr)
    for kind in ("_parameters", "_buffers", "_modules"):
        registry = own.find(tr, kind) if own is not None else None
        if registry is None:
            continue
        looked = tr.look(registry)
        if not isinstance(looked, DictValue) or looked.cls is not dict:
            return None
        found = looked.find(tr, name)
        if found is not None:
            return found
    return None


_CALL = torch.nn.Module._call_impl
_HOOKS = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
_GLOBAL_HOOKS = tuple(f"_global{name}" for name in _HOOKS)


@shortcut(_CALL)
def _call_without_hooks(tr: Tracer, frame: Frame) -> None:
    """A module without hooks: on to `return forward_call(*args, **kwargs)`."""
    place = _call_of_forward(frame.code)
    module = frame.slots[0]
    if place is None or module is None:
        return
    module = tr.look(module)
    if not isinstance(module, ObjectValue) or not _is_without_hooks(tr, module, frame):
        return
    forward = class_attribute(tr, module.cls, "forward")
    own = module.namespace(tr)
    if type(forward) is not types.FunctionType or own is None or own.find(tr, "forward") is not None:
        return
    while frame.ip < frame.code.start:
        instruction = frame.code.instructions[frame.ip]
        HANDLERS[instruction.opname](tr, frame, instruction)
        frame.ip += 1
    cell = frame.slots[next(i for i, slot in enumerate(frame.code.localsplus) if slot.name == "forward_call")]
    assert isinstance(cell, CellValue)
    cell.contents = MethodValue(tr.look(tr.pinned(forward)), module)
    frame.ip = place


def _is_without_hooks(tr: Tracer, module: ObjectValue, frame: Frame) -> bool:
    own, names = module.namespace(tr), frame.function_value.namespace
    if own is None or class_attribute(tr, module.cls, "__getattribute__") is not object.__getattribute__:
        return False
    if any(class_attribute(tr, module.cls, name) is not MISSING for name in _HOOKS):
        return False
    registries = [*[own.find(tr, name) for name in _HOOKS], *[names.find(tr, name) for name in _GLOBAL_HOOKS]]
    return not any(registry is None or tr.truth(registry) for registry in registries)


@functools.cache
def _call_of_forward(code: Code) -> int | None:
    """Where `return forward_call(*args, **kwargs)` begins; None if this PyTorch's function is another."""
    expected = ("PUSH_NULL", "LOAD_DEREF", "LOAD_DEREF", "BUILD_MAP", "LOAD_DEREF", "DICT_MERGE", "CALL_FUNCTION_EX")
    if not {*_HOOKS, *_GLOBAL_HOOKS} <= set(code.original.co_names):
        return None
    for start in range(code.start, len(code.instructions) - len(expected)):
        there = code.instructions[start : start + len(expected)]
        if tuple(i.opname for i in there) == expected and there[1].argval == "forward_call":
            return start
    return None
