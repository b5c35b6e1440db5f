"""`logging`: records are made and handled when the graph has run, at every call.

A handler of the standard library that writes to a plain stream is called after the graph.  Handlers, filters and
formatters of the program are inlined: what they do is captured as anything else.
"""

from __future__ import annotations

import logging
import os
import types
import weakref
from typing import TYPE_CHECKING, Any

from segue.capture import outputs
from segue.capture.attributes import class_attribute, lookup
from segue.capture.breaks import Raised, graph_break
from segue.capture.rules import call_inlined, refused, rule
from segue.capture.rules.output import check_of, is_ready
from segue.capture.rules.user_warnings import is_internal
from segue.capture.values.base import Value
from segue.capture.values.late import LateValue, example_of
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_SOURCE_FILE = logging._srcfile

_MADE_LATE = ("created", "msecs", "relativeCreated", "thread", "threadName", "processName", "process")
"""Attributes of a record that say when and where it was made."""


class RecordValue(ObjectValue):
    """A log record that capture makes; `made_of` are the arguments of its class."""

    def __init__(self, tr: Tracer, made_of: Args) -> None:
        super().__init__(logging.LogRecord)
        self.made_of = made_of
        self.born = tr.here
        self.given: dict[str, Value] = {}

    def set_up(self, tr: Tracer, attributes: dict[str, Value]) -> None:
        """Set the attributes that a new record has."""
        namespace = self.fresh
        assert namespace is not None
        for name, value in attributes.items():
            namespace.store(tr, name, tr.constant(name), value)
        self.given = attributes

    def added(self, tr: Tracer) -> list[tuple[Any, tuple[Value, Value]]]:
        """The attributes that are not those of a new record."""
        assert self.fresh is not None
        return [(name, entry) for name, entry in self.fresh.entries.items() if self.given.get(name) is not entry[1]]

    def with_text(self, tr: Tracer, message: Value) -> RecordValue:
        """A copy as it is now, with the finished message."""
        none = tr.constant(None)
        copy = RecordValue(tr, [*self.made_of[:4], message, none, *self.made_of[6:]])
        copy.set_up(tr, {})
        assert copy.fresh is not None
        copy.fresh.entries.update((n, e) for n, e in self.added(tr) if n not in ("msg", "args", "message"))
        return copy

    def rebuild(self, to: Rebuilder) -> int:
        made = to.remember(self, to.program.call(logging.LogRecord, *map(to.register, self.made_of)))
        for _, (key, value) in self.added(to.tr):
            to.program.call(setattr, made, to.register(key), to.register(value))
        return made


