"""Small random tensor programs, as Python text, whose results are exact: a difference from eager is a mistake.

Values are small whole numbers in float32, so that any order of additions gives the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

SHAPES = (
    (),
    (1,),
    (5,),
    (9,),
    (3, 4),
    (4, 3),
    (2, 9),
    (9, 2),
    (1, 17),
    (17, 1),
    (3, 33),
    (2, 3, 4),
    (3, 1, 8),
    (2, 1, 3, 5),
)

UNARY = (
    "{x}.relu()",
    "-{x}",
    "{x}.abs()",
    "{x} + 1",
    "({x} * 3).clamp(-8, 8)",
    "torch.where({x} > 0, {x}, 2)",
    "{x}.bool().float()",
    "{x}.long().float()",
    "{x}.clone()",
    "{x}.contiguous()",
    "{x}.flip(-1)",
    "torch.nn.functional.pad({x}, (1, 2))",
    "torch.nn.functional.pad({x}, (-1, 1))",
    "{x}.roll(1, -1)",
    "{x}.tril()",
    "torch.ones_like({x})",
    "torch.arange({x}.shape[-1]) + {x}",
    "{x}.cumsum(-1).clamp(-8, 8)",
    "{x}.sort(-1).values",
)
VIEWS = (
    "{x}.transpose(0, -1)",
    "{x}[1:]",
    "{x}[..., 1:]",
    "{x}[..., ::2]",
    "{x}[..., :-1]",
    "{x}[0]",
    "{x}[..., -1]",
    "{x}.unsqueeze(0)",
    "{x}.unsqueeze(-1)",
    "{x}.squeeze()",
    "{x}.flatten()",
    "{x}.reshape(-1, 2)",
    "{x}.reshape(3, -1)",
    "{x}.expand(2, *{x}.shape)",
    "{x}.movedim(0, -1)",
    "{x}.unfold(-1, 2, 1) + 0",
    "{x}.detach()",
    "{x}.view({x}.shape)",
)
REDUCTIONS = (
    "{x}.sum().clamp(-8, 8)",
    "{x}.sum(-1).clamp(-8, 8)",
    "{x}.sum(0, keepdim=True).clamp(-8, 8)",
    "{x}.sum((0, -1)).clamp(-8, 8)",
    "{x}.amax(-1, keepdim=True)",
    "{x}.amin(0)",
    "{x}.argmax(-1).float()",
    "{x}.argmin(0).float()",
    "{x}.max(-1).values",
    "{x}.gt(0).any(-1).float()",
    "{x}.gt(0).all(0).float()",
    "{x}.clamp(-1, 1).prod(-1)",
)
BINARY = (
    "({x} + {y}).clamp(-8, 8)",
    "({x} - {y}).clamp(-8, 8)",
    "({x} * {y}).clamp(-8, 8)",
    "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})",
    "torch.where({x} > {y}, {x}, {y} + 1)",
    "({x} < {y}).float()",
    "torch.cat([{x}, {y}], -1)",
    "torch.cat([{x}, {y}], 0)",
    "torch.stack([{x}, {y}], -1)",
    "({x} @ {y}).clamp(-8, 8)",
    "{x}[..., {y}.flatten().long() % {x}.shape[-1]]",
    "{x}.index_select(0, {y}.flatten().long() % {x}.shape[0])",
    "{x}.gather(-1, ({y}.long() % {x}.shape[-1]))",
)
WRITES = (
    "{x}.add_(1)",
    "{x}.clamp_(-2, 3)",
    "{x}.neg_()",
    "{x}.add_({x}).clamp_(-8, 8)",
    "{x}.zero_()",
    "{x}.copy_({y}.clone())",
    "{x}.mul_({y}.clone()).clamp_(-8, 8)",
    "{x}.add_({y}.clone()).clamp_(-8, 8)",
    "{x}[0].copy_({y}.clone())",
    "{x}[..., 0].fill_(3)",
    "{x}[..., 1:].copy_({y}.clone())",
    "{x}[..., 1:].copy_({x}[..., :-1].clone())",
    "{x}[1:].add_({x}[:-1].clone()).clamp_(-8, 8)",
    "{x}.copy_({x}.flip(0))",
    "{x}.copy_({x}.transpose(0, -1).clone())",
    "{x}.masked_fill_({y}.clone() > 1, 5)",
    "{x}.relu_()",
    "torch.add({x}, {y}.clone(), out={x})\n{x}.clamp_(-8, 8)",
)
"""What is read is a copy: ATen leaves open what a write gives whose operand overlaps it elsewhere."""
KINDS = ((UNARY, 3), (VIEWS, 4), (REDUCTIONS, 2), (BINARY, 5), (WRITES, 4))


class Program:
    """A function of tensors as text.

    Attributes:
        inputs: what it is called with.
        lines: its statements, which name the inputs and results v0, v1, ...
        results: the names that it returns.
    """

    def __init__(self, inputs: Sequence[torch.Tensor], lines: Sequence[str], results: Sequence[str]) -> None:
        self.inputs, self.lines, self.results = list(inputs), list(lines), list(results)

    def __str__(self) -> str:
        shapes = [f"# v{i}: {tuple(t.shape)}" for i, t in enumerate(self.inputs)]
        return "\n".join([*shapes, *self.lines, f"return {', '.join(self.results)}"])

    def explain(self, difference: str) -> str:
        """A message about a run of the program."""
        return f"{self}\n{difference}"

    def values(self) -> dict[str, torch.Tensor]:
        """What the names stand for after an eager run."""
        return self._run(self.copies())

    def _run(self, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        names: dict[str, Any] = {f"v{i}": t for i, t in enumerate(tensors)}
        exec("\n".join(self.lines), {"torch": torch}, names)
        return names

    def function(self) -> Callable[..., list[torch.Tensor]]:
        """The program as a function."""

        def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
            names = self._run(tensors)
            return [names[r] for r in self.results]

        return run

    def copies(self) -> list[torch.Tensor]:
        """Fresh inputs."""
        return [t.clone() for t in self.inputs]

    def smaller(self) -> Iterator[Program]:
        """Programs with one line or result less, those that run."""
        for i in reversed(range(len(self.lines))):
            name = self.lines[i].partition(" =")[0]
            rest = [*self.lines[:i], *self.lines[i + 1 :]]
            yield Program(self.inputs, rest, [r for r in self.results if r != name])
        for result in self.results:
            yield Program(self.inputs, self.lines, [r for r in self.results if r != result])


def generate(seed: int, n_lines: int = 8) -> Program:
    """The program of a seed; each of its lines runs."""
    pick = random.Random(seed)
    numbers = torch.Generator().manual_seed(seed)
    inputs = [torch.randint(-3, 4, pick.choice(SHAPES), generator=numbers).float() for _ in range(pick.randrange(1, 4))]
    names = [f"v{i}" for i in range(len(inputs))]
    lines: list[str] = []
    for _ in range(20 * n_lines):
        line = _line(pick, names)
        if len(lines) < n_lines and _is_fine(Program(inputs, [*lines, line], [])):
            lines.append(line)
            names += [line.partition(" =")[0]] * line.startswith(f"v{len(names)} =")
    made = [n for n in names if int(n[1:]) >= len(inputs)]
    results = [n for n in made if pick.random() < 0.5] or made[-1:]
    return Program(inputs, lines, results)


def _line(pick: random.Random, names: list[str]) -> str:
    forms = pick.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
    text = pick.choice(forms).format(x=_recent(pick, names), y=_recent(pick, names))
    return text if forms is WRITES else f"v{len(names)} = {text}"


def _recent(pick: random.Random, names: list[str]) -> str:
    return names[max(pick.randrange(len(names)), pick.randrange(len(names)))]


def _is_fine(program: Program) -> bool:
    """Whether it runs, and makes nothing large or empty."""
    try:
        made = program.values()
    except (RuntimeError, IndexError, ValueError):
        return False
    return all(isinstance(t, torch.Tensor) and 0 < t.numel() < 2000 and t.ndim < 6 for t in made.values())


def minimal(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A failing program from which nothing can be left out."""
    for candidate in program.smaller():
        if _runs(candidate) and fails(candidate):
            return minimal(candidate, fails)
    return program


def _runs(program: Program) -> bool:
    try:
        return bool(program.results) and bool(program.function()(*program.copies()))
    except (RuntimeError, IndexError, ValueError, NameError, KeyError):
        return False
