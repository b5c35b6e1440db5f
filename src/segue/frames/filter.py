"""Which functions the frame hook leaves alone: the standard library, PyTorch's internals, Segue itself."""

from __future__ import annotations

import functools
import os
import sysconfig
from types import CodeType

import torch


@functools.cache
def _left_alone() -> tuple[str, ...]:
    stdlib = {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        os.path.dirname(os.__file__),
    }
    own = os.path.dirname(os.path.dirname(__file__))
    folders = {*stdlib, os.path.dirname(torch.__file__), own}
    return tuple(f + os.sep for folder in folders for f in {folder, os.path.realpath(folder)})


@functools.cache
def _compiled_anyway() -> tuple[str, ...]:
    site = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    nn = os.path.join(os.path.dirname(torch.__file__), "nn")
    outside = tuple(s + os.sep for s in site)
    return (*(os.path.join(nn, part) + os.sep for part in ("modules", "utils")), *outside)


def is_of_torch(code: CodeType) -> bool:
    """Whether a code object is PyTorch's own."""
    return code.co_filename.startswith(os.path.dirname(torch.__file__) + os.sep)


def is_import(code: CodeType) -> bool:
    """Whether a code object is the import system's, whose calls run modules for the first and only time."""
    return code.co_filename.startswith("<frozen importlib.")


def is_left_alone(code: CodeType) -> bool:
    """Whether frames of a code object always run in the interpreter; what they call is still compiled."""
    name = code.co_filename
    if name.startswith("<frozen"):
        return True
    matched = max((len(f) for f in _left_alone() if name.startswith(f)), default=0)
    return matched > 0 and matched > max((len(f) for f in _compiled_anyway() if name.startswith(f)), default=0)
