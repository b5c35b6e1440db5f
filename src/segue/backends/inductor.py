"""An adapter: hands captured graphs to TorchInductor, without Dynamo's frame hook.

TorchInductor is imported when the first graph is compiled.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from segue.capture.inference import enter_inference_mode
from segue.capture.operations import OBJECT_CHANGES
from segue.capture.rules.torch_state import SETTERS
from segue.errors import GraphDeclined
from segue.graphs.nested import all_nodes

_OBJECT_LEVEL = (*OBJECT_CHANGES, torch.nn.Parameter, torch.autograd.grad, enter_inference_mode)
"""What changes tensor objects or the state of the thread, which a functional graph does not show."""


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
        GraphDeclined: the graph takes Python numbers, changes PyTorch's autocast state, or writes inputs that overlap.
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
    for node in all_nodes(gm):
        if node.target in _OBJECT_LEVEL or getattr(node.target, "depends_on_data", False):
            raise GraphDeclined("inductor-state", f"Inductor would not replay {node.name}")
    writes = any(_is_written(node) for node in gm.graph.nodes if node.op == "placeholder")
    if writes and overlap(example_inputs):
        raise GraphDeclined("inductor-overlap", "an input that is written shares memory with another one")
    from torch._inductor.compile_fx import compile_fx

    patches = _patches(mode, options or {})
    compiled: Any = compile_fx(_without_meta(gm), list(example_inputs), config_patches=patches)
    if not writes:
        return compiled

    def run(*inputs: torch.Tensor) -> Any:
        return gm.forward(*inputs) if overlap(inputs) else compiled(*inputs)

    return run


def _is_written(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return not isinstance(value, torch.Tensor) or value._version > 0


def overlap(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether the address ranges of some of the tensors overlap; what is compiled takes them for separate memory."""
    ranges = sorted(_range(t) for t in tensors if t.layout is torch.strided and t.numel())
    return any(end > start for (_, end), (start, _) in itertools.pairwise(ranges))


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    start = tensor.data_ptr()
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.element_size()


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
