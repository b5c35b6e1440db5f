"""How a plan calls ATen: the cheapest Python callable for an operation, and the views that it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from segue.backends.native.values import REGISTERS
from segue.graphs.aten import Call, View, contiguous_strides

_aten = torch.ops.aten
_functions: Any = torch._C._VariableFunctions

alias = _aten.alias.default._op
"""Another tensor object with the same memory."""

detach = _aten.detach.default._op
"""Another tensor object with the same memory and version, which autograd does not follow."""

DTYPES = (*REGISTERS, torch.complex64, torch.complex128)
"""What a plan can hold."""

_DIRECT = {
    _aten.mm.default: _functions.mm,
    _aten.bmm.default: _functions.bmm,
    _aten.addmm.default: _functions.addmm,
    _aten.baddbmm.default: _functions.baddbmm,
    _aten.convolution.default: _functions.convolution,
    _aten._scaled_dot_product_flash_attention_for_cpu.default: _functions._scaled_dot_product_flash_attention_for_cpu,
}
"""Operations whose Python function takes the same arguments as the overload, and parses them faster."""

_WITH_OUT = frozenset((_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default))
"""Operations of `_DIRECT` that write a given tensor as fast as one of their own."""


def takes_out(call: Call) -> bool:
    """Whether the plan gives the operation the memory for its result."""
    if call.op not in _WITH_OUT:
        return False
    (result,) = call.results
    return result is not None and result.n_elements > 0 and result.strides == contiguous_strides(result.sizes)


def fastest(call: Call) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """A callable that runs the operation, with the arguments that it takes."""
    if call.op in _DIRECT:
        return _DIRECT[call.op], call.args, call.kwargs
    return call.op._op, call.args, call.kwargs


def view_of(view: View, whole: View, is_argument: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function that makes a view of a tensor, with the arguments after the tensor.

    Args:
        whole: the tensor as a view.
        is_argument: its storage may have more in front of it.
    """
    if len(whole.sizes) == 2 and view.offset == whole.offset:
        if view.sizes == whole.sizes[::-1] and view.strides == whole.strides[::-1]:
            return _functions.t, ()
    if is_argument:
        return _strided_from_first, (view.sizes, view.strides, view.offset - whole.offset)
    return _functions.as_strided, (view.sizes, view.strides, view.offset)


def _strided_from_first(tensor: torch.Tensor, sizes: Any, strides: Any, offset: int) -> torch.Tensor:
    return torch.as_strided(tensor, sizes, strides, tensor.storage_offset() + offset)


def note_writes(*tensors: torch.Tensor) -> None:
    """Tell autograd that kernels write to tensors of the program."""
    for tensor in tensors:
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
