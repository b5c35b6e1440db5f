"""A fake mode that remembers the shapes that operations give.

A model repeats its layers, and a graph is run on fake tensors more than once.  PyTorch's fake mode takes a good part
of a millisecond for an operation; its own cache of results is for symbolic shapes and imports SymPy.  This one knows
plain strided tensors of fixed shape only, and leaves all else to the mode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from segue.capture.fake import CaptureMode

_CPU = torch.device("cpu")
_CAPACITY = 10_000

_REAL_WORK = frozenset({torch.Tag.inplace_view, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})
"""Tags of operations that change the shape of an argument, or whose result depends on more than shapes."""

_CONSTANTS = (int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


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
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


Recipe = Same | Alias | Fresh | tuple[Any, ...]
"""How to make the result of an operation; a tuple of the class of a container and recipes for its items."""

_recipes: dict[Any, Recipe] = {}


class RememberingMode(CaptureMode):
    """A `CaptureMode` that runs an operation once for each combination of shapes and constants."""

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """The result of an operation on fake tensors."""
        kwargs = kwargs or {}
        tensors: list[FakeTensor] = []
        try:
            key = _key(func, args, kwargs, tensors)
        except _Unknown:
            return super().dispatch(func, types, args, kwargs)
        recipe = _recipes.get(key)
        if recipe is not None:
            return self._make(recipe, tensors)
        before = [_shape(t) for t in tensors]
        result = super().dispatch(func, types, args, kwargs)
        if before == [_shape(t) for t in tensors]:
            try:
                recipe = _recipe(result, tensors, {})
            except _Unknown:
                return result
            if len(_recipes) >= _CAPACITY:
                _recipes.clear()
            _recipes[key] = recipe
        return result

    def _make(self, recipe: Recipe, tensors: list[FakeTensor]) -> Any:
        if isinstance(recipe, Fresh):
            meta = torch.empty_strided(recipe.sizes, recipe.strides, dtype=recipe.dtype, device="meta")
            return FakeTensor(self, meta, _CPU)
        if isinstance(recipe, Same):
            return tensors[recipe.argument]
        if isinstance(recipe, Alias):
            base, *place = tensors[recipe.argument], *recipe[1:]
            with in_kernel_invocation_manager(self):
                alias = torch.ops.aten.as_strided.default(base, *place)
            return FakeTensor(self, alias, _CPU)
        container, *items = recipe
        return container(self._make(i, tensors) for i in items)


class _Unknown(Exception):
    """Not to be remembered."""


def _key(func: Any, args: Any, kwargs: Any, tensors: list[FakeTensor]) -> Any:
    """What decides the shapes of the results; collects the tensors among the arguments."""
    if type(func) is not OpOverload or func.namespace != "aten" or not _REAL_WORK.isdisjoint(func.tags):
        raise _Unknown
    if torch.is_inference_mode_enabled():
        raise _Unknown
    return func, torch.get_default_dtype(), _described(args, tensors), _described(kwargs, tensors)


def _described(value: Any, tensors: list[FakeTensor]) -> Any:
    if isinstance(value, FakeTensor):
        if value.constant is not None or not _is_simple(value):
            raise _Unknown
        tensors.append(value)
        return value.dtype, _shape(value)
    if isinstance(value, (tuple, list)):
        return tuple([_described(v, tensors) for v in value])
    if isinstance(value, dict):
        return tuple([(k, _described(v, tensors)) for k, v in value.items()])
    if isinstance(value, _CONSTANTS):
        return type(value), value
    raise _Unknown


def _is_simple(tensor: torch.Tensor) -> bool:
    return (
        tensor.layout is torch.strided
        and tensor.device == _CPU
        and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_inference())
    )


def _shape(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()


def _recipe(result: Any, tensors: list[FakeTensor], seen: dict[int, FakeTensor]) -> Recipe:
    """The recipe for a result; `seen` are the storages of results before it."""
    if isinstance(result, (tuple, list)):
        return list if isinstance(result, list) else tuple, *[_recipe(r, tensors, seen) for r in result]
    if not isinstance(result, FakeTensor) or result.constant is not None or not _is_simple(result):
        raise _Unknown
    storage = result.untyped_storage()._cdata
    (sizes, strides, offset, size) = _shape(result)
    for i, tensor in enumerate(tensors):
        if result is tensor:
            return Same(i)
        if tensor.untyped_storage()._cdata == storage:
            if tensor.dtype != result.dtype:
                raise _Unknown
            return Alias(i, sizes, strides, offset)
    if storage in seen or offset != 0 or size != _span(sizes, strides) * result.dtype.itemsize:
        raise _Unknown
    seen[storage] = result
    return Fresh(result.dtype, sizes, strides)


def _span(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return 0 if 0 in sizes else 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
