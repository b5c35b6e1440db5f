"""An ATen graph of what a function does, recorded from a run with real tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from segue.graphs.aten import AtenGraph, Buffer, Call, View


class Recorder(TorchDispatchMode):
    """Keeps every operation that is not just a view."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.buffers: dict[int, Buffer] = {}
        self.alive: list[Any] = []
        self.known: set[Buffer] = set()

    def view(self, tensor: Any, constant: bool = False) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        if tensor.is_conj() or tensor.is_neg():
            raise TypeError("a tensor with a pending conjugation or negation")
        tensor = tensor.detach()
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.buffers and self.buffers[key].dtype != tensor.dtype:
            raise TypeError("memory is used as another dtype")
        if key not in self.buffers:
            size = storage.nbytes() // tensor.element_size()
            self.buffers[key] = Buffer(f"b{len(self.buffers)}", tensor.dtype, size)
            self.alive.append(storage)
            if constant:
                flat = torch.as_strided(tensor, (size,), (1,), 0).clone()
                self.buffers[key].constant = flat
        return View(self.buffers[key], tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace == "profiler":
            return func(*args, **kwargs)
        with torch._C._DisableTorchDispatch():
            view_args, view_kwargs = tree_map(lambda t: self.view(t, constant=True), (args, kwargs))
        names = [a.name for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
        given = dict(zip([a.name for a in func._schema.arguments], view_args, strict=False)) | view_kwargs
        written = [v.buffer for n in names for v in tree_leaves(given.get(n)) if isinstance(v, View)]
        result = func(*args, **kwargs)
        known = len(self.buffers)
        results = [] if not func._schema.returns else [self.view(t) for t in flattened(result)]
        self.alive.append(result)
        if not written and len(self.buffers) == known and func._schema.returns:
            return result
        self.calls.append(Call(func, tuple(view_args), view_kwargs, results, list(dict.fromkeys(written))))
        return result


def flattened(result: Any) -> list[Any]:
    """The results of an operation, those of lists too."""
    if isinstance(result, (tuple, list)):
        return [t for item in result for t in flattened(item)]
    if not isinstance(result, (torch.Tensor, type(None))):
        raise TypeError(f"a result of type {type(result).__name__}")
    return [result]


def record(function: Callable, inputs: Sequence[torch.Tensor]) -> tuple[AtenGraph, list[Any]]:
    """What a function does with tensors, and what it gives; the inputs may be written."""
    recorder = Recorder()
    places = [recorder.view(t) for t in inputs]
    with recorder:
        result = function(*inputs)
    flat = [t for t in tree_leaves(result) if t is not None]
    graph = AtenGraph(places, recorder.calls, [recorder.view(t) for t in flat], [None] * len(flat))
    graph.check()
    return graph, flat
