"""Settings: one typed field each, changed by assignment, by `patch`, or by an environment variable `SEGUE_<NAME>`.

Example:
    >>> from segue import config
    >>> with config.patch(recompile_limit=16):
    ...     config.recompile_limit
    16
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any


@dataclass
class Settings:
    """All settings with their defaults."""

    backend: str = "eager"
    """Backend when `compile` names none."""
    suppress_errors: bool = False
    """Log a failure inside the compiler and run the function in the interpreter, instead of raising InternalError."""
    recompile_limit: int = 8
    """Segments per gate; past it the gate runs in the interpreter, with a warning."""
    unroll_limit: int = 128
    """Iterations up to which a loop without breaks is unrolled into one graph."""
    capture_budget: int = 200_000
    """Instructions that one capture may look at before it leaves off with a break."""
    inline_depth: int = 120
    """How deep calls are inlined."""
    log: str = ""
    """What to log, comma separated: breaks, guards, segments, graph, recompiles, timing."""
    break_at: Callable[[Any, int], bool] | None = None
    """For tests: break before every instruction for which this returns True; called with (Code, index)."""


ALIASES = {"cache_size_limit": "recompile_limit"}


def _from_environment(name: str, default: Any) -> Any:
    text = os.environ.get(f"SEGUE_{name.upper()}")
    if text is None or callable(default) or default is None:
        return default
    if isinstance(default, bool):
        return text.strip().lower() in ("1", "true", "yes", "on")
    try:
        return type(default)(text)
    except ValueError:
        raise ValueError(f"SEGUE_{name.upper()}={text!r}: expected a value like {default!r}") from None


class _Config(types.ModuleType):
    """The module itself: its attributes are the settings."""

    def __setattr__(self, name: str, value: Any) -> None:
        name = ALIASES.get(name, name)
        if name.startswith("_") or name in ("patch", "Settings", "ALIASES"):
            super().__setattr__(name, value)
            return
        known = {f.name: f for f in fields(Settings)}
        if name not in known:
            raise AttributeError(f"segue.config has no setting {name!r}; there are: {', '.join(known)}")
        default = known[name].default
        if default is not None and not isinstance(value, type(default)):
            raise TypeError(
                f"segue.config.{name} takes a {type(default).__name__}, not {value!r} ({type(value).__name__})"
            )
        setattr(_values, name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return getattr(_values, ALIASES.get(name, name))
        except AttributeError:
            known = ", ".join(f.name for f in fields(Settings))
            raise AttributeError(f"segue.config has no setting {name!r}; there are: {known}") from None


_values = Settings(**{f.name: _from_environment(f.name, f.default) for f in fields(Settings)})


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Change settings for the duration of a `with` block or of a decorated function.

    Args:
        changes: settings by name.

    Raises:
        AttributeError: an unknown setting; TypeError: a value of the wrong type.
    """
    module = sys.modules[__name__]
    before = {name: getattr(module, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


sys.modules[__name__].__class__ = _Config
