"""What compiling a function comes to: its graphs, its breaks, how much of the work is covered."""

from __future__ import annotations

import collections
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import fx
from torch.overrides import TorchFunctionMode

from segue import _core, callables
from segue.capture import Captured
from segue.capture.operations import is_tensor_operation
from segue.frames.compiler import Compiler
from segue.options import Options
from segue.report.events import Event, Place


@dataclass
class Graph:
    """One captured graph.

    Attributes:
        place: where in the user's code it begins.
        module: the `torch.fx.GraphModule` that was handed to the backend.
        n_operations: how many operations it has.
        declined: why the backend would not compile it, so that it runs as it was captured; None if it did.
        runs: how often it ran during the call.
    """

    place: Place
    module: fx.GraphModule
    n_operations: int
    declined: Event | None = None
    runs: int = 0


@dataclass(frozen=True)
class Outside:
    """A tensor operation that ran outside of all graphs, with the user's line and how often."""

    operation: str
    file: str
    line: int
    times: int


@dataclass(frozen=True)
class Explanation:
    """What happened in one call; printing it gives a table.

    Attributes:
        result: what the function returned.
        graphs: the graphs that were captured.
        events: all that happened, in order; see `segue.report.Event`.
        outside: the tensor operations that no graph covered.
    """

    result: Any
    graphs: list[Graph]
    events: list[Event]
    outside: list[Outside]

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def declined(self) -> list[Graph]:
        """The graphs that the backend would not compile; they run as they were captured."""
        return [g for g in self.graphs if g.declined]

    @property
    def break_count(self) -> int:
        """How many different graph breaks there are."""
        return len(self.breaks)

    @property
    def breaks(self) -> list[Event]:
        """The graph breaks, each once: several captures may meet the same one."""
        return _different(self.of_kind("break"))

    @property
    def skips(self) -> list[Event]:
        """The functions that were skipped, each once."""
        return _different(self.of_kind("skip"))

    @property
    def recompiles(self) -> list[Event]:
        """The captures that had to be made because no guard set matched."""
        return self.of_kind("recompile")

    @property
    def limits(self) -> list[Event]:
        """The gates that reached the recompile limit."""
        return self.of_kind("limit")

    @property
    def failures(self) -> list[Event]:
        """The failures of the compiler."""
        return self.of_kind("failure")

    @property
    def operations_inside(self) -> int:
        """How many tensor operations ran inside graphs."""
        return sum(g.n_operations * g.runs for g in self.graphs)

    @property
    def operations_outside(self) -> int:
        """How many tensor operations ran outside of them."""
        return sum(o.times for o in self.outside)

    @property
    def coverage(self) -> float:
        """Tensor operations run inside graphs ÷ all tensor operations run; 1.0 if none ran."""
        total = self.operations_inside + self.operations_outside
        return self.operations_inside / total if total else 1.0

    def of_kind(self, *kinds: str) -> list[Event]:
        """The events of some kinds, in order."""
        return [e for e in self.events if e.kind in kinds]

    def __str__(self) -> str:
        from segue.report.tables import text_of

        return text_of(self)

    def __repr__(self) -> str:
        from segue.report.tables import summary

        return f"<Explanation: {summary(self).partition('%')[0]}%>"


def _different(events: list[Event]) -> list[Event]:
    """One event for each place and reason."""
    return list({(e.place, e.id, e.reason): e for e in reversed(events)}.values())[::-1]


