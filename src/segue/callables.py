"""What `compile` and `disable` make of each kind of callable."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from torch import nn

from segue import _core, markers, modules
from segue.capture.attributes import lookup
from segue.capture.breaks import KINDS
from segue.errors import GraphBreakError
from segue.frames.filter import is_left_alone
from segue.options import Options
from segue.report.events import Event, Place

_NOT_PLAIN = {
    inspect.CO_GENERATOR: "generator function",
    inspect.CO_COROUTINE: "coroutine function",
    inspect.CO_ITERABLE_COROUTINE: "coroutine function",
    inspect.CO_ASYNC_GENERATOR: "asynchronous generator function",
}


# --- compile --------------------------------------------------------------------------------------


def compiled(target: Any, options: Options) -> Any:
    """The compiled form of a callable.

    Raises:
        TypeError: it is not a callable that can be compiled.
    """
    for kind, make in _COMPILED:
        if isinstance(target, kind):
            return make(target, options)
    if not callable(target):
        raise TypeError(
            "segue.compile takes a function, a method, an nn.Module or another callable, "
            f"not {target!r} ({type(target).__name__})"
        )
    return _compiled_object(target, options)


def _compiled_function(function: types.FunctionType, options: Options) -> Any:
    inner = markers.compiled_inside(function)
    if inner is not None:
        return compiled(inner, options)
    if markers.disabled_inside(function) is not None:
        return function
    compiler = options.compiler()
    code = function.__code__
    for flag, what in _NOT_PLAIN.items():
        if code.co_flags & flag:
            event = _not_captured(code, f"{code.co_qualname} is a {what}")
            compiler.log.record(event)
            if options.fullgraph:
                raise GraphBreakError(f"fullgraph=True, but nothing can be captured\n{event}", event)
    return _core.Entry(_caller_of(function) if is_left_alone(code) else function, compiler)


def _not_captured(code: types.CodeType, reason: str) -> Event:
    kind = KINDS["generator"]
    place = Place(code.co_filename, code.co_firstlineno, None, None, None, code.co_qualname)
    hint = "Compile the functions that it calls."
    return Event("skip", kind.id, reason, (place,), "It runs in the interpreter, wholly.", hint)


def _compiled_entry(entry: _core.Entry, options: Options) -> Any:
    return compiled(entry.__wrapped__, options)


def _compiled_method(method: types.MethodType, options: Options) -> Any:
    inner = compiled(method.__func__, options)
    if type(inner) is _core.Entry and isinstance(inner.__wrapped__, types.FunctionType):
        return _core.Entry(inner.__wrapped__, inner.compiler, (method.__self__,))
    return types.MethodType(inner, method.__self__)


def _compiled_module(module: nn.Module, options: Options) -> Any:
    module = modules.original_of(module) or markers.compiled_module_inside(module) or module
    call = _compiled_object(module, options)
    return modules.twin_of(module, call, functools.partial(compiled, options=options))


def _compiled_partial(partial: functools.partial[Any], options: Options) -> Any:
    return functools.partial(compiled(partial.func, options), *partial.args, **partial.keywords)


def _compiled_class(cls: type, options: Options) -> Any:
    """Compile the calls of a class's instances, in place, as PyTorch does for a decorated class."""
    call = lookup(cls, "__call__")
    if not isinstance(call, (types.FunctionType, _core.Entry)):
        raise TypeError(
            f"segue.compile({cls.__name__}): instances of the class have no __call__ written in "
            "Python; compile a function, or one of its methods"
        )
    cls.__call__ = compiled(call, options)  # type: ignore[method-assign]
    return cls


def _compiled_object(target: Any, options: Options) -> Any:
    """Anything else that can be called: its `__call__` in Python, else a function that calls it."""
    call = lookup(type(target), "__call__")
    if isinstance(call, _core.Entry) or (isinstance(call, types.FunctionType) and not is_left_alone(call.__code__)):
        return _compiled_method(types.MethodType(call, target), options)
    return _compiled_function(_caller_of(target), options)


def _caller_of(target: Any) -> Any:
    """A function that calls `target` and is compiled as if it were the user's."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    call.__code__ = _as_users(call.__code__)
    functools.update_wrapper(call, target)
    return call


@functools.cache
def _as_users(code: types.CodeType) -> types.CodeType:
    """A code object in another file: those of libraries and of Segue itself are left alone."""
    return code.replace(co_filename="<call>")


def _unchanged(target: Any, options: Options) -> Any:
    return target


def _inside(kind: type) -> Callable[[Any, Options], Any]:
    return lambda target, options: kind(compiled(target.__func__, options))


_COMPILED: tuple[tuple[type, Callable[[Any, Options], Any]], ...] = (
    (types.FunctionType, _compiled_function),
    (nn.Module, _compiled_module),
    (types.MethodType, _compiled_method),
    (_core.Entry, _compiled_entry),
    (_core.Disabled, _unchanged),
    (functools.partial, _compiled_partial),
    (staticmethod, _inside(staticmethod)),
    (classmethod, _inside(classmethod)),
    (type, _compiled_class),
)


# --- disable --------------------------------------------------------------------------------------


def disabled(target: Any, reason: str | None) -> Any:
    """A callable that runs `target` with compiling off, below it too.

    Raises:
        TypeError: it is not callable.
    """
    if isinstance(target, _core.Disabled):
        return target
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(disabled(target.__func__, reason))
    if isinstance(target, type):
        return _disabled_class(target, reason)
    if not callable(target):
        raise TypeError(
            "segue.disable takes a function, a method, a class, an nn.Module or another callable, "
            f"not {target!r} ({type(target).__name__})"
        )
    if isinstance(target, nn.Module):
        module = modules.original_of(target) or target
        call = _disabled(module, reason)
        return modules.twin_of(module, call, functools.partial(disabled, reason=reason))
    return _disabled(target.__wrapped__ if isinstance(target, _core.Entry) else target, reason)


def _disabled(target: Any, reason: str | None) -> _core.Disabled:
    made = _core.Disabled(target)
    markers.note_reason(made, reason)
    return made


def _disabled_class(cls: type, reason: str | None) -> type:
    """Disable making and calling instances of a class, in place."""
    for name in ("__init__", "__call__"):
        method = lookup(cls, name)
        if isinstance(method, (types.FunctionType, _core.Entry)):
            setattr(cls, name, disabled(method, reason))
    return cls


def not_captured(target: Any) -> Any:
    """Mark a function so that its own frame is never captured, while what it calls is; returns it.

    Raises:
        TypeError: it is not a Python function or method.
    """
    function = target
    while not isinstance(function, types.FunctionType):
        if isinstance(function, (staticmethod, classmethod, types.MethodType)):
            function = function.__func__
        elif isinstance(function, _core.Entry):
            function = function.__wrapped__
        else:
            break
    if not isinstance(function, types.FunctionType):
        raise TypeError(
            "segue.disable(recursive=False) takes a function or method written in Python, because "
            f"it marks its code; not {target!r} ({type(target).__name__})"
        )
    markers.skip_code(function.__code__)
    return target
