"""Texts: `str`, `repr`, `format`, f-strings, `%`, `str.format` and `str.join`.

A text of constants is a constant.  The texts of a user's objects come from their methods, which are inlined; those of
tensors are made after the graph (see `segue.capture.values.late`).
"""

from __future__ import annotations

import _string  # type: ignore[import-not-found]  # the part of string.Formatter that splits names
import enum
import functools
import re
import string
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from segue.capture.attributes import lookup
from segue.capture.breaks import graph_break
from segue.capture.rules import rule
from segue.capture.values.base import Value
from segue.capture.values.known import Known
from segue.capture.values.late import LateValue, has_plain_text, late_number
from segue.capture.values.mapping import DictValue
from segue.capture.values.object import ExceptionValue, ObjectValue
from segue.capture.values.sequence import SequenceValue, TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

_CONVERTERS: dict[str, Callable[..., Any]] = {"s": str, "r": repr, "a": ascii}

_METHODS: dict[Any, str] = {str: "__str__", repr: "__repr__", ascii: "__repr__", format: "__format__"}


def text(tr: Tracer, function: Callable[..., Any], value: Value, *spec: Value) -> Value:
    """`str(value)`, `repr(value)`, `ascii(value)` or `format(value, spec)`."""
    value = tr.look(value)
    if isinstance(value, TensorValue):
        return _of_tensor(tr, function, value, *spec)
    if isinstance(value, LateValue):
        return tr.fold(function, [value, *spec], {})
    method = _METHODS[function]
    if isinstance(value, ExceptionValue) and function is not format:
        from segue.capture.rules.exceptions import exception_text

        return exception_text(tr, value, function)
    if isinstance(value, ObjectValue):
        return _of_object(tr, value, function, method, list(spec))
    if isinstance(value, Known):
        found = lookup(type(value.real), method)
        if isinstance(found, types.FunctionType) and found.__module__ != enum.__name__:
            return tr.call(tr.pinned(found), [value, *spec], {})
    if isinstance(value, SequenceValue | DictValue) and not _is_plain(tr, value, ()):
        if function is not format or tr.look(spec[0]).concrete(tr) == "":
            return _of_container(tr, value)
    return tr.fold(function, [value, *spec], {})


def _of_tensor(tr: Tracer, function: Callable[..., Any], value: TensorValue, *spec: Value) -> Value:
    operation, fake = f"{function.__name__}()", value.fake
    if value.cls not in (torch.Tensor, torch.nn.Parameter) or fake.layout is not torch.strided or fake.is_complex():
        graph_break("data-dependent-value", operation=operation)
    is_number = function is format and fake.dim() == 0
    if function is format and not is_number and tr.look(spec[0]).concrete(tr) != "":
        graph_break("data-dependent-value", operation=operation)
    is_input = value.source is not None and fake.is_leaf
    if fake.requires_grad and not is_number and not is_input:  # the text names the function that computed it
        graph_break("data-dependent-value", operation=f"{operation} of a tensor with a gradient function")
    return LateValue(tr, function, [value, *map(tr.look, spec)])


def _of_object(tr: Tracer, value: ObjectValue, function: Any, method: str, spec: Args) -> Value:
    found = lookup(value.cls, method)
    if isinstance(found, types.FunctionType):
        tr.guard_class(value.cls, method)
        return tr.call(tr.pinned(found), [value, *spec], {})
    if method in ("__str__", "__format__") and found is getattr(object, method):
        if method == "__str__" or tr.look(spec[0]).concrete(tr) == "":
            return text(tr, repr if method == "__str__" else str, value)
    graph_break("opaque-call", function=f"{function.__name__}() of {value.cls.__name__}")


def _is_plain(tr: Tracer, value: Value, around: tuple[Value, ...]) -> bool:
    """Whether a value is made of constants only."""
    value = tr.look(value)
    if any(value is outer for outer in around):
        graph_break("opaque-call", function="repr() of a container that is inside itself")
    looks_plain = functools.partial(_is_plain, tr, around=(*around, value))
    if isinstance(value, SequenceValue):
        is_own = value.cls in (list, tuple, torch.Size)
        return all(plain for plain in [*map(looks_plain, value.items(tr)), is_own])
    if isinstance(value, DictValue):
        parts = [part for pair in value.load(tr).values() for part in pair]
        return all(plain for plain in [*map(looks_plain, parts), value.cls is dict])
    if isinstance(value, Known):
        return has_plain_text(value) or not isinstance(lookup(type(value.real), "__repr__"), types.FunctionType)
    return not isinstance(value, TensorValue | LateValue | ObjectValue)


def _of_container(tr: Tracer, value: SequenceValue | DictValue) -> Value:
    """The text of a list, tuple or dict from those of what it holds."""
    found = lookup(value.cls, "__repr__")
    if isinstance(found, types.FunctionType):
        return tr.call(tr.pinned(found), [value], {})
    pieces: Args = []
    if isinstance(value, DictValue):
        for key, item in value.load(tr).values():
            pieces += [tr.constant(", "), text(tr, repr, key), tr.constant(": "), text(tr, repr, item)]
    else:
        for item in value.items(tr):
            pieces += [tr.constant(", "), text(tr, repr, item)]
    if value.cls is tuple:
        return join(tr, [tr.constant("("), *pieces[1:], tr.constant(",)" if len(pieces) == 2 else ")")])
    if value.cls is list or value.cls is dict:
        start, end = "[]" if value.cls is list else "{}"
        return join(tr, [tr.constant(start), *pieces[1:], tr.constant(end)])
    graph_break("opaque-call", function=f"repr() of {value.cls.__name__}")


