"""Fake tensors for capture: PyTorch's `FakeTensorMode`, with inputs made directly from metadata.

The only module that knows how torch builds a `FakeTensor` (torch 2.10 to 2.13).  `FakeTensorMode.from_tensor` also
reproduces views, storages and subclasses; a graph's inputs are plain strided tensors and need none of that.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Iterator
from typing import Any

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
def quiet() -> Iterator[list[object]]:
    """Keep fake operations from telling the user anything; gives the list of warnings that they wanted to show.

    What an operation has to say, error or warning, PyTorch says when the interpreter runs it, at the user's line.
    """
    noticed: list[object] = []
    thread, show, disabled = threading.get_ident(), warnings.showwarning, _log.disabled

    def note(*args: Any, **kwargs: Any) -> None:
        if threading.get_ident() == thread:
            noticed.append(args[0])
        else:
            show(*args, **kwargs)

    _log.disabled = True
    warnings.showwarning = note
    try:
        yield noticed
    finally:
        warnings.showwarning = show
        _log.disabled = disabled
