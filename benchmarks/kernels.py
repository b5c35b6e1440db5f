"""Kernels by eager PyTorch, torch.compile (Inductor) and Segue, in one run.

    python benchmarks/kernels.py                                   # all: ten minutes, most of it Inductor's
    python benchmarks/kernels.py --quick --no-inductor             # against eager alone, a few rounds
    python benchmarks/kernels.py --cases softmax,adam --sizes small --threads 1

Every case of `kernel_cases.py` is compiled anew for each size and number of threads; what the compiled functions
return, and what they write, is compared with eager's. The variants are timed in turns, and medians count; "inductor÷"
and "eager÷" are their times over Segue's. "first call" goes from `compile` to the first result, caches empty, after
another kernel was compiled to warm up; it is taken at the first number of threads, since later ones may find kernels
of the first. "copy" compares the bytes a pointwise kernel must read and write, per second, with those of a `copy_`
that moves as many. With --keep-memory the C library keeps what is freed, so that eager and Inductor do not pay for
mapping the pages of large outputs at every call, as they do in an ordinary process.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from kernel_cases import CASES, SIZES, Case, bytes_of
from timing import (
    INDUCTOR,
    Variants,
    add_options,
    compile_cold,
    conditions,
    difference,
    empty_caches,
    geometric_mean,
    medians,
    names,
    prepare,
    short_ratio,
    short_time,
    warm_up,
)

COPY = "copy"
ASKED = {"small": 4.0, "medium": 1.3, "large": 1.15}
"""Geometric mean of the speed against Inductor, by size."""
ASKED_OF_EACH, ASKED_COLD, ASKED_BANDWIDTH = 0.9, 20.0, 0.8


@dataclass
class Result:
    """One case at one size with one number of threads; all times in seconds."""

    case: str
    size: str
    threads: int
    times: dict[str, float] = field(default_factory=dict)
    first_calls: dict[str, float] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    bandwidth: dict[str, float] = field(default_factory=dict)
    """Bytes per second as a share of the copy's."""

    def speed(self, over: str) -> float | None:
        """How many times as fast as another variant Segue is."""
        if over not in self.times or "segue" not in self.times:
            return None
        return self.times[over] / self.times["segue"]

    def cold(self) -> float | None:
        """How many times as fast as Inductor Segue gives its first result."""
        if INDUCTOR not in self.first_calls or "segue" not in self.first_calls:
            return None
        return self.first_calls[INDUCTOR] / self.first_calls["segue"]


def measure(case: Case, size: str, threads: int, given: argparse.Namespace) -> Result:
    """Compile a case, compare it with eager, and time it."""
    result = Result(case.name, size, threads)
    inputs = case.inputs(size)
    expected = outcome(case.function, inputs, case)
    variants: Variants = {"eager": (case.function, own(inputs, case))}
    for name in given.compilers:
        arguments = own(inputs, case)
        compiled = compile_cold(
            name,
            given.backend,
            case.function,
            arguments,
            lambda call: difference(expected, outcome(call, inputs, case)),
        )
        if compiled.problem:
            result.problems[name] = compiled.problem
            continue
        variants[name] = (compiled.call, arguments)
        if threads == given.threads[0]:
            result.first_calls[name] = compiled.seconds
    if case.bandwidth and size == "large":
        variants[COPY] = copy_of(bytes_of(inputs) + bytes_of(expected))
    result.times = medians(variants, given.rounds, given.seconds)
    copied = result.times.pop(COPY, None)
    if copied is not None:
        result.bandwidth = {name: copied / seconds for name, seconds in result.times.items()}
    return result


def own(inputs: tuple[Any, ...], case: Case) -> tuple[Any, ...]:
    """The inputs for one variant: shared ones, unless they are written."""
    return copy.deepcopy(inputs) if case.mutates else inputs


def outcome(function: Callable[..., Any], inputs: tuple[Any, ...], case: Case) -> Any:
    """What a function returns and, if it writes into its inputs, leaves there."""
    arguments = own(inputs, case)
    returned = function(*arguments)
    return (returned, arguments) if case.mutates else returned


