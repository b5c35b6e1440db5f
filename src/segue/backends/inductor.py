"""An adapter: hands captured graphs to TorchInductor, without Dynamo's frame hook.

TorchInductor is imported when the first graph is compiled.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from segue.capture.rules.torch_state import SETTERS
from segue.errors import GraphDeclined


def compile_graph(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a captured graph with TorchInductor, for inference or training as its inputs and the grad mode say.

    Args:
        gm: a graph of torch functions on its placeholders, which returns a tuple.
        example_inputs: real inputs.
        mode: as for `torch.compile`; stands for some options.
        options: TorchInductor's settings for this graph, as for `torch.compile`.

    Returns:
        The compiled graph.

    Raises:
        GraphDeclined: the graph takes Python numbers, or changes PyTorch's autocast state.
        ValueError: there is no such option.
    """
    for example in example_inputs:
        if not isinstance(example, torch.Tensor):
            raise GraphDeclined(
                "inductor-number", f"a graph that takes a Python number ({example!r}) is not for Inductor"
            )
    for node in gm.graph.nodes:
        if node.target in _LASTING:
            raise GraphDeclined("inductor-state", f"Inductor would not replay {node.target.__name__}")
    from torch._inductor.compile_fx import compile_fx

    patches = _patches(mode, options or {})
    compiled: Any = compile_fx(_without_meta(gm), list(example_inputs), config_patches=patches)
    return compiled


_LASTING = frozenset(SETTERS) - {torch._C._set_grad_enabled}


def _patches(mode: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a mode and options stand for."""
    from torch import _inductor

    known = _inductor.list_options()
    for name in options:
        if name.replace("-", "_") not in known:
            nearest = difflib.get_close_matches(name, known, n=3)
            hint = f"; did you mean {' or '.join(map(repr, nearest))}?" if nearest else ""
            raise ValueError(f"compile(options=...): TorchInductor has no option {name!r}{hint}")
    chosen = _inductor.list_mode_options(mode) if mode else {}
    return {**chosen, **{name.replace("-", "_"): value for name, value in options.items()}}


def _without_meta(gm: fx.GraphModule) -> fx.GraphModule:
    """A copy whose nodes know only their place in the program: fake tensors of another mode would be mixed up."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    graph.output(graph.graph_copy(gm.graph, copies))
    for node, copy in copies.items():
        copy.meta = {key: node.meta[key] for key in ("stack_trace",) if key in node.meta}
    return fx.GraphModule(gm, graph)
