"""`warnings.warn`: shown, or not, when the graph has run, by the registry of the module that it names."""

from __future__ import annotations

import functools
import re
import types
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from segue.capture import outputs
from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import refused, rule
from segue.capture.rules.output import check_of, standard_stream, writes_natively
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
    if _is_error(tr, category, known_text, name, line):
        tr.raise_value(category, [text])
    facts = [tr.constant(fact) for fact in (category, path, line, name)]
    outputs.note(tr, _shown, text, *facts, namespace)
    return tr.constant(None)


def _shown(text: str, category: type[Warning], path: str, line: int, module: str, namespace: dict[str, Any]) -> None:
    registry = namespace.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, path, line, module, registry)


def _category(tr: Tracer, message: Value, given: Value | None) -> type[Warning]:
    cls = message.python_type(tr)
    if not issubclass(cls, Warning):
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
    skips = stacklevel > 0 and not is_internal(tr.frames[-1].code.original.co_filename)
    for position, frame in enumerate(reversed(tr.frames)):
        path = frame.code.original.co_filename
        if position and skips and is_internal(path):
            continue
        left -= 1
        if left == 0:
            assert frame.current is not None
            return path, frame.current.position.lineno or 0, frame.function_value.namespace
    graph_break("side-effect-call", function="warnings.warn() for the caller of the compiled function")


def is_internal(path: str) -> bool:
    """Whether a file is of the import system, which is no caller."""
    return "importlib" in path and "_bootstrap" in path


def _is_error(tr: Tracer, category: type[Warning], text: str | None, module: str, line: int) -> bool:
    """Whether the warning is raised; guarded, as is that showing it runs no code of the program."""
    stream = standard_stream(tr, "stderr")
    if stream.real is not None and not (isinstance(stream, ObjectValue) and writes_natively(stream.cls)):
        graph_break("side-effect-call", function="warnings.warn() with a stream of the program's for errors")
    if stream.source is None or not is_shown_as_usual():
        graph_break("side-effect-call", function="warnings.warn()")
    tr.program.check_plain("predicate", is_shown_as_usual, ())
    filters = _filters(tr)
    if filters.written is not None:
        found = action_for(filters.written, category, text, module, line)
        if found is None:
            graph_break("side-effect-call", function="warnings.warn()")
        return found == "error"
    if action_for(warnings.filters, category, text, module, line) in (None, "error"):
        graph_break("side-effect-call", function="warnings.warn() of what may be an error")
    kind: Any = category
    tr.program.check_plain("predicate", check_of(_is_no_error, kind, text, module, line), ())
    return False


def _is_no_error(category: type[Warning], text: str | None, module: str, line: int) -> bool:
    return action_for(warnings.filters, category, text, module, line) not in (None, "error")


def is_shown_as_usual() -> bool:
    """Whether no function of the program's shows warnings."""
    return warnings.showwarning is _ORIGINAL_SHOW


def action_for(filters: Sequence[Any], category: type[Warning], text: str | None, module: str, line: int) -> str | None:
    """What the filters say about a warning; None if that depends on a text that is not known yet."""
    for action, message, kind, where, number in filters:
        if not issubclass(category, kind) or number not in (0, line) or not (where is None or where.match(module)):
            continue
        if message is not None and text is None:
            return None
        if message is None or message.match(text):
            return str(action)
    return str(warnings.defaultaction)  # type: ignore[attr-defined]


class _Filters:
    """The filters as the program has set them: None while they are as at the gate; `saved` are those to come back."""

    def __init__(self) -> None:
        self.written: list[Any] | None = None
        self.saved: list[tuple[Value, list[Any] | None]] = []

    def change(self, tr: Tracer) -> list[Any]:
        """The filters, to be changed."""
        if self.written is None:
            now = tuple(warnings.filters)
            tr.program.check_plain("predicate", functools.partial(_filters_are, now), ())
            self.written = list(now)
        return self.written


def _filters_are(expected: tuple[Any, ...]) -> bool:
    return tuple(warnings.filters) == expected


def _filters(tr: Tracer) -> _Filters:
    found: _Filters = tr.state.setdefault(warnings, _Filters())
    return found


@rule(warnings.catch_warnings.__enter__)
def _enter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    manager = tr.look(args[0])
    for name, usual in (("_record", False), ("_entered", False), ("_module", warnings)):
        if tr.look(manager.get_attribute(tr, name)).real is not usual:
            graph_break("side-effect-call", function="catch_warnings() that records")
    given = tr.look(manager.get_attribute(tr, "_filter"))
    filters = _filters(tr)
    filters.saved.append((manager, filters.written))
    outputs.note(tr, warnings.catch_warnings.__enter__, manager)
    if given.real is not None:
        _add(filters.change(tr), *_simple(tr, list(tr.unpack(given)), {}))
    elif filters.written is not None:
        filters.written = list(filters.written)
    return tr.constant(None)


@rule(warnings.catch_warnings.__exit__)
def _exit(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    manager, filters = tr.look(args[0]), _filters(tr)
    if not filters.saved or filters.saved[-1][0] is not manager:
        graph_break("side-effect-call", function="leaving catch_warnings()")
    _, filters.written = filters.saved.pop()
    none = tr.constant(None)
    outputs.note(tr, warnings.catch_warnings.__exit__, manager, none, none, none)
    return none


@rule(warnings.simplefilter)
def _simplefilter(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    item, appends = _simple(tr, args, kwargs)
    _add(_filters(tr).change(tr), item, appends)
    outputs.note(tr, functools.partial(warnings.simplefilter, item[0], item[2], item[4], appends))
    return tr.constant(None)


def _simple(tr: Tracer, args: Args, kwargs: Kwargs) -> tuple[Any, bool]:
    facts = _facts(tr, {"category": Warning, "lineno": 0, "append": False}, args, kwargs)
    return (facts["action"], None, facts["category"], None, facts["lineno"]), bool(facts["append"])


def _facts(tr: Tracer, defaults: dict[str, Any], args: Args, kwargs: Kwargs) -> dict[str, Any]:
    """The arguments of a call that makes a filter, by name; the action has no default."""
    given = dict(zip(("action", *defaults), args, strict=False)) | kwargs
    return defaults | {name: tr.look(value).concrete(tr) for name, value in given.items()}


@rule(warnings.filterwarnings)
def _filterwarnings(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    defaults = {"message": "", "category": Warning, "module": "", "lineno": 0, "append": False}
    facts = _facts(tr, defaults, args, kwargs)
    message = re.compile(facts["message"], re.I) if facts["message"] else None
    where = re.compile(facts["module"]) if facts["module"] else None
    item = (facts["action"], message, facts["category"], where, facts["lineno"])
    _add(_filters(tr).change(tr), item, facts["append"])
    outputs.note(tr, functools.partial(warnings.filterwarnings, **facts))
    return tr.constant(None)


def _add(filters: list[Any], item: Any, appends: bool) -> None:
    """Put a filter first, or last if it is new."""
    if appends:
        if item not in filters:
            filters.append(item)
        return
    if item in filters:
        filters.remove(item)
    filters.insert(0, item)


refused(
    "side-effect-call",
    *(warnings.resetwarnings, warnings.warn_explicit),
    function="warnings.resetwarnings() or warn_explicit()",
)
