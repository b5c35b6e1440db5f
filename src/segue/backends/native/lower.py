"""ATen graph -> loop IR: each operation becomes statements by its rule, or stays a call of ATen.

Rules are registered for functional overloads.  In-place and out= overloads and `_foreach_*` ones reuse them, with the
written tensors as targets; a target whose old elements are needed elsewhere than where they are written goes through
a temporary.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch._ops import OpOverload

from segue.backends.native.ir import Assign, Invoke, LoopGraph, Reduce, Statement, loads
from segue.backends.native.rules import RULES, Context, NoLowering
from segue.backends.native.rules.types import SUPPORTED
from segue.backends.native.rules.views import same_place, select
from segue.graphs.aten import AtenGraph, Buffer, Call, View, views_in


def lower(graph: AtenGraph) -> LoopGraph:
    """The graph as loop statements.

    Args:
        graph: operations on views of buffers.

    Returns:
        The statements, in the order of the operations.
    """
    numbers = itertools.count()
    statements = [s for call in graph.calls for s in lower_call(call, numbers)]
    return LoopGraph(list(graph.inputs), list(graph.outputs), statements)


def lower_call(call: Call, numbers: Iterator[int]) -> list[Statement]:
    """The statements of one operation; `numbers` name temporaries."""
    try:
        return list(_statements(call, numbers))
    except NoLowering:
        return [Invoke(call)]


def has_rule(op: OpOverload) -> bool:
    """Whether there is a rule that an overload may be lowered by."""
    base = functional(op)
    return base is not None and (rule_name(base) in RULES or _foreach_base(base) is not None)


def _statements(call: Call, numbers: Iterator[int]) -> list[Assign | Reduce]:
    base = functional(call.op)
    if base is None:
        raise NoLowering(f"{call.op} has no functional overload")
    results = [r for r in _flat(call.results) if r is not None]
    if any(v.dtype not in SUPPORTED for v in (*results, *call.views())):
        raise NoLowering("a dtype that rules do not treat")
    args = bound(call, base)
    element = _foreach_base(base)
    if element is not None:
        return _foreach(call, base, element, args, numbers)
    return _lower_one(base, args, call.results, numbers)


def _lower_one(base: OpOverload, args: list[Any], results: list[View | None], numbers: Iterator[int]) -> list:
    rule = RULES.get(rule_name(base))
    if rule is None:
        raise NoLowering(f"there is no rule for {base}")
    if not any(r is not None and r.n_elements for r in results):
        return []
    context = Context(base, numbers)
    rule(context, results, *args)
    existing = {v.buffer for v in views_in(args)}
    if not _reads_what_it_wrote(context.statements, existing):
        return context.statements
    context = Context(base, numbers)
    targets = [context.temporary(r.sizes, r.dtype) if r is not None and r.buffer in existing else r for r in results]
    rule(context, targets, *args)
    for result, target in zip(results, targets, strict=True):
        if result is not None and target is not None and target is not result:
            context.copy(result, target)
    return context.statements


def _reads_what_it_wrote(statements: list[Assign | Reduce], existing: set[Buffer]) -> bool:
    """Whether an element of an existing buffer may be read after, or by another index than, it was written."""
    written: set[Buffer] = set()
    for statement in statements:
        target = statement.target
        for read in loads(statement.expr):
            if read.buffer in written:
                return True
            if read.buffer is target.buffer and read.buffer in existing:
                if isinstance(statement, Reduce) or read.terms or not same_place(target, read.strides, read.offset):
                    return True
        if target.buffer in existing:
            written.add(target.buffer)
    return False


# --- overloads --------------------------------------------------------------------------------------------


def rule_name(op: OpOverload) -> str:
    """The name that a rule for an overload is registered by."""
    return f"{op._schema.name.removeprefix('aten::')}.{op._overloadname}"


@cache
def functional(op: OpOverload) -> OpOverload | None:
    """The overload that computes the same into fresh tensors: itself, or of add_.Tensor or add.out: add.Tensor."""
    if op.namespace != "aten":
        return None
    written = [a for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not written or rule_name(op) in RULES:
        return op
    name = op._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    wanted = _signature(op)
    for overload in () if packet is None else packet.overloads():
        candidate = getattr(packet, overload)
        if not candidate._schema.is_mutable and _signature(candidate) == wanted:
            return candidate
    return None


def _signature(op: OpOverload) -> list[tuple[str, str]]:
    return [(a.name, str(a.type)) for a in op._schema.arguments if not a.is_out and a.name not in _FORM_ONLY]


_FORM_ONLY = frozenset("dtype layout device pin_memory memory_format".split())
"""Parameters of functional overloads that say what their result is like; the recorded result has it."""


def bound(call: Call, base: OpOverload) -> list[Any]:
    """The arguments of a call in the order of the functional overload's parameters, with its defaults."""
    names = [a.name for a in call.op._schema.arguments]
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    return [given.get(a.name, a.default_value) for a in base._schema.arguments]


