"""A backend that counts: how many graphs it was given, their operations, and their runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx


class Graphs:
    """Runs what it is given, and remembers it.

    Attributes:
        modules: the graphs, in the order in which they were compiled.
        graphs: the names of the operations of each.
        runs: how often a graph was run.
    """

    def __init__(self) -> None:
        self.modules: list[fx.GraphModule] = []
        self.graphs: list[list[str]] = []
        self.runs = 0

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        self.modules.append(gm)
        self.graphs.append([name_of(n.target) for n in gm.graph.nodes if n.op.startswith("call")])

        def run(*args: Any) -> Any:
            self.runs += 1
            return gm.forward(*args)  # no hook of all modules is one of the graph's

        return run

    @property
    def count(self) -> int:
        return len(self.modules)

    @property
    def operations(self) -> list[str]:
        """The names of the operations of all graphs, in order."""
        return [name for graph in self.graphs for name in graph]

    def seen(self, name: str) -> int:
        """How many captured operations have this name."""
        return self.operations.count(name)


def name_of(target: Any) -> str:
    """The name of an operation of a graph, as a user writes it: sin, add, linear, ..."""
    return target if isinstance(target, str) else getattr(target, "__name__", str(target))
