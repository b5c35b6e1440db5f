"""One model of the zoo by eager PyTorch, Segue and torch.compile, both with a backend that only counts."""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import transformers
from model_counts import CountingBackend, Operations, difference
from model_zoo import MODELS, Entry
from torch import nn
from torch._dynamo.utils import counters

import segue

NEW_TOKENS = 10
EXPLAINED_CALLS = 2
"""Of a generation's calls: the first, and the first of those for one more token."""
STANDARD_LIBRARY = sysconfig.get_path("stdlib") + "/"
BREAK_KINDS = ("break", "skip", "limit", "failure")


@dataclass
class Capture:
    """What one compiler made of one model.

    Attributes:
        problem: an exception, or how the result differs from eager's; None if all is well.
        graphs, calls, runs, operations: see `CountingBackend`; operations are of the second call.
        breaks: the reasons for which it broke, with their places.
        outside: tensor operations that ran outside of its graphs, with their places (Segue only).
        coverage: tensor operations run inside graphs ÷ all run (Segue only).
        seconds: first call less second, the best of several fresh captures.
        later_graphs: graphs that the second and third call added.
    """

    problem: str | None = None
    graphs: int = 0
    calls: int = 0
    runs: int = 0
    operations: int = 0
    breaks: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    coverage: float | None = None
    seconds: float | None = None
    later_graphs: int = 0


@dataclass
class Row:
    """One model."""

    model: str
    family: str
    mode: str
    problem: str | None = None
    eager_operations: int = 0
    segue: Capture = field(default_factory=Capture)
    dynamo: Capture = field(default_factory=Capture)


@dataclass(frozen=True)
class Subject:
    """What is called: `call` runs the model in the interpreter, `compiled(compile)` gives the compiled call."""

    call: Callable[[], Any]
    compiled: Callable[[Callable[[Any], Any]], Callable[[], Any]]


def measure(name: str, mode: str = "forward", captures: int = 3, with_torch: bool = True) -> Row:
    """Compare the compilers on one model.

    Args:
        name: the model's name in the zoo.
        mode: "forward" or "generate".
        captures: how many fresh captures are timed.
        with_torch: whether torch.compile takes part.
    """
    quiet()
    entry = MODELS[name]
    row = Row(name, entry.family, mode)
    with torch.no_grad():
        try:
            subject = SUBJECTS[mode](entry)
            expected = seeded(subject.call)
            with Operations() as eager:
                seeded(subject.call)
        except Exception as error:  # a table goes on without this model
            row.problem = first_line(error)
            return row
        row.eager_operations = eager.count
        row.segue = by_segue(subject, expected, captures)
        if with_torch:
            row.dynamo = by_dynamo(subject, expected, captures)
    return row


def forward_of(entry: Entry) -> Subject:
    """The forward of a model."""
    model, inputs = entry.make()

    def compiled(compile_it: Callable[[Any], Any]) -> Callable[[], Any]:
        made = compile_it(model)
        return lambda: made(**inputs)

    return Subject(lambda: model(**inputs), compiled)


def generation_of(entry: Entry) -> Subject:
    """Ten tokens more, each the likeliest, by a model whose forward is compiled."""
    model, inputs = entry.make()
    inputs = {name: value for name, value in inputs.items() if name != "decoder_input_ids"}
    options: dict[str, Any] = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS, "do_sample": False}
    if entry.static_cache:
        options["cache_implementation"] = "static"

    def call() -> Any:
        model.__dict__.pop("_cache", None)  # kept from one call to the next: each starts alike
        return model.generate(**inputs, **options, disable_compile=True)

    def compiled(compile_it: Callable[[Any], Any]) -> Callable[[], Any]:
        forward = compile_it(model.forward)

        def run() -> Any:
            with replaced(model, forward):
                return call()

        return run

    return Subject(call, compiled)


SUBJECTS: dict[str, Callable[[Entry], Subject]] = {"forward": forward_of, "generate": generation_of}


@contextlib.contextmanager
def replaced(model: nn.Module, forward: Any) -> Iterator[None]:
    """The model with another forward of its own."""
    model.__dict__["forward"] = forward
    try:
        yield
    finally:
        del model.__dict__["forward"]


