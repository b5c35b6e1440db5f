"""`torch.func`: a transform is one node of the graph, whose target holds the graph of the function.

During capture PyTorch's own transform runs on fake tensors and calls the function with what it wraps them in; so the
function sees exactly what it would see.  At run time the same transform calls the captured graph.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch._functorch import eager_transforms
from torch._functorch.vmap import vmap_impl
from torch._higher_order_ops.associative_scan import associative_scan

from segue.capture.body import CapturedFunction, fill, flatten, on_fakes, structure, value_of
from segue.capture.breaks import graph_break
from segue.capture.rules import refused, rule
from segue.capture.values.base import Value
from segue.capture.values.sequence import TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.leaving import Place
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]
Transform = Callable[..., Any]


class TransformedGraph:
    """The target of a node: a transform applied to a captured function.

    It takes the tensors among the transform's arguments, then what the function reads besides, and gives the tensors
    among the transform's results.
    """

    __module__ = __name__

    def __init__(self, name: str, transform: Transform, spec: Any, body: fx.GraphModule, n_lifted: int, result: Any):
        self.__name__ = self.__qualname__ = name
        self.transform = transform
        self.spec = spec
        self.body = body
        self.n_lifted = n_lifted
        self.body_result = result

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        split = len(tensors) - self.n_lifted
        lifted = tensors[split:]

        def function(*args: Any, **kwargs: Any) -> Any:
            return fill(self.body_result, self.body(*flatten((args, kwargs))[0], *lifted))

        args, kwargs = fill(self.spec, tensors[:split])
        return tuple(flatten(self.transform(function, *args, **kwargs))[0])

    def __repr__(self) -> str:
        inside = str(self.body.graph).replace("\n", "\n    ")
        return f"{self.__name__} of {inside}"


def transformed(tr: Tracer, name: str, transform: Transform, function: Value, args: Args, kwargs: Kwargs) -> Value:
    """The value of `transform(function, *args, **kwargs)`, as a node of the graph."""
    tensors, spec = _tensors(tr, args, kwargs)
    body = CapturedFunction(tr, name, function)
    fakes, fake_kwargs = fill(spec, [t.fake for t in tensors])
    result = on_fakes(tr, name, lambda: transform(body, *fakes, **fake_kwargs))
    if body.module is None:
        graph_break("opaque-call", function=name)
    target = TransformedGraph(name, transform, spec, body.module, len(body.lifted), body.spec)
    nodes = [tr.graph.reach(t.node) for t in tensors] + [tr.graph.reach(n) for n in body.lifted]
    return _results(tr, target, nodes, result)


def _tensors(tr: Tracer, args: Args, kwargs: Kwargs) -> tuple[list[TensorValue], Any]:
    """The tensors among arguments, and what `fill` makes of others like them: `args, kwargs`."""
    return flatten(structure(tr, TupleValue([TupleValue(args), tr.new_dict(kwargs)]), lambda t: t))


def _results(tr: Tracer, target: Any, nodes: list[fx.Node], result: Any) -> Value:
    """Add a node that gives the tensors and functions of a result, and put them into their places in it."""
    leaves, _ = flatten(result)
    if not any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        graph_break("opaque-call", function=target.__name__)
    recorded = tr.graph.record(tr, target, nodes, tuple(leaves))
    values = tr.unpack(recorded)
    call = next(n for n in reversed(tr.graph.graph.nodes) if n.target is target)
    for i, leaf in enumerate(leaves):
        if not isinstance(leaf, torch.Tensor):
            picked = tr.graph.graph.call_function(operator.getitem, (call, i))
            picked.meta["example_value"] = leaf
            values[i] = PullBackValue(picked, leaf, tr.here)
    each = iter(values)
    return value_of(tr, result, lambda leaf: next(each))


@rule(vmap_impl)
def _vmap(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    function, *options = args[:5]
    in_dims, out_dims, randomness, chunk_size = (tr.python_object(o) for o in options)

    def vmap(called: Any, *args: Any, **kwargs: Any) -> Any:
        return vmap_impl(called, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)

    return transformed(tr, "vmap", vmap, function, args[5:], kwargs)


def _gradient(name: str, implementation: Callable[..., Any]) -> None:
    def gradient(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        function, argnums, has_aux, operands, keywords = args
        settings = tr.python_object(argnums), tr.python_object(has_aux)

        def transform(called: Any, *args: Any, **kwargs: Any) -> Any:
            return implementation(called, *settings, args, kwargs)

        named = {tr.python_object(k): v for k, v in tr.mapping_items(keywords)}
        return transformed(tr, name, transform, function, tr.unpack(operands), named)

    rule(implementation)(gradient)


_gradient("grad", eager_transforms.grad_impl)
_gradient("grad_and_value", eager_transforms.grad_and_value_impl)


@rule(associative_scan)
def _associative_scan(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    named = dict(zip(("combine_fn", "xs", "dim"), args, strict=False)) | kwargs
    function, operands = named.pop("combine_fn"), named.pop("xs")
    settings = {k: tr.python_object(v) for k, v in named.items()}

    def scan(called: Any, xs: Any) -> Any:
        return associative_scan(called, xs, **settings)

    return transformed(tr, "associative_scan", scan, function, [operands], {})


class TransformedValue(Value):
    """A function that a transform gives: there is nothing to ask of it but to be called."""

    def python_type(self, tr: Tracer) -> type:
        return types.FunctionType

    def truth(self, tr: Tracer) -> bool:
        return True


class CurriedValue(TransformedValue):
    """What `torch.func.jacrev(function)` and its kin give: called later."""

    def __init__(
        self, function: Value, make: Callable[..., Any], args: Args, kwargs: Kwargs, born: Place | None
    ) -> None:
        self.function = function
        self.make = make
        self.args = args
        self.kwargs = kwargs
        self.born = born

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        settings = [tr.python_object(a) for a in self.args]
        named = {k: tr.python_object(v) for k, v in self.kwargs.items()}

        def transform(called: Any, *args: Any, **kwargs: Any) -> Any:
            return self.make(called, *settings, **named)(*args, **kwargs)

        return transformed(tr, self.make.__name__, transform, self.function, args, kwargs)

    def rebuild(self, to: Rebuilder) -> int:
        operands = [self.function, *self.args, *self.kwargs.values()]
        function = to.program.constant(self.make)
        return to.program.call_register(function, *map(to.register, operands), keywords=tuple(self.kwargs))


def _curried(make: Callable[..., Any]) -> None:
    def applied(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        given = dict(kwargs)
        function = args[0] if args else given.pop("func")
        return CurriedValue(function, make, args[1:], given, tr.here)

    rule(make)(applied)


for _make in (torch.func.jacrev, torch.func.jacfwd, torch.func.hessian, torch.func.functionalize):
    _curried(_make)


@rule(torch.func.jvp)
def _jvp(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    named = dict(zip(("func", "primals", "tangents"), args, strict=False)) | kwargs
    function, primals, tangents = (named.pop(k) for k in ("func", "primals", "tangents"))
    settings = {k: tr.python_object(v) for k, v in named.items()}

    def jvp(called: Any, primals: Any, tangents: Any) -> Any:
        return torch.func.jvp(called, primals, tangents, **settings)

    return transformed(tr, "jvp", jvp, function, [primals, tangents], {})


class PullBackValue(TransformedValue):
    """The function that `torch.func.vjp` gives, which lives between two nodes of the graph."""

    def __init__(self, node: fx.Node, on_fakes: Callable[..., Any], born: Place | None) -> None:
        self.node = node
        self.on_fakes = on_fakes
        self.born = born

    def call(self, tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        tensors, spec = _tensors(tr, args, kwargs)
        fakes, fake_kwargs = fill(spec, [t.fake for t in tensors])
        result = on_fakes(tr, "pull_back", lambda: self.on_fakes(*fakes, **fake_kwargs))
        nodes = [tr.graph.reach(n) for n in (self.node, *(t.node for t in tensors))]
        return _results(tr, PullBack(spec), nodes, result)


class PullBack:
    """The target of a node that calls what `torch.func.vjp` gave."""

    __module__ = __name__
    __name__ = __qualname__ = "pull_back"

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def __call__(self, function: Callable[..., Any], *tensors: Any) -> tuple[Any, ...]:
        args, kwargs = fill(self.spec, tensors)
        return tuple(flatten(function(*args, **kwargs))[0])


@rule(torch.func.vjp)
def _vjp(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    given = dict(kwargs)
    function = args[0] if args else given.pop("func")
    settings = {k: tr.python_object(v) for k, v in given.items()}

    def vjp(called: Any, *primals: Any) -> Any:
        return torch.func.vjp(called, *primals, **settings)

    return transformed(tr, "vjp", vjp, function, args[1:], {})


refused("opaque-call", torch.func.linearize, function="torch.func.linearize, which traces the function itself")
