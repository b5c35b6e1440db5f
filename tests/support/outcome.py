"""Runs constructs plainly and compiled, in a process apart, and says how the compiled ones fared."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import gc
import io
import itertools
import logging
import multiprocessing
import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy
from torch.utils.hooks import RemovableHandle

import segue
from segue.report.events import Event
from tests.graphs import Graphs
from tests.observation import Snapshot, difference, frames_of
from tests.support.construct import Construct

N_CALLS = 3
PATIENCE = 30.0
"""Seconds that one construct may take."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Outcome:
    """How a construct fared.

    Attributes:
        status: `captured`: one graph, all equal to plain Python; `breaks`, `recompiles`: equal, but several graphs;
            `wrong`: it differs from plain Python; `error`: the compiler failed; `crash`, `hang`.
        note: the first reason.
        place: where that was.
        reasons: the identifiers of the breaks.
    """

    status: str
    note: str = ""
    place: str = ""
    reasons: tuple[str, ...] = ()


class Values(Snapshot):
    """Snapshots that look into what these constructs give besides: arrays, deques, slots."""

    def content(self, value: Any) -> Any:
        if is_lazy(value):
            return (type(value).__name__, value.dtype)
        if isinstance(value, np.ndarray):
            return ("ndarray", str(value.dtype), value.shape, value.tolist())
        if isinstance(value, np.generic):
            return ("number", str(value.dtype), value.item())
        if isinstance(value, collections.deque):
            return ("deque", value.maxlen, self.all(value))
        if isinstance(value, collections.abc.KeysView | collections.abc.ValuesView | collections.abc.ItemsView):
            return (type(value).__name__, self.all(value))
        slots = [s for cls in type(value).__mro__ for s in vars(cls).get("__slots__", ()) if hasattr(value, s)]
        if slots and not hasattr(value, "__dict__"):
            return (type(value).__qualname__, self.all((s, getattr(value, s)) for s in slots))
        return super().content(value)


class _Log(logging.Handler):
    """Writes what programs log to where they print."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"{record.levelname}:{record.name}:{self.format(record)}")


def observed(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Call a function and say all that could be seen of it."""
    result, raised, printed = None, None, io.StringIO()
    logger = logging.getLogger("constructs")
    logger.handlers, logger.propagate = [_Log()], False
    logger.setLevel(logging.INFO)
    with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        with contextlib.redirect_stderr(printed):
            try:
                result = function(*args)
            except BaseException as error:
                raised = error
    snapshot = Values()
    return (
        ("exception", snapshot(raised), traces(raised)),
        ("result", snapshot(result)),
        ("arguments", snapshot(args)),
        ("printed", printed.getvalue()),
        ("warnings", tuple((w.category.__name__, str(w.message), Path(w.filename).name, w.lineno) for w in warned)),
        ("random", torch.random.get_rng_state().sum().item(), random.getstate()),
        ("state", torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.get_default_dtype()),
        ("handled", sys.exception()),
    )


def traces(error: BaseException | None) -> tuple[Any, ...]:
    """The frames of constructs in the tracebacks of an exception and of those behind it: (function, line)."""
    if error is None:
        return ()
    mine = frames_of(error, lambda path: path.parent == _HERE)
    return (tuple(f for f in mine if f[0] != "observed"), traces(error.__cause__ or error.__context__))


def calls(construct: Construct, function: Callable[..., Any], n_calls: int = N_CALLS) -> list[Any]:
    """What can be seen of a few calls in a row, with new inputs each and the same state."""
    RemovableHandle.next_id = 1000
    torch.manual_seed(100)
    state = construct.state()
    seen = []
    for number in range(n_calls):
        torch.manual_seed(number)
        random.seed(number)
        np.random.seed(number)
        inputs = construct.inputs()
        seen.append(observed(function, (*inputs, *state)))
    return seen


def compared(expected: list[Any], got: list[Any]) -> str | None:
    """The first difference between two rows of calls."""
    for number, (a, b) in enumerate(zip(expected, got, strict=True)):
        found = difference(a, b, f"call {number}: ")
        if found is not None:
            return found
    return None


def measure(construct: Construct) -> Outcome:
    """Run a construct in this process and say how it fared."""
    torch.set_num_threads(1)
    calls(construct, construct.function, 1)  # what PyTorch warns about once, it has warned about now
    expected = calls(construct, construct.function)
    graphs = Graphs()
    compiled = segue.compile(construct.function, backend=graphs)
    found = compared(expected, calls(construct, compiled))
    log = compiled.compiler.log
    failures = log.of_kind("failure")
    breaks = list({(e.place, e.id): e for e in reversed(log.of_kind("break", "skip"))}.values())[::-1]
    if failures:
        return told("error", failures)
    if found is not None:
        return dataclasses.replace(told("wrong", breaks), note=found)
    if breaks:
        return told("breaks", breaks)
    if graphs.count == 0:
        return Outcome("breaks", "nothing is captured", reasons=("nothing",))
    if graphs.count > 1:
        return told("recompiles", log.of_kind("recompile"))
    return Outcome("captured")


def told(status: str, events: list[Event]) -> Outcome:
    """An outcome with the reason and the place of the first of some events."""
    if not events:
        return Outcome(status)
    return Outcome(status, events[0].reason, str(events[0].place), tuple(e.id for e in events))


def isolated(
    work: Callable[[Construct], Any], constructs: Sequence[Construct], patience: float = PATIENCE
) -> Iterator[tuple[Construct, Any]]:
    """Do the work for each construct, those of an area in one forked process: a crash or a hang is an outcome as well."""
    for _, area in itertools.groupby(constructs, key=lambda c: c.area):
        rest = list(area)
        while rest:
            for result in _in_one_process(work, rest, patience):
                yield rest.pop(0), result


def _in_one_process(work: Callable[[Construct], Any], constructs: list[Construct], patience: float) -> Iterator[Any]:
    """The results up to the last construct, or to the first that crashes or hangs."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, work, list(constructs)))
    process.start()
    sender.close()
    try:
        for _ in range(len(constructs)):
            if not receiver.poll(patience):
                yield Outcome("hang", f"not done after {patience:.0f} s")
                return
            yield receiver.recv()
    except EOFError:
        process.join()
        yield Outcome("crash", f"the process ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def _send(sender: Any, work: Callable[[Construct], Any], constructs: list[Construct]) -> None:
    for construct in constructs:
        try:
            result = work(construct)
        except BaseException as error:
            result = Outcome("error", f"{type(error).__name__}: {error}", traceback.format_exc(limit=-3))
        sender.send(result)


def prepare() -> None:
    """Import in this process what captures import, once for all that are forked."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + len([i for i in range(3)])

    torch.set_num_threads(1)
    segue.compile(program, backend="eager")(torch.ones(2))
    gc.freeze()  # no child looks at what is there, so that no page of it is copied
