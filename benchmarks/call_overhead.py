"""What a call of compiled code costs beyond its graph, beside torch.compile's `eager` backend.

    python benchmarks/call_overhead.py

Variants are timed in turns, in short batches of CPU time, and the fastest batch of each counts: other work on the
machine slows a batch down and never speeds one up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import segue

ROUNDS, BATCH = 150, 200


def add_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def without_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y + 2


def with_break(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    torch._dynamo.graph_break()
    return y + 2


def fastest(variants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds per call of each variant, timed in turns."""
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(ROUNDS):
        for name, call in variants.items():
            begin = time.thread_time_ns()
            for _ in range(BATCH):
                call()
            best[name] = min(best[name], (time.thread_time_ns() - begin) / BATCH / 1000)
    return best


def main() -> None:
    """Print the table of times and ratios."""
    x = torch.ones(4)
    graphs: list[Callable[..., Any]] = []

    def keeping(gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        graphs.append(gm.forward)
        return gm.forward

    calls: dict[str, Callable[[], Any]] = {"eager x + 1": lambda: add_one(x)}
    kept = segue.compile(add_one, backend=keeping)
    kept(x)
    calls["graph forward"] = lambda: graphs[0](x)
    for compiler, name in ((segue.compile, "segue"), (torch.compile, "torch.compile")):
        for function in (add_one, without_break, with_break):
            compiled = compiler(function, backend="eager")
            for _ in range(5):
                compiled(x)
            calls[f"{name} {function.__name__}"] = lambda compiled=compiled: compiled(x)
    times = fastest(calls)
    for name, microseconds in times.items():
        print(f"{name:<32}{microseconds:8.2f} µs")
    print()
    report("call of a fully captured x + 1 beyond its graph", times, "add_one", times["graph forward"], 4.0)
    segue_break = times["segue with_break"] - times["segue without_break"]
    torch_break = times["torch.compile with_break"] - times["torch.compile without_break"]
    print(
        f"one break: {segue_break:.2f} µs (asked for: at most 3.0), "
        f"torch.compile {torch_break:.2f} µs, {torch_break / segue_break:.1f} times as much"
    )


def report(what: str, times: dict[str, float], function: str, base: float, asked: float) -> None:
    """One line: the difference to a base, asked for and beside torch.compile."""
    ours, theirs = (times[f"{name} {function}"] - base for name in ("segue", "torch.compile"))
    print(
        f"{what}: {ours:.2f} µs (asked for: at most {asked}), "
        f"torch.compile {theirs:.2f} µs, {theirs / ours:.1f} times as much"
    )


if __name__ == "__main__":
    main()