def by_segue(subject: Subject, expected: Any, captures: int) -> Capture:
    """What Segue makes of it."""
    backend = CountingBackend()
    found = captured(
        subject.compiled(lambda target: segue.compile(target, backend=backend)),
        backend,
        segue.reset,
        expected,
        captures,
    )
    if found.problem and found.graphs == 0:
        return found
    explained: list[Any] = []

    def explaining(target: Any) -> Any:
        @functools.wraps(target)  # `generate` looks at the signature
        def run(*args: Any, **kwargs: Any) -> Any:
            if len(explained) == EXPLAINED_CALLS:
                return target(*args, **kwargs)
            explained.append(segue.explain(target, backend=CountingBackend())(*args, **kwargs))
            return explained[-1].result

        return run

    try:
        seeded(subject.compiled(explaining))
    except Exception as error:  # what is known otherwise is kept
        found.problem = found.problem or f"explain: {first_line(error)}"
        return found
    events = [event for e in explained for event in e.events if event.kind in BREAK_KINDS]
    found.breaks = list({(e.kind, e.id, e.reason, e.file, e.line): told(e) for e in reversed(events)}.values())[::-1]
    outside: Counter[str] = Counter()
    for e in explained:
        for o in e.outside:
            outside[f"{o.operation} at {short_path(o.file)}:{o.line}"] += o.times
    found.outside = [f"{times} × {what}" for what, times in outside.items()]
    inside = sum(e.operations_inside for e in explained)
    total = inside + sum(outside.values())
    found.coverage = inside / total if total else 1.0
    return found


def told(event: Any) -> str:
    """The line of a break: kind, reason, and the frames from the innermost outwards."""
    frames = " < ".join(f"{short_path(place.file)}:{place.line}" for place in reversed(event.stack))
    return f"{event.kind} [{event.id}] {event.reason} @ {frames} | {event.place.source()}"


def short_path(file: str) -> str:
    """A file's path without the folder of all packages or of the standard library."""
    return file.rpartition("site-packages/")[2].removeprefix(STANDARD_LIBRARY)


def by_dynamo(subject: Subject, expected: Any, captures: int) -> Capture:
    """What torch.compile makes of it."""
    backend = CountingBackend()

    def reset() -> None:
        torch._dynamo.reset()
        counters.clear()

    reset()
    found = captured(
        subject.compiled(lambda target: torch.compile(target, backend=backend)), backend, reset, expected, captures
    )
    found.breaks = [
        f"{' '.join(reason.split())[:200]} × {times}"
        for kind in ("graph_break", "unimplemented")
        for reason, times in counters[kind].items()
    ]
    return found


def captured(
    compiled: Callable[[], Any],
    backend: CountingBackend,
    reset: Callable[[], None],
    expected: Any,
    captures: int,
) -> Capture:
    """Run a compiled call, compare its results, count, and time fresh captures."""
    found = Capture()
    try:
        first = seeded(compiled)
        found.graphs, found.calls = backend.graphs, backend.calls
        second = backend.count(lambda: seeded(compiled))
        found.runs, found.operations = backend.runs, backend.operations
        third = seeded(compiled)
        found.later_graphs = backend.graphs - found.graphs
        results = {"first": first, "second": second, "third": third}
        problems = (f"{n} call: {p}" for n, result in results.items() if (p := difference(expected, result)))
        found.problem = next(problems, None)
        found.seconds = min((capture_time(compiled, reset) for _ in range(captures)), default=None)
    except Exception as error:  # the other columns are still worth having
        found.problem = first_line(error)
        found.graphs = found.graphs or backend.graphs
    return found


def capture_time(compiled: Callable[[], Any], reset: Callable[[], None]) -> float:
    """Seconds of a first call less those of a later one."""
    reset()
    gc.collect()
    first = clock(compiled)
    return max(first - min(clock(compiled) for _ in range(2)), 1e-6)


def clock(call: Callable[[], Any]) -> float:
    """Seconds of a call."""
    torch.manual_seed(1)
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


def seeded(call: Callable[[], Any]) -> Any:
    """What a call gives under a fixed seed."""
    torch.manual_seed(1)
    return call()


def first_line(error: BaseException) -> str:
    """An exception in one line, with the place of its innermost frame."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f" @ {short_path(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace is not None else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{place}"


def quiet() -> None:
    """What models say about their configurations is no part of the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    for name in ("torch._dynamo", "torch.fx"):
        logging.getLogger(name).setLevel(logging.ERROR)
