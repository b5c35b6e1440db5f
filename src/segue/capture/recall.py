"""Tensor operations of PyTorch that ran on such operands before are not run again on fake tensors.

`CaptureMode` remembers ATen operations, below autograd and autocast, exactly.  This memory is of whole operations, as
the program calls them, and so must know what those layers would do: it keeps to operations without autograd history,
that write none of their operands, and its keys hold PyTorch's settings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from typing import Any

import torch

from segue import _core
from segue.capture.fake import CaptureMode
from segue.capture.operations import is_torchs_own
from segue.capture.recipes import Alias, Fresh, Memory, Operands, Recipe, Several, Unknown
from segue.capture.values.base import MISSING

_remembered = Memory()

_SETTINGS: tuple[Callable[[], Any], ...] = tuple(
    getattr(torch._C, name)
    for name in (
        "_get_flash_sdp_enabled", "_get_math_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_cudnn_sdp_enabled",
        "_get_overrideable_sdp_enabled", "_get_mkldnn_enabled", "_get_cudnn_enabled", "_get_nnpack_enabled",
    )
    if hasattr(torch._C, name)
)  # fmt: skip
"""Settings of PyTorch by which a composite operation chooses among kernels, whose results may differ in strides."""


class Recall:
    """One call of an operation on fake tensors: `result` gives what it gives, if that is remembered."""

    def __init__(self, target: Any, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._operands = Operands()
        self._given = args, kwargs
        self._key: Hashable = None
        self._operands_key: Hashable = None
        self._versions: list[int] = []
        with contextlib.suppress(Unknown):
            self._key = self._full_key(target)

    def result(self, mode: CaptureMode) -> Any:
        """The result, made from memory; `MISSING` if the operation must run."""
        recipe = _remembered.get(self._key)
        if recipe is not None:
            with contextlib.suppress(Unknown):
                return mode.made(recipe, self._operands.tensors)
        if self._key is not None:
            self._versions = [t._version for t in self._operands.tensors]
        return MISSING

    def _full_key(self, target: Any) -> Hashable:
        if isinstance(target, str):
            target = getattr(torch.Tensor, target, None)
        if not is_torchs_own(target) or torch._C._functorch.peek_interpreter_stack() is not None:
            raise Unknown
        self._operands_key = self._operands.key(*self._given)
        tensors = self._operands.tensors
        need_gradients = [t.requires_grad for t in tensors]
        if (torch.is_grad_enabled() and any(need_gradients)) or any(t.is_inference() for t in tensors):
            raise Unknown
        settings = [setting() for setting in _SETTINGS]
        return id(target), _core.global_state(), *settings, *need_gradients, self._operands_key

    def keep(self, result: Any) -> None:
        """Remember what the operation gave."""
        if self._key is None or self._versions != [t._version for t in self._operands.tensors]:
            return
        try:
            recipe = self._operands.recipe(result)
            if _is_whole(recipe, result) and Operands().key(*self._given) == self._operands_key:
                _remembered.keep(self._key, recipe)
        except Unknown:
            return


def _is_whole(recipe: Recipe, result: Any) -> bool:
    """Whether a recipe says all about a result, also to autograd; that a view is one matters while gradients are on."""
    match recipe:
        case Several(_, items):
            return all(map(_is_whole, items, result))
        case Fresh():
            return not result.requires_grad and not (result.is_inference() or result._version)
        case Alias():
            return not torch.is_grad_enabled() and not result.requires_grad
    return True
