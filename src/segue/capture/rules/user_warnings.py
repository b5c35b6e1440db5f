"""`warnings.warn`: shown, or not, when the graph has run, by the registry of the module that it names."""

from __future__ import annotations

import functools
import types
import warnings
from typing import TYPE_CHECKING, Any

from segue.capture import outputs
from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.rules.output import standard_stream, writes_natively
from segue.capture.values.base import Value
from segue.capture.values.late import LateValue, example_of
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ExceptionValue, ObjectValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_ORIGINAL_SHOW = warnings._showwarning_orig  # type: ignore[attr-defined]


@rule(warnings.warn)
def _warn(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    names = ("message", "category", "stacklevel", "source")
    given = dict(zip(names, args, strict=False)) | kwargs
    message = tr.look(given["message"])
    category = _category(tr, message, given.get("category"))
    stacklevel = tr.index_of(given["stacklevel"]) if "stacklevel" in given else 1
    if "source" in given and tr.look(given["source"]).real is not None:
        graph_break("side-effect-call", function="warnings.warn() with a source")
    path, line, namespace = _caller(tr, stacklevel)
    module = namespace.find(tr, "__name__")
    name = "<string>" if module is None else tr.look(module).concrete(tr)
    text = message
    if isinstance(message, ExceptionValue):
        if message.source is not None or len(message.args) != 1:
            graph_break("side-effect-call", function="warnings.warn() of an object")
        text = message.args[0]
    example = example_of(tr, text)
    if type(example) is not str:
        graph_break("side-effect-call", function="warnings.warn() of something other than text")
    known_text = None if isinstance(tr.look(text), LateValue) else example
    _guard_shown(tr, category, known_text, name, line)
    facts = [tr.constant(fact) for fact in (category, path, line, name)]
    outputs.note(tr, _shown, text, *facts, namespace)
    return tr.constant(None)


def _shown(text: str, category: type[Warning], path: str, line: int, module: str, namespace: dict[str, Any]) -> None:
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, path, line, module, registry)


def _category(tr: Tracer, message: Value, given: Value | None) -> type[Warning]:
    if issubclass(message.python_type(tr), Warning):
        cls = message.python_type(tr)
        if not _is_simple(cls):
            graph_break("side-effect-call", function=f"warnings.warn() of {cls.__name__}")
        return cls
    cls = UserWarning if given is None or tr.look(given).real is None else tr.look(given).concrete(tr)
    if not isinstance(cls, type) or not issubclass(cls, Warning):
        graph_break("side-effect-call", function="warnings.warn()")
    if not _is_simple(cls):
        graph_break("side-effect-call", function=f"warnings.warn() of {cls.__name__}")
    return cls


def _is_simple(cls: type) -> bool:
    """Whether instances of a warning class are made and written as those of the built-in ones."""
    return not any(isinstance(lookup(cls, name), types.FunctionType) for name in ("__new__", "__init__", "__str__"))


def _caller(tr: Tracer, stacklevel: int) -> tuple[str, int, DictValue]:
    """File, line and globals of the code that the warning names."""
    left = max(stacklevel, 1)
    skips = stacklevel > 0 and not _is_internal(tr.frames[-1].code.original.co_filename)
    for position, frame in enumerate(reversed(tr.frames)):
        path = frame.code.original.co_filename
        if position and skips and _is_internal(path):
            continue
        left -= 1
        if left == 0:
            assert frame.current is not None
            return path, frame.current.position.lineno or 0, frame.function_value.namespace
    graph_break("side-effect-call", function="warnings.warn() for the caller of the compiled function")


def _is_internal(path: str) -> bool:
    return "importlib" in path and "_bootstrap" in path


def _guard_shown(tr: Tracer, category: type[Warning], text: str | None, module: str, line: int) -> None:
    """The warning is not an error, and showing it runs no code of the program."""
    stream = standard_stream(tr, "stderr")
    if stream.real is not None and not (isinstance(stream, ObjectValue) and writes_natively(stream.cls)):
        graph_break("side-effect-call", function="warnings.warn() with a stream of the program's for errors")
    if stream.source is None or not is_shown(category, text, module, line):
        graph_break("side-effect-call", function="warnings.warn()")
    kind: Any = category
    tr.program.check_plain("predicate", _checks(kind, text, module, line), ())


@functools.cache
def _checks(category: Any, text: str | None, module: str, line: int) -> Any:
    return functools.partial(is_shown, category, text, module, line)


def is_shown(category: type[Warning], text: str | None, module: str, line: int) -> bool:
    """Whether a warning is ignored or shown as usual: no filter makes it an error, and nobody else shows it."""
    if warnings.showwarning is not _ORIGINAL_SHOW or getattr(warnings, "_showwarnmsg_impl", None) is None:
        return False
    for action, message, kind, where, number in warnings.filters:
        fits_text = message is None or text is None or message.match(text)
        if fits_text and issubclass(category, kind) and (where is None or where.match(module)) and number in (0, line):
            if action == "error" or (text is not None or message is None):
                return action != "error"
    return True
