"""Train a small network on scikit-learn's handwritten digits.

Run it as it is, or hand `main` a compiler for its functions: `main(compile=torch.compile)`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


@dataclass
class Result:
    """What training came to."""

    losses: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    seconds: float = 0.0


class Timer:
    """Adds the time spent in its block to `seconds`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.started = 0.0

    def __enter__(self) -> Timer:
        self.started = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.seconds += time.perf_counter() - self.started


class Network(nn.Module):
    """One convolution and two linear layers over an 8x8 image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.hidden = nn.Linear(16 * 4 * 4, 64)
        self.out = nn.Linear(64, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(torch.relu(self.norm(self.conv(images))), 2)
        x = F.gelu(self.hidden(x.flatten(1)))
        return self.out(x)


@torch.compiler.disable
def prepare(images: Tensor) -> Tensor:
    """Scale pixel values to zero mean and unit deviation, and add the channel."""
    return ((images - images.mean()) / (images.std() + 1e-6)).unsqueeze(1)


def load(size: int = 64) -> tuple[list[Batch], list[Batch]]:
    """Read the digits and cut them into batches for training and for testing."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    batches = list(zip(images[order].split(size), labels[order].split(size), strict=True))
    # The last batch may be smaller: it is among those for testing.
    return batches[:-6], batches[-6:]


def damaged(batches: list[Batch]) -> Iterator[Batch]:
    """Give the batches, and among them one whose labels were lost, as happens with real data."""
    for i, (images, labels) in enumerate(batches):
        if i == 3:
            yield images, labels[:0]
        yield images, labels


def train_epoch(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: list[Batch],
    log: list[float],
    timer: Timer,
) -> int:
    """Train on every batch once and append the losses to `log`; return how many were skipped."""
    model.train()
    skipped = 0
    for step, (images, labels) in enumerate(damaged(batches)):
        with timer:
            try:
                logits = model(prepare(images))
                loss = F.cross_entropy(logits, labels)
            except ValueError as error:
                print(f"  batch {step} is skipped: {error}")
                skipped += 1
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        log.append(loss.item())
        if step % 8 == 0:
            print(f"  step {step:2d}  loss {log[-1]:.4f}")
    return skipped


def evaluate(model: nn.Module, batches: list[Batch]) -> float:
    """Return the share of digits that are read correctly."""
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for images, labels in batches:
            guesses = model(prepare(images)).argmax(dim=1)
            correct += int((guesses == labels).sum())
            total += len(labels)
    return correct / total


def main(compile: Compile = lambda function: function, epochs: int = 5) -> Result:
    """Train from a fixed seed, with `compile` applied to the functions that train and evaluate."""
    torch.manual_seed(0)
    training, testing = load()
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    result, timer = Result(), Timer()
    train, test = compile(train_epoch), compile(evaluate)
    for epoch in range(epochs):
        print(f"epoch {epoch}")
        train(model, optimizer, training, result.losses, timer)
    result.accuracy = test(model, testing)
    result.seconds = timer.seconds
    print(f"accuracy {result.accuracy:.3f}")
    return result


if __name__ == "__main__":
    main()
