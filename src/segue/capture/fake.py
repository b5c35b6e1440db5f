"""Fake tensors for capture: PyTorch's `FakeTensorMode`, with inputs made directly from metadata.

The only module that knows how torch builds a `FakeTensor` (torch 2.10 to 2.13).  `FakeTensorMode.from_tensor` also
reproduces views, storages and subclasses; a graph's inputs are plain strided tensors and need none of that.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

_log = logging.getLogger("torch._subclasses.fake_tensor")


class CaptureMode(FakeTensorMode):
    """A `FakeTensorMode` with static shapes that never runs a kernel on real data."""

    def __init__(self) -> None:
        super().__init__(allow_fallback_kernels=False, static_shapes=True)

    def fake_of(self, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor with the metadata of a real one: shape, strides, dtype, device, what autograd needs."""
        with torch.inference_mode(real.is_inference()):
            meta = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
            fake: torch.Tensor = FakeTensor(self, meta, real.device)
        if isinstance(real, torch.nn.Parameter):
            fake._is_param = True
        if real.requires_grad:
            fake.requires_grad_()
            if not real.is_leaf:
                with torch.enable_grad(), self:
                    fake = fake.view_as(fake)
        return fake


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence PyTorch's log of failing fake operations: they are left to PyTorch itself, which reports them."""
    before = _log.disabled
    _log.disabled = True
    try:
        yield
    finally:
        _log.disabled = before
