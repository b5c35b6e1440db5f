"""What the benchmarks share: timing in turns, caches that start empty, comparing results, numbers for tables."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import segue

Call = Callable[..., Any]
Variants = dict[str, tuple[Call, tuple[Any, ...]]]
"""What is timed: a callable and its arguments, by name."""

INDUCTOR = "inductor"
WARM_UP_CALLS = 3
GLIBC_KEEPS = {-1: -1, -4: 0}
"""Parameters of glibc's `mallopt`: M_TRIM_THRESHOLD, never; M_MMAP_MAX, no block is mapped by itself."""


def clock(call: Call, arguments: Sequence[Any], calls: int) -> float:
    """Seconds per call of a batch of calls; results are dropped as they come."""
    begin = time.perf_counter()
    for _ in range(calls):
        call(*arguments)
    return (time.perf_counter() - begin) / calls


def medians(variants: Variants, rounds: int, batch_seconds: float) -> dict[str, float]:
    """Median seconds per call of each variant.

    The variants take turns (A B C A B C …), one batch each, so that a slow moment of the machine meets them all.

    Args:
        variants: what to time.
        rounds: how many turns each takes.
        batch_seconds: about how long a batch takes; at least one call is made.
    """
    batches = {name: _batch(call, arguments, batch_seconds) for name, (call, arguments) in variants.items()}
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name, (call, arguments) in variants.items():
            times[name].append(clock(call, arguments, batches[name]))
    return {name: statistics.median(found) for name, found in times.items()}


def _batch(call: Call, arguments: Sequence[Any], seconds: float) -> int:
    once = min(clock(call, arguments, 1) for _ in range(WARM_UP_CALLS))
    return max(1, min(100_000, int(seconds / max(once, 1e-7))))


def first_call(compile_it: Callable[[], Call], arguments: Sequence[Any]) -> tuple[Call, float]:
    """A freshly compiled callable, and the seconds from `compile` to the first result."""
    begin = time.perf_counter()
    compiled = compile_it()
    compiled(*arguments)
    return compiled, time.perf_counter() - begin


@dataclass(frozen=True)
class Compiled:
    """A function as one compiler left it."""

    call: Call
    seconds: float
    """From `compile` to the first result."""
    problem: str | None
    """What is wrong with it; None if nothing is."""


def compile_cold(
    name: str, backend: str, function: Call, inputs: Sequence[Any], check: Callable[[Call], str | None]
) -> Compiled:
    """Compile a function with an empty cache and check what it gives.

    Args:
        name: the compiler, see `compiler`.
        backend: Segue's backend.
        function: what to compile.
        inputs: what to call it with; a function that writes into its inputs does so here.
        check: tells what is wrong with a compiled function, None if nothing is.
    """
    compile_it = compiler(name, backend)
    try:
        with empty_segue_cache():
            compiled, seconds = first_call(lambda: compile_it(function), inputs)
        return Compiled(compiled, seconds, check(compiled))
    except Exception as error:  # a table goes on without this one, and its run fails in the end
        return Compiled(function, math.nan, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def warm_up(compilers: Iterable[str], backend: str) -> None:
    """Compile something that is in no table: what a compiler loads at its first use is not counted.

    Raises:
        RuntimeError: a compiler does not work at all.
    """
    for name in compilers:
        compiled = compile_cold(name, backend, lambda x: (x.sin() + 2).sum(0), (torch.randn(48, 48),), lambda _: None)
        if compiled.problem:
            raise RuntimeError(f"{name} does not work: {compiled.problem}")


def compiler(name: str, backend: str) -> Callable[[Call], Call]:
    """How to compile a function: `inductor` is torch.compile's, `segue` is ours with the given backend.

    What either compiled before is forgotten, so that nothing becomes dynamic and no limit is met. Segue must make one
    graph, which costs a call nothing. torch.compile has its defaults: `fullgraph` and `dynamic` make its calls slower.
    """

    def with_inductor(function: Call) -> Call:
        return torch.compile(function)

    def with_segue(function: Call) -> Call:
        return segue.compile(function, fullgraph=True, backend=backend)

    if name == INDUCTOR:
        torch._dynamo.reset()
        return with_inductor
    segue.reset()
    return with_segue


@contextlib.contextmanager
def empty_caches() -> Iterator[None]:
    """Both compilers' caches on disk in a new directory for as long as the context lasts.

    Inductor's caches are switched off besides: its kernels are compiled, whatever was compiled before.
    """
    with tempfile.TemporaryDirectory(prefix="inductor-", ignore_cleanup_errors=True) as directory:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = directory
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        with empty_segue_cache():
            yield


@contextlib.contextmanager
def empty_segue_cache() -> Iterator[Path]:
    """Segue's cache on disk in a new directory for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="segue-") as directory, segue.config.patch(cache_dir=directory):
        yield Path(directory)


def keep_freed_memory() -> None:
    """Have the C library keep what is freed for the next allocation, instead of giving it back to the system.

    Whether it gives large blocks back depends on what was allocated before. A variant then either finds its output's
    pages in place or pays for mapping each of them anew at every call: several times its own work, and by chance.
    """
    adjust = getattr(ctypes.CDLL(None), "mallopt", None)
    if adjust is None:
        return
    for parameter, value in GLIBC_KEEPS.items():
        adjust(parameter, value)


def conditions(backend: str) -> str:
    """What a table was taken with; other work on the machine shows in its load."""
    return (
        f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {os.cpu_count()} processors, "
        f"load {os.getloadavg()[0]:.1f}, backend {backend}"
    )


def difference(expected: Any, found: Any, rtol: float = 1e-3, atol: float = 1e-4) -> str | None:
    """How two results differ, None if they agree; tensors may be nested in tuples, lists and dicts."""
    try:
        torch.testing.assert_close(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return None


def geometric_mean(ratios: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing."""
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(statistics.fmean(logs)) if logs else math.nan


def short_time(seconds: float | None) -> str:
    """Three digits and a unit; a dash for what was not measured."""
    if seconds is None:
        return "-"
    for unit, scale in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def short_ratio(ratio: float | None) -> str:
    """A ratio with a times sign; a dash for what was not measured."""
    if ratio is None or math.isnan(ratio):
        return "-"
    return f"{ratio:.2f}×" if ratio < 100 else f"{ratio:.0f}×"


def names(text: str) -> list[str]:
    """The items of a comma-separated option."""
    return [item.strip() for item in text.split(",") if item.strip()]


def numbers(text: str) -> list[int]:
    """The whole numbers of a comma-separated option."""
    return [int(item) for item in names(text)]


def add_options(parser: argparse.ArgumentParser, seconds: float) -> None:
    """The options of a benchmark that times eager, Inductor and Segue in turns, of `seconds` by default."""
    parser.add_argument("--threads", type=numbers, default=[1, 2], help="numbers of threads, comma separated")
    parser.add_argument("--rounds", type=int, default=15, help="turns that each variant takes")
    parser.add_argument("--seconds", type=float, default=seconds, help="length of one turn")
    parser.add_argument("--backend", default="native", help="Segue's backend")
    parser.add_argument("--no-inductor", action="store_true", help="compare with eager alone")
    parser.add_argument("--keep-memory", action="store_true", help="have the C library keep freed memory")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")


def prepare(given: argparse.Namespace) -> tuple[str, ...]:
    """Do what the options ask of the process; returns the compilers to compare with eager."""
    if given.keep_memory:
        keep_freed_memory()
    return ("segue",) if given.no_inductor else (INDUCTOR, "segue")
