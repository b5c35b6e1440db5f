"""What can be seen of a call: result, events, exception, traceback, state of the arguments."""

from __future__ import annotations

import enum
import traceback
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from tests.case import events

ATOMS = (
    *(type(None), bool, int, str, bytes, complex, type(...), type(NotImplemented), range, slice),
    *(types.GenericAlias, torch.dtype, torch.device, torch.layout),
)
NAMED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


@dataclass(frozen=True)
class Bits:
    """A tensor's metadata and bytes, detached from the tensor."""

    about: str
    bytes: bytes
    dtype: torch.dtype

    def __repr__(self) -> str:
        return f"{self.about} {self.bytes.hex()}"


@dataclass(frozen=True)
class Raised:
    """An exception: type, arguments, traceback through the corpus, and the chain behind it."""

    type: str
    args: Any
    attributes: Any
    traceback: tuple[tuple[str, int], ...]
    cause: Any
    context: Any
    suppress_context: bool


@dataclass(frozen=True)
class Observation:
    """Everything of one call that must be the same under every way of running the function."""

    exception: Any
    result: Any
    events: Any
    arguments: Any


def observe(function: Callable[..., Any], args: tuple[Any, ...]) -> Observation:
    """Call `function(*args)` and say what could be seen of it.

    The values are snapshots (plain nested tuples), so later changes of the objects do not show.
    What is the same object in two places gets the same number: aliasing is part of it.

    Example:
        expected = observe(case.function, case.make_args()[0])
        got = observe(compiled, case.make_args()[0])
        assert difference(expected, got) is None
    """
    events.clear()
    result, raised = None, None
    try:
        result = function(*args)
    except BaseException as error:
        raised = error
    snapshot = Snapshot()
    observation = Observation(*map(snapshot, (raised, result, events, args)))
    events.clear()
    return observation


def difference(expected: Any, got: Any, where: str = "", rounding: bool = False) -> str | None:
    """Explain the first difference between two observations, None if there is none.

    With `rounding`, floating-point numbers may differ in their last four bits or so: what generated code computes is
    not rounded as ATen's kernels do it.
    """
    if type(expected) is type(got):
        if expected == got or (rounding and is_rounded(expected, got)):
            return None
        if isinstance(expected, Observation | Raised):
            pairs = ((f.name, getattr(expected, f.name), getattr(got, f.name)) for f in fields(expected))
            found = (difference(a, b, f"{where}.{name}" if where else name, rounding) for name, a, b in pairs)
            return next(filter(None, found), None)
        if isinstance(expected, tuple) and len(expected) == len(got):
            pairs = ((f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(expected, got, strict=True)))
            found = (difference(a, b, inner, rounding) for inner, a, b in pairs)
            return next(filter(None, found), None)
    return f"{where}: expected {shorten(expected)}, got {shorten(got)}"


RELATIVE = {torch.float16: 1e-3, torch.bfloat16: 1.6e-2, torch.float32: 1.3e-6}
"""The relative bounds of `torch.testing.assert_close`, whose absolute bound is 1e-5; the narrower counts."""


def is_rounded(expected: Any, got: Any) -> bool:
    """Whether two equal-typed parts of observations are floating-point numbers that are nearly the same."""
    if isinstance(expected, Bits):
        if expected.about != got.about or not expected.dtype.is_floating_point:
            return False
        numbers = [torch.frombuffer(bytearray(x.bytes), dtype=x.dtype).double() for x in (expected, got) if x.bytes]
    elif isinstance(expected, tuple) and len(expected) == 2 and expected[0] == got[0] == "float":
        numbers = [torch.tensor(float.fromhex(text), dtype=torch.float64) for _, text in (expected, got)]
    else:
        return False
    dtype = expected.dtype if isinstance(expected, Bits) else torch.float32
    slack = 16 * torch.finfo(dtype).eps
    rtol, atol = min(slack, RELATIVE.get(dtype, slack)), min(slack, 1e-5)
    return torch.allclose(*numbers, rtol=rtol, atol=atol, equal_nan=True)


def shorten(value: Any, limit: int = 600) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[:limit] + "…"


class Snapshot:
    """Turns values into nested tuples that compare by content; numbers objects as it meets them."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []  # numbered objects stay alive: their ids must not be given to others

    def __call__(self, value: Any) -> Any:
        if isinstance(value, enum.Enum):
            return str(value)
        if type(value) in ATOMS:
            return (type(value).__name__, value)
        if type(value) is float:
            return ("float", value.hex())
        if isinstance(value, NAMED):
            return self.named(value)
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        if not isinstance(value, tuple | frozenset):  # an equal constant may or may not be the same object
            self.numbers[id(value)] = len(self.numbers)
            self.kept.append(value)
        return self.content(value)

    def named(self, value: Any) -> Any:
        name = getattr(value, "__qualname__", value.__name__)
        if not isinstance(value, types.FunctionType):
            return (type(value).__name__, name)
        if id(value) in self.numbers:
            return ("again", self.numbers[id(value)])
        self.numbers[id(value)] = len(self.numbers)
        self.kept.append(value)
        cells = value.__closure__ or ()
        return (
            "function",
            name,
            self(value.__defaults__),
            self(value.__kwdefaults__),
            self.all(cells),
        )

    def all(self, values: Iterable[Any]) -> tuple[Any, ...]:
        return tuple(map(self, values))

    def content(self, value: Any) -> Any:
        kind = type(value).__qualname__
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, BaseException):
            return self.raised(value)
        if isinstance(value, list | tuple):
            return (kind, self.all(value))
        if isinstance(value, dict):
            return (kind, self.all(value.items()))
        if isinstance(value, set | frozenset):
            return (kind, tuple(sorted(self.all(value), key=repr)))
        if isinstance(value, types.CellType):
            return self.cell(value)
        return (kind, self(vars(value)) if hasattr(value, "__dict__") else ())

    def cell(self, cell: types.CellType) -> Any:
        try:
            return ("cell", self(cell.cell_contents))
        except ValueError:
            return ("cell", "empty")

    def tensor(self, tensor: torch.Tensor) -> Any:
        layout = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}"
        about = f"{type(tensor).__name__} {layout} {tensor.requires_grad} {tensor.is_inference()}"
        data = bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist())
        return ("tensor", Bits(about, data, tensor.dtype), self(tensor.grad) if tensor.is_leaf else "not a leaf")

    def raised(self, error: BaseException) -> Raised:
        return Raised(
            type=type(error).__qualname__,
            args=self(error.args),
            attributes=self(vars(error)),
            traceback=frames_of(error, lambda path: path.name.startswith("corpus")),
            cause=self(error.__cause__),
            context=self(error.__context__),
            suppress_context=error.__suppress_context__,
        )


def frames_of(error: BaseException, belongs: Callable[[Path], bool]) -> tuple[tuple[str, int], ...]:
    """The traceback's frames whose code is in files that belong to the tests, as (function name, line)."""
    entries = ((frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__))
    return tuple((code.co_name, line) for code, line in entries if belongs(Path(code.co_filename)))
