"""Fake tensors for capture: PyTorch's `FakeTensorMode`, with inputs made directly from metadata.

The only module that knows how torch builds a `FakeTensor` (torch 2.10 to 2.13).  `FakeTensorMode.from_tensor` also
reproduces views, storages and subclasses; a graph's inputs are plain strided tensors and need none of that.

In a process that has not imported Dynamo, capture does not import it either, nor SymPy: what torch's fake kernels want
of them is answered by `segue.capture.standins`, and kernels get plain tensors of the device `meta`, since the C++ code
of PyTorch imports `torch.distributed.tensor` to ask a `FakeTensor` for its device.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
import types
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

from segue.capture.recipes import Alias, Constant, Fresh, Memory, Operands, Recipe, Same, Unknown
from segue.capture.standins import answered, answering

_log = logging.getLogger("torch._subclasses.fake_tensor")


_PLAIN_TENSOR = "_segue_plain"

_remembered = Memory()
"""What ATen operations gave, by operation, operands and default dtype."""


class CaptureMode(FakeTensorMode):
    """A `FakeTensorMode` with static shapes that never runs a kernel on real data.

    It runs an operation once for each combination of shapes and constants in the life of the process.
    """

    def __init__(self) -> None:
        self._light = "torch._dynamo" not in sys.modules
        self._answers = answering if self._light else contextlib.nullcontext()
        with self._answers:
            super().__init__(allow_fallback_kernels=False, static_shapes=True)
        self._dispatch_as_torch = types.MethodType(answered(FakeTensorMode._dispatch_impl), self)
        self._attributes = dict(vars(FakeTensor(self, torch.empty(0, device="meta"), torch.device("cpu"))))

    def __enter__(self) -> Self:
        self._answers.__enter__()
        return super().__enter__()

    def __exit__(self, *raised: Any) -> None:
        try:
            super().__exit__(*raised)
        finally:
            self._answers.__exit__(*raised)

    @functools.cached_property
    def avoid_device_init(self) -> bool:
        """Whether there is no accelerator; PyTorch asks anew each time the mode is entered."""
        return bool(super().avoid_device_init)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Dynamo is off while the mode is on, so that PyTorch need not turn it off at each operation."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, Any] | None = None
    ) -> object:
        return self.dispatch(func, types, args, kwargs)

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """The result of an operation on fake tensors; called by PyTorch."""
        kwargs = kwargs or {}
        if not _is_rememberable(func):
            return super().dispatch(func, types, args, kwargs)
        operands = Operands()
        try:
            key = func, torch.get_default_dtype(), torch.is_inference_mode_enabled(), operands.key(args, kwargs)
            recipe = _remembered.get(key)
        except Unknown:
            return super().dispatch(func, types, args, kwargs)
        if recipe is not None:
            return self.made(recipe, operands.tensors, below=True)
        result = super().dispatch(func, types, args, kwargs)
        with contextlib.suppress(Unknown):
            if Operands().key(args, kwargs) == key[-1]:
                _remembered.keep(key, operands.recipe(result))
        return result

    def made(self, recipe: Recipe, tensors: list[FakeTensor], below: bool = False) -> Any:
        """The result that a recipe makes out of tensors among the operands.

        Args:
            below: whether PyTorch, which is above, makes a view's count of writes that of its base.

        Raises:
            Unknown: if a view is to be made of a tensor that did not come from here.
        """
        match recipe:
            case Fresh(dtype, device, sizes, strides):
                return self._fake(torch.empty_strided(sizes, strides, dtype=dtype, device="meta"), device)
            case Same(argument):
                return tensors[argument]
            case Alias(argument, sizes, strides, offset):
                base = tensors[argument]
                if below:
                    with torch.inference_mode(base.is_inference()):
                        alias = torch.empty(0, dtype=base.dtype, device="meta")
                        alias.set_(base.untyped_storage(), offset, sizes, strides)
                        return self._fake(alias, base.fake_device, keeps=False)
                plain = vars(base).get(_PLAIN_TENSOR)
                if plain is None:
                    raise Unknown
                return self._fake(plain.as_strided(sizes, strides, offset), base.fake_device)
            case Constant(value):
                return value
        return recipe.container([self.made(item, tensors, below) for item in recipe.items])

    def _fake(self, meta: torch.Tensor, device: torch.device, keeps: bool = True) -> FakeTensor:
        """What `FakeTensor(self, meta, device)` gives, in a sixth of the time, for a device that is complete.

        If it `keeps` it, `meta` is at hand for views: it has the same memory and count of writes.  To make a view of
        the fake tensor itself, PyTorch's C++ code would import `torch.distributed.tensor`.
        """
        fake = torch.Tensor._make_subclass(
            FakeTensor, meta, False, dispatch_device=True, device_for_backend_keys=device
        )
        torch._C._set_throw_on_mutable_data_ptr(fake)
        vars(fake).update(self._attributes, _fake_device=device)
        if keeps:
            vars(fake)[_PLAIN_TENSOR] = meta
        return fake

    def _dispatch_impl(
        self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, Any]
    ) -> Any:
        """Run one operation that is not in PyTorch's cache; called by PyTorch."""
        if not self._light:
            return super()._dispatch_impl(func, types, args, kwargs)
        result = self._run_on_meta(func, args, kwargs) if _needs_only_meta(func) else NotImplemented
        return self._dispatch_as_torch(func, types, args, kwargs) if result is NotImplemented else result

    def _run_on_meta(self, func: Any, args: Sequence[object], kwargs: Mapping[str, Any]) -> Any:
        """The result of an operation by its meta kernel on plain tensors; NotImplemented if they cannot be had."""
        leaves, spec = pytree.tree_flatten((args, kwargs))
        fakes = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if len({fake.device for fake in fakes}) != 1 or not all(map(self._is_plain, fakes)):
            return NotImplemented
        metas = {id(fake): _as_meta(fake) for fake in fakes}
        meta_args, meta_kwargs = pytree.tree_unflatten([metas.get(id(leaf), leaf) for leaf in leaves], spec)
        try:
            result = func(*meta_args, **meta_kwargs)
        except NotImplementedError:
            return NotImplemented
        if any(_layout(metas[id(fake)]) != _layout(fake) for fake in fakes):
            return NotImplemented  # It has resized an `out=` argument; PyTorch's way resizes the fake tensor itself.
        originals = {id(metas[id(fake)]): fake for fake in fakes}
        result = pytree.tree_map(lambda r: originals.get(id(r), r), result)
        device: Any = kwargs.get("device")
        return self.wrap_meta_outputs_with_default_device_logic(result, func, leaves, device=device)

    def _is_plain(self, tensor: torch.Tensor) -> bool:
        return (
            type(tensor) is FakeTensor
            and tensor.fake_mode is self
            and tensor.constant is None
            and tensor.layout is torch.strided
            and not (tensor.is_conj() or tensor.is_neg() or tensor.is_quantized or tensor.is_nested)
        )

    def fake_of(self, real: torch.Tensor) -> torch.Tensor:
        """A fake tensor with the metadata of a real one: shape, strides, dtype, device, what autograd needs."""
        if torch._C._functorch.peek_interpreter_stack() is not None:
            with temporarily_clear_interpreter_stack():
                return self.fake_of(real)
        if real.is_inference() != torch.is_inference_mode_enabled():
            with torch.inference_mode(real.is_inference()):
                return self.fake_of(real)
        meta = torch.empty_strided(real.shape, real.stride(), dtype=real.dtype, device="meta")
        fake: torch.Tensor = FakeTensor(self, meta, real.device) if real.is_meta else self._fake(meta, real.device)
        if isinstance(real, torch.nn.Parameter):
            fake._is_param = True
        if real.requires_grad:
            if real.is_leaf:
                fake.requires_grad_()
            else:
                with torch.enable_grad():
                    fake = _Computed.apply(fake, _LEAF)
        return fake


