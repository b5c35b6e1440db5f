"""`torch.cond`, `while_loop` and `scan`: nodes that call PyTorch's operators with captured functions.

In eager PyTorch these functions compile what they are given and call the same operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import fx
from torch._higher_order_ops.scan import scan, scan_op
from torch._higher_order_ops.while_loop import while_loop, while_loop_op
from torch._subclasses.fake_tensor import FakeTensor

from segue.capture.body import CapturedFunction, fill, flatten, on_fakes, structure, value_of
from segue.capture.breaks import graph_break
from segue.capture.fake import CaptureMode
from segue.capture.rules import rule
from segue.capture.rules.autograd import with_history
from segue.capture.values.base import Value
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


class ControlFlow:
    """The target of a node that calls a control-flow operator: `run(bodies, tensors)`.

    What it does depends on the data, so that it cannot be recorded; `shapes(tensors)` gives results of the right
    shapes for fake tensors of a capture.
    """

    __module__ = __name__
    depends_on_data = True

    def __init__(
        self, name: str, bodies: list[fx.GraphModule], run: Callable[..., Any], shapes: Callable[..., Any]
    ) -> None:
        self.__name__ = self.__qualname__ = name
        self.bodies = bodies
        self.run = run
        self.shapes = shapes

    def __call__(self, *tensors: Any) -> tuple[Any, ...]:
        if any(isinstance(t, FakeTensor) and isinstance(t.fake_mode, CaptureMode) for t in tensors):
            return tuple(self.shapes(tensors))
        return tuple(self.run(self.bodies, tensors))

    def __repr__(self) -> str:
        return "\n".join([self.__name__, *(str(body.graph) for body in self.bodies)])


def _refuse(name: str, why: str) -> NoReturn:
    graph_break("opaque-call", function=f"{name}, {why}")


def _check_place(name: str) -> None:
    if torch._C._functorch.peek_interpreter_stack() is not None:
        _refuse(name, "inside a transform")


def _same_inputs(bodies: list[CapturedFunction], n_own: int = 0) -> list[fx.Node]:
    """Give all bodies the inputs that any of them has lifted, in one order, after their own `n_own` ones."""
    union = list(dict.fromkeys(n for body in bodies for n in body.lifted))
    for body in bodies:
        assert body.module is not None
        graph = body.module.graph
        inputs = [n for n in graph.nodes if n.op == "placeholder"]
        own, lifted = inputs[:n_own], dict(zip(body.lifted, inputs[n_own:], strict=True))
        begin = next(iter(graph.nodes))
        for node in union:
            with graph.inserting_before(begin):
                new = graph.placeholder(f"lifted_{node.name}")
            new.meta["example_value"] = node.meta["example_value"]
            if node in lifted:
                lifted[node].replace_all_uses_with(new)
        for node in reversed(own):
            first = next(iter(graph.nodes))
            if first is not node:
                first.prepend(node)
        for node in lifted.values():
            graph.erase_node(node)
        body.module.recompile()
    return union


def _check_fresh(name: str, body: CapturedFunction, outputs: list[Any], inputs: list[torch.Tensor]) -> None:
    """PyTorch allows no writes to inputs and no results that share memory: it has errors for that."""
    if body.writes:
        _refuse(name, "which writes to its inputs")
    storages = [t.untyped_storage()._cdata for t in (*inputs, *outputs)]
    if len(set(storages[len(inputs) :])) != len(outputs) or set(storages[: len(inputs)]) & set(storages[len(inputs) :]):
        _refuse(name, "whose results share memory")


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tensor.device, tensor.shape, tensor.stride()


def _fakes(nodes: list[fx.Node]) -> list[torch.Tensor]:
    return [n.meta["example_value"] for n in nodes]


@rule(torch.cond)
def _cond(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _check_place("cond")
    named = dict(zip(("pred", "true_fn", "false_fn", "operands"), args, strict=False)) | kwargs
    condition = tr.look(named["pred"])
    operands = tr.unpack(named["operands"]) if "operands" in named else []
    if not isinstance(condition, TensorValue):
        return tr.call(named["true_fn" if condition.truth(tr) else "false_fn"], operands, {})
    if condition.fake.numel() != 1:
        _refuse("torch.cond", "with more than one condition")
    bodies = [CapturedFunction(tr, "torch.cond", named[f]) for f in ("true_fn", "false_fn")]
    results = [flatten(body.run(operands, {})) for body in bodies]
    (outputs, spec), (others, other_spec) = results
    if spec != other_spec or [_layout(t.fake) for t in outputs] != [_layout(t.fake) for t in others]:
        _refuse("torch.cond", "whose branches differ in their results")
    inputs = _same_inputs(bodies)
    for body, (tensors, _) in zip(bodies, results, strict=True):
        _check_fresh("torch.cond", body, [t.fake for t in tensors], _fakes(inputs))

    def run(modules: Any, tensors: Any) -> Any:
        return torch.ops.higher_order.cond(tensors[0], *modules, tensors[1:])

    def shapes(tensors: Any) -> Any:
        return with_history(lambda: modules[0](*tensors[1:]), tensors[1:])

    modules = [body.module for body in bodies if body.module is not None]
    nodes = [condition.node, *inputs]
    return _recorded(tr, ControlFlow("cond", modules, run, shapes), nodes, spec)


def _recorded(tr: Tracer, target: ControlFlow, operands: list[fx.Node], spec: Any) -> Value:
    """Add the node, and put its results into their places."""
    nodes = [tr.graph.reach(n) for n in operands]
    fakes = on_fakes(tr, target.__name__, lambda: tuple(target.shapes([n.meta["example_value"] for n in nodes])))
    each = iter(tr.unpack(tr.graph.record(tr, target, nodes, fakes)))
    return value_of(tr, fill(spec, fakes), lambda fake: next(each))


def _tensors(tr: Tracer, name: str, value: Value) -> tuple[list[TensorValue], Any]:
    """The tensors in nested containers of nothing else."""
    found, spec = flatten(structure(tr, value, lambda t: t))
    if len(found) != len(spec[0]) or not found:
        _refuse(name, "with operands that are not tensors")
    return found, spec


@rule(while_loop)
def _while_loop(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _check_place("while_loop")
    named = dict(zip(("cond_fn", "body_fn", "carried_inputs"), args, strict=False)) | kwargs
    carried, spec = _tensors(tr, "while_loop", named["carried_inputs"])
    bodies = [CapturedFunction(tr, "while_loop", named[f]) for f in ("cond_fn", "body_fn")]
    fakes = [t.fake for t in carried]
    own = on_fakes(tr, "while_loop", lambda: [torch.empty_like(t) for t in fakes])
    state = fill(spec, own)
    condition, result = on_fakes(tr, "while_loop", lambda: [body(*state) for body in bodies])
    if not isinstance(condition, torch.Tensor) or condition.numel() != 1 or condition.dtype is not torch.bool:
        _refuse("while_loop", "whose condition is no tensor")
    outputs, result_spec = flatten(result if isinstance(result, tuple) else (result,))
    if len(outputs) != len(fakes) or list(map(_layout, outputs)) != list(map(_layout, fakes)):
        _refuse("while_loop", "whose results differ from what it carries")
    inputs = _same_inputs(bodies, len(own))
    for body, found in zip(bodies, ([], outputs), strict=True):
        _check_fresh("while_loop", body, found, [*own, *_fakes(inputs)])
    if torch.is_grad_enabled() and any(t.requires_grad for t in (*fakes, *_fakes(inputs))):
        _refuse("while_loop", "of tensors that require gradients")

    def run(modules: Any, tensors: Any) -> Any:
        operator: Any = while_loop_op
        return operator(*modules, tuple(tensors[: len(own)]), tuple(tensors[len(own) :]))

    def shapes(tensors: Any) -> Any:
        return [torch.empty_like(t) for t in tensors[: len(own)]]

    modules = [body.module for body in bodies if body.module is not None]
    (single,) = modules[0].graph.find_nodes(op="output")
    single.args = (single.args[0][0],)
    modules[0].recompile()
    nodes = [*(t.node for t in carried), *inputs]
    return _recorded(tr, ControlFlow("while_loop", modules, run, shapes), nodes, result_spec)


@rule(scan)
def _scan(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _check_place("scan")
    named = dict(zip(("combine_fn", "init", "xs"), args, strict=False)) | kwargs
    initial, initial_spec = _tensors(tr, "scan", named["init"])
    rows, rows_spec = _tensors(tr, "scan", named["xs"])
    dim = tr.index_of(named["dim"]) if "dim" in named else 0
    backward = tr.truth(named["reverse"]) if "reverse" in named else False
    body = CapturedFunction(tr, "scan", named["combine_fn"])
    n_carried, fakes = len(initial), [t.fake for t in rows]
    if not all(-t.dim() <= dim < t.dim() and t.shape[dim] for t in fakes):
        _refuse("scan", "over no dimension")
    n = fakes[0].shape[dim]

    def first() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        return [torch.empty_like(t.fake) for t in initial], [t.select(dim, 0).clone() for t in fakes]

    carry, row = on_fakes(tr, "scan", first)
    result = on_fakes(tr, "scan", lambda: body(fill(initial_spec, carry), fill(rows_spec, row)))
    if type(result) is not tuple or len(result) != 2:
        _refuse("scan", "whose function does not give a pair")
    outputs, result_spec = flatten(result)
    carried, carried_spec = flatten(result[0])
    if list(map(_layout, carried)) != list(map(_layout, carry)) or carried_spec != initial_spec:
        _refuse("scan", "whose carry changes its kind")
    _check_fresh("scan", body, outputs, [*carry, *row, *_fakes(body.lifted)])
    operands = [*(t.fake for t in initial), *fakes, *_fakes(body.lifted)]
    if torch.is_grad_enabled() and any(t.requires_grad for t in operands):
        _refuse("scan", "of tensors that require gradients")

    def run(modules: Any, tensors: Any) -> Any:
        init, xs, lifted = _split(tensors, n_carried, len(rows))
        xs = [x if dim == 0 else torch.movedim(x, dim, 0) for x in xs]
        if backward:
            xs = [torch.flip(x, [0]) for x in xs]
        return finish(scan_op(modules[0], init, xs, additional_inputs=tuple(lifted)))

    def finish(found: Any) -> Any:
        last, stacked = found[:n_carried], found[n_carried:]
        if backward:
            stacked = [y.flip([0]) for y in stacked]
        if dim:
            stacked = [torch.movedim(y, 0, dim) if dim < y.ndim else y for y in stacked]
        return [*last, *stacked]

    def shapes(tensors: Any) -> Any:
        stacked = [y.new_empty((n, *y.shape)) for y in outputs[n_carried:]]
        return finish([*map(torch.empty_like, outputs[:n_carried]), *stacked])

    nodes = [*(t.node for t in (*initial, *rows)), *body.lifted]
    assert body.module is not None
    return _recorded(tr, ControlFlow("scan", [body.module], run, shapes), nodes, result_spec)


def _split(tensors: Any, *counts: int) -> list[list[Any]]:
    """Tensors in groups of these sizes, and the rest."""
    rest, groups = list(tensors), []
    for count in counts:
        groups.append(rest[:count])
        rest = rest[count:]
    return [*groups, rest]
