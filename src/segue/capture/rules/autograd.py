"""`torch.autograd.Function`: its forward is captured; its backward is the engine's, at its time.

Where no gradient is needed, `forward` is inlined.  Where one is, capturing `forward` proves that it has no effects and
tells what it gives; the node then calls the program's own `Function.apply`, so that autograd sees what it always sees.
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd.function import _is_setup_context_defined

from segue.capture.body import CapturedFunction, fill, flatten, on_fakes, structure
from segue.capture.breaks import graph_break
from segue.capture.calls import name_of
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.known import is_stable
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_FIELDS = frozenset(
    "to_save saved_for_forward dirty_tensors non_differentiable materialize_grads materialize_non_diff_grads".split()
)
"""Attributes of the context that PyTorch reads when `forward` is done."""


class ContextValue(ObjectValue):
    """The `ctx` of a call of `forward`."""

    def __init__(self, cls: type, needs_input_grad: list[Value]) -> None:
        super().__init__(cls)
        self.needs_input_grad = TupleValue(needs_input_grad)
        self.fields: dict[str, Value] = {}

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        if name == "needs_input_grad":
            return self.needs_input_grad
        if name in self.fields:
            return self.fields[name]
        return super().special_attribute(tr, descriptor, name)

    def set_attribute(self, tr: Tracer, name: str, value: Value) -> None:
        if name in _FIELDS:
            self.fields[name] = value
        else:
            super().set_attribute(tr, name, value)

    def rebuild(self, to: Rebuilder) -> int:
        to.impossible(self)

    def marked(self, tr: Tracer, name: str) -> list[TensorValue]:
        """The tensors that a field lists."""
        given = self.fields.get(name)
        values = map(tr.look, tr.unpack(given)) if given is not None else ()
        return [v for v in values if isinstance(v, TensorValue)]


class ForwardValue(Value):
    """What `Function.apply` calls: `forward`, and `setup_context` if the class has one."""

    def __init__(self, cls: Any, operands: Args, tr: Tracer) -> None:
        self.cls = cls
        looked = [tr.look(o) for o in operands]
        self.needs: Args = [tr.constant(isinstance(o, TensorValue) and o.fake.requires_grad) for o in looked]
        self.context = ContextValue(cls._backward_cls, self.needs)

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        self.context = ContextValue(self.cls._backward_cls, self.needs)
        self.context.born = tr.here
        owner = tr.constant(self.cls)
        forward = owner.get_attribute(tr, "forward")
        if not _is_setup_context_defined(self.cls.setup_context):
            return tr.call(forward, [self.context, *args], {})
        result = tr.call(forward, args, {})
        tr.call(owner.get_attribute(tr, "setup_context"), [self.context, TupleValue(args), result], {})
        return result


class FunctionCall:
    """The target of a node that calls a `torch.autograd.Function`."""

    __module__ = __name__

    def __init__(self, cls: Any, spec: Any) -> None:
        self.__name__ = self.__qualname__ = cls.__name__
        self.cls = cls
        self.spec = spec

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        return tuple(flatten(self.cls.apply(*fill(self.spec, tensors)))[0])

    def __repr__(self) -> str:
        return f"{name_of(self.cls)}.apply"


@rule(vars(torch.autograd.Function)["apply"].__func__)
def _apply(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls = tr.look(args[0]).concrete(tr)
    operands = _bound(tr, cls, args[1:], kwargs)
    if torch._C._functorch.peek_interpreter_stack() is not None:
        graph_break("opaque-call", function=f"{name_of(cls)}.apply inside a transform")
    forward = ForwardValue(cls, operands, tr)
    needs_gradient = any(isinstance(t, TensorValue) and t.fake.requires_grad for t in map(tr.look, operands))
    if needs_gradient and torch.is_grad_enabled():
        return _as_node(tr, cls, forward, operands)
    return _inlined(tr, forward, operands)


def _bound(tr: Tracer, cls: Any, args: Args, kwargs: Kwargs) -> Args:
    """The positional arguments of `forward`, defaults filled in as `apply` does."""
    if not _is_setup_context_defined(cls.setup_context):
        if kwargs:
            graph_break("opaque-call", function=f"{name_of(cls)}.apply with keywords")
        return args
    try:
        bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    except TypeError:
        graph_break("opaque-call", function=f"{name_of(cls)}.apply with arguments that do not fit")
    bound.apply_defaults()
    if bound.kwargs:
        graph_break("opaque-call", function=f"{name_of(cls)}.apply with keywords")
    return [v if isinstance(v, Value) else tr.pinned(v) for v in bound.args]


def _inlined(tr: Tracer, forward: ForwardValue, operands: Args) -> Value:
    with _without_gradients(tr):
        result = tr.look(forward.call(tr, operands, {}))
    items = tr.unpack(result) if isinstance(result, TupleValue) else [result]
    given = [tr.look(o) for o in operands]
    dirty = forward.context.marked(tr, "dirty_tensors")
    given_back: Args = []
    for item in map(tr.look, items):
        if not isinstance(item, TensorValue) or item.fake.requires_grad:
            graph_break("opaque-call", function=f"{name_of(forward.cls)}.apply")
        if any(item is g for g in given) and item not in dirty:
            item = tr.graph.call(tr, "call_method", "view_as", [item, item], {})
        given_back.append(item)
    return TupleValue(given_back) if isinstance(result, TupleValue) else given_back[0]


@contextlib.contextmanager
def _without_gradients(tr: Tracer) -> Iterator[None]:
    """Run captured code as under `no_grad`; the graph says so only if that makes a difference."""
    if not torch.is_grad_enabled():
        yield
        return
    graph, had_state = tr.graph.graph, tr.graph.sets_state
    set_grad = torch._C._set_grad_enabled
    set_grad(False)
    tr.graph.set_state(set_grad, [False], {})
    begin = next(reversed(graph.nodes))
    try:
        yield
    finally:
        set_grad(True)
        tr.graph.set_state(set_grad, [True], {})
        end = next(reversed(graph.nodes))
    inside, node = [], begin.next
    while node is not end:
        inside.append(node)
        node = node.next
    operands = [o for n in inside for o in n.all_input_nodes]
    if not any(getattr(o.meta.get("example_value"), "requires_grad", False) for o in (*operands, *inside)):
        graph.erase_node(begin)
        graph.erase_node(end)
        tr.graph.sets_state = had_state or any(n.target is set_grad for n in inside)


class Stand(torch.autograd.Function):
    """In the place of a program's Function, on fake tensors: gives what `run` gives, marked as the program marks it."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[], tuple[Any, ...]], dirty: Any, fixed: Any, *operands: Any) -> Any:
        """Called by PyTorch."""
        results = run()
        ctx.mark_dirty(*dirty)
        ctx.mark_non_differentiable(*(results[i] for i in fixed))
        return results


