"""Conditions of `if a or b:` on tensors: one value, so one break.

Python decides `a` first, and `b` only if it has to.  When computing `b` has no effect and cannot fail, both are
computed in the graph, and the interpreter decides once, on `logical_or(a, b)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from segue.capture.breaks import GraphBreak, Raised, Speculated
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
                if not attempt.has_effects():
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
