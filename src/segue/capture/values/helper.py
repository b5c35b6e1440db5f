"""Callables that are instances of C types and that Python code of ours stands in for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue.capture.values.base import MISSING, Value

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source


class HelperValue(Value):
    """`operator.itemgetter(1)` and its kin: `kind(*args, **kwargs)`, which when called does what `body` does.

    Args:
        kind: the type, or the function that makes such objects.
        body: the value that is called in its place.
    """

    def __init__(
        self,
        kind: Any,
        args: list[Value],
        kwargs: dict[str, Value],
        body: Value,
        source: Source | None = None,
        real: Any = MISSING,
    ) -> None:
        self.kind = kind
        self.args = args
        self.kwargs = kwargs
        self.body = body
        self.source = source
        self.real = real

    def __repr__(self) -> str:
        return f"{self.kind.__name__}({self.args}, {self.kwargs})"

    def python_type(self, tr: Tracer) -> type:
        if isinstance(self.kind, type):
            return self.kind
        self.unsupported(tr, "type()")

    def truth(self, tr: Tracer) -> bool:
        return True

    def call(self, tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(self.body, args, kwargs)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        operands = [to.register(a) for a in (*self.args, *self.kwargs.values())]
        return to.program.call(self.kind, *operands, keywords=tuple(self.kwargs))
