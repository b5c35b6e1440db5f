"""`print`, and writing to text streams."""

from __future__ import annotations

import functools
import io
import sys
import types
from typing import TYPE_CHECKING, Any

import torch

from segue.capture import outputs
from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import refused, rule
from segue.capture.rules.texts import join, text
from segue.capture.values.base import Value
from segue.capture.values.known import Known
from segue.capture.values.late import example_of
from segue.capture.values.object import ObjectValue

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_NATIVE_WRITERS = (vars(io.TextIOWrapper)["write"], vars(io.StringIO)["write"])


def standard_stream(tr: Tracer, name: str) -> Value:
    """`sys.stdout` or `sys.stderr`, as the program has set it."""
    return tr.look(tr.pinned(sys).get_attribute(tr, name))


def writes_natively(cls: type) -> bool:
    """Whether no Python code runs when text is written to an instance of a class."""
    return lookup(cls, "write") in _NATIVE_WRITERS and not isinstance(lookup(cls, "flush"), types.FunctionType)


def _accepts(is_ascii: bool, stream: Any) -> bool:
    """Whether writing text to a stream does not fail."""
    if stream.closed:
        return False
    return is_ascii or isinstance(stream, io.StringIO) or stream.encoding.lower().replace("-", "") == "utf8"


@functools.cache
def check_of(function: Any, *args: Any) -> Any:
    """A predicate of these facts: the same object for the same ones, so that a fact is checked once."""
    return functools.partial(function, *args)


def is_ready(tr: Tracer, stream: Value, example: str) -> bool:
    """Whether text like the example can be written after the graph as well as now; guarded."""
    if not isinstance(stream, ObjectValue) or stream.source is None or not writes_natively(stream.cls):
        return False
    try:
        example.encode()
    except UnicodeEncodeError:
        return False
    if not _accepts(example.isascii(), stream.real):
        return False
    check = check_of(_accepts, example.isascii())
    tr.program.check_plain("predicate", check, (tr.program.fetch(stream.source),))
    return True


class BufferValue(ObjectValue):
    """An `io.StringIO` that capture made, which is written to at its end; `pieces` are what was written."""

    def __init__(self, tr: Tracer) -> None:
        super().__init__(io.StringIO)
        self.pieces: Args = []
        self.born = tr.here

    def append(self, tr: Tracer, written: Value) -> None:
        """Write to the buffer."""
        tr.mutated(self)
        self.pieces.append(written)

    def state(self) -> Any:
        return list(self.pieces)

    def restore(self, state: Any) -> bool:
        return self.pieces == state

    def rebuild(self, to: Rebuilder) -> int:
        made = to.remember(self, to.program.call(io.StringIO))
        for piece in self.pieces:
            to.program.call(io.StringIO.write, made, to.register(piece))
        self.fill(to, made)
        return made


@rule(io.StringIO)
def _buffer(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if args or kwargs:
        graph_break("unsupported-class", type="StringIO with a text to begin with")
    return BufferValue(tr)


@rule(io.StringIO.getvalue)
def _contents(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    stream = tr.look(args[0])
    if not isinstance(stream, BufferValue):
        graph_break("opaque-call", function="StringIO.getvalue()")
    return join(tr, stream.pieces)


def writes(tr: Tracer, stream: Value, written: Value) -> bool:
    """Write text to a buffer of the capture, or after the graph; False if neither can be done."""
    if isinstance(stream, BufferValue):
        stream.append(tr, written)
    elif is_ready(tr, stream, example_of(tr, written)):
        outputs.note(tr, _write, stream, written)
    else:
        return False
    return True


def _write(stream: Any, written: str) -> None:
    stream.write(written)


@rule(print)
def _print(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    options = {name: tr.look(value) for name, value in kwargs.items()}
    stream = options.get("file")
    if stream is None or stream.real is None:
        stream = standard_stream(tr, "stdout")
    pieces: Args = []
    separator, end = _option(tr, options.get("sep"), " "), _option(tr, options.get("end"), "\n")
    for number, value in enumerate(args):
        pieces += [separator, text(tr, str, value)] if number else [text(tr, str, value)]
    if isinstance(stream, Known) and stream.real is None:
        return tr.constant(None)
    if not writes(tr, stream, join(tr, [*pieces, end])):
        for piece in (*pieces, end):
            if not writes(tr, stream, piece):
                tr.call(stream.get_attribute(tr, "write"), [piece], {})
    if "flush" in options and tr.truth(options["flush"]):
        tr.call(stream.get_attribute(tr, "flush"), [], {})
    return tr.constant(None)


def _option(tr: Tracer, value: Value | None, default: str) -> Value:
    if value is None or value.real is None:
        return tr.constant(default)
    if not issubclass(value.python_type(tr), str):
        tr.raise_error(TypeError, f"sep must be None or a string, not {value.python_type(tr).__name__}")
    return value


@rule(*_NATIVE_WRITERS)
def _write_method(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    stream, written = tr.look(args[0]), tr.look(args[1])
    if not issubclass(written.python_type(tr), str) or not writes(tr, stream, written):
        graph_break("side-effect-call", function=f"write() of {stream.python_type(tr).__name__}")
    return tr.fold(len, [written], {})


@rule(vars(io.TextIOWrapper)["flush"], io.StringIO.flush)
def _flush(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    stream = tr.look(args[0])
    if isinstance(stream, BufferValue):
        return tr.constant(None)
    if not is_ready(tr, stream, ""):
        graph_break("side-effect-call", function=f"flush() of {stream.python_type(tr).__name__}")
    outputs.note(tr, _flushed, stream)
    return tr.constant(None)


def _flushed(stream: Any) -> None:
    stream.flush()


refused("side-effect-call", torch.set_printoptions, function="torch.set_printoptions()")
