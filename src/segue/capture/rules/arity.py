"""Whether a callable takes so many arguments: rules read what they expect, a wrong call is the interpreter's."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterable
from typing import Any

_C_FUNCTIONS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)

_BOUNDS: dict[Any, tuple[int, int]] = {
    getattr: (2, 3), next: (1, 2), iter: (1, 2), type: (1, 3), range: (1, 3), slice: (1, 3), filter: (2, 2),
    reversed: (1, 1), super: (0, 2), object: (0, 0), bool: (0, 1), float: (0, 1), list: (0, 1), tuple: (0, 1),
    set: (0, 1), frozenset: (0, 1), vars: (0, 1), dir: (0, 1), functools.reduce: (2, 3), dict.pop: (2, 3),
    dict.clear: (1, 1), dict.copy: (1, 1), dict.keys: (1, 1), dict.values: (1, 1), dict.items: (1, 1),
    dict.__getitem__: (2, 2), list.__getitem__: (2, 2), set.add: (2, 2), set.discard: (2, 2), set.remove: (2, 2),
    set.clear: (1, 1), set.copy: (1, 1), set.issubset: (2, 2), set.issuperset: (2, 2),
}  # fmt: skip
"""The least and the greatest number of arguments of what does not tell; none of these takes keywords."""

_ALIKE: dict[Any, Any] = {
    min: lambda first, /, *rest, key=None, default=None: None,
    max: lambda first, /, *rest, key=None, default=None: None,
    map: lambda function, first, /, *rest: None,
    zip: lambda *iterables, strict=False: None,
    enumerate: lambda iterable, start=0: None,
    dict: lambda given=(), /, **entries: None,
    dict.update: lambda self, given=(), /, **entries: None,
    vars(dict)["fromkeys"]: lambda cls, iterable, value=None, /: None,
    **dict.fromkeys((set.update, set.union, set.intersection, set.difference), lambda self, /, *others: None),
}
"""Functions of the same signature as others that do not tell."""


def fits(target: Any, n_args: int, keywords: Iterable[str]) -> bool:
    """Whether a call of a callable binds, as far as its signature is known.

    Example:
        assert not fits(len, 2, ())
    """
    return _fits(target, n_args, tuple(keywords))


@functools.lru_cache(maxsize=4096)
def _fits(target: Any, n_args: int, keywords: tuple[str, ...]) -> bool:
    bounds = _BOUNDS.get(target)
    if bounds is not None:
        return not keywords and bounds[0] <= n_args <= bounds[1]
    alike = _ALIKE.get(target, target)
    if not isinstance(alike, (types.FunctionType, *_C_FUNCTIONS)):
        return True
    try:
        signature = inspect.signature(alike)
    except (ValueError, TypeError):
        return True
    try:
        signature.bind(*[None] * n_args, **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True
