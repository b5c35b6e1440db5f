"""Registration of operations that compute each element from the elements at its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from segue.backends.native.ir import cast
from segue.backends.native.rules.context import Context, NoLowering, rule, value
from segue.backends.native.rules.formula import Value
from segue.backends.native.rules.types import compute_dtype, floating, may_overflow, promoted
from segue.graphs.aten import Number, View

WRAPPING = frozenset("self other exponent".split())
"""The names of number parameters that are cast as a tensor of one element is; ATen checks the range of others."""

Formula = Callable[..., Value]
"""formula(*args): tensors and numbers come as Values, all of the dtype to compute in, or None; others as they are."""

TENSOR_TYPES = ("Tensor", "Optional[Tensor]")
NUMBER_TYPES = ("number", "Optional[number]", "float", "Optional[float]")
PROMOTING = frozenset("self other exponent min max".split())
"""The names of number parameters that count for the common dtype; others, like alpha, are converted to it."""


def pointwise(names: str, floats: bool = False, exact: bool = False) -> Callable[[Formula], Formula]:
    """Register a formula for overloads.

    Args:
        names: the overloads.
        floats: integers are computed in the default dtype.
        exact: numbers and 0-dim tensors are not rounded to the common dtype first if that is float16 or bfloat16;
            ATen's kernels differ in that.
    """

    def register(formula: Formula) -> Formula:
        def lower(context: Context, outs: list[View], *args: Any) -> None:
            assign_formula(context, outs[0], formula, args, floats, exact)

        rule(names)(lower)
        return formula

    return register


def assign_formula(
    context: Context, out: View, formula: Formula, args: tuple[Any, ...], floats: bool = False, exact: bool = False
) -> None:
    """Store what a formula gives for the arguments of the context's operation."""
    kinds = [(a.name, str(a.type)) for a in context.parameters]
    names = {name for name, _ in kinds}
    promoting = [
        arg for arg, (name, kind) in zip(args, kinds, strict=True) if arg is not None and _is_operand(name, kind)
    ]
    common = promoted(promoting)
    common = floating(common) if floats else common
    computed = []
    for arg, (name, kind) in zip(args, kinds, strict=True):
        rounds = _is_operand(name, kind) or (name == "alpha" and "other" in names)
        is_value = kind in TENSOR_TYPES + NUMBER_TYPES
        if isinstance(arg, Number) and name not in WRAPPING and may_overflow(arg, common):
            raise NoLowering(f"{name} may not be of {common}")
        computed.append(_converted(arg, out, common, exact or not rounds) if is_value else _raw(arg))
    result = formula(*computed)
    if not torch.can_cast(result.dtype, out.dtype):
        raise NoLowering(f"{result.dtype} cannot be stored as {out.dtype}")
    context.assign(out, result.expr)


def _is_operand(name: str, kind: str) -> bool:
    return kind in TENSOR_TYPES or (kind in NUMBER_TYPES and name in PROMOTING)


def _converted(arg: Any, out: View, common: torch.dtype, exact: bool) -> Value | None:
    if arg is None:
        return None
    compute = compute_dtype(common)
    if exact or (isinstance(arg, View) and arg.dtype == common):
        return Value(value(arg, out.sizes, compute))
    if not isinstance(arg, (View, Number)) and common.is_floating_point:
        return Value(value(torch.tensor(arg, dtype=torch.float64).to(common).item(), out.sizes, compute))
    return Value(cast(value(arg, out.sizes, common), compute))


def _raw(arg: Any) -> Any:
    if isinstance(arg, Number):
        raise NoLowering("a number that is not known is not of a number's type")
    return arg
