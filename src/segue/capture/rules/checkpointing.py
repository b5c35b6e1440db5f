"""`torch.utils.checkpoint.checkpoint`: a node that checkpoints the captured function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import checkpoint as torch_checkpoint

from segue.capture.body import CapturedFunction, flatten, on_fakes, structure, value_of
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.rules.autograd import with_history
from segue.capture.values.base import Value
from segue.capture.values.sequence import TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_SETTINGS = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")


class CheckpointedGraph:
    """The target of a node that checkpoints a captured function; the first `n_own` tensors are its arguments."""

    __module__ = __name__
    __name__ = __qualname__ = "checkpoint"

    def __init__(self, body: fx.GraphModule, n_own: int, settings: dict[str, Any]) -> None:
        self.body = body
        self.n_own = n_own
        self.settings = settings

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        lifted = tensors[self.n_own :]

        def function(*own: Any) -> Any:
            return self.body(*own, *lifted)

        result: tuple[Any, ...] = torch_checkpoint.checkpoint(function, *tensors[: self.n_own], **self.settings)
        return result

    def __repr__(self) -> str:
        return f"checkpoint of {self.body.graph}"


@rule(torch_checkpoint.checkpoint)
def _checkpoint(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    settings = {k: tr.python_object(v) for k, v in kwargs.items() if k in _SETTINGS}
    rest = {k: v for k, v in kwargs.items() if k not in _SETTINGS}
    reentrant = settings.get("use_reentrant")
    if reentrant is None or "context_fn" in kwargs or settings.get("debug") or (reentrant and rest):
        graph_break("opaque-call", function="torch.utils.checkpoint.checkpoint with these settings")
    function, *operands = args
    if not torch.is_grad_enabled():
        return tr.call(function, operands, rest)
    given, _ = flatten(structure(tr, TupleValue([*operands, *rest.values()]), lambda t: t, lambda v: None))
    own = dict.fromkeys(t.node for t in given)
    if reentrant and len(given) != sum(isinstance(tr.look(o), TensorValue) for o in operands):
        graph_break("opaque-call", function="torch.utils.checkpoint.checkpoint of nested tensors")
    body = CapturedFunction(tr, "checkpoint", function)
    with torch.set_grad_enabled(not reentrant):
        result = body.run(operands, rest)
    if body.writes:
        graph_break("effect-in-body", operation="checkpoint", what="a tensor")
    outputs, _ = flatten(result)
    assert body.module is not None
    module, fakes = body.module, [n.meta["example_value"] for n in body.lifted]
    if reentrant:
        leaves = on_fakes(tr, "checkpoint", lambda: with_history(lambda: module(*fakes), fakes[: len(own)]))
    else:
        leaves = tuple(t.fake for t in outputs)
    target = CheckpointedGraph(module, len(own), settings)
    recorded = tr.graph.record(tr, target, [tr.graph.reach(n) for n in body.lifted], tuple(leaves))
    each = iter(tr.unpack(recorded))
    return value_of(tr, result, lambda t: next(each))
