"""Events: every graph, break, skip, recompile and failure, with its place in the user's code."""

from __future__ import annotations

import collections
import linecache
from dataclasses import dataclass, field
from types import CodeType
from typing import Any, Literal

from segue.report.logs import logger

Kind = Literal["graph", "break", "skip", "recompile", "limit", "failure", "declined"]


@dataclass(frozen=True)
class Place:
    """A place in the user's source."""

    file: str
    line: int | None
    end_line: int | None
    column: int | None
    end_column: int | None
    function: str

    @staticmethod
    def of(code: CodeType, position: Any) -> Place:
        """The place of an instruction's position in a code object."""
        return Place(
            code.co_filename,
            position.lineno,
            position.end_lineno,
            position.col,
            position.end_col,
            code.co_qualname,
        )

    def source(self) -> str:
        """The source line, stripped; empty when the file cannot be read."""
        return linecache.getline(self.file, self.line or 0).strip()

    def __str__(self) -> str:
        text = f'  File "{self.file}", line {self.line}, in {self.function}'
        source = self.source()
        return f"{text}\n    {source}" if source else text


@dataclass(frozen=True)
class Event:
    """Something that happened while compiling.

    Attributes:
        kind: graph, break, skip, recompile, limit, failure, or declined: a graph that the backend would not compile.
        id: a stable identifier of the reason.
        reason: what happened, with its particulars.
        explanation, hint: why that is so, and what to do.
        stack: the user's frames, outermost first; the last is where it happened.
        n_operations: for a graph, how many operations it has.
    """

    kind: Kind
    id: str
    reason: str
    stack: tuple[Place, ...]
    explanation: str = ""
    hint: str = ""
    n_operations: int = 0

    @property
    def place(self) -> Place:
        """Where it happened."""
        return self.stack[-1]

    @property
    def file(self) -> str:
        """The file of `place`."""
        return self.place.file

    @property
    def line(self) -> int | None:
        """The line of `place`."""
        return self.place.line

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.reason} [{self.id}]", *map(str, self.stack)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


@dataclass
class EventLog:
    """The events of one compiler, the newest 10,000 kept; counts are complete."""

    events: collections.deque[Event] = field(default_factory=lambda: collections.deque(maxlen=10_000))
    counts: collections.Counter[str] = field(default_factory=collections.Counter)

    def record(self, event: Event) -> None:
        """Note an event and log it if the configuration asks for its kind."""
        from segue import config

        self.events.append(event)
        self.counts[event.kind] += 1
        wanted: str = config.log
        if _TOPICS[event.kind] in wanted.split(","):
            logger.info("%s", event)

    def of_kind(self, *kinds: str) -> list[Event]:
        """The events of some kinds, in order."""
        return [e for e in self.events if e.kind in kinds]


_TOPICS = {
    "graph": "graph",
    "break": "breaks",
    "skip": "breaks",
    "recompile": "recompiles",
    "limit": "recompiles",
    "failure": "breaks",
    "declined": "graph",
}
