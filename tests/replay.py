"""Recordings made and run: a reference executor of ATen graphs, and its comparison with the captured graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

import segue
from segue.graphs.aten import AtenGraph, Buffer, Call, Number, View, views_in
from segue.graphs.recorder import record

Memory = dict[Buffer, Any]
"""For each buffer a tensor and the place in its storage where the buffer begins, or a number."""


def captured(function: Callable[..., Any], *args: Any, calls: int = 1) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The graphs that a call is captured as, each with its inputs before the graph ran.

    Args:
        calls: how often to call it, each time with every float argument one more: they become inputs of the graph.
    """
    graphs = []

    def backend(gm: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        graphs.append((gm, clones(examples)))
        return gm.forward

    compiled = segue.compile(function, backend=backend)
    for call in range(calls):
        compiled(*(a + call if type(a) is float else a for a in args))
    return graphs


def recorded(function: Callable[..., Any], *args: Any) -> AtenGraph:
    """The recording of a function that is captured as one graph."""
    ((gm, examples),) = captured(function, *args)
    return record(gm, examples)


def clones(values: Any) -> Any:
    """Copies of tensors, those with a common storage in a common copy."""
    storages: dict[int, torch.UntypedStorage] = {}

    def clone(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return copy.deepcopy(value)
        if value.layout is not torch.strided:
            return value.clone()
        old = value.untyped_storage()
        new = storages.setdefault(old._cdata, None) or old.clone()
        storages[old._cdata] = new
        with torch.no_grad():
            made = torch.empty(0, dtype=value.dtype).set_(new, value.storage_offset(), value.shape, value.stride())
        return made.requires_grad_(value.requires_grad)

    return [clone(v) for v in values]


def replay(graph: AtenGraph, inputs: list[Any]) -> list[Any]:
    """Execute an ATen graph on real memory, one operation after the other.

    Every tensor is made by `as_strided` from its buffer.  Used results must have the sizes and strides recorded.
    """
    memory: Memory = {i.buffer: start_of(v) for i, v in zip(graph.inputs, inputs, strict=True)}
    used = {v.buffer for v in views_in(([(c.args, c.kwargs) for c in graph.calls], graph.outputs))}
    for call in graph.calls:
        for view in views_in((call.args, call.kwargs)):
            if view.buffer.constant is not None:
                memory[view.buffer] = start_of(view.buffer.constant)
    for call in graph.calls:
        run_call(call, memory, used)
    outputs = materialise(graph.outputs, memory)
    return [o if i is None else inputs[i] for o, i in zip(outputs, graph.same_as_input, strict=True)]


def start_of(value: Any) -> Any:
    """The memory of an input or constant: it begins at the first element."""
    return (value.detach(), value.storage_offset()) if isinstance(value, torch.Tensor) else value


def run_call(call: Call, memory: Memory, used: set[Buffer]) -> None:
    args, kwargs = materialise((call.args, call.kwargs), memory)
    result = call.op(*args, **kwargs)
    results = list(flatten(result)) if call.op._schema.returns else []
    assert len(results) == len(call.results), call
    for got, view in zip(results, call.results, strict=True):
        if view is None or view.buffer not in used:
            continue
        memory.setdefault(view.buffer, (got, 0))
        assert (got.dtype, got.shape) == (view.dtype, view.sizes), f"{call} gives {got.dtype}{list(got.shape)}"
        assert significant(got.stride(), got.shape) == significant(view.strides, view.sizes), f"{call}: {got.stride()}"
        assert got.untyped_storage().nbytes() >= view.buffer.size * view.dtype.itemsize, call


def materialise(value: Any, memory: Memory) -> Any:
    """Arguments with real tensors and numbers in place of views and numbers.

    Equal views are one tensor: some operations treat `attention(x, x, x)` as a case of its own.
    """
    tensors: dict[View, torch.Tensor] = {}

    def make(value: Any) -> Any:
        if isinstance(value, View):
            base, start = memory[value.buffer]
            made = base.as_strided(value.sizes, value.strides, start + value.offset)
            return tensors.setdefault(value, made)
        if isinstance(value, Number):
            return memory[value.buffer]
        if isinstance(value, (tuple, list)):
            return type(value)(make(v) for v in value)
        if isinstance(value, dict):
            return {k: make(v) for k, v in value.items()}
        return value

    return make(value)


def flatten(result: Any) -> Iterator[Any]:
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from flatten(item)
    else:
        yield result


def check_replay(function: Callable[..., Any], *args: Any, calls: int = 1) -> list[AtenGraph]:
    """Capture, record and replay; results, inputs afterwards and random numbers must be those of the captured graph."""
    graphs = []
    for gm, examples in captured(function, *args, calls=calls):
        plain, replayed = clones(examples), clones(examples)
        graph = record(gm, examples)
        torch.manual_seed(7)
        with torch.no_grad():
            expected = gm(*plain)
        after = torch.get_rng_state()
        torch.manual_seed(7)
        with torch.no_grad():
            got = replay(graph, replayed)
        assert torch.equal(after, torch.get_rng_state())
        compare(got, expected)
        compare(replayed, plain)
        for same, output in zip(graph.same_as_input, expected, strict=True):
            assert (same is not None) == any(output is p for p in plain)
        check_sharing(graph, expected)
        graphs.append(graph)
    assert graphs, "nothing was captured"
    return graphs


def compare(got: Any, expected: Any) -> None:
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        if not isinstance(b, torch.Tensor):
            assert type(a) is type(b) and a == b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True), (a - b).abs().max()
        assert significant(a.stride(), a.shape) == significant(b.stride(), b.shape)


def significant(strides: Sequence[int], sizes: Sequence[int]) -> list[int]:
    """The strides that place an element."""
    return [] if 0 in sizes else [s for s, n in zip(strides, sizes, strict=True) if n > 1]


def check_sharing(graph: AtenGraph, expected: Any) -> None:
    """Outputs share a buffer in the recording when they share memory in the run."""
    pairs = [(v, t) for v, t in zip(graph.outputs, expected, strict=True) if isinstance(v, View)]
    for v, t in pairs:
        for w, u in pairs:
            assert (v.buffer is w.buffer) == (t.untyped_storage()._cdata == u.untyped_storage()._cdata)


def names(graph: AtenGraph) -> list[str]:
    """The operations of a graph, as in `add.Tensor`."""
    return [str(c.op).removeprefix("aten.") for c in graph.calls]


def buffers(graph: AtenGraph) -> set[Buffer]:
    """All buffers that the operations of a graph use."""
    return {v.buffer for c in graph.calls for v in views_in((c.args, c.kwargs, [r for r in c.results if r]))}
