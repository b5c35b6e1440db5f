"""Graphs inside graphs: nodes whose target holds the graph of a function that it calls."""

from __future__ import annotations

from collections.abc import Iterator

from torch import fx


def all_nodes(gm: fx.GraphModule) -> Iterator[fx.Node]:
    """The nodes of a graph and of those inside it."""
    for node in gm.graph.nodes:
        yield node
        inside = getattr(node.target, "bodies", None) or [getattr(node.target, "body", None)]
        for body in inside:
            if isinstance(body, fx.GraphModule):
                yield from all_nodes(body)
