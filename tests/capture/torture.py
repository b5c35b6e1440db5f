"""Torture of the whole compiler: a graph break forced at instruction boundaries of every corpus function.

    PYTHONPATH=src python -m tests.capture.torture            # all at once, and one at a time
    PYTHONPATH=src python -m tests.capture.torture loops try  # only functions whose name has one of these words

Each call is compared with the plain function: result, events, exception with its context and traceback, final state of
the arguments.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import segue
from segue import config
from segue.errors import RecompileLimitWarning
from segue.frames.code import Code
from tests.corpus import CORPUS, Case, difference, observe


@dataclass
class Outcome:
    """What a torture of one function gave.

    Attributes:
        boundaries: how many there were before which a break was forced on its own.
        calls: how many were compared.
        differences: what differed, in words.
    """

    boundaries: int = 0
    calls: int = 0
    differences: list[str] = field(default_factory=list)

    def __iadd__(self, other: Outcome) -> Outcome:
        self.boundaries += other.boundaries
        self.calls += other.calls
        self.differences += other.differences
        return self


def boundaries(case: Case) -> range:
    """The instructions of a function before which a break can be forced."""
    code = Code.of(case.function.__code__)
    return range(code.start, len(code.instructions))


def everywhere(case: Case) -> Outcome:
    """Break before every instruction of the function and of everything that is compiled below it."""
    return _run(case, lambda code, index: True, "everywhere", repeat=2)


def one_at_a_time(case: Case, chosen: Iterable[int]) -> Outcome:
    """Break before one instruction, for each of the chosen ones."""
    total = Outcome()
    original = case.function.__code__
    for place in chosen:

        def here(code: Code, index: int, place: int = place) -> bool:
            return index == place and code.original is original

        total += _run(case, here, f"at {place}", repeat=1)
        total.boundaries += 1
    return total


def inside_calls(case: Case, step: int, first: int = 0) -> Outcome:
    """Break before one instruction of what the function calls, for every `step`th of those that capture comes to."""
    seen: dict[tuple[int, int], Code] = {}
    original = case.function.__code__

    def note(code: Code, index: int) -> bool:
        if code.original is not original:
            seen[id(code.original), index] = code
        return False

    total = _run(case, note, "inside calls", repeat=1)
    for (_, place), inner in list(seen.items())[first::step]:

        def here(code: Code, index: int, place: int = place, inner: Code = inner) -> bool:
            return index == place and code is inner

        total += _run(case, here, f"at {place} of {inner.name}", repeat=2)
        total.boundaries += 1
    return total


def _run(case: Case, break_at: Callable[[Code, int], bool], where: str, repeat: int) -> Outcome:
    outcome = Outcome()
    with config.patch(break_at=break_at, recompile_limit=64), warnings.catch_warnings():
        warnings.simplefilter("error", RecompileLimitWarning)
        compiled = segue.compile(case.function, backend="eager")
        for _ in range(repeat):
            for number in range(len(case.make_args())):
                expected = observe(case.function, case.make_args()[number])
                got = observe(compiled, case.make_args()[number])
                outcome.calls += 1
                found = difference(expected, got)
                if found is not None:
                    outcome.differences.append(f"{case.function.__name__} {where}, call {number}: {found}")
    return outcome


def _row(name: str, outcome: Outcome) -> str:
    return f"{name:<36}{outcome.boundaries:>11}{outcome.calls:>7}{len(outcome.differences):>13}"


def main(words: list[str]) -> int:
    """Run both tortures over the corpus and print a table; the exit status is 1 if anything differs."""
    total = Outcome()
    print(f"{'function':<36}{'boundaries':>11}{'calls':>7}{'differences':>13}")
    for case in CORPUS:
        name = case.function.__name__
        if words and not any(word in name for word in words):
            continue
        outcome = everywhere(case)
        outcome += one_at_a_time(case, boundaries(case))
        outcome += inside_calls(case, step=1)
        print(_row(name, outcome), flush=True)
        for found in outcome.differences[:3]:
            print("   ", found[:500])
        total += outcome
    print(_row("all", total))
    return 1 if total.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