def _flat(results: list[Any]) -> Iterator[View | None]:
    for result in results:
        if isinstance(result, (list, tuple)):
            yield from _flat(list(result))
        else:
            yield result


# --- foreach ----------------------------------------------------------------------------------------------

_ELEMENT_OVERLOADS = {"List": ("Tensor", "default"), "ScalarList": ("Scalar", "default", "Tensor_Scalar", "Tensor")}


@cache
def _foreach_base(base: OpOverload) -> OpOverload | None:
    """The overload for one element of the lists of a `_foreach_*` overload: _foreach_add.List -> add.Tensor."""
    name = base._schema.name.removeprefix("aten::")
    packet = getattr(torch.ops.aten, name.removeprefix("_foreach_"), None)
    if not name.startswith("_foreach_") or packet is None:
        return None
    kind = base._overloadname
    for overload in (*_FOREACH_OVERLOADS.get((name, kind), ()), kind, *_ELEMENT_OVERLOADS.get(kind, ()), "default"):
        if overload in packet.overloads() and rule_name(getattr(packet, overload)) in RULES:
            return getattr(packet, overload)
    return None


_FOREACH_OVERLOADS = {
    ("_foreach_pow", "List"): ("Tensor_Tensor",),
    ("_foreach_pow", "Scalar"): ("Tensor_Scalar",),
    ("_foreach_pow", "ScalarAndTensor"): ("Scalar",),
}


def _foreach(call: Call, base: OpOverload, element: OpOverload, args: list[Any], numbers: Iterator[int]) -> list:
    parameters, kinds = [a.name for a in base._schema.arguments], [str(a.type) for a in base._schema.arguments]
    lists = [a for a, kind in zip(args, kinds, strict=True) if kind == "List[Tensor]"]
    results = list(_flat(call.results)) or lists[0]
    if any(r is not None and not isinstance(r, View) for r in results):
        raise NoLowering("results that are not tensors")
    statements: list[Assign | Reduce] = []
    for i, result in enumerate(results):
        given = [_element(arg, name, kind, i) for arg, name, kind in zip(args, parameters, kinds, strict=True)]
        values = _by_element(dict(zip(parameters, given, strict=True)), given, element)
        statements += _lower_one(element, values, [result], numbers)
    return statements


def _element(arg: Any, name: str, kind: str, index: int) -> Any:
    if name == "scalars" and isinstance(arg, View):
        return select(arg, 0, index)
    return arg[index] if kind.startswith("List[") and isinstance(arg, (list, tuple)) else arg


def _by_element(named: dict[str, Any], given: list[Any], element: OpOverload) -> list[Any]:
    """Arguments for the element's overload: by name where it has the name, else by position."""
    values = []
    for position, parameter in enumerate(element._schema.arguments):
        if parameter.name in named:
            values.append(named[parameter.name])
        elif position < len(given) and list(named)[position] not in {a.name for a in element._schema.arguments}:
            values.append(given[position])
        else:
            values.append(parameter.default_value)
    return values
