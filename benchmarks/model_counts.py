"""What the comparison of captures counts: graphs, their calls, the ATen operations that run inside them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.utils._python_dispatch import TorchDispatchMode

CALLS = {"call_function", "call_method", "call_module"}


class Operations(TorchDispatchMode):
    """Counts the ATen operations that run while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


class CountingBackend:
    """A backend that runs graphs as they were captured, and counts.

    Attributes:
        graphs: how many graphs it was given.
        calls: how many calls they have together; compilers differ in what they write as one call.
        runs: how many graphs ran while it was asked to count.
        operations: how many ATen operations ran inside them: the same measure for every compiler.
    """

    def __init__(self) -> None:
        self.forget()
        self.is_counting = False

    def forget(self) -> None:
        """Start again from nothing."""
        self.graphs = self.calls = self.runs = self.operations = 0

    def __call__(self, module: fx.GraphModule, _: list[Any]) -> Callable[..., Any]:
        self.graphs += 1
        self.calls += sum(node.op in CALLS for node in module.graph.nodes)
        forward = module.forward

        def run(*inputs: Any) -> Any:
            return self._counted(forward, inputs) if self.is_counting else forward(*inputs)

        return run

    def _counted(self, forward: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
        self.runs += 1
        with Operations() as mode:
            result = forward(*inputs)
        self.operations += mode.count
        return result

    def count(self, call: Callable[[], Any]) -> Any:
        """Count what runs inside graphs during a call."""
        self.runs = self.operations = 0
        self.is_counting = True
        try:
            return call()
        finally:
            self.is_counting = False


def leaves(value: Any, path: str = "result") -> Iterator[tuple[str, Any]]:
    """The tensors and plain values of what a model returns, with their places.

    Caches and other objects are looked into: what they hold is part of the result.
    """
    if isinstance(value, torch.Tensor) or value is None or isinstance(value, (int, float, str, bool, complex)):
        yield path, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from leaves(item, f"{path}[{key!r}]")
    elif isinstance(value, (tuple, list)):
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    elif dataclasses.is_dataclass(value) or type(value).__module__.startswith("transformers."):
        if not isinstance(value, type) and not type(value).__name__.endswith("Config"):
            for name, item in vars(value).items():
                yield from leaves(item, f"{path}.{name}")


def difference(expected: Any, found: Any) -> str | None:
    """Where two results differ, None if they agree: types, shapes, dtypes, and values closely."""
    wanted, got = dict(leaves(expected)), dict(leaves(found))
    if type(expected) is not type(found):
        return f"{type(found).__name__} instead of {type(expected).__name__}"
    if wanted.keys() != got.keys():
        return f"other parts: {', '.join(sorted(wanted.keys() ^ got.keys())[:4])}"
    for path, value in wanted.items():
        if problem := _leaf_difference(value, got[path]):
            return f"{path}: {problem}"
    return None


def _leaf_difference(expected: Any, found: Any) -> str | None:
    if type(expected) is not type(found):
        return f"{type(found).__name__} instead of {type(expected).__name__}"
    if isinstance(expected, torch.Tensor):
        try:
            torch.testing.assert_close(found, expected, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
        return None
    both_nan = isinstance(expected, float) and math.isnan(expected) and math.isnan(found)
    return None if both_nan or expected == found else f"{found!r} instead of {expected!r}"
