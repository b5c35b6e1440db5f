"""From the start of a process to the first result of a small compiled function, beside torch.compile.

    python benchmarks/startup.py [backend]

Each row is a process of its own.  A cold process has an empty compile cache, a warm one that of the process before it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

CACHES = ("SEGUE_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")

PROGRAM = """
import sys, time
import torch
imported = time.time()

def f(x, y):
    return torch.relu(x * y + 1).sum(-1)

kind, backend = sys.argv[1:]
if kind == "segue":
    import segue
    f = segue.compile(f, backend=backend)
elif kind == "torch":
    f = torch.compile(f, backend=backend)
with torch.no_grad():
    f(torch.ones(64, 64), torch.ones(64, 64))
print(imported, time.time())
"""


@dataclass
class Start:
    """Seconds of one process."""

    importing: float
    to_result: float

    @property
    def total(self) -> float:
        """From the start of the process to the first result."""
        return self.importing + self.to_result


def start(kind: str, backend: str, cache: str) -> Start:
    """Run the program in a process of its own."""
    environment = {**os.environ, **{name: os.path.join(cache, name) for name in CACHES}}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    begin = time.time()
    command = [sys.executable, "-c", PROGRAM, kind, backend]
    output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
    imported, done = map(float, output.split())
    return Start(imported - begin, done - imported)


def cold_and_warm(kind: str, backend: str) -> tuple[Start, Start]:
    """Two processes, the second with the cache that the first has filled."""
    with tempfile.TemporaryDirectory() as cache:
        return start(kind, backend, cache), start(kind, backend, cache)


def main() -> None:
    """Print the table and the ratios."""
    backend = sys.argv[1] if len(sys.argv) > 1 else "native"
    eager = cold_and_warm("eager", "")[1]
    theirs, ours = cold_and_warm("torch", "inductor"), cold_and_warm("segue", backend)
    rows = {
        "eager": eager,
        "torch.compile (inductor), cold": theirs[0],
        "torch.compile (inductor), warm": theirs[1],
        f"segue ({backend}), cold": ours[0],
        f"segue ({backend}), warm": ours[1],
    }
    print(f"{'seconds':<34}{'import torch':>14}{'to first result':>18}{'total':>10}")
    for name, row in rows.items():
        print(f"{name:<34}{row.importing:>14.2f}{row.to_result:>18.2f}{row.total:>10.2f}")
    print()
    for name, their, our in zip(("cold", "warm"), theirs, ours, strict=True):
        after = f"{their.to_result / our.to_result:.1f} after the import of torch"
        print(f"{name}: Segue is faster by a factor of {their.total / our.total:.1f} in total, {after}")


if __name__ == "__main__":
    main()
