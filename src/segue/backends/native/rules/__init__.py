"""Rules: what each ATen operation computes, as loop statements."""

from segue.backends.native.rules import (  # noqa: F401  (each registers its rules by being imported)
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

__all__ = ["RULES", "Context", "NoLowering"]
