"""What operations gave, remembered: how to make the fake result of an operation that was run before on such operands.

A model repeats its layers, and a graph is run on fake tensors more than once.  PyTorch's fake mode takes a good part
of a millisecond for an operation; its own cache of results is for symbolic shapes and imports SymPy.  This one knows
plain strided tensors of fixed shape only, and leaves all else to the mode.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

CAPACITY = 10_000

CONSTANTS = (
    int, float, bool, str, bytes, complex, type(None), type(Ellipsis), type, torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip


class Same(NamedTuple):
    """A result that is one of the arguments."""

    argument: int


class Alias(NamedTuple):
    """A result that is a view of an argument."""

    argument: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Fresh(NamedTuple):
    """A result with memory of its own."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


class Constant(NamedTuple):
    """A result that is no tensor."""

    value: Any


class Several(NamedTuple):
    """A list or tuple of results."""

    container: type
    items: tuple[Any, ...]


Recipe = Same | Alias | Fresh | Constant | Several


class Unknown(Exception):
    """Not to be remembered."""


class Memory:
    """Recipes by what decides them; bounded."""

    def __init__(self) -> None:
        self._recipes: dict[Hashable, Recipe] = {}

    def get(self, key: Hashable) -> Recipe | None:
        """The recipe kept under a key."""
        return self._recipes.get(key)

    def keep(self, key: Hashable, recipe: Recipe) -> None:
        """Remember a recipe; when there are too many, those before it are forgotten."""
        if len(self._recipes) >= CAPACITY:
            self._recipes.clear()
        self._recipes[key] = recipe

    def clear(self) -> None:
        """Forget everything."""
        self._recipes.clear()

    def __len__(self) -> int:
        return len(self._recipes)


class Operands:
    """The operands of one operation: what decides the shapes of its results, and the tensors among them."""

    def __init__(self) -> None:
        self.tensors: list[FakeTensor] = []
        self._storages: list[int] = []

    def key(self, *values: Any) -> Hashable:
        """A key for operands.

        Raises:
            Unknown: if one is of a kind that is not remembered.
        """
        facts = [self._described(v) for v in values]
        return (*facts, self._sharing())

    def _described(self, value: Any) -> Hashable:
        cls = type(value)
        if cls is FakeTensor:
            return self._tensor(value)
        if issubclass(cls, (tuple, list)):
            return cls, *[self._described(v) for v in value]
        if issubclass(cls, CONSTANTS):
            return cls, value
        if issubclass(cls, dict):
            return dict, *[(k, self._described(v)) for k, v in value.items()]
        if cls is slice:
            return cls, *[self._described(v) for v in (value.start, value.stop, value.step)]
        raise Unknown

    def _tensor(self, tensor: FakeTensor) -> Hashable:
        if tensor.constant is not None or not is_simple(tensor):
            raise Unknown
        storage = tensor.untyped_storage()
        self.tensors.append(tensor)
        self._storages.append(storage._cdata)
        place = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), storage.nbytes()
        return tensor.dtype, tensor.device, tensor.is_inference(), place

    def _sharing(self) -> Hashable:
        """Which operands are the same tensor, or have the same memory."""
        storages = self._storages
        if len(set(storages)) == len(storages):
            return None
        same = [next(i for i, other in enumerate(self.tensors) if other is t) for t in self.tensors]
        return *same, *[storages.index(s) for s in storages]

    def recipe(self, result: Any) -> Recipe:
        """How to make a result again out of the tensors among the operands.

        Raises:
            Unknown: if it is of a kind that is not remembered.
        """
        return self._recipe(result, set())

    def _recipe(self, result: Any, seen: set[int]) -> Recipe:
        """`seen` are the storages of the results before this one."""
        cls = type(result)
        if cls in (tuple, list):
            return Several(cls, tuple([self._recipe(r, seen) for r in result]))
        if issubclass(cls, (*CONSTANTS, torch.Size)):
            return Constant(result)
        if cls is not FakeTensor or result.constant is not None or not is_simple(result):
            raise Unknown
        for i, tensor in enumerate(self.tensors):
            if result is tensor:
                return Same(i)
        storage = result.untyped_storage()
        sizes, strides, offset = tuple(result.shape), result.stride(), result.storage_offset()
        if storage._cdata in self._storages:
            i = self._storages.index(storage._cdata)
            if (self.tensors[i].dtype, self.tensors[i].is_inference()) != (result.dtype, result.is_inference()):
                raise Unknown
            return Alias(i, sizes, strides, offset)
        whole = offset == 0 and storage.nbytes() == _span(sizes, strides) * result.dtype.itemsize
        if storage._cdata in seen or not whole or result.is_inference() != torch.is_inference_mode_enabled():
            raise Unknown
        seen.add(storage._cdata)
        return Fresh(result.dtype, result.device, sizes, strides)


def is_simple(tensor: torch.Tensor) -> bool:
    """Whether a tensor is nothing but a strided view of memory."""
    return tensor.layout is torch.strided and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized)


def _span(sizes: Iterable[int], strides: Iterable[int]) -> int:
    """How many elements lie between the first and the end of the last."""
    span = 1
    for n, s in zip(sizes, strides, strict=True):
        if n == 0:
            return 0
        span += (n - 1) * s
    return span
