"""What Segue captures of models, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

import segue


def show(models: Mapping[str, tuple[nn.Module, tuple[Any, ...]]]) -> None:
    """Run each model plainly and compiled, evaluating and training, and print what was captured."""
    print(f"{'model':16}{'mode':8}{'equal to eager':>16}{'graphs':>8}{'breaks':>8}{'coverage':>10}")
    for name, (model, inputs) in models.items():
        for mode in ("eval", "train"):
            model.train(mode == "train")
            with torch.set_grad_enabled(mode == "train"):
                expected = seeded(model, inputs)
                seen = seeded(segue.explain(model), inputs)
            equal = torch.allclose(seen.result, expected, rtol=1e-4, atol=1e-5)
            print(
                f"{name:16}{mode:8}{'yes' if equal else 'NO':>16}"
                f"{seen.graph_count:8}{seen.break_count:8}{seen.coverage:10.0%}"
            )


def seeded(function: Any, inputs: tuple[Any, ...]) -> Any:
    """Call a function after the same seed."""
    torch.manual_seed(1)
    return function(*inputs)
