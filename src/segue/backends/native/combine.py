"""Accumulators: how a reduction goes on from value to value, and what it gives in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from segue.backends.native.text import Lanes
from segue.backends.native.values import REGISTERS, Values

_NONE = (1 << 63) - 1
"""The position of an argmax that has met nothing better than its start yet."""


@dataclass
class Accumulator:
    """A partial result in each lane.

    Attributes:
        state: the operands that make it up; they change from iteration to iteration.
    """

    values: Values
    lanes: Lanes
    combine: str
    dtype: torch.dtype
    state: list[str]

    def carried(self) -> list[tuple[str, str]]:
        """The types and operands of the state."""
        return [(self.lanes.type(REGISTERS[self.dtype]), self.state[0])]

    def add(self, value: str, position: Callable[[], str]) -> None:
        """Take in a value for each lane; `position()` gives their positions among the reduced elements."""
        self.state = [self._combined(self.state[0], value)]

    def merge(self, other: Accumulator) -> None:
        """Take in the state of another one of as many lanes."""
        self.state = [self._combined(self.state[0], other.state[0])]

    def result(self) -> str:
        """The result in each lane."""
        return self.state[0]

    def part(self, lanes: Lanes, first: int) -> Accumulator:
        """An accumulator with some of the lanes."""
        parts = [
            _slice(self.lanes, lanes, kind, value, first)
            for (kind, _), value in zip(self._elements(), self.state, strict=True)
        ]
        return type(self)(self.values, lanes, self.combine, self.dtype, parts)

    def _elements(self) -> list[tuple[str, str]]:
        return [(REGISTERS[self.dtype], self.state[0])]

    def _combined(self, x: str, y: str) -> str:
        lanes, element = self.lanes, REGISTERS[self.dtype]
        is_float = self.dtype.is_floating_point
        if self.combine in ("max", "min"):
            return (self.values.maximum if self.combine == "max" else self.values.minimum)(lanes, self.dtype, y, x)
        opcode = {
            "sum": "fadd" if is_float else "add",
            "prod": "fmul" if is_float else "mul",
            "any": "or",
            "all": "and",
        }
        return lanes.op(opcode[self.combine], element, x, y)


class PositionAccumulator(Accumulator):
    """The best value so far and where it was."""

    def carried(self) -> list[tuple[str, str]]:
        return [(self.lanes.type(k), v) for k, v in self._elements()]

    def add(self, value: str, position: Callable[[], str]) -> None:
        self._keep_better(value, position(), False)

    def merge(self, other: Accumulator) -> None:
        self._keep_better(other.state[0], other.state[1], True)

    def result(self) -> str:
        lanes = self.lanes
        unmet = lanes.compare("icmp eq", "i64", self.state[1], lanes.constant("i64", _NONE))
        return lanes.select(unmet, "i64", lanes.constant("i64", 0), self.state[1])

    def _elements(self) -> list[tuple[str, str]]:
        return [(REGISTERS[self.dtype], self.state[0]), ("i64", self.state[1])]

    def _keep_better(self, value: str, position: str, any_order: bool) -> None:
        """Keep the better of two; of equal ones the first.  Values come in order unless `any_order`."""
        lanes, kind, element = self.lanes, self.dtype, REGISTERS[self.dtype]
        best, place = self.state
        kinds = [kind, kind]
        order = "gt" if self.combine == "argmax" else "lt"
        better = self.values.apply(lanes, order, torch.bool, kinds, [value, best])
        same = self.values.apply(lanes, "eq", torch.bool, kinds, [value, best]) if any_order else ""
        if kind.is_floating_point:
            is_nan, was_nan = (lanes.compare("fcmp uno", element, v, v) for v in (value, best))
            not_nan = lanes.op("xor", "i1", was_nan, lanes.constant("i1", True))
            better = lanes.op("or", "i1", better, lanes.op("and", "i1", is_nan, not_nan))
            if any_order:
                same = lanes.op("or", "i1", same, lanes.op("and", "i1", is_nan, was_nan))
        if any_order:
            earlier = lanes.compare("icmp slt", "i64", position, place)
            better = lanes.op("or", "i1", better, lanes.op("and", "i1", same, earlier))
        self.state = [lanes.select(better, element, value, best), lanes.select(better, "i64", position, place)]


def accumulator(values: Values, lanes: Lanes, combine: str, dtype: torch.dtype) -> Accumulator:
    """A fresh accumulator, which holds what nothing gives.

    Args:
        dtype: of the values that are combined.
    """
    element = REGISTERS[dtype]
    first = lanes.constant(element, identity(combine, dtype))
    if combine.startswith("arg"):
        return PositionAccumulator(values, lanes, combine, dtype, [first, lanes.constant("i64", _NONE)])
    return Accumulator(values, lanes, combine, dtype, [first])


def total(accumulators: list[Accumulator]) -> str:
    """The result over all lanes of all accumulators, as a scalar."""
    width = max(a.lanes.count for a in accumulators)
    whole = [a for a in accumulators if a.lanes.count == width]
    scalars = [s for a in accumulators if a.lanes.count != width for s in _lanes_of(a)]
    while len(whole) > 1:
        whole = [_merged(pair) for pair in (whole[k : k + 2] for k in range(0, len(whole), 2))]
    while whole and whole[0].lanes.count > 1 and whole[0].lanes.count % 2 == 0:
        half = Lanes(whole[0].lanes.function, whole[0].lanes.count // 2)
        whole = [_merged([whole[0].part(half, 0), whole[0].part(half, half.count)])]
    scalars = _lanes_of(whole[0]) + scalars
    for other in scalars[1:]:
        scalars[0].merge(other)
    return scalars[0].result()


def _merged(pair: list[Accumulator]) -> Accumulator:
    for other in pair[1:]:
        pair[0].merge(other)
    return pair[0]


def _lanes_of(whole: Accumulator) -> list[Accumulator]:
    """One scalar accumulator for each lane."""
    if whole.lanes.count == 1:
        return [whole]
    one = Lanes(whole.lanes.function, 1)
    return [whole.part(one, k) for k in range(whole.lanes.count)]


def _slice(source: Lanes, lanes: Lanes, element: str, value: str, first: int) -> str:
    if lanes.count == 1:
        return source.function.let(f"extractelement {source.type(element)} {value}, i64 {first}")
    picks = ", ".join(f"i32 {first + k}" for k in range(lanes.count))
    kind = source.type(element)
    return source.function.let(f"shufflevector {kind} {value}, {kind} poison, <{lanes.count} x i32> <{picks}>")


def identity(combine: str, dtype: torch.dtype) -> float | int | bool:
    if combine in ("sum", "any"):
        return 0
    if combine in ("prod", "all"):
        return 1
    lowest = combine.endswith("max")
    if dtype.is_floating_point:
        return float("-inf") if lowest else float("inf")
    if dtype is torch.bool:
        return not lowest
    return torch.iinfo(dtype).min if lowest else torch.iinfo(dtype).max
