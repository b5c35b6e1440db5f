"""Tensors: a node of the graph and a fake tensor that knows its shape, dtype and device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value
from segue.guards.source import Attr, InstanceDict

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

METADATA = frozenset(
    ("dtype", "device", "layout", "requires_grad", "ndim", "is_cuda", "is_cpu", "is_sparse", "is_quantized", "is_meta",
     "is_leaf", "itemsize", "nbytes", "is_mps", "is_xpu", "is_mkldnn", "is_nested", "is_vulkan", "is_inference",
     "names", "retains_grad", "output_nr", "is_ipu", "is_xla", "is_maia", "is_mtia", "is_sparse_csr")
)  # fmt: skip
"""Attributes that follow from what the tensor guard fixes."""

VIEWS = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))
"""Attributes that are tensors computed from the tensor."""


class TensorValue(Value):
    """A tensor.  `node` is its place in the graph, `fake` what is known of it."""

    def __init__(
        self,
        node: fx.Node,
        fake: torch.Tensor,
        cls: type = torch.Tensor,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.node = node
        self.fake = fake
        self.cls = cls
        self.source = source
        self.real = real

    def __repr__(self) -> str:
        return f"Tensor({self.node})"

    def python_type(self, tr: Tracer) -> type:
        return self.cls

    def truth(self, tr: Tracer) -> bool:
        graph_break("data-dependent-branch")

    def length(self, tr: Tracer) -> int:
        if self.fake.dim() == 0:
            tr.raise_error(TypeError, "len() of a 0-d tensor")
        return int(self.fake.shape[0])

    def iterate(self, tr: Tracer) -> Value:
        from segue.capture.values.iterator import SequenceIterator
        from segue.capture.values.sequence import TupleValue

        if self.fake.dim() == 0:
            tr.raise_error(TypeError, "iteration over a 0-d tensor")
        rows = tr.graph.call(tr, "call_method", "unbind", [self, tr.constant(0)], {})
        assert isinstance(rows, TupleValue)
        return SequenceIterator(rows, born=tr.here, transient=True)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        import operator

        return tr.graph.call(tr, "call_function", operator.getitem, [self, key], {})

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        import operator

        tr.graph.call(tr, "call_function", operator.setitem, [self, key, value], {})

    def contains(self, tr: Tracer, item: Value) -> bool:
        graph_break("data-dependent-value", operation="membership in a tensor")

    def hash_key(self, tr: Tracer) -> Any:
        if self.source is None:
            return self
        if issubclass(self.cls, torch.nn.Parameter):
            tr.program.check_is(self.source, self.real)
            return self.real
        tr.graph.tell_apart(tr, self)
        return self

    def own_attribute(self, tr: Tracer, name: str) -> Value | None:
        own = self.attributes(tr)
        return own.find(tr, name) if own is not None else None

    def attributes(self, tr: Tracer) -> Any:
        """What the program has set on the tensor object; None if nothing can be there."""
        if self.source is None:
            return tr.overlay_of(self)
        if "__dict__" not in dir(type(self.real)) and not hasattr(self.real, "__dict__"):
            return None
        return tr.instance_dict(self, self.real, InstanceDict(self.source))

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name == "shape":
            return tr.size_of(self)
        if name in METADATA:
            return tr.constant(getattr(self.fake, name))
        if name in VIEWS:
            return tr.graph.call(tr, "call_function", getattr, [self, tr.constant(name)], {})
        if name == "__class__":
            return tr.constant(self.cls)
        if name == "grad" and tr.graph.assigned:
            self.hash_key(tr)  # it is none of those whose gradient was assigned, or that very one
            if self in tr.graph.assigned:
                return tr.graph.assigned[self]
        if self.source is not None and name in ("grad", "_backward_hooks", "_post_accumulate_grad_hooks"):
            if self in tr.graph.written:
                graph_break("unsupported-attribute", name=name, type="a tensor written in this graph", verb="read")
            return tr.wrap(getattr(self.real, name), Attr(self.source, name))
        if name == "grad_fn" and (not self.fake.requires_grad or (self.source is None and self.fake.is_leaf)):
            return tr.constant(None)
        graph_break("unsupported-attribute", name=name, type="Tensor", verb="read")

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        from segue.capture.attributes import lookup

        if name == "grad" and self.source is not None:
            self._assign_grad(tr, tr.look(value))
            return
        if lookup(self.cls, name) is not MISSING or self.source is None:
            graph_break("unsupported-attribute", name=name, type="Tensor", verb="written")
        self.attributes(tr).store(tr, name, tr.constant(name), value)

    def _assign_grad(self, tr: Tracer, value: Value) -> None:
        if isinstance(value, TensorValue):
            fits = (value.fake.shape, value.fake.dtype, value.fake.device) == (
                self.fake.shape, self.fake.dtype, self.fake.device
            )  # fmt: skip
            if not fits or value is self or tr.graph.bodies:
                graph_break("unsupported-attribute", name="grad", type="Tensor", verb="written")
        elif value.real is not None:
            graph_break("unsupported-attribute", name="grad", type="Tensor", verb="written")
        self.hash_key(tr)
        tr.mutated(self)
        tr.graph.assigned[self] = value

    def write_back(self, to: Rebuilder) -> None:
        """Emit the effect that assigns the gradient."""
        value = to.register(to.tr.graph.assigned[self])
        to.program.call(setattr, to.register(self), to.program.constant("grad"), value)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        return to.output(self)
