"""`nn.Module.__getattr__`, which every read of a parameter, buffer or submodule calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.known import Known
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ObjectValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

_GETATTR = torch.nn.Module.__getattr__


@rule(_GETATTR)
def _attribute(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What the Python function finds, read from its dicts directly; anything else it does itself."""
    if len(args) == 2 and not kwargs:
        module, name = tr.look(args[0]), tr.look(args[1])
        if isinstance(module, ObjectValue) and isinstance(name, Known) and type(name.real) is str:
            found = _registered(tr, module, name.concrete(tr))
            if found is not None:
                return found
    return tr.look(tr.pinned(_GETATTR)).call(tr, args, kwargs)


def _registered(tr: Tracer, module: ObjectValue, name: str) -> Value | None:
    own = module.namespace(tr)
    for kind in ("_parameters", "_buffers", "_modules"):
        registry = own.find(tr, kind) if own is not None else None
        if registry is None:
            continue
        looked = tr.look(registry)
        if not isinstance(looked, DictValue) or looked.cls is not dict:
            return None
        found = looked.find(tr, name)
        if found is not None:
            return found
    return None
