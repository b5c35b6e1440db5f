"""The loop IR: what a graph computes, as expressions over loop indices and strided memory.

A *statement* says what to compute for every index of an iteration space `sizes`:

    Assign  target[index] = expr(index)
    Reduce  target[kept index] = combination of expr(index) over the reduced axes
    Invoke  an ATen operation, as it is

Statements run in order.  Fusing them into loops is the next stage's work; here each stands for itself.

Grammar of expressions:

    expr ::= Constant(value, dtype)
           | Index(axis)                                   the loop index of an axis, int64
           | Load(buffer, strides, offset, terms)          buffer[offset + sum(index * stride) + sum(term * stride)]
           | Apply(name, args, dtype)                      see OPERATIONS

Arithmetic is done on float32, float64, integers and bool.  float16 and bfloat16 appear only in loads, stores, `cast`
and `where`: a rule casts to float32, computes, and casts back, which is what ATen's kernels do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from segue.graphs.aten import Buffer, Call, View

ARITHMETIC = "add sub mul neg abs minimum maximum sign"
"""On operands of the result's dtype; minimum and maximum propagate NaN; integers wrap."""
FLOATING = """
div sqrt rsqrt reciprocal exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh
acosh atanh erf erfc erfinv sigmoid lgamma digamma pow hypot floor ceil trunc round fmin fmax copysign
"""
"""Of floats only: `div` is true division, `round` is half to even, fmin and fmax ignore a NaN."""
DIVISION = "floordiv truncdiv remainder fmod"
"""Floats and integers, with Python's (floordiv, remainder) or C's (truncdiv, fmod) rounding.  An integer divisor of 0
reports a failure of the kernel, which then raises what ATen raises."""
COMPARISON = "eq ne lt le gt ge"
"""On two operands of one dtype; the result is bool."""
TESTS = "isnan isinf signbit"
"""Of a float; the result is bool."""
BITWISE = "and or xor not shl shr"
"""On integers or bool (shl, shr: integers); shr keeps the sign."""
OTHER = "cast where bounded"
"""cast(x): to the result's dtype, as `tensor.to` does.  where(bool, x, y).  bounded(index, size): an int64 index where
negative ones count from the end; one out of range reports a failure of the kernel and gives 0."""

OPERATIONS = frozenset(" ".join((ARITHMETIC, FLOATING, DIVISION, COMPARISON, TESTS, BITWISE, OTHER)).split())

COMBINATIONS = frozenset("sum prod max min any all argmax argmin".split())
"""Of a Reduce.  max and min propagate NaN.  any and all: of bool.  argmax and argmin give the int64 position among the
reduced elements in row-major order, of the first extreme one, a NaN being the most extreme."""

HALVES = (torch.float16, torch.bfloat16)


class Expr:
    """A value at one index; compared by identity."""

    __slots__ = ()
    dtype: torch.dtype


@dataclass(frozen=True, eq=False, slots=True)
class Constant(Expr):
    """The same number everywhere."""

    value: float | int | bool
    dtype: torch.dtype


@dataclass(frozen=True, eq=False, slots=True)
class Index(Expr):
    """The loop index of an axis."""

    axis: int
    dtype: torch.dtype = torch.int64


@dataclass(frozen=True, eq=False, slots=True)
class Load(Expr):
    """An element: strides count elements per step of each axis; `terms` add computed int64 indices, times a stride."""

    buffer: Buffer
    strides: tuple[int, ...]
    offset: int = 0
    terms: tuple[tuple[Expr, int], ...] = ()

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        return self.buffer.dtype


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Expr):
    """An operation of OPERATIONS."""

    name: str
    args: tuple[Expr, ...]
    dtype: torch.dtype


class _Loading:
    """What Assign and Reduce have in common: an expression, whose loads are asked for again and again."""

    expr: Expr

    @functools.cached_property
    def loads(self) -> list[Load]:
        """Every load of the expression, those in computed indices too."""
        return loads(self.expr)

    @functools.cached_property
    def read(self) -> frozenset[Buffer]:
        """The buffers that are loaded from."""
        return frozenset(load.buffer for load in self.loads)


@dataclass(eq=False)
class Assign(_Loading):
    """target[index] = expr, for every index of `sizes`; the target's view has these sizes."""

    target: View
    expr: Expr

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.target.sizes


@dataclass(eq=False)
class Reduce(_Loading):
    """target[kept] = combination of expr over `reduced` axes; the target has stride 0 on those."""

    target: View
    expr: Expr
    combine: str
    reduced: frozenset[int]

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.target.sizes


@dataclass(eq=False)
class Invoke:
    """An operation that ATen runs."""

    call: Call


Statement = Assign | Reduce | Invoke


@dataclass
class LoopGraph:
    """Statements in order; buffers that are neither inputs, constants nor outputs are the backend's own."""

    inputs: list[Any]
    outputs: list[Any]
    statements: list[Statement] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(map(statement_text, self.statements))

    def check(self) -> None:
        """Raise ValueError where a statement does not keep to the grammar."""
        for statement in self.statements:
            if not isinstance(statement, Invoke):
                check_statement(statement)


# --- building ---------------------------------------------------------------------------------------------


def apply(name: str, *args: Expr, dtype: torch.dtype | None = None) -> Expr:
    """An operation; the result's dtype is the first operand's, or bool where the operation says so."""
    if dtype is None:
        dtype = torch.bool if name in _BOOLEAN else args[-1].dtype
    return Apply(name, args, dtype)


_BOOLEAN = frozenset((COMPARISON + " " + TESTS).split())


