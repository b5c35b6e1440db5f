"""Rules: what each ATen operation computes, as loop statements."""

from segue.backends.native.rules import creation, pointwise, reductions
from segue.backends.native.rules.context import RULES, Context, NoLowering

MODULES = (creation, pointwise, reductions)
"""The modules that register rules, by being imported."""

__all__ = ["MODULES", "RULES", "Context", "NoLowering"]
