"""Bodies: functions of the program that a tensor operation calls, captured in graphs of their own.

`torch.func.vmap(f)(x)`, `checkpoint(f, x)` and their kin are one node of the graph, whose target holds the graph of
`f`.  A body has no effects: what it reads of the outer graphs becomes an input of it ("lifted"), and if it changes
anything that is older than itself, the call is left to the interpreter.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from segue.capture.breaks import Raised, graph_break
from segue.capture.graphnodes import CapturedModule, add_placeholder
from segue.capture.values.base import MISSING, Value, last_serial
from segue.capture.values.mapping import DictValue
from segue.capture.values.sequence import ListValue, TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer


class Body:
    """The graph of one function under construction.

    `lifted` are the nodes of the enclosing graph that it uses, with the inputs that stand for them.
    """

    def __init__(self, operation: str) -> None:
        self.operation = operation
        self.graph = fx.Graph()
        self.lifted: dict[fx.Node, fx.Node] = {}
        self.born = last_serial()
        self._before: dict[int, tuple[Value, Any]] = {}

    def lift(self, node: fx.Node) -> fx.Node:
        """The input that stands for a node of the enclosing graph."""
        if node not in self.lifted:
            self.lifted[node] = add_placeholder(self.graph, f"outer{len(self.lifted)}", node.meta["example_value"])
        return self.lifted[node]

    def note_change(self, value: Value) -> None:
        """A value is about to change: remember it as it is, unless it was made here."""
        if (value.source is not None or value.serial <= self.born) and id(value) not in self._before:
            self._before[id(value)] = value, value.state()

    def check_restored(self) -> None:
        """Whatever is older than the body is as it was before."""
        for value, state in self._before.values():
            if not value.restore(state):
                graph_break("effect-in-body", operation=self.operation, what=_kind_of(value))


def _kind_of(value: Value) -> str:
    cls = getattr(value, "cls", None)
    return f"an object of class {cls.__name__}" if isinstance(cls, type) else "a variable or object"


class CapturedFunction:
    """A function of the program that can be called with fake tensors: the first call captures it.

    Args:
        operation: the name of what calls it, for messages.
        function: the function's value.

    Example:
        body = CapturedFunction(tr, "vmap", function)
        result = torch.vmap(body)(fake)
        body.module  # its graph: takes the tensors among the arguments, and what was lifted; gives a flat tuple
    """

    def __init__(self, tr: Tracer, operation: str, function: Value) -> None:
        self.tr = tr
        self.operation = operation
        self.function = function
        self.module: fx.GraphModule | None = None
        self.lifted: list[fx.Node] = []
        self.writes = False
        """Whether it writes to a tensor that is older than the call."""
        self.spec: Any = None
        self.result: Any = None
        """What the function gave: Python containers of `TensorValue`s and constants."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call it as PyTorch does, with tensors that a transform has wrapped."""
        tr = self.tr
        if self.module is not None:
            leaves = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
            return fill(self.spec, self.module(*leaves, *(n.meta["example_value"] for n in self.lifted)))

        def call(body: Body) -> Value:
            def tensor(fake: torch.Tensor) -> Value:
                node = add_placeholder(body.graph, f"arg{len(body.graph.nodes)}", fake)
                return tr.graph.wrapped_input(node, fake)

            values = [value_of(tr, a, tensor) for a in args]
            return tr.call(self.function, values, {k: value_of(tr, v, tensor) for k, v in kwargs.items()})

        result = self._capture(call)
        return pytree.tree_map_only(TensorValue, lambda t: t.fake, result, is_leaf=_is_tensor_value)

    def run(self, args: list[Value], kwargs: dict[str, Value]) -> Any:
        """Call it with values of the enclosing graph; the tensors among them are lifted first, in order."""

        def call(body: Body) -> Value:
            for operand in (*args, *kwargs.values()):
                structure(self.tr, operand, lambda t: self.tr.graph.reach(t.node), lambda v: None)
            return self.tr.call(self.function, args, kwargs)

        return self._capture(call)

    def _capture(self, call: Callable[[Body], Value]) -> Any:
        tr = self.tr
        body = Body(self.operation)
        versions = _versions(tr)
        with _disable_current_modes(), _under_construction(tr, body):
            self.result = result = structure(tr, call(body), lambda t: t)
            leaves, self.spec = flatten(result)
            body.graph.output(tuple(tr.graph.reach(t.node) for t in leaves))
        body.graph.lint()
        self.module = CapturedModule(torch.nn.Module(), body.graph)
        self.lifted = list(body.lifted)
        self.writes = bool(_written(versions))
        return result


