"""What a segment does besides computing and writing to the program's objects: it prints, logs, warns.

Capture notes such calls in order and the segment makes them after its graph, before it writes to objects; if the graph
fails nothing has been printed and the interpreter does everything from the gate on.  So they must not be able to see
what else the segment does: a call is noted only if no code of the program runs in it, and what it is given are
constants, texts, and tensors that the graph does not write to afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer


@dataclass(eq=False)
class Output:
    """A call that the segment makes after its graph."""

    function: Callable[..., Any]
    args: list[Value]
    keywords: dict[str, Value] = field(default_factory=dict)
    result: Value | None = None
    """What stands for the object that the call gives, if anything does."""


def note(tr: Tracer, function: Callable[..., Any], *args: Value, result: Value | None = None) -> None:
    """Call a function with these values when the graph has run."""
    if tr.graph.bodies:
        graph_break("effect-in-body", operation=tr.graph.bodies[-1].operation, what="what is printed or logged")
    tr.changed()
    tr.outputs.append(Output(function, list(args), {}, result))


def replay(rebuilder: Rebuilder) -> None:
    """Emit the calls."""
    for output in rebuilder.tr.outputs:
        operands = [rebuilder.register(a) for a in output.args]
        made = rebuilder.program.call(output.function, *operands)
        if output.result is not None:
            rebuilder.remember(output.result, made)
