"""Which tensors can be inputs of a graph."""

from __future__ import annotations

import torch
from torch._subclasses.fake_tensor import FakeTensor

PLAIN_CLASSES = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def reason_against(tensor: torch.Tensor) -> str | None:
    """Why a tensor is left to PyTorch; None if it can be an input of a graph."""
    if type(tensor) not in PLAIN_CLASSES:
        return f"a tensor of class {type(tensor).__name__}"
    if isinstance(tensor, FakeTensor) or tensor.layout is not torch.strided:
        return f"a tensor of layout {tensor.layout}"
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "a tensor inside a torch.func transform"
    if tensor.is_quantized or tensor.is_nested:
        return "a quantised or nested tensor"
    if tensor.is_conj() or tensor.is_neg():
        return "a lazily conjugated or negated tensor"
    return None
