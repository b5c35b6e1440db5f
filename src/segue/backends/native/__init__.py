"""The native backend: kernels for the CPU, compiled in process by LLVM, without a toolchain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from segue.errors import GraphDeclined


def native_backend(gm: fx.GraphModule, example_inputs: list[Any], **settings: Any) -> Callable[..., Any]:
    """Compile a captured graph for the CPU.

    Args:
        gm: the graph; it returns a tuple.
        example_inputs: tensors and numbers as the first call has them.
        settings: `options` and `mode` of `compile`.

    Returns:
        A plan: takes the graph's inputs, returns a tuple.

    Raises:
        GraphDeclined: the graph is better run as it is: it needs gradients, or is not plain work on CPU tensors.
    """
    from segue import config
    from segue.backends.native import loops, lower, plan
    from segue.backends.native.values import NotGenerated
    from segue.graphs.recorder import Unrecordable, needs_gradient, record

    if needs_gradient(gm):
        raise GraphDeclined("gradients", "it needs gradients, which the native backend does not compute yet")
    try:
        with config.patch(**(settings.get("options") or {})):
            graph = record(gm, example_inputs)
            units = loops.kernels(lower.lower(graph))
            return plan.make_plan(plan.compile_kernels(graph, units), gm.forward)
    except (Unrecordable, NotGenerated) as e:
        raise GraphDeclined("not-native", str(e)) from e
