"""Where log messages go: the logger `segue`, and standard error if the program logs nowhere."""

from __future__ import annotations

import logging
import sys

from segue.arguments import alternatives

logger = logging.getLogger("segue")

TOPICS = ("breaks", "recompiles", "graph", "segments", "loops", "llvm", "timing")
"""What `config.log` can ask for."""


def topics_of(text: str) -> list[str]:
    """The topics named in a comma-separated text; `all` stands for every one.

    Raises:
        ValueError: an unknown topic; the message lists the known ones.
    """
    named = [t.strip() for t in text.split(",") if t.strip()]
    for topic in named:
        if topic not in (*TOPICS, "all"):
            raise ValueError(
                f"segue.config.log (SEGUE_LOG) has no topic {topic!r}"
                f"{alternatives(topic, (*TOPICS, 'all'))} (comma separated)"
            )
    return list(TOPICS) if "all" in named else named


def show(topics: list[str]) -> None:
    """Make the logger let messages through, and print them if nobody else does."""
    if not topics:
        return
    logger.setLevel(min(logger.getEffectiveLevel(), logging.INFO))
    if not any(isinstance(h, _ToStandardError) for h in logger.handlers):
        logger.addHandler(_ToStandardError())


class _ToStandardError(logging.Handler):
    """Prints to the present `sys.stderr`, unless the root logger has handlers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("[segue] %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        if not logging.root.handlers:
            print(self.format(record), file=sys.stderr)
