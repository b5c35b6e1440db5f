"""`torch.func.functional_call` and what else swaps parameters: the parts that iterate over sets."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils import stateless

from segue.capture.rules import inline
from segue.markers import graph_break


def untie(module: torch.nn.Module, tensors: dict[str, Any]) -> dict[str, Any]:
    """The tensors for a module's names, where all names of a shared one get what is given for any of them."""
    names: dict[Any, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(parameter, []).append(name)
    for name, buffer in module.named_buffers(remove_duplicate=False):
        names.setdefault(buffer, []).append(name)
    untied = dict(tensors)
    for shared in names.values():
        given = [name for name in shared if name in tensors]
        if len(shared) > 1 and given:
            if any(tensors[name] is not tensors[given[0]] for name in given):
                graph_break()  # PyTorch has an error for this
            for name in shared:
                untied[name] = tensors[given[0]]
    return untied


inline(untie, stateless._untie_named_tensors_map)
