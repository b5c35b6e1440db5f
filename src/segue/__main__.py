"""`python -m segue demo`: train on digits, plain and compiled, and show what was captured."""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.util
import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import fx

import segue
from segue.report.tables import WIDTH, render

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "digits.py"


class Counting:
    """A backend that runs graphs as they are and counts them.

    Attributes:
        graphs: how many there are.
        operations: how many operations they have, by the function of the script that they are from.
        runs: how many operations were run inside graphs, by the same.
    """

    def __init__(self) -> None:
        self.graphs = 0
        self.operations: collections.Counter[str] = collections.Counter()
        self.runs: collections.Counter[str] = collections.Counter()

    def __call__(self, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        operations = collections.Counter(origin(n) for n in gm.graph.nodes if n.op.startswith("call"))
        self.graphs += 1
        self.operations += operations

        def run(*args: Any) -> Any:
            self.runs.update(operations)
            return gm(*args)

        return run


def origin(node: fx.Node) -> str:
    """The function of the script that an operation is from, by its stack trace."""
    frames = re.findall(r'File "(.*?)", line \d+, in (\S+)', node.meta.get("stack_trace") or "")
    own = [function for file, function in frames if file == str(SCRIPT)]
    return f"{own[-1]}()" if own else "PyTorch's optimizer"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m segue", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="train on handwritten digits, plain and compiled")
    demo.add_argument("--epochs", type=int, default=3, help="how long to train (default: 3)")
    options = parser.parse_args(arguments)
    return run_demo(options.epochs)


def run_demo(epochs: int) -> int:
    """Train plainly and compiled, compare, and report; returns the exit status."""
    if not SCRIPT.exists():
        print(
            f"The demo runs {SCRIPT.name} of Segue's source tree, and this installation has none.",
            file=sys.stderr,
        )
        return 2
    script = load(SCRIPT)
    torch.set_num_threads(1)  # the network is small
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.rule("eager")
    eager = script.main(epochs=epochs)
    console.rule("segue.compile")
    ours = Counting()
    compiled = script.main(segue.compile(backend=ours), epochs=epochs)
    console.rule("the same?")
    same = eager.losses == compiled.losses and eager.accuracy == compiled.accuracy
    console.print(
        f"{len(eager.losses)} losses and the accuracy, {eager.accuracy:.3f}: "
        + ("equal to the last bit" if same else "DIFFERENT")
    )
    console.rule("what Segue captures of one epoch")
    console.print(render(explain_epoch(script)))
    console.rule("beside torch.compile")
    theirs = Counting()
    with quiet():
        script.main(torch.compile(backend=theirs), epochs=epochs)
    console.print(comparison(theirs, ours))
    return 0 if same else 1


def load(path: Path) -> ModuleType:
    """Import a script by its path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def explain_epoch(script: ModuleType) -> Any:
    """The explanation of one epoch of training, from a fixed seed."""
    torch.manual_seed(0)
    batches, _ = script.load()
    model = script.Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    with quiet():
        return segue.explain(script.train_epoch)(model, optimizer, batches, [], script.Timer())


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what the training script prints, and what torch.compile logs, to ourselves."""
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def comparison(theirs: Counting, ours: Counting) -> Table:
    """What two compilers captured of the same training, side by side."""
    table = Table(title="captured of the same functions", title_justify="left")
    table.add_column("")
    for name in ("torch.compile", "segue.compile"):
        table.add_column(name, justify="right")
    both = (theirs, ours)
    table.add_row("graphs", *(str(c.graphs) for c in both))
    table.add_row("operations in them", *(str(c.operations.total()) for c in both))
    for function in sorted({*theirs.runs, *ours.runs}):
        table.add_row(f"operations run in graphs, of {function}", *(f"{c.runs[function]:,}" for c in both))
    return table


if __name__ == "__main__":
    sys.exit(main())
