"""`torch.inference_mode`: entered and left by the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from segue.capture.breaks import graph_break
from segue.capture.inference import enter_inference_mode, leave_inference_mode
from segue.capture.rules import rule
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


class InferenceContext(Value):
    """The object that `torch.inference_mode` enters and leaves; once entered it is a node of the graph."""

    def __init__(self, mode: bool, born: Place | None) -> None:
        self.mode = mode
        self.born = born
        self.node: fx.Node | None = None
        self.context: Any = None

    def python_type(self, tr: Tracer) -> type:
        return torch._C._InferenceMode

    def truth(self, tr: Tracer) -> bool:
        return True

    def get_attribute(self, tr: Tracer, name: str) -> Value:
        if name == "__enter__":
            return Action(self._enter)
        if name == "__exit__":
            return Action(self._leave)
        return super().get_attribute(tr, name)

    def _enter(self, tr: Tracer) -> None:
        if self.node is not None or tr.graph.bodies:
            graph_break("opaque-call", function="torch.inference_mode inside a transform")
        self.context = enter_inference_mode(self.mode)
        tr.changed()
        self.node = tr.graph.set_state(enter_inference_mode, [self.mode], {})

    def _leave(self, tr: Tracer) -> None:
        if self.node is None:
            graph_break("opaque-call", function="torch.inference_mode.__exit__")
        leave_inference_mode(self.context)
        tr.changed()
        tr.graph.set_state(leave_inference_mode, [self.node], {})

    def rebuild(self, to: Rebuilder) -> int:
        if self.node is None:
            to.impossible(self)
        if self.node not in to.outputs:
            to.outputs[self.node] = to.program.register()
        return to.outputs[self.node]


class Action(Value):
    """A method of such an object."""

    def __init__(self, action: Callable[[Tracer], None]) -> None:
        self.action = action

    def python_type(self, tr: Tracer) -> type:
        return type([].append)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        self.action(tr)
        return tr.constant(None)


@rule(torch._C._InferenceMode)
def _inference_mode(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return InferenceContext(bool(tr.look(args[0]).concrete(tr)), tr.here)
