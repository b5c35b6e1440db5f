"""The options of one `compile` call, checked."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from segue import config
from segue.arguments import alternatives, check_choice, check_type
from segue.backends.registry import Backend, lookup_backend
from segue.frames.compiler import Compiler

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""PyTorch's names; what they mean is for the backend to say."""


@dataclass(frozen=True)
class Options:
    """What `segue.compile` was told; see there.

    Raises:
        TypeError, ValueError: an option of the wrong type or with an unknown value.
    """

    fullgraph: bool = False
    dynamic: bool | None = None
    backend: str | Backend | None = None
    mode: str | None = None
    options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_type("compile(fullgraph=...)", self.fullgraph, bool, "True or False")
        check_type("compile(dynamic=...)", self.dynamic, (bool, type(None)), "True, False or None")
        check_type("compile(mode=...)", self.mode, (str, type(None)), "the name of a mode or None")
        check_type(
            "compile(options=...)",
            self.options,
            (Mapping, type(None)),
            "a dict of settings or None",
        )
        if self.mode is not None:
            check_choice("compile(mode=...)", self.mode, MODES)
        if self.mode not in (None, "default") and self.options is not None:
            raise ValueError("compile() takes mode=... or options=..., not both")
        for name in self.options or ():
            check_type("compile(options=...)", name, str, "a dict whose keys are strings")
        self._backend()

    @staticmethod
    def of(function: str, given: Mapping[str, Any]) -> Options:
        """The options among the keyword arguments of a function.

        Raises:
            TypeError: a name that is not an option.
        """
        known = [f.name for f in fields(Options)]
        for name in given:
            if name not in known:
                raise TypeError(f"{function}() has no argument {name!r}{alternatives(name, known)}")
        return Options(**given)

    def _backend(self) -> Backend:
        backend = lookup_backend(config.backend if self.backend is None else self.backend)
        settings = {"mode": self.mode if self.mode != "default" else None, "options": self.options}
        given = {name: value for name, value in settings.items() if value}
        if not given:
            return backend
        return functools.update_wrapper(functools.partial(backend, **given), backend)

    def compiler(self) -> Compiler:
        """A compiler with these options."""
        return Compiler(self._backend(), self.fullgraph)
