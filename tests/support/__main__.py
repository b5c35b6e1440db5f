"""The page about what is captured, the list of what should be and is not, and the torture of all constructs."""

from __future__ import annotations

import argparse
import collections
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.construct import Construct, load
from tests.support.outcome import Outcome, isolated, measure, prepare
from tests.support.torture import tortured

HEADER = """# What of Python and PyTorch is captured

Each row is a small program that runs plainly and compiled, three times with different data. *Captured*: it is one
graph, without breaks and recompiles, and all that can be seen of it is the same: results, arguments afterwards,
exceptions with their tracebacks, what is printed, logged and warned, random numbers. *Breaks*: the same can be seen, but
the interpreter runs a part of it. *By design*: it breaks, and the note says why it must.
(This page is made by `python -m tests.support`.)
"""

WORDS = {"captured": "captured", "breaks": "breaks", "recompiles": "several graphs"}


def word(construct: Construct, outcome: Outcome) -> str:
    """What the page calls an outcome."""
    if construct.breaks and outcome.status in ("breaks", "recompiles"):
        return "by design"
    return WORDS.get(outcome.status, outcome.status.upper())


def note(construct: Construct, outcome: Outcome) -> str:
    """What the page adds to it."""
    if outcome.status == "captured":
        return ""
    return (construct.breaks or outcome.note).replace("|", "\\|").replace("\n", " ")


def page(outcomes: list[tuple[Construct, Outcome]]) -> Iterator[str]:
    """The lines of the page."""
    counts = collections.Counter(word(*row) for row in outcomes)
    yield HEADER
    yield f"{len(outcomes)} constructs: " + ", ".join(f"{n} {name}" for name, n in counts.most_common()) + "."
    for title, rows in itertools.groupby(outcomes, key=lambda row: row[0].area):
        yield f"\n## {title}\n\n| construct | status | note |\n| --- | --- | --- |"
        for construct, outcome in rows:
            yield f"| {construct.name} | {word(construct, outcome)} | {note(construct, outcome)} |".replace(
                "|  |", "| |"
            )


def failing(outcomes: list[tuple[Construct, Outcome]]) -> Iterator[str]:
    """The rows that are not as they should be, those with the same reason together."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for construct, outcome in outcomes:
        if word(construct, outcome) in ("captured", "by design"):
            continue
        same = outcome.status if outcome.status not in ("breaks", "error") else outcome.note
        groups[re.sub(r"0x[0-9a-f]+", "0x…", same)].append(
            f"  {construct}\n      {outcome.status} {' '.join(outcome.reasons)}: {outcome.note[:500]}\n  {outcome.place}"
        )
    for reason, rows in sorted(groups.items(), key=lambda group: -len(group[1])):
        yield f"{len(rows)} × {reason}"
        yield from rows
        yield ""
    counts = collections.Counter(word(*row) for row in outcomes)
    yield ", ".join(f"{name}: {n}" for name, n in counts.most_common())


def statuses(text: str) -> dict[str, dict[str, str]]:
    """What a page says, by area and construct."""
    found: dict[str, dict[str, str]] = {}
    for line in text.splitlines():
        if line.startswith("## "):
            rows = found[line[3:]] = {}
        row = re.match(r"\| (.*) \| (captured|breaks|by design|several graphs) \| ", line)
        if row is not None:
            rows[row[1]] = row[2]
    return found


def differing(outcomes: list[tuple[Construct, Outcome]], text: str) -> Iterator[str]:
    """The rows of which a page says something else."""
    said = statuses(text)
    for construct, outcome in outcomes:
        expected = said.get(construct.area, {}).get(construct.name, "nothing")
        if word(construct, outcome) != expected:
            yield f"{construct}: {word(construct, outcome)}, not {expected}: {outcome.note}\n{outcome.place}"


def torture(constructs: list[Construct]) -> int:
    """Force breaks everywhere in all constructs, look whether capture alone changes anything, and list what differs."""
    n_calls = n_found = 0
    for construct, found in isolated(tortured, constructs, patience=120):
        if isinstance(found, Outcome):
            found = (0, [f"{found.status}: {found.note}"])
        n_calls += found[0]
        n_found += bool(found[1])
        for difference in found[1][:3]:
            print(f"{construct}\n    {difference[:600]}", flush=True)
    print(f"{len(constructs)} constructs, {n_calls} calls, {n_found} constructs differ")
    return n_found


def main() -> int:
    """Run what the arguments ask for; the exit status is 1 if anything is not as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.support", description=__doc__)
    parser.add_argument("--failing", action="store_true", help="list the rows that are not as they should be")
    parser.add_argument(
        "--torture", action="store_true", help="force breaks at instructions; check that capture is pure"
    )
    parser.add_argument("--check", metavar="PAGE", help="list the rows of which this page says something else")
    parser.add_argument("--areas", nargs="+", metavar="AREA", help="rows of these areas")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows with this text in their area or name")
    options = parser.parse_args()
    constructs = [c for c in load() if options.only.lower() in str(c).lower()]
    if options.areas:
        constructs = [c for c in constructs if c.area in options.areas]
    prepare()
    if options.torture:
        return min(torture(constructs), 1)
    outcomes = list(isolated(measure, constructs))
    if options.check:
        found = list(differing(outcomes, Path(options.check).read_text()))
        print(*found, sep="\n")
        return int(bool(found))
    for line in failing(outcomes) if options.failing else page(outcomes):
        print(line)
    return int(any(word(*row) not in ("captured", "by design") for row in outcomes))


if __name__ == "__main__":
    sys.exit(main())
