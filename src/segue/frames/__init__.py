"""Running: the normal form of bytecode, versions of code, gates and exits."""

from .code import Code, Handler, Instruction, Loop, Position, Slot
from .rewrite import Exit, build_version
from .state import FunctionState

__all__ = [
    "Code",
    "Exit",
    "FunctionState",
    "Handler",
    "Instruction",
    "Loop",
    "Position",
    "Slot",
    "build_version",
]
