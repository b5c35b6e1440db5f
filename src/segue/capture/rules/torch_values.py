"""Tensor methods and torch functions that are not nodes of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from segue.capture.breaks import graph_break
from segue.capture.operations import DATA_READERS, OBJECT_CHANGES
from segue.capture.rules import folded, refused, rule
from segue.capture.values.base import Value
from segue.capture.values.late import late_number
from segue.capture.values.sequence import TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

for _name in DATA_READERS - {"item"}:
    _target = getattr(torch.Tensor, _name, None)
    if _target is not None:
        refused("data-dependent-value", _target, operation=f"Tensor.{_name}()")
refused(
    "side-effect-call",
    *(torch.Tensor.register_hook, torch.Tensor.backward, torch.autograd.backward),
    function="the autograd engine",
)
refused(
    "data-dependent-value",
    *(torch.Tensor.numpy, torch.Tensor.data_ptr, torch.from_numpy, torch.frombuffer),
    operation="sharing memory with other libraries",
)
refused("unsupported-class", torch.nn.Buffer, type="torch.nn.Buffer")
folded(torch.finfo, torch.iinfo, torch.device, torch.dtype.to_complex, torch.dtype.to_real)


@rule(torch.Tensor.item)
def _item(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tensor = tr.look(args[0])
    if not isinstance(tensor, TensorValue):
        graph_break("data-dependent-value", operation="Tensor.item()")
    return late_number(tr, tensor, "Tensor.item()")


@rule(torch.Tensor.__len__)
def _len(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(tr.look(args[0]).length(tr))


@rule(torch.Tensor.__iter__)
def _iter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.look(args[0]).iterate(tr)


@rule(torch.is_tensor, torch.overrides.is_tensor_like)
def _is_tensor(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(issubclass(args[0].python_type(tr), torch.Tensor))


@rule(torch.Size)
def _size(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return TupleValue([tr.constant(tr.index_of(i)) for i in tr.unpack(args[0])] if args else [], torch.Size)


@rule(torch.Size.numel)
def _numel(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    total = 1
    for item in tr.unpack(args[0]):
        total *= tr.index_of(item)
    return tr.constant(total)


@rule(torch._assert)
def _assert(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    condition = tr.look(args[0])
    if isinstance(condition, TensorValue):
        graph_break("data-dependent-branch")
    if not condition.truth(tr):
        tr.raise_value(AssertionError, args[1:])
    return tr.constant(None)


@rule(torch.autograd.grad)
def _gradients(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Fake tensors have a history like the real ones', so the engine tells what it will give."""
    return tr.graph.call(tr, "call_function", torch.autograd.grad, args, kwargs)


@rule(torch.nn.Parameter)
def _parameter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    given = tr.look(args[0]) if args else None
    if not isinstance(given, TensorValue) or given.cls is not torch.Tensor or tr.graph.bodies:
        graph_break("unsupported-class", type="torch.nn.Parameter")
    return tr.graph.call(tr, "call_function", torch.nn.Parameter, args, kwargs)


def _of_fresh(name: str) -> None:
    """A method that changes the tensor object itself: of one that the graph has made, it is an operation."""

    def change(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tensor = tr.look(args[0])
        if not isinstance(tensor, TensorValue) or tensor.source is not None or tr.graph.bodies:
            graph_break("unsupported-operation", operation=f"{name}()", types="a tensor of the program")
        return tr.graph.call(tr, "call_method", name, args, kwargs)

    rule(getattr(torch.Tensor, name))(change)


for _name in OBJECT_CHANGES:
    _of_fresh(_name)


@rule(torch.Tensor.storage_offset)
def _storage_offset(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tensor = tr.look(args[0])
    if not isinstance(tensor, TensorValue) or tr.graph.is_in_input(tensor):
        graph_break("unsupported-operation", operation="storage_offset()", types="a tensor of the program")
    return tr.constant(tensor.fake.storage_offset())


@rule(torch.Tensor.as_strided, torch.as_strided)
def _as_strided(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tensor = tr.look(args[0])
    has_offset = len(args) > 3 or "storage_offset" in kwargs
    if not isinstance(tensor, TensorValue) or (has_offset and tr.graph.is_in_input(tensor)):
        graph_break("unsupported-operation", operation="as_strided()", types="a tensor of the program")
    return tr.graph.call(tr, "call_method", "as_strided", args, kwargs)
