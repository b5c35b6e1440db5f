"""Functions that may be called during capture when all arguments are constants."""

from __future__ import annotations

import binascii
import builtins
import cmath
import datetime
import functools
import math
import operator
import re
import struct
import types
import zlib
from typing import Any

import torch

_PURE_TYPES = (int, float, complex, str, bytes, bool, tuple, frozenset, range, type(None), slice, torch.Size)
_VALUE_TYPES = (
    re.Pattern, re.Match, datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
    struct.Struct,
)  # fmt: skip
"""Types written in C whose instances never change."""
_IMPURE_METHODS = frozenset(
    "today now utcnow fromtimestamp utcfromtimestamp timestamp astimezone finditer scanner".split()
)
_LIBRARY = (
    struct.calcsize, struct.pack, struct.unpack, struct.unpack_from, binascii.b2a_base64, binascii.a2b_base64,
    binascii.hexlify, binascii.unhexlify, binascii.crc32, zlib.crc32, zlib.adler32, zlib.compress, zlib.decompress,
)  # fmt: skip
_BUILTINS = "abs ascii bin chr divmod hex oct ord pow round hash".split()
_TORCH = (
    torch.finfo, torch.iinfo, torch.device, torch.promote_types, torch.can_cast, torch.get_default_dtype,
    torch.are_deterministic_algorithms_enabled, torch.is_inference_mode_enabled, torch.result_type,
    torch.broadcast_shapes, torch.typename,
)  # fmt: skip


@functools.cache
def _pure_functions() -> dict[int, Any]:
    found: list[Any] = [getattr(builtins, name) for name in _BUILTINS]
    for module in (math, cmath, operator):
        found += [f for f in vars(module).values() if callable(f) and not isinstance(f, type)]
    for cls in (*_PURE_TYPES, *_VALUE_TYPES):
        for name, attribute in vars(cls).items():
            if name in _IMPURE_METHODS and cls in _VALUE_TYPES:
                continue
            if isinstance(attribute, (types.MethodDescriptorType, types.WrapperDescriptorType)):
                if name not in ("__init__", "__setattr__", "__delattr__", "__getattribute__"):
                    found.append(attribute)
            elif isinstance(attribute, (types.ClassMethodDescriptorType, staticmethod)):
                found.append(attribute)
    found += [str.maketrans, int.from_bytes, float.fromhex, bytes.fromhex, dict.fromkeys]
    found += _TORCH
    found += _LIBRARY
    impure = {id(operator.setitem), id(operator.delitem)}
    return {id(f): f for f in found if id(f) not in impure}


def is_pure(target: Any) -> bool:
    """Whether a callable has no effects and a result that depends on its arguments alone."""
    if isinstance(target, types.BuiltinFunctionType) and isinstance(target.__self__, (int, float, str, bytes, type)):
        owner = target.__self__
        return isinstance(owner, _PURE_TYPES) or owner in _PURE_TYPES
    return id(target) in _pure_functions()
