"""Models of `transformers` by eager PyTorch, Segue and torch.compile: what is captured, and how soon.

    python benchmarks/models.py                              # every forward: an hour
    python benchmarks/models.py --only bert llama vit
    python benchmarks/models.py --family decoder --generate  # ten tokens with a static cache
    python benchmarks/models.py --list

Each model is small, has random weights, and is measured in a process of its own, so that one that hangs or crashes
loses its own row only. Both compilers have a backend that runs graphs as they are and counts. "ops" are the ATen
operations that run inside graphs during a second call, beside all that eager runs; "capture" is the first call less a
later one, the best of several fresh captures, in seconds of the thread on the processor, which other programs disturb
least. "cover" is Segue's own figure: the share of tensor operations run inside
graphs. A line below a row says what is wrong; --breaks FILE takes the reasons of breaks, by number of models.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from model_run import Capture, Row, measure
from model_zoo import FAMILIES, MODELS
from timing import geometric_mean, short_ratio, short_time

ASKED_ONE_GRAPH, ASKED_CAPTURE = 0.9, 3.0
CLASS_NAME = re.compile(r"\b[A-Z]\w*[a-z][A-Z]\w*\b")
"""What differs between reasons that are the same otherwise."""


def work(sender: Connection, *task: Any) -> None:
    """The body of a model's process."""
    sender.send(measure(*task))


def rows(given: argparse.Namespace) -> Iterator[Row]:
    """Measure each model in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["model_run"])
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # where the server looks for what it is to load
    mode = "generate" if given.generate else "forward"
    for name in given.only:
        receiver, sender = context.Pipe(duplex=False)
        task = (name, mode, given.captures, not given.no_torch)
        process = context.Process(target=work, args=(sender, *task), daemon=True)
        process.start()
        sender.close()
        yield received(receiver, process, given.timeout) or Row(
            name, MODELS[name].family, mode, f"no result: {ended(process, given.timeout)}"
        )
        process.kill()
        process.join()


def received(receiver: Connection, process: Any, timeout: float) -> Row | None:
    """A process's row; None if it ends without one or takes too long."""
    if not receiver.poll(timeout):
        return None
    try:
        row: Row = receiver.recv()
    except EOFError:
        process.join(timeout)
        return None
    return row


def ended(process: Any, timeout: float) -> str:
    """How a process that gave nothing ended."""
    code = process.exitcode
    return f"still running after {timeout:.0f} s" if code is None else f"ended with code {code}"


HEADER = (
    f"{'model':<24}{'family':<12}{'equal':<6}{'graphs':>7}{'torch':>6}{'breaks':>8}{'torch':>6}{'cover':>7}"
    f"{'ops':>7}{'torch':>7}{'eager':>7}{'capture':>10}{'torch':>9}{'ratio':>8}"
)


def line(row: Row) -> str:
    """The line of a table."""
    if row.problem:
        return f"{row.model:<24}{row.family:<12}not measured: {row.problem}"
    ours, theirs = row.segue, row.dynamo
    cover = "-" if ours.coverage is None else f"{ours.coverage:.0%}"
    text = (
        f"{row.model:<24}{row.family:<12}{'no' if ours.problem else 'yes':<6}{ours.graphs:>7}{theirs.graphs:>6}"
        f"{len(ours.breaks):>8}{len(theirs.breaks):>6}{cover:>7}"
        f"{ours.operations:>7}{theirs.operations:>7}{row.eager_operations:>7}"
        f"{short_time(ours.seconds):>10}{short_time(theirs.seconds):>9}{short_ratio(capture_ratio(row)):>8}"
    )
    captures = {"segue": ours, "torch": theirs}
    return "\n".join([text, *(f"    {name}: {c.problem}" for name, c in captures.items() if c.problem)])


def capture_ratio(row: Row) -> float | None:
    """How many times as fast as torch.compile Segue captures."""
    both = row.segue.seconds, row.dynamo.seconds
    return both[1] / both[0] if both[0] and both[1] else None


def is_one_graph(capture: Capture) -> bool:
    """Whether a model became one graph, unbroken."""
    return not capture.problem and capture.graphs == 1 and not capture.breaks


