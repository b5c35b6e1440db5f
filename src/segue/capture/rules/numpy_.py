"""NumPy's scalars and functions of numbers.  What works on arrays is left to the interpreter."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.calls import name_of
from segue.capture.rules import rule
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

numpy: Any = sys.modules.get("numpy")
"""The module, if this PyTorch has it."""

_REDUCTIONS = "prod sum mean max min amax amin std var median round ceil floor".split()


def _of_numbers(function: Any) -> None:
    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if not all(tr.look(v).is_constant() or _is_list(tr, v) for v in (*args, *kwargs.values())):
            graph_break("opaque-call", function=name_of(function))
        result = tr.fold(function, args, kwargs)
        if not isinstance(result.real, (numpy.generic, int, float, bool)):
            graph_break("opaque-call", function=f"{name_of(function)}, which makes an array")
        return result

    rule(function)(call)


def _is_list(tr: Tracer, value: Value) -> bool:
    from segue.capture.values.sequence import ListValue

    value = tr.look(value)
    return isinstance(value, ListValue) and all(tr.look(i).is_constant() for i in value.items(tr))


if numpy is not None:
    for _kind in set(numpy.sctypeDict.values()):
        if issubclass(_kind, (numpy.number, numpy.bool_)):
            _of_numbers(_kind)
    for _name, _function in vars(numpy).items():
        if isinstance(_function, numpy.ufunc) or _name in _REDUCTIONS:
            _of_numbers(_function)
