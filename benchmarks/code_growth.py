"""How compile time and emitted code grow with the number of operations.

    python benchmarks/code_growth.py
    python benchmarks/code_growth.py --counts 10,100,1000,2000 --repeats 5

Chains of pointwise operations, alone and with a layer_norm at every tenth place, written as straight-line functions.
"compile" goes from `compile` to the first result with an empty cache, the shortest of the repeats, each a program of
its own; "capture" is the same with the `eager` backend, which runs the captured graph as it is. "code" is what the
backend left in its cache on disk. Growth is linear if the numbers per operation stay; the last lines compare them for
the longest chains.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from timing import (
    compiler,
    conditions,
    difference,
    empty_segue_cache,
    first_call,
    numbers,
    short_ratio,
    short_time,
    warm_up,
)
from torch import Tensor

POINTWISE = ("x = x + y", "x = x * {scale}", "x = torch.tanh(x)", "x = torch.where(x > y, x, y)", "x = x - 0.25")
NORM, NORM_EVERY = "x = F.layer_norm(x, (64,))", 10
ASKED_GROWTH = 1.5
"""Time and code per operation of the longest chain over those of the next shorter one."""


def pointwise(count: int) -> list[str]:
    """The lines of a chain of pointwise operations."""
    return [POINTWISE[place % len(POINTWISE)] for place in range(count)]


def with_norms(count: int) -> list[str]:
    """The lines of a chain that has a layer_norm at every tenth place."""
    return [NORM if place % NORM_EVERY == NORM_EVERY - 1 else line for place, line in enumerate(pointwise(count))]


CHAINS = {"pointwise": pointwise, "with layer_norm": with_norms}


def function_of(lines: list[str], repeat: int) -> Callable[[Tensor, Tensor], Tensor]:
    """A function of x and y with these lines for its body, and a constant that makes every repeat a new program."""
    names: dict[str, Any] = {"torch": torch, "F": F}
    text = "def chain(x, y):\n    " + "\n    ".join([*lines, "return x"])
    exec(text.format(scale=0.5 + repeat / 64), names)
    return names["chain"]


@dataclass(frozen=True)
class Row:
    """What one chain took."""

    chain: str
    operations: int
    capture: float
    compile: float
    code: int
    problem: str | None

    @property
    def numbers(self) -> dict[str, float]:
        """What should grow with the number of operations, per operation."""
        measured = {"compile time": self.compile, "code": self.code or math.nan}
        return {name: value / self.operations for name, value in measured.items()}


def cold(function: Callable[..., Tensor], backend: str, inputs: tuple[Tensor, ...]) -> tuple[float, int, str | None]:
    """Seconds to the first result, bytes left in the cache, and what is wrong with the result."""
    compile_it = compiler("segue", backend)
    with empty_segue_cache() as directory:
        compiled, seconds = first_call(lambda: compile_it(function), inputs)
        code = sum(path.stat().st_size for path in Path(directory).rglob("*") if path.is_file())
    return seconds, code, difference(function(*inputs), compiled(*inputs))


def measure(chain: str, operations: int, backend: str, repeats: int) -> Row:
    """Compile one chain a few times."""
    inputs = torch.randn(32, 64), torch.randn(32, 64)
    lines = CHAINS[chain](operations)
    functions = [function_of(lines, repeat) for repeat in range(repeats)]
    captures = [cold(function, "eager", inputs) for function in functions]
    compiles = [cold(function, backend, inputs) for function in functions]
    problems = [problem for _, _, problem in compiles if problem]
    return Row(
        chain,
        operations,
        min(seconds for seconds, _, _ in captures),
        min(seconds for seconds, _, _ in compiles),
        max(code for _, code, _ in compiles),
        problems[0] if problems else None,
    )


def line(row: Row) -> str:
    """The line of a table."""
    code, per_operation = (f"{row.code:,}", f"{row.code / row.operations:,.0f}") if row.code else ("-", "-")
    text = (
        f"{row.chain:<16}{row.operations:>7}{short_time(row.capture):>10}{short_time(row.compile):>10}"
        f"{short_time(row.compile / row.operations):>10}{code:>14}{per_operation:>9}"
    )
    return f"{text}\n    {row.problem}" if row.problem else text


def growth(rows: list[Row]) -> list[str]:
    """How the numbers per operation of the longest chains compare with those of the next shorter ones."""
    lines = []
    for chain in CHAINS:
        *_, shorter, longer = sorted((row for row in rows if row.chain == chain), key=lambda row: row.operations)
        for name, value in longer.numbers.items():
            lines.append(
                f"{chain}: {name} per operation, {longer.operations} over {shorter.operations}: "
                f"{short_ratio(value / shorter.numbers[name])} (linear: 1, asked for: at most {ASKED_GROWTH})"
            )
    return lines


@torch.no_grad()
def main() -> int:
    """Print the table; 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description="Compile time and emitted code by number of operations.")
    parser.add_argument("--counts", type=numbers, default=[10, 100, 1000], help="numbers of operations; two or more")
    parser.add_argument("--repeats", type=int, default=3, help="compilations of each chain")
    parser.add_argument("--backend", default="native", help="Segue's backend")
    given = parser.parse_args()
    if len(set(given.counts)) < 2:
        parser.error("--counts takes two numbers or more")
    warm_up(("segue",), given.backend)
    print(conditions(given.backend))
    print(f"{'chain':<16}{'ops':>7}{'capture':>10}{'compile':>10}{'per op':>10}{'code, bytes':>14}{'per op':>9}")
    rows = []
    for chain in CHAINS:
        for operations in given.counts:
            rows.append(measure(chain, operations, given.backend, given.repeats))
            print(line(rows[-1]), flush=True)
    print()
    print("\n".join(growth(rows)))
    return 1 if any(row.problem for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
