"""How capture leaves off: graph breaks, exceptions of the user's program, restarts.

Every graph break is raised by `graph_break(id, ...)`; `KINDS` lists all ids with what they mean and what to do, and
the documentation is generated from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from segue.capture.values.object import ExceptionValue


@dataclass(frozen=True)
class BreakKind:
    """One reason for which an instruction is left to the interpreter."""

    id: str
    reason: str
    explanation: str
    hint: str


KINDS: dict[str, BreakKind] = {
    kind.id: kind
    for kind in (
        BreakKind(
            "requested",
            "graph_break() was called",
            "The program asks for a graph break here.",
            "Remove the call when it is no longer needed.",
        ),
        BreakKind(
            "skip-frame",
            "skip_frame() was called in {function}",
            "The program asks that the rest of this function run in the interpreter.",
            "Remove the call when it is no longer needed.",
        ),
        BreakKind(
            "disabled",
            "call of the disabled function {function}",
            "The function is marked with disable(); it runs in the interpreter.",
            "Remove the marker if the function may be compiled.",
        ),
        BreakKind(
            "opaque-call",
            "call of {function}, which capture cannot see into",
            "The callable is not Python code and no rule says what it does.",
            "Move the call out of the hot path; if it is a pure tensor function use segue.allow_in_graph.",
        ),
        BreakKind(
            "side-effect-call",
            "call of {function}, which has effects outside the program's objects",
            "Input, output, time and the like happen in the interpreter, at their place in the program.",
            "Nothing is wrong; move the call away from tensor work if the break costs too much.",
        ),
        BreakKind(
            "data-dependent-value",
            "{operation} needs the value of a tensor",
            "A Python number, bool or list is made from a tensor's data, which is not known during capture.",
            "Keep the value a tensor (torch.where, masks) or accept one break.",
        ),
        BreakKind(
            "data-dependent-branch",
            "a branch depends on the value of a tensor",
            "The interpreter decides the branch; both sides are compiled as they are reached.",
            "Use torch.where or torch.cond to keep one graph.",
        ),
        BreakKind(
            "data-dependent-shape",
            "the shape of the result of {operation} depends on the data of a tensor",
            "Shapes are fixed in a graph.",
            "Use an operation with a fixed shape, for example torch.where with three arguments.",
        ),
        BreakKind(
            "unsupported-tensor",
            "{what}",
            "This kind of tensor is left to PyTorch.",
            "Use plain strided tensors in compiled code.",
        ),
        BreakKind(
            "unsupported-operation",
            "{operation} of {types} is not captured",
            "Capture has no rule for this operation on these operands.",
            "The interpreter does it; nothing is wrong.",
        ),
        BreakKind(
            "unsupported-attribute",
            "attribute {name!r} of {type} cannot be {verb} during capture",
            "The attribute is computed by code that capture cannot see into.",
            "The interpreter does it; nothing is wrong.",
        ),
        BreakKind(
            "unsupported-instruction",
            "instruction {opname} is left to the interpreter",
            "Capture does not simulate this instruction.",
            "The interpreter does it; nothing is wrong.",
        ),
        BreakKind(
            "unsupported-class",
            "instances of {type} cannot be made during capture",
            "The class is made by code that capture cannot see into.",
            "Make the object outside the compiled function, or accept one break.",
        ),
        BreakKind(
            "loop",
            "the loop runs in place: {why}",
            "A loop with a break inside, or with very many iterations, is not unrolled; its iterations are "
            "compiled one by one.",
            "Nothing is wrong.",
        ),
        BreakKind(
            "operator-error",
            "{operation} fails: {error}",
            "The operation is executed by PyTorch itself so that its own error is raised.",
            "Look at the error that is raised.",
        ),
        BreakKind(
            "finaliser",
            "an object of class {type}, which has __del__, is given up",
            "The finaliser may run now, and it must run in the order of the program's other effects.",
            "Nothing is wrong.",
        ),
        BreakKind(
            "frame-access",
            "the function asks for its own frame object",
            "A frame object shows lines and locals as the function runs: the whole function runs in the interpreter.",
            "Move the call of sys._getframe() or inspect.currentframe() into a helper function.",
        ),
        BreakKind(
            "order",
            "{operation} can fail after a tensor of the program has been written",
            "If it fails, what came before must have happened and what comes after must not. Small tensors without "
            "gradients are saved and put back; for others, it begins a new graph.",
            "Nothing is wrong; write to tensors after operations that can fail.",
        ),
        BreakKind(
            "late-write",
            "{operation} writes to a tensor whose numbers are wanted as they were",
            "What was printed or read of the tensor is made after the graph, which must not change the tensor: the "
            "write begins a new graph.",
            "Print or read the tensor after it is written, or accept one break.",
        ),
        BreakKind(
            "operator-warning",
            "{operation} warns",
            "The operation is executed by PyTorch itself so that its warning names the user's line.",
            "Look at the warning that is shown.",
        ),
        BreakKind(
            "raise",
            "{type} is raised",
            "An exception that leaves the function is raised by the interpreter.",
            "Nothing is wrong.",
        ),
        BreakKind(
            "rebuild",
            "{what} has to be made by the interpreter",
            "An object that is alive at a graph break cannot be made from the captured program.",
            "Nothing is wrong.",
        ),
        BreakKind(
            "generator",
            "{what} is left to the interpreter",
            "Capture looks into generators that the captured code itself makes and consumes, not into coroutines.",
            "Nothing is wrong.",
        ),
        BreakKind(
            "budget",
            "capture has looked at {count} instructions",
            "config.capture_budget limits how long one capture may take.",
            "Raise config.capture_budget if the function is really that long.",
        ),
        BreakKind(
            "effect-in-body",
            "{operation} calls a function that changes {what}",
            "Functions that transforms and control-flow operators call are captured only if they have no effects.",
            "Give back what the function computes instead of storing it.",
        ),
        BreakKind(
            "depth",
            "calls are nested {depth} deep",
            "Capture inlines calls to a limited depth.",
            "Nothing is wrong; the callee is compiled on its own.",
        ),
        BreakKind(
            "forced",
            "a break was forced by config.break_at",
            "Used by tests.",
            "Unset config.break_at.",
        ),
    )
}


class GraphBreak(Exception):
    """The current instruction must be executed by the interpreter."""

    def __init__(self, kind: BreakKind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class Raised(Exception):
    """An exception of the user's program, under way through the captured frames."""

    def __init__(self, value: ExceptionValue) -> None:
        super().__init__(value)
        self.value = value


class Restart(Exception):
    """Capture must begin again, with what was learned already noted."""


class Speculated(Exception):
    """What is run on trial would change something: it is not to be run now."""


def graph_break(kind: str, **facts: object) -> NoReturn:
    """Leave the current instruction to the interpreter.

    Args:
        kind: an id of `KINDS`.
        facts: what the kind's reason text mentions.
    """
    found = KINDS[kind]
    raise GraphBreak(found, found.reason.format(**facts))


def as_markdown() -> str:
    """The list of all kinds, as docs/breaks.md has it."""
    lines = [
        "# Graph breaks",
        "",
        "An instruction that capture cannot follow is executed by the interpreter, in place, between two graphs.",
        "Each kind has a stable id, which reports and messages show in brackets.",
        "(This page is made by `python -m segue.capture.breaks`.)",
        "",
        "| id | reason | why | what to do |",
        "| --- | --- | --- | --- |",
    ]
    lines += [f"| `{k.id}` | {k.reason} | {k.explanation} | {k.hint} |" for k in KINDS.values()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(as_markdown(), end="")
