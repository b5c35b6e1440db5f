"""Torture of a construct: a break forced at its instructions, and a capture that must change nothing."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch

import segue
from segue import config
from segue.frames.code import Code
from tests.capture.test_purity import capture_call, state_of_the_process
from tests.support.construct import Construct
from tests.support.outcome import Values, calls, compared, difference

N_SINGLE = 6
"""At so many instructions of a construct a break is forced on its own."""


def tortured(construct: Construct) -> tuple[int, list[str]]:
    """Run a construct with breaks and look for differences from plain Python.

    Returns:
        how often it was run, and what differed.
    """
    calls(construct, construct.function, 1)  # what PyTorch warns about once, it has warned about now
    expected = calls(construct, construct.function, 2)
    n_calls, found = 0, list(impurities(construct))
    for where, break_at in breaks(construct):
        with config.patch(break_at=break_at, recompile_limit=64):
            compiled = segue.compile(construct.function, backend="eager")
            got = calls(construct, compiled, 2)
        n_calls += 2
        differs = compared(expected, got)
        if differs is not None:
            found.append(f"{where}: {differs}")
        found += [f"{where}: {e.reason}" for e in compiled.compiler.log.of_kind("limit")]
        found += [f"{where}: {e}" for e in compiled.compiler.log.of_kind("failure") if e.id != "graph-raised"]
    return n_calls, found


def breaks(construct: Construct) -> Iterator[tuple[str, Callable[[Code, int], bool]]]:
    """Where breaks are forced: before every instruction, and before a few, one at a time."""
    yield "a break at every instruction", lambda code, index: True
    original = construct.function.__code__
    code = Code.of(original)
    step = max(1, (len(code.instructions) - code.start) // N_SINGLE)
    for place in range(code.start, len(code.instructions), step):
        yield f"a break at {place}", lambda code, index, place=place: index == place and code.original is original


def impurities(construct: Construct) -> Iterator[str]:
    """What a capture alone changes."""
    torch.manual_seed(100)
    args = (*construct.inputs(), *construct.state())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        capture_call(construct.function, args)  # may import modules and fill caches that belong to nobody
        program, process = Values()(args), state_of_the_process()
        capture_call(construct.function, args)
    found = difference(program, Values()(args), "capture changes the arguments: ")
    if found is not None:
        yield found
    after = state_of_the_process()
    for name, value in process.items():
        if after[name] != value:
            yield f"capture changes the process: {name}"