@contextlib.contextmanager
def _under_construction(tr: Tracer, body: Body) -> Iterator[None]:
    """Nodes go into the body's graph; afterwards nothing but that graph has changed."""
    builder = tr.graph
    outer, n_effects, grad = builder.graph, len(tr.program.effects), torch.is_grad_enabled()
    handled = tr.handled
    builder.graph = body.graph
    builder.bodies.append(body)
    try:
        yield
        body.check_restored()
        if len(tr.program.effects) != n_effects or torch.is_grad_enabled() != grad or tr.handled is not handled:
            graph_break("effect-in-body", operation=body.operation, what="the state of the program")
    except Raised as raised:
        graph_break("raise", type=raised.value.cls.__name__)
    finally:
        builder.bodies.pop()
        builder.graph = outer


def structure(
    tr: Tracer, value: Value, tensor: Callable[[TensorValue], Any], other: Callable[[Value], Any] | None = None
) -> Any:
    """Python containers like those of a value, with `tensor(…)` for its tensors and constants as they are."""
    value = tr.look(value)
    if isinstance(value, TensorValue):
        return tensor(value)
    if isinstance(value, TupleValue) and (value.cls in (tuple, torch.Size) or hasattr(value.cls, "_make")):
        items = [structure(tr, i, tensor, other) for i in value.items(tr)]
        return value.cls._make(items) if hasattr(value.cls, "_make") else tuple(items)
    if isinstance(value, ListValue) and value.cls is list:
        return [structure(tr, i, tensor, other) for i in value.items(tr)]
    if isinstance(value, DictValue) and value.cls in pytree.SUPPORTED_NODES and value.cls is not type(None):
        return value.cls((k, structure(tr, v, tensor, other)) for k, (_, v) in value.load(tr).items())
    if other is not None:
        return other(value)
    if value.real is not MISSING and issubclass(type(value.real), torch.Tensor):
        graph_break("unsupported-tensor", what=f"a tensor of class {type(value.real).__name__}")
    return value.concrete(tr)


def value_of(tr: Tracer, obj: Any, tensor: Callable[[Any], Value]) -> Value:
    """The value of Python containers of tensors and constants."""
    if isinstance(obj, _LEAVES):
        return tensor(obj)
    if isinstance(obj, tuple):
        return TupleValue([value_of(tr, i, tensor) for i in obj], type(obj))
    if type(obj) is list:
        return ListValue([value_of(tr, i, tensor) for i in obj])
    if isinstance(obj, dict):
        return DictValue({k: (tr.plain_value(k), value_of(tr, v, tensor)) for k, v in obj.items()}, type(obj))
    return tr.plain_value(obj)


_LEAVES = (torch.Tensor, TensorValue, types.FunctionType)
"""What flows through graphs; functions are those that `torch.func.vjp` gives."""

_HOLE = object()


def _is_tensor_value(leaf: Any) -> bool:
    return isinstance(leaf, TensorValue)


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The tensors (and functions) in Python containers, and what `fill` makes the containers of again."""
    leaves, spec = pytree.tree_flatten(tree)
    constants = [_HOLE if isinstance(leaf, _LEAVES) else leaf for leaf in leaves]
    return [leaf for leaf in leaves if isinstance(leaf, _LEAVES)], (constants, spec)


def fill(spec: Any, tensors: Any) -> Any:
    """Containers as they were before `flatten`, with these tensors."""
    constants, tree_spec = spec
    each = iter(tensors)
    return pytree.tree_unflatten([next(each) if c is _HOLE else c for c in constants], tree_spec)


def on_fakes(tr: Tracer, operation: str, run: Callable[[], Any]) -> Any:
    """Run an operation of PyTorch that calls captured functions on fake tensors."""
    tr.enter_operation()
    versions = _versions(tr)
    with tr.graph.failing_as_breaks(operation):
        result = run()
    for value in _written(versions):
        tr.graph.note_write(value)
    return result


def _versions(tr: Tracer) -> list[tuple[TensorValue, int]]:
    return [(v, v.fake._version) for v in tr.graph.known_tensors() if not v.fake.is_inference()]


def _written(versions: list[tuple[TensorValue, int]]) -> list[TensorValue]:
    return [value for value, version in versions if value.fake._version != version]
