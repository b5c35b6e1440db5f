"""A GPT and a ResNet-18 by eager PyTorch, torch.compile (Inductor) and Segue, in one run.

    python benchmarks/models_native.py                                    # all: some five minutes
    python benchmarks/models_native.py --models gpt --batches 1 --threads 1
    python benchmarks/models_native.py --no-inductor --rounds 5

Inference: a 4-layer GPT of width 256 over 64 tokens, and ResNet-18 over images of 64 × 64. "first call" goes from
`compile` to the first result, caches empty, after a small function was compiled to warm up; it is taken at the first
number of threads, since later ones may find kernels of the first. Then the variants are timed in turns, and medians
count; "inductor÷" and "eager÷" are their times over Segue's.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
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
    numbers,
    prepare,
    short_ratio,
    short_time,
    warm_up,
)
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))

import gpt as gpt_example
import resnet18 as resnet_example

LENGTH, SIDE, VOCABULARY = 64, 64, 1000
ASKED_COLD, ASKED_STEADY = 12.0, 1.0


def gpt(batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Four layers of width 256 with their tokens."""
    model = gpt_example.GPT(gpt_example.Config(VOCABULARY, LENGTH, layers=4, heads=4, width=256))
    return model, (torch.randint(VOCABULARY, (batch, LENGTH)),)


def resnet18(batch: int) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """ResNet-18 with its images."""
    return resnet_example.resnet18(), (torch.randn(batch, 3, SIDE, SIDE),)


MODELS: dict[str, Callable[[int], tuple[nn.Module, tuple[Tensor, ...]]]] = {"gpt": gpt, "resnet18": resnet18}


@dataclass
class Result:
    """One model at one batch size with one number of threads; all times in seconds."""

    model: str
    batch: int
    threads: int
    times: dict[str, float] = field(default_factory=dict)
    first_calls: dict[str, float] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    def ratio(self, times: dict[str, float], over: str) -> float | None:
        """How many times as fast as another variant Segue is, by one of the tables of times."""
        return times[over] / times["segue"] if over in times and "segue" in times else None


def measure(name: str, batch: int, threads: int, given: argparse.Namespace) -> Result:
    """Compile a model, compare it with eager, and time it."""
    torch.manual_seed(0)
    result = Result(name, batch, threads)
    model, inputs = MODELS[name](batch)
    model.eval()
    expected = model(*inputs)
    variants: Variants = {"eager": (model, inputs)}
    for variant in given.compilers:
        compiled = compile_cold(variant, given.backend, model, inputs, lambda call: difference(expected, call(*inputs)))
        if compiled.problem:
            result.problems[variant] = compiled.problem
            continue
        variants[variant] = (compiled.call, inputs)
        if threads == given.threads[0]:
            result.first_calls[variant] = compiled.seconds
    result.times = medians(variants, given.rounds, given.seconds)
    return result


HEADER = (
    f"{'model':<10}{'batch':>5}{'thr':>4} {'eager':>9}{'inductor':>10}{'segue':>9} {'inductor÷':>10}{'eager÷':>8}"
    f" {'first call':>11}{'segue':>9}{'ratio':>8}"
)


def line(result: Result) -> str:
    """The line of a table."""
    times, first = result.times, result.first_calls
    text = (
        f"{result.model:<10}{result.batch:>5}{result.threads:>4} {short_time(times['eager']):>9}"
        f"{short_time(times.get(INDUCTOR)):>10}{short_time(times.get('segue')):>9} "
        f"{short_ratio(result.ratio(times, INDUCTOR)):>10}{short_ratio(result.ratio(times, 'eager')):>8} "
        f"{short_time(first.get(INDUCTOR)):>11}{short_time(first.get('segue')):>9}"
        f"{short_ratio(result.ratio(first, INDUCTOR)):>8}"
    )
    return "\n".join([text, *(f"    {name}: {problem}" for name, problem in result.problems.items())])


def summary(results: Sequence[Result]) -> list[str]:
    """The least ratios, beside what is asked for."""
    lines = []
    for base in (INDUCTOR, "eager"):
        steady = [ratio for result in results if (ratio := result.ratio(result.times, base))]
        if steady:
            asked = f" (asked for: at least {ASKED_STEADY})" if base == INDUCTOR else ""
            lines.append(
                f"steady state against {base}: geometric mean {short_ratio(geometric_mean(steady))}, "
                f"least {short_ratio(min(steady))}{asked}"
            )
    cold = [ratio for result in results if (ratio := result.ratio(result.first_calls, INDUCTOR))]
    if cold:
        lines.append(f"first call: least {short_ratio(min(cold))} (asked for: at least {ASKED_COLD:.0f})")
    return lines


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="A GPT and a ResNet-18 by eager PyTorch, Inductor and Segue.")
    parser.add_argument("--models", type=names, default=list(MODELS), help=f"of {','.join(MODELS)}")
    parser.add_argument("--batches", type=numbers, default=[1, 16], help="batch sizes, comma separated")
    add_options(parser, seconds=0.05)
    given = parser.parse_args()
    if unknown := [name for name in given.models if name not in MODELS]:
        parser.error(f"--models: {', '.join(unknown)} not among {', '.join(MODELS)}")
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
            for name in given.models:
                for batch in given.batches:
                    results.append(measure(name, batch, threads, given))
                    print(line(results[-1]), flush=True)
    print()
    print("\n".join(summary(results)))
    if given.json:
        given.json.write_text(json.dumps([asdict(result) for result in results], indent=1))
    return 1 if any(result.problems for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
