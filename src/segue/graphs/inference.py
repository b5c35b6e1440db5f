"""Graphs that work wholly in inference mode: the mode can be entered around them instead of in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from segue.capture.inference import enter_inference_mode, leave_inference_mode


def without_inference_mode(gm: fx.GraphModule) -> fx.GraphModule | None:
    """The work of a graph that enters inference mode first and leaves it last; None for other graphs."""
    nodes = [n for n in gm.graph.nodes if n.op not in ("placeholder", "get_attr", "output")]
    switches = [n for n in nodes if n.target in (enter_inference_mode, leave_inference_mode)]
    if len(switches) != 2 or [nodes[0], nodes[-1]] != switches or switches[0].args != (True,):
        return None
    copy = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node not in switches:
            copied[node] = copy.node_copy(node, copied.__getitem__)
    return fx.GraphModule(gm, copy)


def under_inference_mode(run: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, in inference mode."""

    def inside(*args: Any) -> Any:
        with torch.inference_mode():
            return run(*args)

    return inside