@rule(logging.LogRecord)
def _record(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    names = ("name", "level", "pathname", "lineno", "msg", "args", "exc_info", "func", "sinfo")
    given = dict(zip(names, args, strict=False)) | kwargs
    if set(given) - set(names) or not set(names[:7]) <= set(given):
        graph_break("unsupported-class", type="LogRecord")
    none = tr.constant(None)
    made_of = [given.get(name, none) for name in names]
    made = RecordValue(tr, made_of)
    level, path = tr.look(given["level"]).concrete(tr), tr.look(given["pathname"]).concrete(tr)
    file = os.path.basename(path)
    arguments = tr.look(given["args"])
    if arguments.real is not None and arguments.length(tr) == 1:
        first = tr.look(arguments.get_item(tr, tr.constant(0)))
        if issubclass(first.python_type(tr), dict) and first.truth(tr):
            arguments = first
    template = logging.LogRecord("", level, path, 0, "", None, None)
    attributes: dict[str, Value] = {
        "name": given["name"],
        "msg": given["msg"],
        "args": arguments,
        "levelname": tr.call(tr.pinned(logging.getLevelName), [given["level"]], {}),
        "levelno": given["level"],
        "pathname": given["pathname"],
        "filename": tr.constant(file),
        "module": tr.constant(os.path.splitext(file)[0]),
        "exc_info": given["exc_info"],
        "exc_text": none,
        "stack_info": given.get("sinfo", none),
        "lineno": given["lineno"],
        "funcName": given.get("func", none),
    }
    late = {name: LateValue(tr, _FIELDS[name], [_Example(made, template)]) for name in _MADE_LATE}
    made.set_up(tr, {name: (attributes | late)[name] for name in vars(template)})
    return made


class _Example(Value):
    """The record as an operand of its own late attributes."""

    def __init__(self, record: RecordValue, template: logging.LogRecord) -> None:
        self.record = record
        self.template = template

    def python_type(self, tr: Tracer) -> type:
        return logging.LogRecord

    def concrete(self, tr: Tracer) -> Any:
        return self.template

    def rebuild(self, to: Rebuilder) -> int:
        return to.register(self.record)


def _field(name: str) -> Any:
    def read(record: logging.LogRecord) -> Any:
        return getattr(record, name)

    return read


_FIELDS = {name: _field(name) for name in _MADE_LATE}


@rule(logging.Logger.isEnabledFor)
def _is_enabled_for(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    logger, level = tr.look(args[0]), tr.look(args[1]).concrete(tr)
    if not isinstance(logger, ObjectValue) or logger.source is None:
        graph_break("opaque-call", function="a logger made in the function")
    for name in ("getEffectiveLevel", "manager"):
        found = lookup(logger.cls, name)
        if isinstance(found, types.FunctionType) and found is not lookup(logging.Logger, name):
            return call_inlined(tr, logging.Logger.isEnabledFor, args, kwargs)
    namespace = logger.namespace(tr)
    if namespace is not None and id(namespace) in tr.written:
        graph_break("order", operation="logging by a logger that was changed")
    enabled = _is_enabled(logger.real, level)
    check = check_of(_has_enabled, level, enabled)
    tr.program.check_plain("predicate", check, (tr.program.fetch(logger.source),))
    return tr.constant(enabled)


def _is_enabled(logger: logging.Logger, level: int) -> bool:
    """`logger.isEnabledFor(level)`, without filling its cache."""
    return not logger.disabled and logger.manager.disable < level and level >= logger.getEffectiveLevel()


def _has_enabled(level: int, expected: bool, logger: logging.Logger) -> bool:
    return logger.isEnabledFor(level) is expected


@rule(logging.Logger._log)
def _log(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    names = ("self", "level", "msg", "args", "exc_info", "extra", "stack_info", "stacklevel")
    given = dict(zip(names, args, strict=False)) | kwargs
    none = tr.constant(None)
    logger = tr.look(given["self"])
    exc_info = given.get("exc_info", none)
    if tr.truth(exc_info) or ("stack_info" in given and tr.truth(given["stack_info"])):
        graph_break("side-effect-call", function="logging with a traceback")
    if lookup(logger.python_type(tr), "findCaller") is not lookup(logging.Logger, "findCaller"):
        graph_break("side-effect-call", function="logging by a logger with findCaller() of its own")
    stacklevel = tr.index_of(given["stacklevel"]) if "stacklevel" in given else 1
    path, line, name = (tr.constant(fact) for fact in _caller(tr, stacklevel))
    record = tr.call(
        logger.get_attribute(tr, "makeRecord"),
        [logger.get_attribute(tr, "name"), given["level"], path, line, given["msg"], given["args"], none, name]
        + [given.get("extra", none), none],
        {},
    )
    tr.call(logger.get_attribute(tr, "handle"), [record], {})
    return none


def _caller(tr: Tracer, stacklevel: int) -> tuple[str, int, str]:
    """File, line and function of the code that logs, as `Logger.findCaller` finds them."""
    skipped = 0
    for code, instruction in reversed(tr.sites()):
        if code.co_filename == _SOURCE_FILE or is_internal(code.co_filename):
            continue
        skipped += 1
        if skipped >= stacklevel:
            return code.co_filename, instruction.position.lineno or 0, code.co_name
    graph_break("side-effect-call", function="logging for the caller of the compiled function")


@rule(logging.Handler.handle)
def _handle(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """The handler's lock is not taken for what is inlined, so that may only add to lists."""
    before = set(tr.written)
    result = call_inlined(tr, logging.Handler.handle, args, kwargs)
    for key, value in tr.written.items():
        if key not in before and not (isinstance(value, ListValue) and value.only_grows()):
            graph_break("side-effect-call", function="a log handler that changes its objects")
    return result


@rule(logging.Handler.acquire, logging.Handler.release)
def _lock(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(None)


@rule(logging.StreamHandler.emit)
def _emit(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    handler, record = tr.look(args[0]), tr.look(args[1])
    if not isinstance(handler, ObjectValue) or not isinstance(record, RecordValue) or not _is_standard(tr, handler):
        return call_inlined(tr, logging.StreamHandler.emit, args, kwargs)
    stream = handler.get_attribute(tr, "stream")
    try:
        message = tr.call(record.get_attribute(tr, "getMessage"), [], {})
    except Raised:
        graph_break("side-effect-call", function="logging a message that cannot be formatted")
    written = record.with_text(tr, message)
    if not is_ready(tr, tr.look(stream), _example(tr, handler, written)):
        return call_inlined(tr, logging.StreamHandler.emit, args, kwargs)
    outputs.note(tr, _emitted, handler, written)
    return tr.constant(None)


def _emitted(handler: logging.StreamHandler[Any], record: logging.LogRecord) -> None:
    handler.acquire()
    try:
        handler.emit(record)
    finally:
        handler.release()


def _is_standard(tr: Tracer, handler: ObjectValue) -> bool:
    """Whether no code of the program runs when the handler formats and writes a record."""
    for name in ("emit", "format", "flush", "handleError", "acquire", "release"):
        if not getattr(class_attribute(tr, handler.cls, name), "__module__", "").startswith("logging"):
            return False
    formatter = tr.look(handler.get_attribute(tr, "formatter"))
    if formatter.real is None:
        return True
    if not isinstance(formatter, ObjectValue) or formatter.cls is not logging.Formatter or formatter.source is None:
        return False
    style = tr.look(formatter.get_attribute(tr, "_style"))
    return type(style.real).__module__ == "logging"


def _example(tr: Tracer, handler: ObjectValue, record: RecordValue) -> str:
    """A text like the one that will be written."""
    example = logging.LogRecord(*(example_of(tr, part) for part in record.made_of))
    for name, (_, value) in record.added(tr):
        setattr(example, name, example_of(tr, value))
    formatter = handler.real.formatter or logging.Formatter()
    try:
        return str(formatter.format(example))
    except Exception:  # a `__format__` or `__str__` may raise anything: the interpreter's handler reports it
        graph_break("side-effect-call", function="logging a message that cannot be formatted")


@rule(logging.getLogger)
def _get_logger(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    name = tr.look([*args, *kwargs.values(), tr.constant(None)][0]).concrete(tr)
    root = logging.Logger.root
    if not name or name == root.name:
        return tr.pinned(root)
    found = logging.Logger.manager.loggerDict.get(name)
    if not isinstance(found, logging.Logger):
        graph_break("side-effect-call", function="logging.getLogger() for a new logger")
    tr.program.check_plain("predicate", check_of(_is_logger, name, weakref.ref(found)), ())
    return tr.pinned(found)


def _is_logger(name: str, logger: weakref.ref[logging.Logger]) -> bool:
    return logging.Logger.manager.loggerDict.get(name) is logger()


refused(
    "side-effect-call",
    logging.Logger.setLevel, logging.disable, logging.basicConfig, logging.addLevelName, logging.captureWarnings,
    logging.Logger.addHandler, logging.Logger.removeHandler, logging.Logger.exception, logging.exception,
    logging.setLoggerClass, logging.setLogRecordFactory, logging.shutdown,
    function="a function that changes the settings of logging, or logs a traceback",
)  # fmt: skip
