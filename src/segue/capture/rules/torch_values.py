"""Tensor methods and torch functions that are not nodes of the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from segue.capture.breaks import graph_break
from segue.capture.operations import DATA_READERS
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.sequence import TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def _breaks(name: str, target: Any) -> None:
    def refuse(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        graph_break("data-dependent-value", operation=f"Tensor.{name}()")

    rule(target)(refuse)


for _name in DATA_READERS:
    _target = getattr(torch.Tensor, _name, None)
    if _target is not None:
        _breaks(_name, _target)


@rule(torch.Tensor.__len__)
def _len(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(tr.look(args[0]).length(tr))


@rule(torch.Tensor.__iter__)
def _iter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.look(args[0]).iterate(tr)


@rule(torch.is_tensor)
def _is_tensor(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(issubclass(args[0].python_type(tr), torch.Tensor))


@rule(torch.overrides.is_tensor_like)
def _is_tensor_like(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
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


@rule(torch.Tensor.register_hook, torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
def _autograd(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    graph_break("side-effect-call", function="the autograd engine")


@rule(torch.Tensor.numpy, torch.Tensor.data_ptr, torch.from_numpy, torch.frombuffer)
def _memory(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    graph_break("data-dependent-value", operation="sharing memory with other libraries")


@rule(torch._assert)
def _assert(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    condition = tr.look(args[0])
    if isinstance(condition, TensorValue):
        graph_break("data-dependent-branch")
    if not condition.truth(tr):
        tr.raise_value(AssertionError, args[1:])
    return tr.constant(None)


@rule(torch.nn.Parameter, torch.nn.Buffer)
def _parameter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    graph_break("unsupported-class", type="torch.nn.Parameter")