def summary(found: Sequence[Row]) -> list[str]:
    """The figures, beside what is asked for."""
    measured = [row for row in found if not row.problem]
    equal = [row for row in measured if not row.segue.problem]
    compared = [row for row in measured if row.dynamo.graphs]
    theirs = [row for row in compared if is_one_graph(row.dynamo)]
    both = [row for row in theirs if is_one_graph(row.segue)]
    fewer = [row for row in compared if row.segue.operations < row.dynamo.operations and not row.dynamo.problem]
    left = [row for row in fewer if row.segue.outside or row.segue.problem]
    ratios = [ratio for row in equal if not row.dynamo.problem and (ratio := capture_ratio(row))]
    dynamo_equal = sum(not row.dynamo.problem for row in compared)
    lines = [
        f"equal to eager: {len(equal)} of {len(measured)} (torch.compile: {dynamo_equal} of {len(compared)})",
        f"one graph, no break: {sum(is_one_graph(row.segue) for row in measured)} (torch.compile: {len(theirs)})",
        f"fewer operations captured than torch.compile: {described(fewer)}",
        f"  of which ran some outside of graphs: {described(left)}",
        f"capture, torch.compile's time over Segue's: geometric mean {short_ratio(geometric_mean(ratios))}, "
        f"least {short_ratio(min(ratios, default=None))} (asked for: at least {ASKED_CAPTURE})",
    ]
    if theirs:
        lines.append(
            f"one graph by torch.compile and by Segue: {len(both)} of {len(theirs)}, {len(both) / len(theirs):.0%} "
            f"(asked for: at least {ASKED_ONE_GRAPH:.0%})"
        )
    if missing := [row.model for row in found if row.problem]:
        lines.append(f"not measured: {' '.join(missing)}")
    return lines


def described(found: Sequence[Row]) -> str:
    """How many and which."""
    return f"{len(found)} {' '.join(row.model for row in found)}".rstrip()


def breaks(found: Sequence[Row]) -> list[str]:
    """Segue's breaks and problems, those of the most models first, and then model by model."""
    groups: dict[str, dict[str, dict[str, None]]] = {}
    for row in found:
        for told in row.segue.breaks:
            reason, _, where = told.partition(" @ ")
            frames, _, source = where.partition(" | ")
            place = f"{frames.partition(' < ')[0]}: {source}"
            groups.setdefault(CLASS_NAME.sub("…", reason), {}).setdefault(place, {})[row.model] = None
    models = {reason: dict.fromkeys(m for names in places.values() for m in names) for reason, places in groups.items()}
    lines = []
    for reason in sorted(groups, key=lambda reason: -len(models[reason])):
        lines.append(f"{len(models[reason])} models: {reason}")
        for place, names in sorted(groups[reason].items(), key=lambda item: -len(item[1])):
            lines.append(f"    {len(names)} × {place}   [{' '.join(list(names)[:6])}]")
    for row in found:
        problems = [p for p in (row.problem, row.segue.problem) if p]
        reasons = row.segue.breaks + [f"outside: {o}" for o in row.segue.outside]
        if problems or reasons:
            lines += ["", f"{row.model}: {row.segue.graphs} graphs, torch.compile {row.dynamo.graphs}"]
            lines += [f"  {text}" for text in problems + reasons]
    return lines


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="What Segue and torch.compile capture of models of transformers.")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these models; see --list")
    parser.add_argument("--skip", nargs="+", metavar="NAME", default=[], help="not these")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, help="the models of these families")
    parser.add_argument("--generate", action="store_true", help="ten tokens instead of a forward")
    parser.add_argument("--captures", type=int, default=3, help="fresh captures that are timed; the best counts")
    parser.add_argument("--no-torch", action="store_true", help="leave torch.compile out")
    parser.add_argument("--timeout", type=float, default=180, help="seconds for a model")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    parser.add_argument("--report", type=Path, help="write the table to this file")
    parser.add_argument("--breaks", type=Path, help="write the reasons of breaks to this file")
    parser.add_argument("--list", action="store_true", help="name the models")
    given = parser.parse_args()
    if unknown := [name for name in (given.only or []) + given.skip if name not in MODELS]:
        parser.error(f"no such model: {' '.join(unknown)}")
    chosen = given.only or [n for n, e in MODELS.items() if not given.family or e.family in given.family]
    given.only = [n for n in chosen if n not in given.skip and (MODELS[n].generates or not given.generate)]
    return given


def write(given: argparse.Namespace, found: Sequence[Row], table: Sequence[str]) -> None:
    """Write the files that were asked for; done after every row, so that a long run can be read meanwhile."""
    if given.json:
        given.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    if given.report:
        given.report.write_text("\n".join([*table, "", *summary(found)]) + "\n")
    if given.breaks:
        given.breaks.write_text("\n".join(breaks(found)) + "\n")


def main() -> int:
    """Print the table; 1 if a result was wrong or missing."""
    given = parse()
    if given.list:
        for name in given.only:
            print(f"{name:<24}{MODELS[name].family:<12}{MODELS[name].class_name}")
        return 0
    begin, found, table = time.perf_counter(), [], [HEADER]
    print(HEADER)
    for row in rows(given):
        found.append(row)
        table.append(line(row))
        print(table[-1], flush=True)
        write(given, found, table)
    print("", *summary(found), f"took {time.perf_counter() - begin:.0f} s", sep="\n")
    return 1 if any(row.problem or row.segue.problem for row in found) else 0


if __name__ == "__main__":
    sys.exit(main())