def with_history(run: Callable[[], tuple[Any, ...]], operands: list[Any]) -> tuple[Any, ...]:
    """What an operation with a backward of its own gives on fake tensors: results without history, but one in sum."""
    if torch.is_grad_enabled() and any(t.requires_grad for t in operands):
        return tuple(Stand.apply(run, (), (), *operands))
    with torch.no_grad():
        return run()


def _sees_arguments_only(function: Any) -> bool:
    """Whether a function plainly reads none of the program's objects but its arguments."""
    if not isinstance(function, types.FunctionType) or function.__code__.co_freevars:
        return False
    names = {n for code in _codes(function.__code__) for n in code.co_names}
    named = [function.__globals__[n] for n in names if n in function.__globals__]
    return all(
        is_stable(g) if isinstance(g, types.ModuleType) else str(getattr(g, "__module__", "")).startswith("torch")
        for g in named
    )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code of a function and of those defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _as_node(tr: Tracer, cls: Any, forward: ForwardValue, operands: Args) -> Value:
    """A node that calls the program's own `apply`."""
    name = f"{name_of(cls)}.apply"
    if tr.written and not (_sees_arguments_only(cls.forward) and _sees_arguments_only(cls.setup_context)):
        graph_break("opaque-call", function=f"{name} after objects of the program were written")
    for operand in map(tr.look, operands):
        if isinstance(operand, (ListValue, DictValue)) and operand.source is not None:
            graph_break("opaque-call", function=f"{name} with a container of the program")
    tensors, spec = flatten(structure(tr, TupleValue(operands), lambda t: t))
    body = CapturedFunction(tr, name, forward)
    with torch.no_grad():
        result = body.run(operands, {})
    if not isinstance(result, (TensorValue, tuple)) or not all(
        isinstance(r, (TensorValue, type(None))) for r in (result if isinstance(result, tuple) else (result,))
    ):
        graph_break("opaque-call", function=f"{name}, which gives more than tensors")
    outputs, _ = flatten(result)
    if any(t.source is not None and not any(t is tr.look(o) for o in operands) for t in outputs):
        graph_break("opaque-call", function=f"{name}, which gives a tensor of the program")
    module, lifted = body.module, [n.meta["example_value"] for n in body.lifted]
    assert module is not None
    dirty = [t.fake for t in forward.context.marked(tr, "dirty_tensors")]
    without_gradient = forward.context.marked(tr, "non_differentiable")
    fixed = [i for i, t in enumerate(outputs) if t in without_gradient]
    fakes = [t.fake for t in map(tr.look, operands) if isinstance(t, TensorValue)]
    leaves = on_fakes(tr, name, lambda: Stand.apply(lambda: module(*lifted), dirty, fixed, *fakes))
    nodes = [tr.graph.reach(t.node) for t in tensors]
    recorded = tr.graph.record(tr, FunctionCall(cls, spec), nodes, tuple(leaves))
    each = iter(tr.unpack(recorded))
    if isinstance(result, TensorValue):
        return next(each)
    return TupleValue([tr.constant(None) if r is None else next(each) for r in result])
