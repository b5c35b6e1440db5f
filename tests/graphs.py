"""A backend that counts: how many graphs it was given, their operations, and their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx


class Graphs:
    """Runs what it is given, and remembers it."""

    def __init__(self) -> None:
        self.modules: list[fx.GraphModule] = []
        self.runs = 0

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.modules.append(gm)

        def run(*args: Any) -> Any:
            self.runs += 1
            return gm(*args)

        return run

    @property
    def count(self) -> int:
        return len(self.modules)

    @property
    def operations(self) -> list[str]:
        """The names of the operations of all graphs, in order."""
        nodes = [n for gm in self.modules for n in gm.graph.nodes if n.op.startswith("call")]
        return [n.target if isinstance(n.target, str) else n.target.__name__ for n in nodes]
