"""Explanations as tables for people."""

from __future__ import annotations

import collections
import io
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from segue.report.events import Event, Place

if TYPE_CHECKING:
    from segue.report.explain import Explanation, Graph

WIDTH = 110
SHOWN = 3
"""Places that are named for one reason."""


def text_of(explanation: Explanation) -> str:
    """An explanation as plain text."""
    written = io.StringIO()
    Console(file=written, width=WIDTH, no_color=True).print(render(explanation))
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def render(explanation: Explanation) -> RenderableType:
    """An explanation as something that `rich` prints."""
    tables = [
        _graphs(explanation),
        _declined(explanation),
        _events("Graph breaks", explanation.of_kind("break")),
        _events("Skipped functions", explanation.of_kind("skip")),
        _events("Recompiles", explanation.of_kind("recompile", "limit")),
        _events("Failures of the compiler", explanation.of_kind("failure")),
        _outside(explanation),
    ]
    return Group(*(t for t in tables if t.row_count), Text(summary(explanation)))


def summary(explanation: Explanation) -> str:
    """An explanation in one line."""
    inside, outside = explanation.operations_inside, explanation.operations_outside
    uncompiled = f" ({len(explanation.declined)} not compiled)" if explanation.declined else ""
    return (
        f"{_count(explanation.graph_count, 'graph')}{uncompiled}, {_count(explanation.break_count, 'break')}; "
        f"coverage {explanation.coverage:.1%}: "
        f"{inside} of {_count(inside + outside, 'tensor operation')} ran inside graphs"
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _graphs(explanation: Explanation) -> Table:
    table = _table("Graphs", ("begins at", "in"), ("operations", "runs"))
    for graph in explanation.graphs:
        place = graph.place
        _add_row(table, _where(place), place.function, graph.n_operations, graph.runs)
    return table


def _declined(explanation: Explanation) -> Table:
    """One row for each reason, however many graphs it holds for."""
    table = _table("Graphs that the backend did not compile: they run as captured", ("begins at", "why"), ("graphs",))
    reasons: dict[str, list[Graph]] = {}
    for graph in explanation.declined:
        assert graph.declined is not None
        reasons.setdefault(f"{graph.declined.reason} [{graph.declined.id}]", []).append(graph)
    for reason, graphs in reasons.items():
        places = list(dict.fromkeys(_where(g.place) for g in graphs))
        more = [f"and {_count(len(places) - SHOWN, 'other place')}"] if len(places) > SHOWN else []
        _add_row(table, "\n".join([*places[:SHOWN], *more]), reason, len(graphs))
    return table


def _events(title: str, events: Iterable[Event]) -> Table:
    """One row for each different event, with how many captures met it."""
    table = _table(title, ("where", "why, and what to do"), ("captures",))
    for (place, reason, hint), n in collections.Counter(map(_essence, events)).items():
        where = f"{_where(place)} in {place.function}\n  {place.source()}"
        _add_row(table, where.rstrip(), f"{reason}\n{hint}".rstrip(), n)
    return table


def _essence(event: Event) -> tuple[Place, str, str]:
    """What events have in common that are one to the reader, whoever called the function."""
    return event.place, f"{event.reason} [{event.id}]", event.hint


def _outside(explanation: Explanation) -> Table:
    table = _table("Tensor operations outside graphs", ("where", "operation"), ("times",))
    for o in explanation.outside:
        _add_row(table, f"{_short(o.file)}:{o.line}", o.operation, o.times)
    return table


def _table(title: str, texts: Iterable[str], numbers: Iterable[str]) -> Table:
    """An empty table with columns of text, then columns of numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", expand=True)
    for name in texts:
        table.add_column(name, ratio=1, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def _add_row(table: Table, *cells: object) -> None:
    """Add a row of plain texts: brackets in them are no markup."""
    table.add_row(*(Text(str(c)) for c in cells))


def _where(place: Place) -> str:
    return f"{_short(place.file)}:{place.line}"


def _short(file: str) -> str:
    """A path as seen from the working directory or from where modules are imported from."""
    roots = (os.path.join(os.path.abspath(p), "") for p in ("", *sys.path))
    return file[max((len(r) for r in roots if file.startswith(r)), default=0) :]