_LEAF = torch.zeros((), requires_grad=True)


class _Computed(torch.autograd.Function):
    """Gives a tensor a history as if an operation had computed it: it may be written in place, unlike a leaf's view."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, leaf: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(tensor)
        return tensor


_SPECIAL_TAGS = frozenset({torch.Tag.inplace_view, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape})

_aten = torch.ops.aten
_PLAIN = frozenset(
    {
        _aten.copy.default,
        _aten.copy_.default,
        _aten.diagonal_scatter.default,
        _aten.embedding.default,
        _aten.index_put.default,
        _aten.index_put_.default,
        _aten.native_layer_norm.default,
        _aten.select.int,
        _aten.slice.Tensor,
        _aten.slice_scatter.default,
        _aten._unsafe_view.default,
        _aten.view.default,
    }
)
"""Operations that PyTorch treats specially only for symbolic shapes and operands on several devices."""


@functools.cache
def _is_rememberable(func: Any) -> bool:
    """Whether operands' shapes and constants decide the shapes of an operation's results, and it changes no operand's.

    What gives no tensors may depend on more: `_fused_sdp_choice` asks PyTorch's settings.
    """
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return False
    return _SPECIAL_TAGS.isdisjoint(func.tags) and all("Tensor" in str(r.type) for r in func._schema.returns)


@functools.cache
def _needs_only_meta(func: Any) -> bool:
    """Whether PyTorch would just run the operation's meta kernel, for tensors of known shape."""
    from torch._decomp import decomposition_table, meta_table

    return (
        isinstance(func, torch._ops.OpOverload)
        and func.namespace == "aten"
        and _SPECIAL_TAGS.isdisjoint(func.tags)
        and func not in FakeTensorMode.lift_fns
        and not func.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        and (func in meta_table or func not in decomposition_table or not fake_tensor.torch_decomp_decompositions(func))
        and not torch._library.simple_registry.singleton.find(func.name()).fake_impl.kernel
        and (func in _PLAIN or not any(concerns(func) for concerns, _ in fake_impls.op_implementations_checks))
        and fake_impls.has_meta(func)
    )


def _as_meta(fake: torch.Tensor) -> torch.Tensor:
    """A plain tensor of the device `meta` with the shape, strides and storage of a fake one."""
    plain = torch.empty(0, dtype=fake.dtype, device="meta")
    return plain.set_(fake.untyped_storage(), fake.storage_offset(), fake.size(), fake.stride())


def _layout(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.shape, tensor.stride(), tensor.storage_offset()


@contextlib.contextmanager
def quiet() -> Iterator[list[object]]:
    """Keep fake operations from telling the user anything; gives the list of warnings that they wanted to show.

    What an operation has to say, error or warning, PyTorch says when the interpreter runs it, at the user's line.
    """
    noticed: list[object] = []
    thread, show, disabled = threading.get_ident(), warnings.showwarning, _log.disabled

    def note(*args: Any, **kwargs: Any) -> None:
        if threading.get_ident() == thread:
            noticed.append(args[0])
        else:
            show(*args, **kwargs)

    _log.disabled = True
    warnings.showwarning = note
    try:
        yield noticed
    finally:
        warnings.showwarning = show
        _log.disabled = disabled
