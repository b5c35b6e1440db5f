"""Fake operations without the modules that torch imports for symbolic shapes and for Dynamo.

For tensors of known shape torch's fake kernels ask those modules only trivial questions ("is this bool true?"), but to
ask them they import SymPy, `symbolic_shapes` and all of Dynamo: two seconds, in a process that may not need them.
Within `answering`, an import statement that runs inside one of torch's own functions on this thread gets a stand-in
that knows the trivial answers.  Any other question, and any other import, goes to the real module, and a module that
the program has imported is always used itself.  `sys.modules` is never touched.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import operator
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch


class StandIn(types.ModuleType):
    """Some answers for a module; anything else is looked up in the module, imported if it must be."""

    def __init__(self, name: str, answers: Mapping[str, Any]) -> None:
        super().__init__(name)
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        if self.__name__ not in sys.modules and name in self._answers:
            return self._answers[name]
        return getattr(importlib.import_module(self.__name__), name)


SYMBOLIC_SHAPES = "torch.fx.experimental.symbolic_shapes"


def _concrete(name: str, answer: Callable[..., Any], *known: type) -> Callable[..., Any]:
    """A function of `symbolic_shapes`, answered if all arguments are of known types; else the function itself."""

    def function(*args: Any, **kwargs: Any) -> Any:
        result = answer(*args) if not kwargs and all(type(a) in known for a in args) else NotImplemented
        if result is not NotImplemented:
            return result
        return getattr(importlib.import_module(SYMBOLIC_SHAPES), name)(*args, **kwargs)

    return function


def _same(value: Any) -> Any:
    return value


def _equal(a: Any, b: Any) -> Any:
    numbers = isinstance(a, int), isinstance(b, int)
    if any(numbers):
        return a == b if all(numbers) else NotImplemented
    return len(a) == len(b) and all(map(_ANSWERS["sym_eq"], a, b))


def _all(*bools: bool) -> bool:
    return functools.reduce(operator.and_, bools)


def _any(*bools: bool) -> bool:
    return functools.reduce(operator.or_, bools)


_TABLE: dict[str, tuple[Callable[..., Any], tuple[type, ...]]] = {
    "guard_or_false": (_same, (bool,)),
    "guard_or_true": (_same, (bool,)),
    "guard_size_oblivious": (_same, (bool,)),
    "statically_known_true": (_same, (bool,)),
    "expect_true": (_same, (bool,)),
    "guard_int": (_same, (int,)),
    "guarding_hint_or_throw": (_same, (int, bool)),
    "sym_and": (_all, (bool,)),
    "sym_or": (_any, (bool,)),
    "sym_eq": (_equal, (int, tuple, list, torch.Size)),
    "has_guarding_hint": (lambda value: True, (int, float, bool)),
    "is_nested_int": (lambda value: False, (int, float, bool)),
    "is_symbolic": (lambda value: False, (int, float, bool)),
    "has_free_symbols": (lambda value: False, (int, float, bool)),
    "compute_unbacked_bindings": (_same, ()),
    "free_unbacked_symbols": (_same, ()),
}
_ANSWERS = {name: _concrete(name, answer, *known) for name, (answer, known) in _TABLE.items()}


class _NoInstance:
    """In the place of a class: nothing is an instance of it while its module is not imported."""


@dataclass(frozen=True)
class _Name:
    """In the place of `ConstantSource`: the name of a tensor that torch has none for."""

    name: str


def _disable(function: Callable[..., Any], recursive: bool = True, wrapping: bool = True) -> Callable[..., Any]:
    """`torch._dynamo.disable`, which has nothing to do until Dynamo is imported.

    torch keeps what this gives on the function, so it hands over to Dynamo's own as soon as there is one.
    """

    def undisturbed(*args: Any, **kwargs: Any) -> Any:
        if "torch._dynamo" not in sys.modules:
            return function(*args, **kwargs)
        disabled = torch._dynamo.disable(function, recursive, wrapping=wrapping)
        if getattr(function, "__dynamo_disable", None) is undisturbed:
            setattr(function, "__dynamo_disable", disabled)
        return disabled(*args, **kwargs)

    return undisturbed


_CONFIG = StandIn(
    "torch._dynamo.config",
    {"fake_tensor_cache_enabled": False, "fake_tensor_cache_crosscheck_enabled": False, "_custom_ops_profile": None},
)
_DYNAMO = StandIn("torch._dynamo", {"config": _CONFIG, "disable": _disable})


class _Torch(types.ModuleType):
    """The package torch, with a stand-in for `torch._dynamo`."""

    def __getattr__(self, name: str) -> Any:
        return _DYNAMO if name == "_dynamo" else getattr(torch, name)


TORCH = _Torch("torch")

_IMPORTS: dict[str, types.ModuleType] = {
    SYMBOLIC_SHAPES: StandIn(SYMBOLIC_SHAPES, _ANSWERS),
    "sympy": StandIn("sympy", {"Basic": _NoInstance}),
    "torch.utils._sympy.functions": StandIn("torch.utils._sympy.functions", {"Max": max}),
    "torch._dynamo.source": StandIn(
        "torch._dynamo.source", {"ConstantSource": _Name, "RandomValueSource": _NoInstance}
    ),
    "torch._dynamo": TORCH,
    "torch._dynamo.config": TORCH,
}
"""What import statements of absent modules give."""

_IMPORTERS = frozenset(
    """
    torch torch._compile torch._decomp torch._decomp.decompositions torch._meta_registrations torch._prims
    torch._prims_common torch._prims_common.wrappers torch._refs torch._refs.fft torch._refs.linalg
    torch._refs.nn.functional torch._refs.special torch._subclasses.fake_impls torch._subclasses.fake_tensor
    torch._subclasses.meta_utils
    """.split()
)
"""The modules whose functions are answered."""

_lock = threading.Lock()
_open_on: dict[int, int] = {}
_hook: Any = None
_replaced: Any = None


def _import(
    plain: Any,
    name: str,
    globals: Mapping[str, Any] | None = None,
    locals: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """`builtins.__import__` while some thread is `answering`; `plain` is what it was before."""
    if locals is not None or globals is None or not _is_answered(globals):
        return plain(name, globals, locals, fromlist, level)
    found = _IMPORTS.get(name)
    if found is not None and name not in sys.modules:
        return found
    module = plain(name, globals, locals, fromlist, level)
    return TORCH if module is torch else module


def _is_answered(importer: Mapping[str, Any]) -> bool:
    return threading.get_ident() in _open_on and importer.get("__name__") in _IMPORTERS


class _Answering:
    """See `answering`."""

    def __enter__(self) -> None:
        global _hook, _replaced
        thread = threading.get_ident()
        with _lock:
            if not _open_on:
                _replaced = builtins.__import__
                _hook = builtins.__import__ = functools.partial(_import, _replaced)
            _open_on[thread] = _open_on.get(thread, 0) + 1

    def __exit__(self, *raised: object) -> None:
        thread = threading.get_ident()
        with _lock:
            _open_on[thread] -= 1
            if not _open_on[thread]:
                del _open_on[thread]
            if not _open_on and builtins.__import__ is _hook:
                builtins.__import__ = _replaced


answering = _Answering()
"""A context in which the functions of torch that run on this thread are answered; may be nested."""


def answered(function: Any) -> types.FunctionType:
    """A function that looks up `torch._dynamo` in the stand-in for torch, and is otherwise the given one."""
    namespace = {**function.__globals__, "torch": TORCH}
    copy = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy
