"""A slow interpreter of loop graphs, statement by statement, by torch on grids of indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from segue.backends.native.ir import (
    ARITHMETIC,
    Apply,
    Assign,
    Constant,
    Expr,
    Index,
    Invoke,
    Load,
    LoopGraph,
    Reduce,
    walk,
)
from segue.graphs.aten import Buffer, Number, View

NAMES = {
    "minimum": torch.minimum,
    "maximum": torch.maximum,
    "floordiv": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "truncdiv": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
    "xor": torch.bitwise_xor,
    "not": torch.bitwise_not,
    "shl": torch.bitwise_left_shift,
    "shr": torch.bitwise_right_shift,
    "where": torch.where,
}
"""Operations that torch has under another name."""


def run(graph: LoopGraph, inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a graph for inputs, which are written where the graph writes them."""
    graph.check()
    return Run(graph, inputs).outputs()


class Run:
    """The memory of one run."""

    def __init__(self, graph: LoopGraph, inputs: Sequence[Any]) -> None:
        self.graph, self.memory = graph, dict[Buffer, torch.Tensor]()
        for place, given in zip(graph.inputs, inputs, strict=True):
            if isinstance(place, Number):
                self.memory[place.buffer] = torch.tensor([given], dtype=place.buffer.dtype)
            else:
                self.tensor(place).copy_(given)
        for statement in graph.statements:
            if isinstance(statement, Invoke):
                self.invoke(statement)
            else:
                self.execute(statement)
        for place, given in zip(graph.inputs, inputs, strict=True):
            if isinstance(place, View):
                given.detach().copy_(self.tensor(place))

    def flat(self, buffer: Buffer) -> torch.Tensor:
        """The elements of a buffer; fresh memory is filled with what is unlikely to be right."""
        if buffer not in self.memory:
            if buffer.constant is not None:
                self.memory[buffer] = torch.as_strided(buffer.constant.detach(), (buffer.size,), (1,), 0)
            else:
                garbage = 1 if buffer.dtype is torch.bool else 77
                self.memory[buffer] = torch.full((buffer.size,), garbage, dtype=buffer.dtype)
        return self.memory[buffer]

    def tensor(self, view: View) -> torch.Tensor:
        return torch.as_strided(self.flat(view.buffer), view.sizes, view.strides, view.offset)

    def value(self, arg: Any) -> Any:
        """An argument of a call, with tensors for views."""
        if isinstance(arg, View):
            return self.tensor(arg)
        if isinstance(arg, Number):
            return self.flat(arg.buffer)[0].item()
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(self.value, arg))
        return arg

    def outputs(self) -> list[Any]:
        return [self.value(o) for o in self.graph.outputs]

    def invoke(self, statement: Invoke) -> None:
        call = statement.call
        given = call.op(*map(self.value, call.args), **{k: self.value(v) for k, v in call.kwargs.items()})
        flat = [given] if isinstance(given, torch.Tensor) else [] if given is None else list(given)
        flat = [t for item in flat for t in (item if isinstance(item, (list, tuple)) else [item])]
        for view, tensor in zip(call.results, flat, strict=True):
            if view is not None and view.buffer not in call.written:
                self.tensor(view).copy_(tensor)

    def execute(self, statement: Assign | Reduce) -> None:
        sizes, target = statement.sizes, self.tensor(statement.target)
        if isinstance(statement, Assign):
            source = evaluate(statement.expr, sizes, self.flat).broadcast_to(sizes).clone()
            target.copy_(source)
            return
        source = evaluate(statement.expr, sizes, self.flat).broadcast_to(sizes)
        kept = tuple(slice(0, 1) if a in statement.reduced else slice(None) for a in range(len(sizes)))
        target[kept].copy_(combined(source, statement.combine, sorted(statement.reduced)))


def combined(source: torch.Tensor, combine: str, axes: list[int]) -> torch.Tensor:
    """A combination over axes, which keep one element."""
    if combine == "sum":
        return source.sum(axes, keepdim=True, dtype=source.dtype)
    if combine == "prod":
        for axis in axes:
            source = source.prod(axis, keepdim=True, dtype=source.dtype)
        return source
    if combine in ("any", "all"):
        assert source.dtype is torch.bool
    if not combine.startswith("arg"):
        function = {"max": torch.amax, "min": torch.amin, "any": torch.any, "all": torch.all}[combine]
        return function(source, axes, keepdim=True)
    rest = [a for a in range(source.ndim) if a not in axes]
    rows = source.permute(rest + axes).reshape([source.shape[a] for a in rest] + [-1])
    found = getattr(torch, combine)(rows, -1)
    return found.reshape([1 if a in axes else n for a, n in enumerate(source.shape)])


def evaluate(root: Expr, sizes: Sequence[int], flat: Callable[[Buffer], torch.Tensor]) -> torch.Tensor:
    """The values of an expression, broadcastable to the sizes."""
    done: dict[int, torch.Tensor] = {}
    for expr in walk(root):
        done[id(expr)] = _node(expr, sizes, flat, done)
        assert done[id(expr)].dtype == expr.dtype, (expr, done[id(expr)].dtype)
    return done[id(root)]


def axis_index(axis: int, sizes: Sequence[int]) -> torch.Tensor:
    return torch.arange(sizes[axis]).reshape([-1 if a == axis else 1 for a in range(len(sizes))])


def _node(expr: Expr, sizes: Sequence[int], flat: Callable, done: dict[int, torch.Tensor]) -> torch.Tensor:
    if isinstance(expr, Constant):
        return torch.tensor(expr.value, dtype=expr.dtype)
    if isinstance(expr, Index):
        return axis_index(expr.axis, sizes)
    if isinstance(expr, Load):
        place = torch.tensor(expr.offset)
        for axis, stride in enumerate(expr.strides):
            if stride:
                place = place + axis_index(axis, sizes) * stride
        for term, stride in expr.terms:
            place = place + done[id(term)] * stride
        memory = flat(expr.buffer)
        if place.numel() and (int(place.min()) < 0 or int(place.max()) >= memory.numel()):
            raise AssertionError(f"{expr} reads from {int(place.min())} to {int(place.max())}")
        return memory[place]
    assert isinstance(expr, Apply)
    args = [done[id(a)] for a in expr.args]
    if expr.name == "cast":
        return args[0].to(expr.dtype)
    if expr.name == "bounded":
        index, size = args
        if bool(((index >= size) | (index < -size)).any()):
            raise IndexError("index out of range")
        return torch.where(index < 0, index + size, index)
    if expr.name in ARITHMETIC.split():
        assert expr.dtype is not torch.bool, f"{expr.name} of bool"
    if expr.name in ("shl", "shr"):
        assert bool(((args[1] >= 0) & (args[1] < torch.iinfo(expr.dtype).bits)).all())
    function = NAMES.get(expr.name) or getattr(torch, expr.name, None) or getattr(torch.special, expr.name)
    return function(*args)
