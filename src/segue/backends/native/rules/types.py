"""ATen's dtypes: what operands are promoted to, and what arithmetic is done in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

import torch

from segue.backends.native.ir import HALVES
from segue.graphs.aten import Number, View

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SUPPORTED = frozenset((torch.bool, *INTEGERS, *FLOATS))
"""The dtypes that rules treat."""


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """What arithmetic on a dtype is done in."""
    return torch.float32 if dtype in HALVES else dtype


def may_overflow(number: Number, dtype: torch.dtype) -> bool:
    """Whether ATen refuses likely values of a number as one of a dtype, where a cast would wrap or give infinity."""
    if dtype.is_floating_point:
        return dtype is torch.float16
    return dtype is not torch.bool and (dtype is not torch.int64 or number.buffer.dtype.is_floating_point)


def floating(dtype: torch.dtype) -> torch.dtype:
    """The dtype itself if it is a floating one, else the default dtype: what exp or true division gives."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """What sums of a dtype are held in: integers and bool in int64, halves in float32."""
    return compute_dtype(dtype) if dtype.is_floating_point else torch.int64


def promoted(args: Iterable[Any]) -> torch.dtype:
    """The common dtype of tensors and numbers, as `torch.result_type` has it, for any number of operands.

    Tensors with axes come first; 0-dim tensors count only if they are of a higher category, and then numbers.
    """
    ranked: tuple[list[torch.dtype], ...] = ([], [], [])
    for arg in args:
        rank, dtype = _rank_and_dtype(arg)
        ranked[rank].append(dtype)
    return reduce(_combined, (reduce(torch.promote_types, dtypes) for dtypes in ranked if dtypes))


def _rank_and_dtype(arg: Any) -> tuple[int, torch.dtype]:
    if isinstance(arg, View):
        return (0 if arg.sizes else 1), arg.dtype
    if isinstance(arg, Number):
        arg = torch.zeros((), dtype=arg.buffer.dtype).item()
    if isinstance(arg, bool):
        return 2, torch.bool
    return 2, torch.int64 if isinstance(arg, int) else torch.get_default_dtype()


def _combined(higher: torch.dtype, lower: torch.dtype) -> torch.dtype:
    if higher is not torch.bool and (higher.is_floating_point or not lower.is_floating_point):
        return higher
    return torch.promote_types(higher, lower)
