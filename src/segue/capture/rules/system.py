"""The interpreter: settings that are read, weak references, imports of what is loaded, `locals`, `dir`."""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import _typing  # type: ignore[import-not-found]
import functools
import gc
import importlib
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from segue.capture import interpreter, operators
from segue.capture.attributes import class_attribute, special_method
from segue.capture.breaks import graph_break
from segue.capture.rules import folded, rule
from segue.capture.values.base import Value
from segue.capture.values.function import CellValue
from segue.capture.values.helper import HelperValue
from segue.capture.values.known import Known
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue
from segue.capture.values.weak import WeakRefValue
from segue.guards.source import Computed, DictItem, Pinned

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_SETTINGS: tuple[Callable[[], Any], ...] = (
    threading.get_ident, threading.get_native_id, sys.getrecursionlimit, sys.getdefaultencoding,
    sys.getfilesystemencoding, sys.getswitchinterval, gc.isenabled, os.getpid, os.getppid, os.getcwd, os.cpu_count,
    torch.get_num_threads, torch.get_num_interop_threads, torch.get_default_device,
)  # fmt: skip
"""Functions without arguments that tell a setting of the thread or process: read, and compared, at the gate."""


_DISTURBED = {sys.getrecursionlimit: interpreter.limit, gc.isenabled: interpreter.collects}
"""Those that a capture itself changes, with what tells the program's own."""


def _setting(function: Callable[[], Any]) -> None:
    now = _DISTURBED.get(function, function)

    def read(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return tr.wrap(now(), Computed(Pinned(None), function, ()))

    rule(function)(read)


for _function in _SETTINGS:
    _setting(_function)


@rule(_abc.get_cache_token)
def _cache_token(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    from segue.capture.rules.classes import guard_registrations

    guard_registrations(tr)
    return tr.constant(_abc.get_cache_token())


@rule(weakref.ReferenceType)
def _weak_reference(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = tr.look(args[0])
    callback = tr.look(args[1]) if len(args) > 1 else None
    if callback is not None and callback.real is None:
        callback = None
    if not target.python_type(tr).__weakrefoffset__:
        tr.raise_error(TypeError, f"cannot create weak reference to '{target.python_type(tr).__name__}' object")
    return WeakRefValue(target, callback)


@rule(weakref.ReferenceType.__eq__)
def _same_references(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """By what they refer to."""
    one, other = tr.look(args[0]), tr.look(args[1])
    if not issubclass(other.python_type(tr), weakref.ReferenceType):
        return tr.constant(NotImplemented)
    return operators.compare(tr, "==", tr.call(one, [], {}), tr.call(other, [], {}))


folded(sys.intern)


@rule(os.fspath)
def _fspath(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    path = tr.look(args[0])
    if issubclass(path.python_type(tr), (str, bytes)):
        return path
    method = special_method(tr, path, "__fspath__")
    if method is None:
        name = path.python_type(tr).__name__
        tr.raise_error(TypeError, f"expected str, bytes or os.PathLike object, not {name}")
    return tr.call(method, [], {})


@rule(_typing._idfunc)
def _same(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return args[-1]


@rule(__import__, importlib.import_module)
def _import(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """Of a module that is loaded; else importing runs it."""
    name = tr.look(args[0]).concrete(tr)
    if len(args) > 1 or kwargs or name.startswith("."):
        graph_break("side-effect-call", function=f"import {name}")
    return tr.wrap(*_loaded_module(name))


def _loaded_module(name: str) -> tuple[Any, DictItem]:
    module = sys.modules.get(name)
    if module is None:
        graph_break("side-effect-call", function=f"import {name}")
    return module, DictItem(Pinned(sys.modules), name)


@rule(locals)
def _locals(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    """A new dict of the variables that are bound; the interpreter has one for each frame, so it is asked for once."""
    frame = tr.frames[-1]
    if frame.has_locals_dict:
        graph_break("opaque-call", function="locals() for the second time")
    frame.has_locals_dict = True
    found: dict[str, Value] = {}
    for slot, value in zip(frame.code.localsplus, frame.slots, strict=True):
        held = value.contents if isinstance(value, CellValue) else value
        if held is not None:
            found[slot.name] = held
    return tr.new_dict(found)


@rule(dir)
def _dir(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        graph_break("opaque-call", function="dir() without an argument")
    value = tr.look(args[0])
    cls = value.python_type(tr)
    if class_attribute(tr, cls, "__dir__") is not object.__dir__:
        if not isinstance(value, Known) or not isinstance(value.real, (type, types.ModuleType)):
            method = special_method(tr, value, "__dir__")
            assert method is not None
            return tr.call(tr.constant(sorted), [tr.call(method, [], {})], {})
        return _names(tr, dir(value.concrete(tr)), value.real)
    if not isinstance(value, ObjectValue):
        return _names(tr, dir(value.concrete(tr) if value.is_constant() else cls), cls)
    namespace = value.namespace(tr)
    own = namespace.load(tr) if namespace is not None else {}
    _names(tr, dir(cls), cls)
    return ListValue([tr.constant(name) for name in sorted({*dir(cls), *own})])


def _names(tr: Tracer, names: list[str], owner: Any) -> Value:
    """The names that an object lists, which are to be the same at each run."""
    tr.program.check_plain("predicate", functools.partial(_lists, owner, tuple(names)), ())
    return ListValue([tr.constant(name) for name in names])


def _lists(owner: Any, names: tuple[str, ...]) -> bool:
    return tuple(dir(owner)) == names


@rule(staticmethod)
def _staticmethod(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return HelperValue(staticmethod, args, {}, args[0])


@rule(bytes)
def _bytes(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0]) if args else tr.constant(b"")
    if not isinstance(value, Known) and len(args) == 1:
        value = ListValue(list(tr.unpack(value)))
    return tr.fold(bytes, [value, *args[1:]], kwargs)