def join(tr: Tracer, pieces: Args) -> Value:
    """Pieces of text as one."""
    return tr.fold(joined, pieces, {})


def joined(*pieces: str) -> str:
    """The pieces of a text as one."""
    return "".join(pieces)


def _register(function: Any) -> None:
    def convert(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        if kwargs or not args or (function is not format and len(args) > 1):
            return tr.fold(function, args, kwargs)
        spec = [*args[1:], tr.constant("")][:1] if function is format else []
        return text(tr, function, args[0], *spec)

    rule(function)(convert)


for _function in _METHODS:
    _register(_function)


@rule(str.join)
def _join(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    separator, pieces = args[0], tr.unpack(args[1])
    for index, piece in enumerate(pieces):
        kind = piece.python_type(tr)
        if not issubclass(kind, str):
            tr.raise_error(TypeError, f"sequence item {index}: expected str instance, {kind.__name__} found")
    spread = [part for piece in pieces for part in (separator, piece)]
    return join(tr, spread[1:])


_CONVERSION = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?[#0\- +]*(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d+))?[hlL]?(?P<kind>.)", re.DOTALL
)


@rule(str.__mod__)
def _percent(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    template, given = tr.look(args[0]), tr.look(args[1])
    if not isinstance(template, Known) or _is_plain(tr, given, ()):
        return tr.fold(str.__mod__, args, {})
    found = [m for m in _CONVERSION.finditer(template.concrete(tr)) if m["kind"] != "%"]
    if any("*" in (m["width"], m["precision"]) for m in found):
        graph_break("opaque-call", function="formatting with a width from the arguments")
    template = tr.constant(_CONVERSION.sub(_written_out, template.real))
    if any(m["key"] is not None for m in found):
        if not isinstance(given, DictValue) or not all(m["key"] is not None for m in found):
            graph_break("opaque-call", function="formatting by names")
        named = {m["key"]: _converted(tr, m["kind"], given.get_item(tr, tr.constant(m["key"]))) for m in found}
        if len(named) < len(found) and len({(m["key"], m["kind"]) for m in found}) > len(named):
            graph_break("opaque-call", function="formatting a name in two ways")
        names = tuple(named)
        return tr.fold(_formatted_by_names, [template, tr.constant(names), *named.values()], {})
    items = given.items(tr) if isinstance(given, TupleValue) else [given]
    if len(items) != len(found):
        few = "not enough arguments for format string"
        many = "not all arguments converted during string formatting"
        tr.raise_error(TypeError, few if len(items) < len(found) else many)
    parts = [_converted(tr, m["kind"], item) for m, item in zip(found, items, strict=True)]
    return tr.fold(_formatted, [template, *parts], {})


def _formatted(template: str, *parts: Any) -> str:
    return template % parts


def _formatted_by_names(template: str, names: tuple[str, ...], *parts: Any) -> str:
    return template % dict(zip(names, parts, strict=True))


def _written_out(conversion: re.Match[str]) -> str:
    """A conversion of the text that `repr` or `ascii` gave."""
    return conversion[0][:-1] + ("s" if conversion["kind"] in "ra" else conversion["kind"])


def _converted(tr: Tracer, kind: str, value: Value) -> Value:
    """What a `%` conversion takes of a value: its text or its number."""
    value = tr.look(value)
    if kind in "sra":
        return value if kind == "s" and has_plain_text(value) else text(tr, _CONVERTERS[kind], value)
    if isinstance(value, TensorValue):
        return late_number(tr, value, "formatting")
    return value


@rule(str.format)
def _format(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    template = tr.look(args[0])
    values = [tr.look(v) for v in (*args[1:], *kwargs.values())]
    if not isinstance(template, Known) or all(_is_plain(tr, v, ()) for v in values):
        return tr.fold(str.format, args, kwargs)
    pieces: Args = []
    automatic = 0
    for literal, field, spec, conversion in string.Formatter().parse(template.concrete(tr)):
        pieces.append(tr.constant(literal))
        if field is None:
            continue
        if spec and "{" in spec:
            graph_break("opaque-call", function="formatting with a format from the arguments")
        if not field or field[0] in ".[":
            field, automatic = f"{automatic}{field}", automatic + 1
        value = _field(tr, field, args[1:], kwargs)
        if conversion is not None:
            value = text(tr, _CONVERTERS[conversion], value)
        pieces.append(text(tr, format, value, tr.constant(spec or "")))
    return join(tr, pieces)


def _field(tr: Tracer, field: str, args: Args, kwargs: Kwargs) -> Value:
    """The value that a replacement field names: `0`, `name`, `0.attribute`, `name[key]`."""
    first, rest = _string.formatter_field_name_split(field)
    if isinstance(first, int):
        if first >= len(args):
            tr.raise_error(IndexError, f"Replacement index {first} out of range for positional args tuple")
        value = args[first]
    else:
        if first not in kwargs:
            tr.raise_error(KeyError, first)
        value = kwargs[first]
    for is_attribute, name in rest:
        value = tr.look(value)
        value = value.get_attribute(tr, name) if is_attribute else value.get_item(tr, tr.constant(name))
    return value
