"""Calls: binding of arguments, inlining of Python functions, making instances."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING, Any

from segue.capture.breaks import graph_break
from segue.capture.values.base import MISSING, Value
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.known import Known
from segue.capture.values.sequence import TupleValue
from segue.frames.code import Code

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

_GENERATOR = inspect.CO_GENERATOR
_UNSUPPORTED = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE


def call_function(tr: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Inline a Python function: run its bytecode in a captured frame."""
    from segue.capture.frame import Frame
    from segue.capture.rules import find_shortcut
    from segue.capture.values.iterator import GeneratorValue

    flags = function.code.co_flags
    if flags & _UNSUPPORTED:
        graph_break("generator", what=f"the coroutine {function.name}")
    bound = bind_arguments(tr, function, args, kwargs)
    code = Code.of(function.code)
    slots: list[Value | None] = [*bound, *([None] * (len(code.localsplus) - len(bound)))]
    frame = Frame(code, slots, function)
    if flags & _GENERATOR:
        made = GeneratorValue(frame, born=tr.here)
        tr.generators.append(made)
        return made
    skip = find_shortcut(function.code)
    if skip is not None:
        skip(tr, frame)
    return tr.run_inlined(frame)


def bind_arguments(tr: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The values of all argument slots, as CPython binds them; raises the user's TypeError if they do not fit."""
    bound = _bind(tr, function, args, kwargs)
    if bound is None:
        tr.raise_error(TypeError, _refusal(function, len(args), list(kwargs)))
    return bound


def _bind(tr: Tracer, function: FunctionValue, args: list[Value], kwargs: dict[str, Value]) -> list[Value] | None:
    code = function.code
    n_positional, n_keyword = code.co_argcount, code.co_kwonlyargcount
    slots: list[Value | None] = [None] * (n_positional + n_keyword)
    n_given = min(len(args), n_positional)
    slots[:n_given] = args[:n_given]
    extra = args[n_positional:]
    if extra and not code.co_flags & inspect.CO_VARARGS:
        return None
    rest: dict[str, Value] = {}
    for name, value in kwargs.items():
        try:
            slot = code.co_varnames.index(name, code.co_posonlyargcount, n_positional + n_keyword)
        except ValueError:
            rest[name] = value
            continue
        if slots[slot] is not None:
            return None
        slots[slot] = value
    if rest and not code.co_flags & inspect.CO_VARKEYWORDS:
        return None
    _fill_defaults(tr, function, slots)
    bound = [s for s in slots if s is not None]
    if len(bound) < len(slots):
        return None
    if code.co_flags & inspect.CO_VARARGS:
        bound.append(TupleValue(list(extra)))
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound.append(tr.new_dict(rest))
    return bound


def _fill_defaults(tr: Tracer, function: FunctionValue, slots: list[Value | None]) -> None:
    n_positional = function.code.co_argcount
    if any(s is None for s in slots[:n_positional]):
        defaults = function.positional_defaults(tr)
        first_default = n_positional - len(defaults)
        for i in range(first_default, n_positional):
            if slots[i] is None:
                slots[i] = defaults[i - first_default]
    for i in range(n_positional, len(slots)):
        if slots[i] is None:
            slots[i] = function.keyword_default(tr, function.code.co_varnames[i])


def _refusal(function: FunctionValue, n_args: int, keywords: list[str]) -> str:
    """CPython's words for arguments that do not fit: a function of the same signature is asked."""
    cells = tuple(types.CellType() for _ in function.code.co_freevars)
    asked = types.FunctionType(function.code, {}, function.name, (None,) * len(function.defaults), cells)
    asked.__kwdefaults__ = dict.fromkeys(function.keyword_defaults)
    asked.__qualname__ = function.qualname
    try:
        asked(*[None] * n_args, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    raise AssertionError(f"the arguments fit {function.qualname}")


def call_through_type(tr: Tracer, value: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call an object: by a rule, as a tensor operation, as a pure function, as a class, or by its `__call__`."""
    if isinstance(value, Known):
        return call_known(tr, value, args, kwargs)
    method = _call_method(tr, value)
    if method is None:
        cls = value.python_type(tr)
        tr.raise_error(TypeError, f"'{cls.__name__}' object is not callable")
    return tr.call(method, args, kwargs)


def _call_method(tr: Tracer, value: Value) -> Value | None:
    """The `__call__` of a value's class; what finding it runs is not the call."""
    from segue.capture.attributes import special_method

    is_direct, tr.is_direct = tr.is_direct, False
    method = special_method(tr, value, "__call__")
    tr.is_direct = is_direct
    return method


def call_known(tr: Tracer, value: Known, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Call a callable that is known: the order of DESIGN.md's "Calls"."""
    from segue.capture.rules import find_rule
    from segue.capture.rules.arity import fits
    from segue.capture.rules.caches import CACHE, call_cached
    from segue.capture.rules.wrappers import unwrap

    target = value.concrete(tr)
    rule = find_rule(target)
    if rule is not None:
        tr.is_direct = False
        if not fits(target, len(args), kwargs):
            graph_break("opaque-call", function=f"{name_of(target)} with arguments that do not fit")
        return rule(tr, args, kwargs)
    if tr.is_tensor_operation(target):
        return tr.graph.call(tr, "call_function", target, args, kwargs)
    if isinstance(target, type):
        return instantiate(tr, target, args, kwargs)
    wrapped = unwrap(tr, value)
    if wrapped is not None:
        return tr.call(wrapped, args, kwargs)
    if type(target) is CACHE:
        return call_cached(tr, value, args, kwargs)
    if tr.is_pure(target):
        return tr.fold(target, args, kwargs)
    if not isinstance(target, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        method = _call_method(tr, value)
        if method is not None and tr.look(method) is not value:
            return tr.call(method, args, kwargs)
    graph_break("opaque-call", function=name_of(target))


def instantiate(tr: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`cls(*args, **kwargs)` for a class that no rule knows."""
    from segue.capture.attributes import lookup

    meta_call = lookup(type(cls), "__call__")
    tr.guard_class(cls, "__new__")
    tr.guard_class(cls, "__init__")
    if issubclass(type(cls), tr.enum_type):
        return tr.fold(cls, args, kwargs)
    if isinstance(meta_call, types.FunctionType):
        return tr.call(tr.pinned(meta_call), [tr.constant(cls), *args], kwargs)
    if isinstance(meta_call, type):  # a class is no method: it is called with the arguments alone
        return tr.call(tr.constant(meta_call), args, kwargs)
    if meta_call is not type.__call__:
        graph_break("unsupported-class", type=cls.__name__)
    return construct(tr, cls, args, kwargs)


def construct(tr: Tracer, cls: type, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """`type.__call__(cls, *args, **kwargs)`: `__new__`, then `__init__`."""
    from segue.capture.attributes import bind, lookup
    from segue.capture.values.object import ExceptionValue, ObjectValue

    tr.is_direct = False
    new, init = lookup(cls, "__new__"), lookup(cls, "__init__")
    if isinstance(new, staticmethod):
        made = tr.call(tr.pinned(new.__func__), [tr.constant(cls), *args], kwargs)
        if not issubclass(made.python_type(tr), cls):
            return made
    elif issubclass(cls, BaseException) and new in (BaseException.__new__, Exception.__new__):
        if kwargs and not isinstance(init, types.FunctionType):
            graph_break("unsupported-class", type=cls.__name__)
        made = ExceptionValue(cls, list(args))
        made.born = tr.here
    elif new is object.__new__:
        refuse_abstract(tr, cls)
        if lookup(cls, "__del__") is not MISSING:
            graph_break("unsupported-class", type=f"{cls.__name__} (which has __del__)")
        made = ObjectValue(cls)
        made.born = tr.here
    else:
        made = tr.new_builtin(cls, new, args, kwargs)
    if isinstance(init, types.FunctionType):
        tr.call(tr.pinned(init), [made, *args], kwargs)
    elif init is object.__init__ and new is object.__new__ and (args or kwargs):
        tr.raise_error(TypeError, f"{cls.__name__}() takes no arguments")
    elif isinstance(init, types.WrapperDescriptorType):
        if init is not object.__init__:
            tr.init_builtin(made, init, args, kwargs)
    else:
        tr.call(bind(tr, init, made, cls, "__init__"), args, kwargs)
    return made


def refuse_abstract(tr: Tracer, cls: Any) -> None:
    """Raise the TypeError of `object.__new__` for a class with abstract methods."""
    names = sorted(vars(cls).get("__abstractmethods__", ()))
    if names:
        methods = "method" if len(names) == 1 else "methods"
        tr.raise_error(
            TypeError, f"Can't instantiate abstract class {cls.__name__} with abstract {methods} {', '.join(names)}"
        )


def name_of(target: Any) -> str:
    """How messages call a callable."""
    module = getattr(target, "__module__", None)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or repr(target)
    return f"{module}.{name}" if isinstance(module, str) and module != "builtins" else str(name)


def make_function(
    tr: Tracer,
    code: types.CodeType,
    frame_function: FunctionValue,
    defaults: list[Value],
    keyword_defaults: dict[str, Value],
    closure: list[CellValue],
) -> FunctionValue:
    """What MAKE_FUNCTION makes."""
    made = FunctionValue(code, frame_function.namespace, code.co_name, defaults, keyword_defaults, closure)
    made.born = tr.here
    return made
