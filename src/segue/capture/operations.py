"""Which callables are tensor operations, that is nodes of the graph."""

from __future__ import annotations

import functools
import operator
import types
from typing import Any

import torch

from segue import markers

DATA_READERS = frozenset(("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__complex__"))
"""Tensor methods that give Python values made from the data."""

OBJECT_CHANGES = (
    "requires_grad_", "detach_", "t_", "transpose_", "squeeze_", "unsqueeze_", "swapaxes_", "swapdims_", "resize_",
    "resize_as_",
)  # fmt: skip
"""Tensor methods that change the tensor object itself, not only its elements."""

NOT_OPERATIONS = frozenset(
    """
    storage_offset as_strided as_strided_copy
    backward register_hook register_post_accumulate_grad_hook retain_grad requires_grad_ set_ resize_ resize_as_
    share_memory_ is_shared data_ptr storage untyped_storage storage_type _typed_storage pin_memory record_stream
    __array__ __dlpack__ __dlpack_device__ __reduce__ __reduce_ex__ __setstate__ __deepcopy__ apply_ map_ map2_
    to_sparse to_dense coalesce _coalesced_ sparse_mask as_subclass _make_subclass _make_wrapper_subclass rename
    rename_ refine_names align_to names_ t_ transpose_ squeeze_ unsqueeze_ swapaxes_ swapdims_ as_strided_ detach_
    __array_wrap__ __format__ __repr__ __str__ __hash__ __dir__ __del__ __contains__ __len__ __iter__ __class__
    __new__ __init__ __getattribute__ __setattr__ __delattr__ manual_seed seed initial_seed set_rng_state
    get_rng_state set_default_dtype set_default_device set_default_tensor_type set_num_threads
    set_num_interop_threads set_printoptions set_flush_denormal set_deterministic_debug_mode
    use_deterministic_algorithms compile load save from_numpy frombuffer from_dlpack from_file as_array
    is_grad_enabled set_grad_enabled is_inference_mode_enabled is_autocast_enabled is_autocast_cpu_enabled
    get_autocast_dtype set_autocast_enabled set_autocast_dtype autocast_increment_nesting autocast_decrement_nesting
    clear_autocast_cache is_autocast_cache_enabled set_autocast_cache_enabled get_autocast_gpu_dtype
    get_autocast_cpu_dtype get_default_dtype get_default_device get_num_threads get_device_module
    handle_torch_function has_torch_function __torch_function__ __torch_dispatch__ _sync vmap cond typename
    is_tensor is_storage import_ir_module fork wait parse_ir parse_schema parse_type_comment
    merge_type_from_type_comment triplet_margin_with_distance_loss
    init_num_threads classproperty compiled_with_cxx11_abi sym_int sym_float sym_max
    sym_min sym_not sym_ite sym_sum sym_sqrt sym_fresh_size is_distributed reinforce unravel_index_out
    is_anomaly_enabled set_anomaly_enabled is_anomaly_check_nan_enabled set_warn_always is_warn_always_enabled
    are_deterministic_algorithms_enabled is_deterministic_algorithms_warn_only_enabled get_deterministic_debug_mode
    get_float32_matmul_precision set_float32_matmul_precision is_vulkan_available _assert_async boolean_dispatch
    """.split()
)
"""Names in PyTorch's namespaces that are not operations on tensors."""


METADATA_QUESTIONS = ("is_floating_point", "is_complex", "is_signed", "is_contiguous", "is_same_size", "is_inference")
"""Operations named `is_…` that a fake tensor answers."""


@functools.cache
def tensor_operations() -> dict[int, Any]:
    """id → callable, of every tensor operation in PyTorch's public namespaces."""
    found: dict[int, Any] = {}
    for namespace in (
        torch, torch._C._VariableFunctions, torch.functional, torch.nn.functional, torch._C._nn, torch.linalg,
        torch.fft, torch.special, torch.Tensor, torch._C.TensorBase,
    ):  # fmt: skip
        for name in dir(namespace):
            if name in NOT_OPERATIONS or name in DATA_READERS or name.startswith("is_"):
                continue
            target = getattr(namespace, name, None)
            if _is_operation(name, target, namespace):
                found[id(target)] = target
    for name in METADATA_QUESTIONS:
        for namespace in (torch, torch.Tensor):
            target = getattr(namespace, name, None)
            if target is not None:
                found[id(target)] = target
    return found


def _is_operation(name: str, target: Any, namespace: Any) -> bool:
    if isinstance(target, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        if isinstance(target, types.WrapperDescriptorType):
            return issubclass(torch.Tensor, target.__objclass__) and target.__objclass__ is not object
        return True
    if not isinstance(target, types.FunctionType):
        return callable(target) and type(target).__name__ in ("builtin_function_or_method", "_VariableFunction")
    home = target.__module__ or ""
    return home in ("torch.functional", "torch.nn.functional", "torch._jit_internal", "torch._tensor", "torch") and (
        namespace is not torch or home in ("torch.functional",)
    )


def is_tensor_operation(target: Any) -> bool:
    """Whether a call of `target` becomes a node of the graph."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    return id(target) in tensor_operations() or id(target) in _allowed or markers.is_allowed_by_torch(target)


def is_torchs_own(target: Any) -> bool:
    """Whether `target` is an operation that comes with PyTorch: it does the same whenever it is called."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace == "aten"
    return id(target) in tensor_operations() or id(target) in _OPERATORS


_OPERATORS = {id(function): function for function in vars(operator).values() if callable(function)}
_OPERATORS[id(getattr)] = getattr

_allowed: dict[int, Any] = {}


def allow(target: Any) -> None:
    """Make calls of `target` nodes of the graph (`segue.allow_in_graph`)."""
    _allowed[id(target)] = target
