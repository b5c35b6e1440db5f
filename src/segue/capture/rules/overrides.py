"""`__torch_function__` of objects that are no tensors: PyTorch's functions hand over to it."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.calls import name_of
from segue.capture.rules import call_inlined, rule
from segue.capture.values.base import Value
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, TupleValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def overriding(tr: Tracer, operands: Args) -> list[ObjectValue]:
    """The operands whose classes override PyTorch's functions: one of each class, subclasses before their bases."""
    found: list[ObjectValue] = []
    for operand in map(tr.look, operands):
        if isinstance(operand, (TupleValue, ListValue)):
            found += overriding(tr, operand.items(tr))
        elif isinstance(operand, ObjectValue) and overrides(operand):
            found.append(operand)
    ordered: list[ObjectValue] = []
    for operand in found:
        if any(other.cls is operand.cls for other in ordered):
            continue
        places = (i for i, other in enumerate(ordered) if issubclass(operand.cls, other.cls))
        ordered.insert(next(places, len(ordered)), operand)
    return ordered


def overrides(value: Value) -> bool:
    """Whether a value is an object with a `__torch_function__`, and no tensor."""
    if not isinstance(value, ObjectValue) or issubclass(value.cls, torch.Tensor):
        return False
    return isinstance(lookup(value.cls, "__torch_function__"), (classmethod, staticmethod, types.FunctionType))


def dispatch(tr: Tracer, target: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """Call a function of PyTorch as it is done for such operands; None if there are none."""
    operands = overriding(tr, [*args, *kwargs.values()])
    if not operands:
        return None
    if isinstance(target, types.FunctionType):
        return call_inlined(tr, target, args, kwargs)  # it begins with asking for overrides itself
    if getattr(target, "__module__", None) == "_operator":
        graph_break("unsupported-operation", operation=name_of(target), types=operands[0].cls.__name__)
    classes = TupleValue([tr.constant(o.cls) for o in operands])
    keywords = [tr.new_dict(kwargs)] if kwargs else []
    for operand in operands:
        method = operand.get_attribute(tr, "__torch_function__")
        result = tr.look(tr.call(method, [tr.constant(target), classes, TupleValue(args), *keywords], {}))
        if result.real is not NotImplemented:
            return result
    graph_break("unsupported-operation", operation=name_of(target), types=operands[0].cls.__name__)


@rule(
    torch.overrides.has_torch_function,
    torch.overrides.has_torch_function_unary,
    torch.overrides.has_torch_function_variadic,
)
def _has_torch_function(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(bool(overriding(tr, args)))
