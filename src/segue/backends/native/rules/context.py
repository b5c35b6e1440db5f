"""What rules are registered with and write their statements to."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from segue.backends.native.ir import HALVES, Apply, Assign, Constant, Expr, Load, Reduce, cast, load
from segue.backends.native.rules.types import compute_dtype, may_overflow
from segue.backends.native.rules.views import broadcast, insert
from segue.graphs.aten import Buffer, Number, View, contiguous_strides, product


class NoLowering(Exception):
    """A rule does not treat these arguments; ATen runs the operation."""


Rule = Callable[..., None]
"""rule(context, outs, *args): outs are the views to write, args all of the functional overload's arguments in order."""

RULES: dict[str, Rule] = {}
"""By the functional overload's name, such as `add.Tensor` or `exp.default`."""


def rule(names: str) -> Callable[[Rule], Rule]:
    """Register a rule for overloads; a name without an overload is the default one."""

    def register(function: Rule) -> Rule:
        for name in names.split():
            RULES[name if "." in name else f"{name}.default"] = function
        return function

    return register


class Context:
    """The statements of one operation.

    Args:
        op: the functional overload.
        numbers: numbers for the names of temporaries, unique in the graph.
    """

    def __init__(self, op: OpOverload, numbers: Iterator[int]) -> None:
        self.name: str = op._schema.name.removeprefix("aten::")
        self.parameters: list[Any] = op._schema.arguments
        self.numbers = numbers
        self.statements: list[Assign | Reduce] = []

    def temporary(self, sizes: Sequence[int], dtype: torch.dtype) -> View:
        """A fresh contiguous buffer."""
        buffer = Buffer(f"t{next(self.numbers)}", dtype, product(sizes))
        return View(buffer, tuple(sizes), contiguous_strides(sizes))

    def assign(self, target: View, expr: Expr) -> None:
        """Store a value, cast to the target's dtype."""
        if target.n_elements:
            self.statements.append(Assign(target, cast(expr, target.dtype)))

    def copy(self, target: View, source: View) -> None:
        """Store a view's elements, which may be broadcast."""
        self.assign(target, load(source, target.sizes))

    def keep(self, expr: Expr, sizes: Sequence[int], dtype: torch.dtype | None = None) -> View:
        """A value in a temporary."""
        target = self.temporary(sizes, dtype or expr.dtype)
        self.assign(target, expr)
        return target

    def reduce(self, expr: Expr, combine: str, axes: Collection[int], sizes: Sequence[int]) -> View:
        """A combination over axes in a temporary that has one element along each of them."""
        kept = [1 if a in axes else n for a, n in enumerate(sizes)]
        target = self.temporary(kept, torch.int64 if combine.startswith("arg") else expr.dtype)
        self.reduce_into(target, expr, combine, axes, sizes)
        return target

    def reduce_into(self, target: View, expr: Expr, combine: str, axes: Collection[int], sizes: Sequence[int]) -> None:
        """Store a combination over axes; the target has one element along each, or lacks them."""
        if len(target.sizes) != len(sizes):
            target = insert(target, axes)
        dtype = torch.int64 if combine.startswith("arg") else expr.dtype
        if target.dtype != dtype:
            self.copy(target, self.reduce(expr, combine, axes, sizes))
        elif axes:
            self.statements.append(Reduce(_along(target, axes, sizes), expr, combine, frozenset(axes)))
        else:
            self.assign(target, Constant(0, torch.int64) if combine.startswith("arg") else expr)


def _along(target: View, axes: Collection[int], sizes: Sequence[int]) -> View:
    """The view with all sizes, with stride 0 on some axes."""
    strides = tuple(0 if a in axes else s for a, s in enumerate(target.strides))
    return broadcast(View(target.buffer, target.sizes, strides, target.offset), sizes)


def value(arg: Any, sizes: Sequence[int], dtype: torch.dtype | None = None) -> Expr:
    """A tensor's element or a number as an expression in a space.

    Args:
        arg: a View, a Number or a Python number.
        sizes: the space.
        dtype: what to cast to; None for the dtype that arithmetic on the argument is done in.
    """
    if isinstance(arg, View):
        return cast(load(arg, sizes), dtype or compute_dtype(arg.dtype))
    if isinstance(arg, Number):
        return cast(Load(arg.buffer, (0,) * len(sizes)), dtype or arg.buffer.dtype)
    if isinstance(arg, (bool, int, float)):
        return constant(arg, dtype or torch.tensor(arg).dtype)
    raise NoLowering(f"{arg!r} is not a number")


def fitting(arg: Any, sizes: Sequence[int], dtype: torch.dtype) -> Expr:
    """The same, where ATen raises an error for a number that overflows instead of casting it."""
    overflows = isinstance(arg, Number) and may_overflow(arg, dtype)
    if isinstance(arg, (int, float)) and dtype.is_floating_point:
        overflows = math.isfinite(arg) and abs(arg) > torch.finfo(dtype).max
    if overflows:
        raise NoLowering(f"{arg} may not be of {dtype}")
    return value(arg, sizes, dtype)


def constant(number: bool | int | float, dtype: torch.dtype) -> Expr:
    """A number as its value in a dtype."""
    if dtype in HALVES:
        return Apply("cast", (constant(number, torch.float32),), dtype)
    if dtype.is_floating_point or dtype is torch.bool:
        return Constant(torch.tensor(number, dtype=torch.float64).to(dtype).item(), dtype)
    limits = torch.iinfo(dtype)
    if number != number or not limits.min <= number <= limits.max:
        raise NoLowering(f"{number} is not of {dtype}")
    return Constant(int(number), dtype)
