"""Markers in the user's code: graph breaks, skips, disabled functions, functions allowed in the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segue import markers
from segue.capture.breaks import graph_break
from segue.capture.calls import name_of
from segue.capture.rules import Rule
from segue.capture.values.base import Value

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


def _requested(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    graph_break("requested")


def _skip(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    graph_break("skip-frame", function=tr.frames[-1].code.name)


def _disabled(target: Any) -> Rule:
    reason = markers.reason_of(target)
    text = name_of(target) + (f" ({reason})" if reason else "")

    def refuse(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        graph_break("disabled", function=text)

    return refuse


def _compiling(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(True)


def _constant_result(target: Any) -> Rule:
    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return tr.constant(markers.constant_result(target, [tr.python_object(a) for a in args]))

    return call


def marker_rule(target: Any) -> Rule | None:
    """The rule of a callable that is a marker or carries one."""
    if markers.is_graph_break(target):
        return _requested
    if markers.is_skip_frame(target):
        return _skip
    if markers.disabled_inside(target) is not None or markers.is_skipped(target):
        return _disabled(target)
    if markers.is_compiling_query(target):
        return _compiling
    if markers.has_constant_result(target):
        return _constant_result(target)
    inner = markers.compiled_inside(target)
    if inner is not None:
        return lambda tr, args, kwargs: tr.call(tr.pinned(inner), args, kwargs)
    return None