def cast(expr: Expr, dtype: torch.dtype) -> Expr:
    """The value as another dtype; nothing if it has it."""
    if expr.dtype == dtype:
        return expr
    if isinstance(expr, Constant) and dtype not in HALVES and not dtype.is_complex:
        return Constant(_converted(expr.value, dtype), dtype)
    return Apply("cast", (expr,), dtype)


def _converted(value: float | int | bool, dtype: torch.dtype) -> float | int | bool:
    if dtype is torch.bool:
        return bool(value)
    if dtype.is_floating_point:
        return float(value)
    return int(torch.tensor(value).to(dtype).item())


def load(view: View, sizes: Sequence[int]) -> Load:
    """An element of a view, broadcast to `sizes`."""
    missing = len(sizes) - len(view.sizes)
    strides = [0] * missing
    for want, have, stride in zip(sizes[missing:], view.sizes, view.strides, strict=True):
        if have not in (1, want):
            raise ValueError(f"{view} does not broadcast to {list(sizes)}")
        strides.append(stride if have == want and have != 1 else 0)
    return Load(view.buffer, tuple(strides), view.offset)


# --- walking ----------------------------------------------------------------------------------------------


def operands(expr: Expr) -> tuple[Expr, ...]:
    """What an expression is made of."""
    if isinstance(expr, Apply):
        return expr.args
    if isinstance(expr, Load):
        return tuple(term for term, _ in expr.terms)
    return ()


def walk(root: Expr) -> Iterator[Expr]:
    """Every node once, operands first."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if expanded:
            yield expr
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            stack += [(operand, False) for operand in operands(expr)]


def loads(root: Expr) -> list[Load]:
    """Every load of an expression."""
    return [e for e in walk(root) if isinstance(e, Load)]


def rewrite(root: Expr, leaf: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with nodes replaced: `leaf(node)` gives the replacement, or None to look into it."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, expanded = stack.pop()
        if id(expr) in done:
            continue
        if not expanded:
            replacement = leaf(expr)
            if replacement is not None:
                done[id(expr)] = replacement
                continue
            stack.append((expr, True))
            stack += [(operand, False) for operand in operands(expr)]
            continue
        done[id(expr)] = _with_operands(expr, [done[id(o)] for o in operands(expr)])
    return done[id(root)]


def _with_operands(expr: Expr, new: list[Expr]) -> Expr:
    if all(a is b for a, b in zip(operands(expr), new, strict=True)):
        return expr
    if isinstance(expr, Apply):
        return Apply(expr.name, tuple(new), expr.dtype)
    assert isinstance(expr, Load)
    terms = tuple((term, stride) for term, (_, stride) in zip(new, expr.terms, strict=True))
    return Load(expr.buffer, expr.strides, expr.offset, terms)


# --- checking and printing --------------------------------------------------------------------------------


def check_statement(statement: Assign | Reduce) -> None:
    """Raise ValueError if a statement does not keep to the grammar."""
    rank, expr = len(statement.sizes), statement.expr
    for node in walk(expr):
        if isinstance(node, Load) and len(node.strides) != rank:
            raise ValueError(f"{expr_text(node)} has {len(node.strides)} axes in a space of {rank}")
        if isinstance(node, Index) and not 0 <= node.axis < rank:
            raise ValueError(f"axis {node.axis} in a space of {rank}")
        if isinstance(node, Apply):
            _check_apply(node)
    wanted = statement.target.dtype
    if isinstance(statement, Reduce):
        if statement.combine not in COMBINATIONS:
            raise ValueError(f"there is no combination {statement.combine!r}")
        if any(statement.target.strides[a] != 0 for a in statement.reduced):
            raise ValueError(f"{statement.target} moves along a reduced axis")
        if statement.combine.startswith("arg"):
            wanted = expr.dtype
    if expr.dtype != wanted:
        raise ValueError(f"a value of {expr.dtype} is stored as {statement.target.dtype}")


def _check_apply(node: Apply) -> None:
    if node.name not in OPERATIONS:
        raise ValueError(f"there is no operation {node.name!r}")
    if node.name in ("cast", "where", "bounded"):
        return
    kinds = {a.dtype for a in node.args}
    if len(kinds) != 1:
        raise ValueError(f"{expr_text(node)} mixes {', '.join(sorted(map(str, kinds)))}")
    if kinds & set(HALVES):
        raise ValueError(f"{expr_text(node)} computes in {kinds.pop()}")


def expr_text(expr: Expr) -> str:
    """An expression as text, for people; shared parts are repeated."""
    if isinstance(expr, Constant):
        return repr(expr.value)
    if isinstance(expr, Index):
        return f"i{expr.axis}"
    if isinstance(expr, Load):
        parts = [f"i{a}*{s}" if s != 1 else f"i{a}" for a, s in enumerate(expr.strides) if s]
        parts += [f"({expr_text(t)})*{s}" for t, s in expr.terms]
        parts += [str(expr.offset)] if expr.offset or not parts else []
        return f"{expr.buffer.name}[{' + '.join(parts)}]"
    assert isinstance(expr, Apply)
    name = f"{expr.name}.{str(expr.dtype).removeprefix('torch.')}" if expr.name == "cast" else expr.name
    return f"{name}({', '.join(map(expr_text, expr.args))})"


def statement_text(statement: Statement) -> str:
    """A statement as one line."""
    if isinstance(statement, Invoke):
        return f"call {statement.call}"
    axes = ", ".join(f"i{a}<{n}" for a, n in enumerate(statement.sizes))
    target = expr_text(Load(statement.target.buffer, statement.target.strides, statement.target.offset))
    value = expr_text(statement.expr)
    if isinstance(statement, Reduce):
        value = f"{statement.combine} over {', '.join(f'i{a}' for a in sorted(statement.reduced))} of {value}"
    return f"for {axes}: {target} = {value}" if axes else f"{target} = {value}"
