"""The native backend: kernels for the CPU, compiled in process by LLVM, without a toolchain."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from segue.errors import GraphDeclined

OPTIONS = ("threads", "fast_math", "codegen_level", "vector_bits", "cache", "cache_dir", "cache_bytes", "log")
"""Settings of `segue.config` that `compile(options=...)` can set for one function."""

_MODES: dict[str | None, dict[str, Any]] = {"max-autotune": {"codegen_level": 3}}
"""What modes stand for; a plan has the least overhead anyway, which is all that "reduce-overhead" asks for."""

_log = logging.getLogger("segue")


def native(
    gm: fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a captured graph for the CPU.

    Args:
        gm: the graph; it returns a tuple.
        example_inputs: tensors and numbers as the first call has them.
        mode: as for `torch.compile`; "max-autotune" lets LLVM work harder.
        options: values of settings in `OPTIONS`, for this graph.

    Returns:
        A plan: takes the graph's inputs, returns a tuple.

    Raises:
        GraphDeclined: the graph is better run as it is: it needs gradients, or is not plain work on CPU tensors.
        ValueError: there is no such option.
    """
    from segue import config
    from segue.backends.native.values import NotGenerated
    from segue.graphs.inference import under_inference_mode, without_inference_mode
    from segue.graphs.nested import all_nodes
    from segue.graphs.recorder import Unrecordable, needs_gradient

    settings = {**_MODES.get(mode, {}), **_checked(options or {})}
    if any(isinstance(example, torch.Generator) for example in example_inputs):
        raise GraphDeclined("not-native", "it takes numbers from a generator of the program")
    if any(getattr(node.target, "depends_on_data", False) for node in all_nodes(gm)):
        raise GraphDeclined("not-native", "what it does depends on the data of a tensor")
    inside = without_inference_mode(gm)
    if inside is not None:
        return under_inference_mode(native(inside, example_inputs, mode, options))
    if needs_gradient(gm):
        raise GraphDeclined("gradients", "it needs gradients, which the native backend does not compute yet")
    try:
        if not settings:
            return _compiled(gm, example_inputs)
        with config.patch(**settings):
            return _compiled(gm, example_inputs)
    except (Unrecordable, NotGenerated) as e:
        raise GraphDeclined("not-native", str(e)) from e


def _compiled(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """All stages, one after the other."""
    from segue import config
    from segue.backends.native import loops, lower, plan
    from segue.graphs.recorder import record

    graph = record(gm, example_inputs)
    statements = lower.lower(graph)
    if "loops" in config.log.split(","):
        _log.info("ATen graph\n%s\nstatements\n%s", graph, statements)
    return plan.make_plan(plan.compile_kernels(graph, loops.kernels(statements)), gm.forward)


def _checked(options: Mapping[str, Any]) -> Mapping[str, Any]:
    from segue.arguments import alternatives

    for name in options:
        if name not in OPTIONS:
            raise ValueError(
                f"compile(options=...): the native backend has no option {name!r}{alternatives(name, OPTIONS)}"
            )
    return options