def explain(fn: Callable[..., Any], **options: Any) -> Callable[..., Explanation]:
    """Run a function compiled and tell what was captured, what was not, and why.

    The function runs once, with all its effects.  It is compiled afresh; what was compiled before
    is not used.

    Args:
        fn: a function, method, `nn.Module` or other callable, compiled or not.
        options: as for `segue.compile`.

    Returns:
        A callable that takes the arguments for `fn` and returns an `Explanation`, with `graphs`,
        `breaks`, `skips`, `recompiles`, `coverage` and `result`; `print` shows it as a table.

    Raises:
        TypeError, ValueError: as `segue.compile`; also for a class, since compiling one changes it.

    Example:
        >>> import segue, torch
        >>> def f(x):
        ...     x = x + 1
        ...     segue.graph_break()
        ...     return x * 2
        >>> explanation = segue.explain(f)(torch.ones(2))
        >>> explanation.graph_count, explanation.break_count, explanation.coverage
        (2, 1, 1.0)
    """
    Options.of("explain", options)
    if isinstance(fn, type):
        raise TypeError(f"explain takes something to call with tensors, not the class {fn.__name__}")

    def run(*args: Any, **kwargs: Any) -> Explanation:
        watch = _Watch()
        watched = _WatchedOptions(**options, watch=watch)
        compiled = callables.compiled(fn, watched)
        with watch.counting():
            result = compiled(*args, **kwargs)
        return watch.explanation(result)

    return run


class _Counter(TorchFunctionMode):
    """Counts the tensor operations that this thread runs while the compiler is not at work."""

    def __init__(self) -> None:
        super().__init__()
        self.busy = 0
        self.seen: collections.Counter[tuple[str, str, int]] = collections.Counter()

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.busy and is_tensor_operation(func) and _is_work(args, result):
            self.seen[func.__name__, *_users_place(sys._getframe(1))] += 1
        return result

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Count nothing: the compiler is at work, or a graph runs."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1


def _is_work(args: tuple[Any, ...], result: Any) -> bool:
    """Whether capture would count a call as an operation: it makes tensors, or it changes some."""
    return _has_tensor(result) or (result is None and _has_tensor(args))


def _has_tensor(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(map(_has_tensor, value))
    return isinstance(value, torch.Tensor)


_LIBRARIES = tuple(os.path.dirname(os.path.abspath(path)) + os.sep for path in (torch.__file__, callables.__file__))


def _users_place(frame: FrameType | None) -> tuple[str, int]:
    """File and line of the innermost frame that is neither PyTorch's nor Segue's."""
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARIES):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("?", 0)


class _Watch:
    """Follows one call: what is captured, and what runs outside of it."""

    def __init__(self) -> None:
        self.counter = _Counter()
        self.compilers: list[_WatchedCompiler] = []

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Count operations on this thread, in a mode that compiled code may run under."""
        _core.set_mode_depth(1, 0)
        try:
            with self.counter:
                yield
        finally:
            _core.set_mode_depth(0, 0)

    def explanation(self, result: Any) -> Explanation:
        """What has been seen."""
        return Explanation(
            result,
            [g for c in self.compilers for g in c.graphs],
            [e for c in self.compilers for e in c.log.events],
            [Outside(*seen, times) for seen, times in self.counter.seen.items()],
        )


class _WatchedCompiler(Compiler):
    """A compiler that keeps its graphs, and tells the counter when it is at work."""

    def __init__(self, inner: Compiler, counter: _Counter) -> None:
        super().__init__(inner.backend, inner.fullgraph)
        self._counter = counter
        self.graphs: list[Graph] = []

    def admit(self, *question: Any) -> Any:
        """As `Compiler.admit`, not counted."""
        with self._counter.paused():
            return super().admit(*question)

    def miss(self, *state: Any) -> Any:
        """As `Compiler.miss`, not counted."""
        with self._counter.paused():
            return super().miss(*state)

    def compile_graph(self, captured: Captured, here: Place) -> Callable[..., Any]:
        compiled = super().compile_graph(captured, here)
        assert captured.graph is not None
        last = self.log.events[-1]
        graph = Graph(here, captured.graph, captured.n_operations, last if last.kind == "declined" else None)
        self.graphs.append(graph)

        def run(*inputs: Any) -> Any:
            graph.runs += 1
            with self._counter.paused():
                return compiled(*inputs)

        return run


@dataclass(frozen=True)
class _WatchedOptions(Options):
    """Options whose compilers are watched."""

    watch: _Watch = field(default_factory=_Watch)

    def compiler(self) -> Compiler:
        """A watched compiler."""
        made = _WatchedCompiler(super().compiler(), self.watch.counter)
        self.watch.compilers.append(made)
        return made
