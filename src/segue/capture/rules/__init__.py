"""Rules: what capture does for a callable that it cannot, or need not, look into.

`@rule(callable, …)` registers a function `(tracer, args, kwargs) -> Value` by the callable's identity; one file per
subject.  A rule that does not apply leaves the call to the interpreter by a graph break.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break

if TYPE_CHECKING:
    from segue.capture.frame import Frame
    from segue.capture.tracer import Tracer
    from segue.capture.values.base import Value

Rule = Callable[["Tracer", "list[Value]", "dict[str, Value]"], "Value"]
Shortcut = Callable[["Tracer", "Frame"], None]

_RULES: dict[int, tuple[Any, Rule]] = {}
_SHORTCUTS: dict[int, tuple[Any, Shortcut]] = {}
_BY_NAME: dict[tuple[str, str], Rule] = {}
_loaded = False


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    """Register a rule for callables."""

    def register(function: Rule) -> Rule:
        for target in targets:
            _RULES[id(target)] = (target, function)
        return function

    return register


def rule_by_name(module: str, name: str) -> Callable[[Rule], Rule]:
    """Register a rule for a function of a module that takes long to import and may never be needed."""

    def register(function: Rule) -> Rule:
        _BY_NAME[module, name] = function
        return function

    return register


def _named_rule(target: Any) -> Rule | None:
    if type(target) is not FunctionType:
        return None
    found = _BY_NAME.get((target.__module__, target.__name__))
    return found if found and vars(sys.modules[target.__module__]).get(target.__name__) is target else None


def inline(python_function: Callable[..., Any], *targets: Any) -> None:
    """Register Python code that stands in for callables written in C."""

    def stand_in(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        return tr.call(tr.pinned(python_function), args, kwargs)

    rule(*targets)(stand_in)


def folded(*targets: Any) -> None:
    """Register callables without effects: what they give for constants is a constant."""

    def register(target: Any) -> None:
        rule(target)(lambda tr, args, kwargs: tr.fold(target, args, kwargs))

    for target in targets:
        register(target)


def refused(kind: str, *targets: Any, **facts: object) -> None:
    """Register callables that are left to the interpreter by a graph break of this kind."""

    def refuse(tr: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        graph_break(kind, **facts)

    rule(*targets)(refuse)


def call_inlined(tr: Tracer, function: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a Python function as if there were no rule for it."""
    return tr.look(tr.pinned(function)).call(tr, args, kwargs)


def shortcut(function: Any) -> Callable[[Shortcut], Shortcut]:
    """Register what moves a frame of a Python function on, over instructions whose outcome it finds out faster."""

    def register(skip: Shortcut) -> Shortcut:
        _SHORTCUTS[id(function.__code__)] = (function, skip)
        return skip

    return register


def find_shortcut(code: CodeType) -> Shortcut | None:
    """The shortcut of a function, if it has one."""
    found = _SHORTCUTS.get(id(code))
    return found[1] if found is not None else None


def find_rule(target: Any) -> Rule | None:
    """The rule of a callable, if it has one."""
    if not _loaded:
        load()
    found = _RULES.get(id(target))
    if found is not None:
        return found[1]
    from segue.capture.rules.markers import marker_rule

    return _named_rule(target) or marker_rule(target)


def load() -> None:
    """Import the rule modules, each of which registers its rules."""
    global _loaded
    _loaded = True
    from segue.capture.rules import (  # noqa: F401
        autograd,
        builtins,
        checkpointing,
        classes,
        containers,
        context_variables,
        control_flow,
        copying,
        dunders,
        exceptions,
        functional,
        generators,
        inference,
        introspection,
        library,
        log_records,
        markers,
        modules,
        numpy_,
        output,
        overrides,
        patterns,
        reparametrising,
        serialising,
        system,
        texts,
        torch_state,
        torch_values,
        transforms,
        types,
        user_warnings,
    )
