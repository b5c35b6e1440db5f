"""Compiled `nn.Module`s: a twin of the module that is of its class and shares all of its state.

Calling the twin runs compiled code with the module itself as `self`, so what the user's `forward`
sees is the real module.  Everything else goes to the module's state: the twin and the module have
one `__dict__`.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

from torch import nn

Again = Callable[[nn.Module], nn.Module]


def twin_of(module: nn.Module, call: Callable[..., Any], again: Again) -> nn.Module:
    """A module that is the same as another, except for what calling it does.

    Args:
        module: the module.
        call: what calling the twin does; it is given the call's arguments, without the twin.
        again: makes such a twin of another module, for copies; pickled by reference.

    Returns:
        The twin: `isinstance` holds, attributes are the module's in both directions, methods run
        with the twin as `self`, so that a method that calls `self(...)` uses `call`.
        `twin.forward` is the plain method.
    """

    class Twin(nn.Module):
        __call__ = staticmethod(call)
        _segue_original = staticmethod(lambda: module)

        @property
        def __class__(self) -> Any:
            return type(module)

        @__class__.setter
        def __class__(self, cls: type) -> None:
            module.__class__ = cls

        def __getattr__(self, name: str) -> Any:
            return getattr(module, name)

        def __setattr__(self, name: str, value: Any) -> None:
            setattr(module, name, value)

        def __delattr__(self, name: str) -> None:
            delattr(module, name)

        def __copy__(self) -> nn.Module:
            return again(copy.copy(module))

        def __deepcopy__(self, memo: dict[int, Any]) -> nn.Module:
            return again(copy.deepcopy(module, memo))

        def __reduce_ex__(self, protocol: Any) -> Any:
            _check_picklable(again)
            return again, (module,)

    made = object.__new__(_renamed(Twin, type(module)))
    object.__setattr__(made, "__dict__", module.__dict__)
    return made


def original_of(module: nn.Module) -> nn.Module | None:
    """The module that a twin was made of; None for other modules."""
    original = getattr(type(module), "_segue_original", None)
    return None if original is None else original()


def _renamed(twin: Any, cls: type) -> Any:
    """Make the class of a twin a subclass of `cls` that looks like it.

    The base is assigned afterwards because deriving a class runs the user's `__init_subclass__`.
    """
    twin.__name__, twin.__qualname__ = cls.__name__, cls.__qualname__
    twin.__module__, twin.__doc__ = cls.__module__, cls.__doc__
    if hasattr(cls, "__del__"):
        twin.__del__ = lambda self: None  # the module's own runs, once
    try:
        twin.__bases__ = (cls,)
    except TypeError:  # another layout: the class has slots
        return type(cls)(cls.__name__, (twin, cls), {"__module__": cls.__module__})
    return twin


def _check_picklable(again: Again) -> None:
    try:
        pickle.dumps(again)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise pickle.PicklingError(
            f"this compiled module cannot be pickled because its compile options cannot: {error}. "
            "Give compile(backend=...) a registered name or a function defined at the top of a "
            "module."
        ) from error
