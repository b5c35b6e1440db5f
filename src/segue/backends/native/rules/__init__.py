"""Rules: what each ATen operation computes, as loop statements."""

from segue.backends.native.rules import (
    activations,
    creation,
    indexing,
    layout,
    losses,
    normalisation,
    normalisation_gradients,
    pointwise,
    reductions,
    softmax,
)
from segue.backends.native.rules.context import RULES, Context, NoLowering

MODULES = (
    activations,
    creation,
    indexing,
    layout,
    losses,
    normalisation,
    normalisation_gradients,
    pointwise,
    reductions,
    softmax,
)
"""The modules that register rules, by being imported."""

__all__ = ["MODULES", "RULES", "Context", "NoLowering"]
