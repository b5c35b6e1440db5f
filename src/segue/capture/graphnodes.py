"""Small questions and services about fx nodes and fake tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def add_placeholder(graph: fx.Graph, name: str, example: Any) -> fx.Node:
    """A new input of a graph, after those it has."""
    known = graph.find_nodes(op="placeholder", sort=False)  # in the order in which they were added
    place = graph.inserting_after(known[-1]) if known else graph.inserting_before(next(iter(graph.nodes), None))
    with place:
        node = graph.placeholder(name)
    node.meta["example_value"] = example
    return node


def is_inside_transform(tensor: torch.Tensor) -> bool:
    """Whether a tensor is what a function under `torch.func` gets instead of the real one."""
    return torch._C._functorch.is_functorch_wrapped_tensor(tensor)


class CapturedModule(fx.GraphModule):
    """A captured graph.  It is no module of the program: hooks that the program sets on all modules pass it by."""

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        own = (self._forward_hooks, self._forward_pre_hooks, self._backward_hooks, self._backward_pre_hooks)
        return super()._call_impl(*args, **kwargs) if any(own) else self.forward(*args, **kwargs)
