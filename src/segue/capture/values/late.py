"""Late values: texts and numbers that are computed after the graph, from the tensors that it gives.

`print(loss)`, `f"{x.mean()}"` and `metrics["loss"] = loss.item()` want the numbers of a tensor, but nothing of the
capture depends on them.  Such a text or number is made when the graph has run, at the end of the segment; whatever
wants to know more of it than its type makes capture begin again, with a break where it came from.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from segue.capture.breaks import KINDS, Restart, graph_break
from segue.capture.leaving import BreakSite, CannotRebuild
from segue.capture.values.base import Value
from segue.capture.values.known import IDENTITY_TYPES, PRIMITIVES, Known
from segue.capture.values.symbolic import SymbolicValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.departures import Departures
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

_EXAMPLE = torch.zeros(())


class LateValue(Value):
    """A str, int, float or bool that `function(*operands)` gives after the graph.

    `example` is what it gives for some other numbers: it has the type of the result.
    """

    def __init__(self, tr: Tracer, function: Callable[..., Any], operands: list[Value]) -> None:
        if tr.graph.bodies:
            graph_break("data-dependent-value", operation="a function that a transform calls")
        self.function = function
        self.operands = operands
        try:
            self.example = function(*(example_of(tr, o) for o in operands))
        except Exception:  # whatever a function raises for the example: the interpreter calls it with the number
            graph_break("data-dependent-value", operation=getattr(function, "__name__", str(function)))
        name = getattr(function, "__name__", "an operation")
        reason = KINDS["data-dependent-value"].reason.format(operation=f"{name}()")
        self.site = BreakSite("data-dependent-value", reason, tr.sites())
        self.born = tr.here
        self._default_dtype = torch.get_default_dtype()
        for operand in operands:
            if isinstance(operand, TensorValue):
                tr.graph.keep_unwritten(operand)

    def __repr__(self) -> str:
        return f"Late({self.function}, {self.operands})"

    def python_type(self, tr: Tracer) -> type:
        return type(self.example)

    def wanted(self, tr: Departures) -> NoReturn:
        """Begin again with a break where the value is made: something depends on it."""
        if self.born is None or self.born in tr.marks:
            raise CannotRebuild(self.site.reason)
        tr.marks[self.born] = self.site
        raise Restart

    def unsupported(self, tr: Tracer, operation: str) -> NoReturn:
        self.wanted(tr)

    def truth(self, tr: Tracer) -> bool:
        self.wanted(tr)

    def special_attribute(self, tr: Tracer, descriptor: Any, name: str) -> Value:
        self.wanted(tr)

    def length(self, tr: Tracer) -> int:
        self.wanted(tr)

    def iterate(self, tr: Tracer) -> Value:
        self.wanted(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        self.wanted(tr)

    def contains(self, tr: Tracer, item: Value) -> bool:
        self.wanted(tr)

    def hash_key(self, tr: Tracer) -> Any:
        self.wanted(tr)

    def rebuild(self, to: Rebuilder) -> int:
        if torch.get_default_dtype() != self._default_dtype:  # the text of a tensor depends on it
            to.impossible(self)
        return to.program.call(self.function, *(to.register(o) for o in self.operands))


def example_of(tr: Tracer, value: Value) -> Any:
    """An object of the type of a value: itself, if it is a constant."""
    value = tr.look(value)
    if isinstance(value, LateValue):
        return value.example
    if isinstance(value, TensorValue):
        return _EXAMPLE
    if isinstance(value, SymbolicValue):
        return value.real
    return tr.python_object(value)


def has_plain_text(value: Value) -> bool:
    """Whether the text of a constant is made by code written in C that looks at nothing else."""
    return isinstance(value, SymbolicValue) or (
        isinstance(value, Known) and isinstance(value.real, (*PRIMITIVES, *IDENTITY_TYPES, torch.device, range))
    )


_NEVER_FAIL = frozenset(
    (
        float,
        int,
        str,
        repr,
        ascii,
        format,
        abs,
        len,
        operator.add,
        operator.sub,
        operator.mul,
        operator.neg,
        float.__abs__,
        int.__abs__,
    )
)
"""Functions that do not fail on one number if they do not on another of its type (`int` is given integers)."""


def compute_late(tr: Tracer, function: Callable[..., Any], args: list[Value]) -> Value:
    """A pure function of late values: it must not be one that fails on some numbers."""
    late = next(a for a in map(tr.look, args) if isinstance(a, LateValue))
    of_text = getattr(function, "__objclass__", None) is str or str(getattr(function, "__module__", "")).startswith(
        "segue."
    )
    rounds = function in (round, float.__round__) and len(args) == 2
    if not (of_text or rounds or function in _NEVER_FAIL):
        late.wanted(tr)
    if not all(isinstance(a, (LateValue, SymbolicValue)) or a.is_constant() for a in map(tr.look, args)):
        late.wanted(tr)
    return LateValue(tr, function, [tr.look(a) for a in args])


def late_number(tr: Tracer, tensor: TensorValue, operation: str) -> LateValue:
    """`tensor.item()`, read after the graph."""
    fake = tensor.fake
    if fake.numel() != 1 or fake.dtype.is_complex or tensor.cls not in (torch.Tensor, torch.nn.Parameter):
        graph_break("data-dependent-value", operation=operation)
    return LateValue(tr, _READERS[_kind(fake.dtype)], [tensor])


def _kind(dtype: torch.dtype) -> type:
    if dtype is torch.bool:
        return bool
    return float if dtype.is_floating_point else int


def _reader(kind: type) -> Callable[[Any], Any]:
    def item(tensor: torch.Tensor) -> Any:
        return kind(tensor.item())

    return item


_READERS: dict[type, Callable[[Any], Any]] = {kind: _reader(kind) for kind in (bool, int, float)}
