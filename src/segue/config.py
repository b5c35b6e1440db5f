"""Settings: one typed field each, changed by assignment, `patch`, or environment `SEGUE_<NAME>`.

Example:
    >>> from segue import config
    >>> config.recompile_limit
    8
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

from segue.arguments import alternatives
from segue.report import logs


@dataclass
class Settings:
    """All settings with their defaults."""

    backend: str = "native"
    """Backend when `compile` names none."""
    suppress_errors: bool = False
    """Log a failure of the compiler and run the function plainly, instead of raising it."""
    recompile_limit: int = 8
    """Segments per gate; past it the gate runs in the interpreter, with a warning."""
    unroll_limit: int = 128
    """Iterations up to which a loop without breaks is unrolled into one graph."""
    capture_budget: int = 200_000
    """Instructions that one capture may look at before it leaves off with a break."""
    inline_depth: int = 120
    """How deep calls are inlined."""
    cache: bool = True
    """Keep compiled code on disk for later processes."""
    cache_dir: str = ""
    """Where to keep it; empty for the user's cache directory."""
    cache_bytes: int = 1 << 30
    """How much to keep; what was used longest ago goes first."""
    codegen_level: int = 2
    """How much work LLVM's code generator does for better code, 0 to 3."""
    vector_bits: int = 0
    """The size of the vectors in generated code: 128, 256 or 512; 0 for the widest that the machine has."""
    fast_math: bool = False
    """Let the native backend fuse multiplications with additions and multiply by reciprocals, for a few last bits."""
    threads: int = 0
    """Threads that a kernel of the native backend uses at most; 0 for as many as PyTorch."""
    log: str = ""
    """What to log, comma separated: breaks, recompiles, graph, segments, loops, llvm, timing, or all."""
    break_at: Callable[[Any, int], bool] | None = None
    """For tests: break before every instruction for which `break_at(Code, index)` is true."""


CHOICES = {"codegen_level": (0, 1, 2, 3), "vector_bits": (0, 128, 256, 512)}
"""The values that some settings are limited to."""

ALIASES = {"cache_size_limit": "recompile_limit"}
"""Older names of settings."""

_FIELDS = {f.name: f for f in fields(Settings)}


def _checked(name: str, value: Any) -> Any:
    """The value of a setting as it is stored.

    Raises:
        TypeError: of the wrong type; ValueError: of the right type, but out of range.
    """
    default: Any = _FIELDS[name].default
    if default is None:
        if value is not None and not callable(value):
            raise TypeError(f"segue.config.{name} takes a callable or None, not {value!r}")
        return value
    if type(value) is not type(default):
        expected = type(default).__name__
        raise TypeError(f"segue.config.{name} takes {expected}, not {value!r} ({type(value).__name__})")
    if type(value) is int and value < 0:
        raise ValueError(f"segue.config.{name} is a count and cannot be {value}; the default is {default}")
    if value not in CHOICES.get(name, (value,)):
        raise ValueError(f"segue.config.{name} is one of {', '.join(map(str, CHOICES[name]))}, not {value}")
    if name == "log":
        topics = logs.topics_of(value)
        logs.show(topics)
        return ",".join(topics)
    return value


_TRUTH = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def _parsed(name: str, text: str) -> Any:
    """The value that the text of an environment variable stands for."""
    kind: Any = type(_FIELDS[name].default)
    try:
        return _TRUTH[text.strip().lower()] if kind is bool else kind(text.strip())
    except (KeyError, ValueError):
        right = "one of " + ", ".join(_TRUTH) if kind is bool else f"{kind.__name__}"
        raise ValueError(f"SEGUE_{name.upper()}={text!r}: segue.config.{name} takes {right}") from None


def _from_environment() -> Settings:
    values = Settings()
    for name, found in _FIELDS.items():
        text = os.environ.get(f"SEGUE_{name.upper()}")
        if text is not None and found.default is not None:
            setattr(values, name, _checked(name, _parsed(name, text)))
    return values


def _known(name: str) -> str:
    """The present name of a setting.

    Raises:
        AttributeError: there is no such setting; the message lists those that there are.
    """
    present = ALIASES.get(name, name)
    if present not in _FIELDS:
        raise AttributeError(f"segue.config has no setting {name!r}{alternatives(name, _FIELDS)}")
    return present


def __getattr__(name: str) -> Any:
    return getattr(_values, _known(name))


def __dir__() -> list[str]:
    return [*_FIELDS, *ALIASES, "patch"]


class _Settable(types.ModuleType):
    """This module's class: assigning to an attribute changes the setting of that name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ or name.startswith("__"):
            super().__setattr__(name, value)
            return
        name = _known(name)
        setattr(_values, name, _checked(name, value))


@contextlib.contextmanager
def patch(**changes: Any) -> Iterator[None]:
    """Change settings for the duration of a `with` block or of a decorated function.

    Args:
        changes: settings by name.

    Raises:
        AttributeError: an unknown setting.
        TypeError, ValueError: a value that the setting cannot take.

    Example:
        >>> from segue import config
        >>> @config.patch(suppress_errors=True)
        ... def careful():
        ...     return config.suppress_errors
        >>> careful()
        True
    """
    changes = {_known(name): _checked(_known(name), value) for name, value in changes.items()}
    before = {name: getattr(_values, name) for name in changes}
    try:
        for name, value in changes.items():
            setattr(_values, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(_values, name, value)


_values = _from_environment()
sys.modules[__name__].__class__ = _Settable