def copy_of(moved: int) -> tuple[Callable[..., Any], tuple[torch.Tensor, torch.Tensor]]:
    """A copy that reads and writes so many bytes together."""
    source = torch.rand(moved // 8)
    return torch.Tensor.copy_, (torch.empty_like(source), source)


HEADER = (
    f"{'case':<18}{'size':<8}{'thr':>3} {'eager':>9}{'inductor':>10}{'segue':>9} {'inductor÷':>10}{'eager÷':>8}"
    f" {'first call':>11}{'segue':>9}{'ratio':>8} {'copy':>6}"
)


def line(result: Result) -> str:
    """The line of a table."""
    inductor, segue = (result.first_calls.get(name) for name in (INDUCTOR, "segue"))
    share = result.bandwidth.get("segue")
    text = (
        f"{result.case:<18}{result.size:<8}{result.threads:>3} {short_time(result.times['eager']):>9}"
        f"{short_time(result.times.get(INDUCTOR)):>10}{short_time(result.times.get('segue')):>9} "
        f"{short_ratio(result.speed(INDUCTOR)):>10}{short_ratio(result.speed('eager')):>8} "
        f"{short_time(inductor):>11}{short_time(segue):>9}{short_ratio(result.cold()):>8} "
        f"{'' if share is None else f'{share:.0%}':>6}"
    )
    return "\n".join([text.rstrip(), *(f"    {name}: {problem}" for name, problem in result.problems.items())])


def summary(results: Sequence[Result], base: str) -> list[str]:
    """The geometric means and the worst cases, beside what is asked for."""
    lines = [f"speed of segue against {base}, geometric means"]
    for size in SIZES:
        for threads in sorted({result.threads for result in results}):
            group = [result for result in results if (result.size, result.threads) == (size, threads)]
            mean = geometric_mean(speed for result in group if (speed := result.speed(base)))
            asked = f"   asked for: {ASKED[size]}" if base == INDUCTOR else ""
            if group:
                lines.append(f"  {size:<8}{threads} thr {short_ratio(mean):>8}{asked}")
    compared = [result for result in results if result.speed(base)]
    if compared:
        lines.append(f"worst cases (asked for: at least {ASKED_OF_EACH} each)")
        for result in sorted(compared, key=lambda result: result.speed(base) or 0)[:5]:
            where = f"{result.case} {result.size} {result.threads} thr"
            lines.append(f"  {where:<34}{short_ratio(result.speed(base)):>8}")
        below = sum((result.speed(base) or 0) < ASKED_OF_EACH for result in compared)
        lines.append(f"  below {ASKED_OF_EACH}: {below} of {len(compared)}")
    colds = [cold for result in results if (cold := result.cold())]
    if colds:
        lines.append(
            f"first call, geometric mean {short_ratio(geometric_mean(colds))}, worst {short_ratio(min(colds))} "
            f"(asked for: {ASKED_COLD})"
        )
    return lines + bandwidth_summary(results)


def bandwidth_summary(results: Sequence[Result]) -> list[str]:
    """The share of the copy's bandwidth by number of threads."""
    lines = []
    for threads in sorted({result.threads for result in results}):
        shares = {r.case: r.bandwidth["segue"] for r in results if r.threads == threads and "segue" in r.bandwidth}
        if shares:
            worst = min(shares, key=lambda case: shares[case])
            lines.append(
                f"share of the copy's bandwidth, {threads} thr: {geometric_mean(shares.values()):.0%}, "
                f"least {shares[worst]:.0%} ({worst}) (asked for: {ASKED_BANDWIDTH:.0%})"
            )
    return lines


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Kernels by eager PyTorch, Inductor and Segue, in one run.")
    parser.add_argument("--cases", type=names, default=list(CASES), help="names, comma separated; all by default")
    parser.add_argument("--sizes", type=names, default=list(SIZES), help="of small,medium,large")
    add_options(parser, seconds=0.004)
    parser.add_argument("--quick", action="store_true", help="5 rounds of a millisecond")
    given = parser.parse_args()
    for option, known in (("cases", CASES), ("sizes", SIZES)):
        if unknown := [name for name in getattr(given, option) if name not in known]:
            parser.error(f"--{option}: {', '.join(unknown)} not among {', '.join(known)}")
    if given.quick:
        given.rounds, given.seconds = 5, 0.001
    return given


@torch.no_grad()
def main() -> int:
    """Print the table; 1 if a result was wrong or missing."""
    given = parse()
    given.compilers = prepare(given)
    results: list[Result] = []
    with empty_caches():
        print(conditions(given.backend))
        print(HEADER)
        for threads in given.threads:
            torch.set_num_threads(threads)
            warm_up(given.compilers, given.backend)
            for size in given.sizes:
                for name in given.cases:
                    results.append(measure(CASES[name], size, threads, given))
                    print(line(results[-1]), flush=True)
    print()
    print("\n".join(summary(results, "eager" if given.no_inductor else INDUCTOR)))
    if given.json:
        given.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    problems = sum(bool(result.problems) for result in results)
    if problems:
        print(f"{problems} of {len(results)} measurements have a wrong or missing result")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
