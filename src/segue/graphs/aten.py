"""The ATen graph: operations in program order on strided views of buffers.

Views need no operations of their own: a tensor is a buffer with sizes, strides and an offset.  What an operation
mutates is a buffer that it writes.  All of it is plain data, with a printer and a checker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload


@dataclass(eq=False)
class Buffer:
    """Memory of `size` elements of one dtype.

    Attributes:
        name: unique in its graph, for messages.
        constant: the tensor whose memory it is, for a constant of the graph.
    """

    name: str
    dtype: torch.dtype
    size: int
    constant: torch.Tensor | None = None

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class View:
    """A strided tensor in a buffer; strides and offset count elements."""

    buffer: Buffer
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def dtype(self) -> torch.dtype:
        return self.buffer.dtype

    @property
    def n_elements(self) -> int:
        return product(self.sizes)

    def __str__(self) -> str:
        short = str(self.dtype).removeprefix("torch.")
        where = "" if self.offset == 0 else f"+{self.offset}"
        strides = "" if self.strides == contiguous_strides(self.sizes) else f" strides {list(self.strides)}"
        return f"{self.buffer.name}{where}:{short}{list(self.sizes)}{strides}"


@dataclass(frozen=True)
class Number:
    """A Python number that is an input of the graph, held in a buffer of one float64 or int64 (or bool)."""

    buffer: Buffer

    def __str__(self) -> str:
        return self.buffer.name


@dataclass
class Call:
    """One ATen operation.

    Attributes:
        op: the overload.
        args, kwargs: `View`s and `Number`s where tensors and numbers of the graph are, else constants.
        results: a `View` or None for each result; a result that is written in place shares its operand's view.
        written: the buffers that the operation mutates, its fresh results not included.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    results: list[View | None]
    written: list[Buffer] = field(default_factory=list)

    def views(self) -> Iterator[View]:
        """The tensors among the arguments."""
        yield from views_in((self.args, self.kwargs))

    def __str__(self) -> str:
        args = [text(a) for a in self.args] + [f"{k}={text(v)}" for k, v in self.kwargs.items()]
        results = ", ".join("_" if r is None else str(r) for r in self.results)
        return f"{results} = {self.op}({', '.join(args)})"


@dataclass
class AtenGraph:
    """Operations in program order, with what goes in and out.

    Attributes:
        inputs: one for each parameter of the graph.
        calls: the operations; those that only make views are left out.
        outputs: `View`s, `Number`s or constants.
        same_as_input: for each output, the number of the input that it is the very object of, or None.
        apart: the outputs that autograd does not take for views of inputs or of other outputs.
        followed: the memory of inputs that require a gradient where autograd would notice how they are used.
    """

    inputs: list[View | Number]
    calls: list[Call]
    outputs: list[Any]
    same_as_input: list[int | None]
    apart: frozenset[int] = frozenset()
    followed: frozenset[Buffer] = frozenset()

    def __str__(self) -> str:
        lines = [f"inputs {', '.join(map(str, self.inputs))}", *(f"  {c}" for c in self.calls)]
        return "\n".join([*lines, f"outputs {', '.join(map(text, self.outputs))}"])

    def check(self) -> None:
        """Raise ValueError if an operation reads a buffer that nothing has written before it."""
        known = {i.buffer for i in self.inputs}
        for call in self.calls:
            for view in call.views():
                if view.buffer not in known and view.buffer.constant is None:
                    raise ValueError(f"{call} reads {view.buffer}, which nothing has written")
                check_bounds(view)
            for result in call.results:
                if result is not None:
                    check_bounds(result)
                    known.add(result.buffer)


def check_bounds(view: View) -> None:
    """Raise ValueError if a view reaches out of its buffer."""
    if 0 in view.sizes:
        return
    steps = [(n - 1) * s for n, s in zip(view.sizes, view.strides, strict=True)]
    low, high = (view.offset + sum(s for s in steps if (s > 0) == up) for up in (False, True))
    if low < 0 or high >= view.buffer.size:
        raise ValueError(f"{view} reaches from {low} to {high} of {view.buffer.size} elements")


def views_in(value: Any) -> Iterator[View]:
    """The views in nested tuples, lists and dicts."""
    if isinstance(value, View):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from views_in(item)
    elif isinstance(value, dict):
        yield from views_in(list(value.values()))


def text(value: Any) -> str:
    """An argument as text."""
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(text, value))}]"
    return str(value)


def contiguous_strides(sizes: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, as PyTorch gives them to a fresh tensor."""
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def product(sizes: Sequence[int]) -> int:
    """The number of elements; 1 for a scalar."""
    n = 1
    for size in sizes:
        n *= size
    return n
