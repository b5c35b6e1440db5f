"""PyTorch's thread state: grad mode, autocast, and questions about the compiler."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.inference import leave_modes, modes_entered
from segue.capture.rules import refused, rule, rule_by_name
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

SETTERS = (
    torch._C._set_grad_enabled,
    torch.set_autocast_enabled,
    torch.set_autocast_dtype,
    torch.set_autocast_cache_enabled,
    torch.autocast_increment_nesting,
    torch.autocast_decrement_nesting,
    torch.clear_autocast_cache,
)
"""Functions that change the state under which tensor operations run; they become nodes of the graph."""

READERS = (
    torch.is_grad_enabled,
    torch.is_autocast_enabled,
    torch.is_autocast_cpu_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.get_autocast_gpu_dtype,
    torch.get_autocast_cpu_dtype,
    torch._C._is_autocast_available,
    torch._C._get_privateuse1_backend_name,
    torch.amp.autocast_mode.is_autocast_available,
    torch.is_inference_mode_enabled,
)
"""Functions that read that state; the guard on the global state covers what they give."""


def _setter(function: Any) -> None:
    def set_state(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        objects = [tr.look(a).concrete(tr) for a in args]
        keywords = {k: tr.look(v).concrete(tr) for k, v in kwargs.items()}
        tr.graph.set_state(function, objects, keywords)
        tr.changed()
        return tr.constant(function(*objects, **keywords))

    rule(function)(set_state)


def _reader(function: Any) -> None:
    def read_state(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        objects = [tr.look(a).concrete(tr) for a in args]
        return tr.constant(function(*objects, **{k: tr.look(v).concrete(tr) for k, v in kwargs.items()}))

    rule(function)(read_state)


for _set in SETTERS:
    _setter(_set)
for _read in READERS:
    _reader(_read)


def _fixed(value: Any, *functions: Any) -> None:
    def give(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return tr.constant(value)

    rule(*functions)(give)


_fixed(
    False,
    torch.jit.is_scripting,
    torch._jit_internal.is_scripting,
    torch._C._is_torch_function_mode_enabled,
    torch.jit.is_tracing,
    torch._C._is_tracing,
    torch.compiler.is_exporting,
)
_fixed(None, torch._C._get_tracing_state, torch._C._log_api_usage_once, torch._C._log_api_usage_metadata)
_fixed(0, torch._C._len_torch_function_stack, torch._C._len_torch_dispatch_stack)
_fixed(True, torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling, torch._C._is_torch_function_enabled)


@rule_by_name("torch.onnx", "is_in_onnx_export")
def _not_exporting(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(False)


refused(
    "side-effect-call",
    *(torch.manual_seed, torch.seed, torch.set_rng_state, torch.get_rng_state, torch.set_default_dtype),
    function="a function that sets PyTorch's global state",
)


def remember() -> Callable[[], None]:
    """Note the thread state now; what is returned puts it back."""
    grad = torch.is_grad_enabled()
    devices = [d for d in ("cpu", "cuda") if torch._C._is_autocast_available(d)]
    autocast = [(d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in devices]
    cache = torch.is_autocast_cache_enabled()
    nesting = _autocast_nesting()
    entered = modes_entered()

    def put_back() -> None:
        leave_modes(entered)
        torch._C._set_grad_enabled(grad)
        for device, enabled, dtype in autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(cache)
        now = _autocast_nesting()
        for _ in range(now, nesting):
            torch.autocast_increment_nesting()
        for _ in range(nesting, now):
            torch.autocast_decrement_nesting()

    return put_back


def _autocast_nesting() -> int:
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    return nesting


@contextlib.contextmanager
def preserved() -> Iterator[None]:
    """Put the thread state back at the end: capture follows the program's changes and must leave none."""
    put_back = remember()
    hooks = _take_saved_tensors_hooks()
    try:
        yield
    finally:
        put_back()
        for pack, unpack in reversed(hooks):
            torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


def _take_saved_tensors_hooks() -> list[tuple[Any, Any]]:
    """Take away the program's hooks on what autograd saves, which must not see fake tensors; innermost first."""
    engine: Any = torch._C._autograd
    hooks: list[tuple[Any, Any]] = []
    while (top := engine._top_saved_tensors_default_hooks(True)) is not None:
        hooks.append(top)
        engine._pop_saved_tensors_default_hooks()
    return hooks
