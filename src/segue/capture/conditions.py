"""Conditions of `if a or b:` on tensors: one value, so one break.

Python decides `a` first, and `b` only if it has to.  When computing `b` has no effect and cannot fail, both are
computed in the graph, and the interpreter decides once, on `logical_or(a, b)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import fx
from torch.utils import _pytree as pytree

from segue.capture.breaks import GraphBreak, Raised, Speculated
from segue.capture.calls import name_of
from segue.capture.opcodes import HANDLERS
from segue.capture.values.base import Value
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.frames.code import Instruction

JUMPS = {"POP_JUMP_IF_TRUE": True, "POP_JUMP_IF_FALSE": False}

_SIMPLE = frozenset(
    """
    LOAD_FAST LOAD_DEREF LOAD_GLOBAL LOAD_CONST LOAD_ATTR PUSH_NULL SWAP COPY POP_TOP CALL BINARY_OP BINARY_SUBSCR
    COMPARE_OP UNARY_NEGATIVE UNARY_INVERT UNARY_POSITIVE BUILD_TUPLE BUILD_SLICE
    """.split()
)
"""Instructions of a condition that is an expression on values at hand."""

_TOTAL = frozenset(
    """
    abs absolute neg negative sign floor ceil round trunc sqrt rsqrt square exp expm1 log log1p log2 log10 sin cos tan
    sinh cosh tanh asin acos atan atan2 erf sigmoid relu gelu silu elu softplus softmax log_softmax clamp clip
    add sub mul true_divide truediv maximum minimum fmax fmin where nan_to_num
    eq ne lt le gt ge isnan isinf isfinite isposinf isneginf isreal isclose signbit
    and_ or_ xor inv invert logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not
    any all sum mean prod max min amax amin aminmax argmax argmin var std norm linalg_norm linalg_vector_norm nansum
    nanmean count_nonzero cumsum dist dot matmul mm bmm mv
    size shape numel dim reshape view flatten squeeze unsqueeze permute transpose t expand contiguous narrow select
    diagonal stack cat detach clone to float double half bfloat16 int long bool type_as ones_like zeros_like full_like
    zeros ones full tensor arange
    """.split()
)
"""Operations that succeed on all data if shapes and dtypes fit, and do nothing but compute."""


def join(tr: Tracer, frame: Frame, i: Instruction) -> int | None:
    """Compute the next condition of an `and` or `or` too.

    Args:
        i: a conditional jump, with a tensor on top of the stack.

    Returns:
        The jump that decides on both, for which one tensor is then on the stack; None if that cannot be.
    """
    condition = tr.look(frame.stack[-1])
    if not isinstance(condition, TensorValue) or condition.fake.numel() != 1 or frame.resumable is None:
        return None
    stack, ip, current = list(frame.stack), frame.ip, frame.current
    attempt = tr.graph.attempt()
    tr.is_speculating = True
    second = None
    try:
        frame.stack.pop()
        second = _next_jump(tr, frame, i)
        if second is not None:
            other = tr.look(frame.stack[-1])
            if isinstance(other, TensorValue) and other.fake.numel() == 1:
                if not attempt.has_effects() and all(map(_succeeds, attempt.added())):
                    frame.stack[:] = [*stack[:-1], _combined(tr, condition, other, JUMPS[i.opname])]
                    return second.index
    except (GraphBreak, Raised, Speculated):
        pass
    finally:
        tr.is_speculating = False
        frame.ip, frame.current = ip, current
    attempt.undo()
    frame.stack[:] = stack
    return None


def _next_jump(tr: Tracer, frame: Frame, i: Instruction) -> Instruction | None:
    """Run what comes after a jump up to the jump that completes the condition; None if there is none."""
    for j in frame.code.instructions[i.index + 1 :]:
        if j.opname in JUMPS:
            return j if _decides_both(i, j) else None
        if j.opname not in _SIMPLE:
            return None
        frame.current = j
        HANDLERS[j.opname](tr, frame, j)
    return None


def _succeeds(node: fx.Node) -> bool:
    """Whether an operation cannot fail on any data: on some devices a failure cannot even be caught."""
    name = node.target if isinstance(node.target, str) else name_of(node.target)
    last = name.rpartition(".")[2]
    if last == "getitem":
        return not any(isinstance(part, fx.Node) for part in pytree.tree_leaves(node.args[1]))
    is_of_torch = isinstance(node.target, str) or name.startswith(("torch.", "_operator.", "Tensor.", "TensorBase."))
    return is_of_torch and last in _TOTAL


def _decides_both(i: Instruction, j: Instruction) -> bool:
    """Whether two jumps have the same two ends, so that deciding the second on `a or b` (or `a and b`) is right."""
    if i.backward or j.backward:
        return False
    same = JUMPS[i.opname] == JUMPS[j.opname]
    return i.target == j.target if same else i.target == j.index + 1


def _combined(tr: Tracer, first: Value, second: Value, is_or: bool) -> Value:
    scalars = [tr.graph.call(tr, "call_method", "reshape", [c, tr.plain_value(())], {}) for c in (first, second)]
    combine = torch.logical_or if is_or else torch.logical_and
    return tr.graph.call(tr, "call_function", combine, scalars, {})
