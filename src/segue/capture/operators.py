"""Operators on values: arithmetic, comparison, identity, truth."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture.attributes import class_attribute, special_method
from segue.capture.breaks import graph_break
from segue.capture.values.base import Value
from segue.capture.values.derived import DerivedValue
from segue.capture.values.identity import IdValue
from segue.capture.values.known import PRIMITIVES, Known
from segue.capture.values.late import LateValue, compute_late
from segue.capture.values.mapping import DictValue, DictView, SetValue
from segue.capture.values.sequence import ListValue, SequenceValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue, compute_symbolic
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

BINARY: dict[str, tuple[Callable[..., Any], str]] = {
    "+": (operator.add, "add"),
    "-": (operator.sub, "sub"),
    "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"),
    "//": (operator.floordiv, "floordiv"),
    "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"),
    "@": (operator.matmul, "matmul"),
    "&": (operator.and_, "and"),
    "|": (operator.or_, "or"),
    "^": (operator.xor, "xor"),
    "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
}
INPLACE: dict[str, Callable[..., Any]] = {
    "+": operator.iadd,
    "-": operator.isub,
    "*": operator.imul,
    "/": operator.itruediv,
    "//": operator.ifloordiv,
    "%": operator.imod,
    "**": operator.ipow,
    "@": operator.imatmul,
    "&": operator.iand,
    "|": operator.ior,
    "^": operator.ixor,
    "<<": operator.ilshift,
    ">>": operator.irshift,
}
COMPARE: dict[str, tuple[Callable[..., Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"),
    "<=": (operator.le, "__le__", "__ge__"),
    "==": (operator.eq, "__eq__", "__eq__"),
    "!=": (operator.ne, "__ne__", "__ne__"),
    ">": (operator.gt, "__gt__", "__lt__"),
    ">=": (operator.ge, "__ge__", "__le__"),
}
UNARY: dict[str, tuple[Callable[..., Any], str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}


def compute(tr: Tracer, function: Callable[..., Any], *operands: Value) -> Value:
    """Run a pure operation on constants; its exception is the program's exception."""
    objects = [o.concrete(tr) for o in operands]
    try:
        result = function(*objects)
    except Exception as e:
        tr.raise_error(type(e), *e.args)
    return tr.plain_value(result)


def unary(tr: Tracer, opname: str, operand: Value) -> Value:
    """`-x`, `+x`, `~x`."""
    function, method = UNARY[opname]
    operand = tr.look(operand)
    if isinstance(operand, TensorValue):
        return tr.graph.call(tr, "call_function", function, [operand], {})
    if isinstance(operand, SymbolicValue):
        return symbolic(tr, function, operand)
    if operand.is_constant() and isinstance(operand.real, PRIMITIVES):
        return compute(tr, function, operand)
    bound = special_method(tr, operand, method)
    if bound is None:
        tr.raise_error(TypeError, f"bad operand type for unary {method}: '{operand.python_type(tr).__name__}'")
    return tr.call(bound, [], {})


def binary(tr: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a <symbol> b`, in-place when the symbol ends with `=`."""
    a, b = tr.look(a), tr.look(b)
    inplace = symbol.endswith("=")
    base = symbol.rstrip("=") if inplace else symbol
    function, name = BINARY[base]
    if isinstance(a, LateValue) or isinstance(b, LateValue):
        return _late(tr, symbol, function, a, b)
    if isinstance(a, TensorValue) or (isinstance(b, TensorValue) and _is_scalar(a)):
        chosen = INPLACE[base] if inplace and isinstance(a, TensorValue) else function
        return tr.graph.call(tr, "call_function", chosen, [a, b], {})
    if isinstance(a, SymbolicValue) or isinstance(b, SymbolicValue):
        if _is_plain(a) and _is_plain(b):
            return symbolic(tr, function, a, b)
    if _is_foldable(a) and _is_foldable(b):
        return compute(tr, function, a, b)
    if not isinstance(a, DerivedValue) and not isinstance(b, DerivedValue):
        found = containers(tr, base, inplace, a, b)
        if found is not None:
            return found
    if isinstance(a, Known) and a.real.__class__ is str and base == "%":
        return tr.call(tr.constant(str.__mod__), [a, b], {})
    return _by_methods(tr, symbol, name, inplace, a, b)


def _late(tr: Tracer, symbol: str, function: Callable[..., Any], a: Value, b: Value) -> Value:
    """An operator on what is known only after the graph: texts are put together, and numbers that cannot fail."""
    if symbol.rstrip("=") == "%" and isinstance(a, Known) and type(a.real) is str:
        return tr.call(tr.constant(str.__mod__), [a, b], {})
    return compute_late(tr, function, [a, b])


def symbolic(tr: Tracer, function: Callable[..., Any], *operands: Value) -> Value:
    """A pure function of symbolic values and constants; its exception is the program's exception."""
    try:
        return compute_symbolic(tr, function, *operands)
    except (ArithmeticError, TypeError, ValueError, LookupError) as e:
        for operand in operands:
            operand.concrete(tr)
        tr.raise_error(type(e), *e.args)


def containers(tr: Tracer, base: str, inplace: bool, a: Value, b: Value) -> Value | None:
    """The operators of built-in containers; None if they have none for these operands."""
    if isinstance(a, SequenceValue):
        return _sequence(tr, base, inplace, a, b)
    if isinstance(b, SequenceValue) and base == "*" and _is_scalar(a):
        return b.like(b.items(tr) * tr.index_of(a))
    if isinstance(a, SetValue | DictView) and base in ("|", "&", "-", "^"):
        if isinstance(a, SetValue) and not isinstance(b, SetValue):
            return None
        return _sets(tr, base, inplace, a, b)
    if isinstance(a, DictValue) and isinstance(b, DictValue) and base == "|":
        target = a if inplace else DictValue(dict(a.load(tr)), a.cls)
        for key, (name_value, item) in b.load(tr).items():
            target.store(tr, key, name_value, item)
        return target
    return None


def _sequence(tr: Tracer, base: str, inplace: bool, a: SequenceValue, b: Value) -> Value | None:
    if base == "+" and isinstance(a, ListValue) and inplace:
        a.replace(tr, [*a.items(tr), *tr.unpack(b)])
        return a
    if base == "+" and isinstance(b, SequenceValue) and isinstance(a, ListValue) == isinstance(b, ListValue):
        return a.like([*a.items(tr), *b.items(tr)])
    if base == "*" and _is_scalar(b):
        items = a.items(tr) * tr.index_of(b)
        if inplace and isinstance(a, ListValue):
            a.replace(tr, items)
            return a
        return a.like(items)
    return None


def _sets(tr: Tracer, base: str, inplace: bool, a: Value, b: Value) -> Value:
    if not isinstance(b, SetValue | DictView):
        graph_break("unsupported-operation", operation=base, types="set")
    left = {tr.look(i).hash_key(tr): i for i in _members(tr, a)}
    right = {tr.look(i).hash_key(tr): i for i in _members(tr, b)}
    if base == "|":
        result = {**left, **{k: v for k, v in right.items() if k not in left}}
    elif base == "&":
        result = {k: v for k, v in left.items() if k in right}
    elif base == "-":
        result = {k: v for k, v in left.items() if k not in right}
    else:
        result = {k: v for k, v in left.items() if k not in right}
        result |= {k: v for k, v in right.items() if k not in left}
    mirrors = [v.mirror if isinstance(v, SetValue) else None for v in (a, b)]
    if inplace and isinstance(a, SetValue) and a.cls is set:
        a.write(tr)
        a.entries = result
        a.mirror = None if a.mirror is None or mirrors[1] is None else INPLACE[base](a.mirror, mirrors[1])
        return a
    made = SetValue(result, a.cls if isinstance(a, SetValue) else set)
    made.mirror = None
    if None not in mirrors:
        kind = set if isinstance(mirrors[0], set) else frozenset  # a subclass may have operators of its own
        made.mirror = getattr(kind, f"__{BINARY[base][1]}__")(*mirrors)
    return made


def _members(tr: Tracer, value: Value) -> list[Value]:
    return list(value.entries.values()) if isinstance(value, SetValue) else value.values(tr)  # type: ignore[attr-defined]


def _by_methods(tr: Tracer, symbol: str, name: str, inplace: bool, a: Value, b: Value) -> Value:
    """The operator through the operands' special methods, reflected ones included."""
    attempts: list[tuple[Value, str, Value]] = [(a, f"__{name}__", b), (b, f"__r{name}__", a)]
    kind_a, kind_b = a.python_type(tr), b.python_type(tr)
    if kind_b is not kind_a and issubclass(kind_b, kind_a):
        attempts.reverse()
    elif kind_a is kind_b:
        attempts.pop()
    if inplace:
        attempts.insert(0, (a, f"__i{name}__", b))
    return _first_implemented(tr, attempts, symbol, kind_a, kind_b)


def _first_implemented(
    tr: Tracer, attempts: list[tuple[Value, str, Value]], symbol: str, kind_a: type, kind_b: type
) -> Value:
    for receiver, method, operand in attempts:
        if _declines(tr, receiver, method, operand):
            continue
        bound = special_method(tr, receiver, method)
        if bound is None:
            continue
        result = tr.look(tr.call(bound, [operand], {}))
        if not (isinstance(result, Known) and result.real is NotImplemented):
            return result
    if symbol in ("+", "+=") and isinstance(attempts[0][0], SequenceValue):
        kind = "list" if issubclass(kind_a, list) else "tuple"
        tr.raise_error(TypeError, f'can only concatenate {kind} (not "{kind_b.__name__}") to {kind}')
    if symbol in ("*", "*="):
        for one, other in ((kind_a, kind_b), (kind_b, kind_a)):
            if issubclass(one, (str, bytes, list, tuple)):
                tr.raise_error(TypeError, f"can't multiply sequence by non-int of type '{other.__name__}'")
    shown = "** or pow()" if symbol == "**" else symbol
    tr.raise_error(
        TypeError,
        f"unsupported operand type(s) for {shown}: '{kind_a.__name__}' and '{kind_b.__name__}'",
    )


def _declines(tr: Tracer, receiver: Value, method: str, operand: Value) -> bool:
    """Whether the operator of a built-in class answers `NotImplemented`: it knows only its own kin."""
    if isinstance(receiver, SequenceValue | DictValue | SetValue | SymbolicValue):
        found = class_attribute(tr, receiver.python_type(tr), method)
        return not hasattr(found, "__code__")
    if not isinstance(receiver, Known) or not isinstance(receiver.real, PRIMITIVES):
        return False
    found = class_attribute(tr, type(receiver.real), method)
    return not hasattr(found, "__code__") and not isinstance(operand, Known | SymbolicValue)


def compare(tr: Tracer, symbol: str, a: Value, b: Value) -> Value:
    """`a <symbol> b` for a rich comparison."""
    a, b = tr.look(a), tr.look(b)
    function, method, reflected = COMPARE[symbol]
    for operand in (a, b):
        if isinstance(operand, LateValue):
            operand.wanted(tr)
    if isinstance(a, IdValue) or isinstance(b, IdValue):
        return _compare_identities(tr, function, a, b)
    if isinstance(a, TensorValue) or isinstance(b, TensorValue):
        if _tensor_operand(a) and _tensor_operand(b):
            return tr.graph.call(tr, "call_function", function, [a, b], {})
        if symbol in ("==", "!=") and (a.real is None or b.real is None):
            return tr.constant(symbol == "!=")
    if (isinstance(a, SymbolicValue) or isinstance(b, SymbolicValue)) and _is_plain(a) and _is_plain(b):
        return symbolic(tr, function, a, b)
    if _is_foldable(a) and _is_foldable(b):
        return compute(tr, function, a, b)
    if isinstance(a, SequenceValue) and isinstance(b, SequenceValue):
        return _compare_sequences(tr, symbol, a, b)
    if symbol in ("==", "!=") and isinstance(a, DictValue) and isinstance(b, DictValue):
        return tr.constant(_equal_dicts(tr, a, b) == (symbol == "=="))
    if isinstance(a, SetValue) and isinstance(b, SetValue):
        return tr.constant(function(set(a.entries), set(b.entries)))
    return _compare_by_methods(tr, symbol, method, reflected, a, b)


def _compare_identities(tr: Tracer, function: Callable[..., Any], a: Value, b: Value) -> Value:
    if isinstance(a, IdValue) and isinstance(b, IdValue) and function in (operator.eq, operator.ne):
        return tr.constant(identical(tr, a.target, b.target) == (function is operator.eq))
    return compute(tr, function, a, b)


def _compare_by_methods(tr: Tracer, symbol: str, method: str, reflected: str, a: Value, b: Value) -> Value:
    from segue.capture.attributes import lookup

    kind_a, kind_b = a.python_type(tr), b.python_type(tr)
    attempts = [(a, kind_a, method, b), (b, kind_b, reflected, a)]
    if kind_b is not kind_a and issubclass(kind_b, kind_a):
        attempts.reverse()
    for receiver, kind, name, operand in attempts:
        found = lookup(kind, name)
        if getattr(object, name) is found:
            if (
                name == "__ne__"
                and not isinstance(receiver, TensorValue)
                and lookup(kind, "__eq__") is not object.__eq__
            ):
                return tr.constant(not tr.truth(compare(tr, "==", receiver, operand)))
            continue
        if isinstance(receiver, Known | TupleValue | ListValue | DictValue | SetValue) and found is not None:
            if not hasattr(found, "__code__"):
                continue
        bound = special_method(tr, receiver, name)
        if bound is None:
            continue
        result = tr.look(tr.call(bound, [operand], {}))
        if not (isinstance(result, Known) and result.real is NotImplemented):
            return result
    if symbol in ("==", "!="):
        return tr.constant(identical(tr, a, b) == (symbol == "=="))
    tr.raise_error(
        TypeError,
        f"'{symbol}' not supported between instances of '{kind_a.__name__}' and '{kind_b.__name__}'",
    )


def _compare_sequences(tr: Tracer, symbol: str, a: SequenceValue, b: SequenceValue) -> Value:
    if isinstance(a, ListValue) != isinstance(b, ListValue):
        if symbol in ("==", "!="):
            return tr.constant(symbol == "!=")
        graph_break("unsupported-operation", operation=symbol, types="list and tuple")
    left, right = a.items(tr), b.items(tr)
    if symbol in ("==", "!=") and len(left) != len(right):
        return tr.constant(symbol == "!=")
    for x, y in zip(left, right, strict=False):
        if not same_or_equal(tr, x, y):
            if symbol in ("==", "!="):
                return tr.constant(symbol == "!=")
            return compare(tr, symbol, x, y)
    return tr.constant(COMPARE[symbol][0](len(left), len(right)))


def _equal_dicts(tr: Tracer, a: DictValue, b: DictValue) -> bool:
    left, right = a.load(tr), b.load(tr)
    if left.keys() != right.keys():
        return False
    if issubclass(a.cls, OrderedDict) and issubclass(b.cls, OrderedDict) and list(left) != list(right):
        return False
    return all(same_or_equal(tr, left[k][1], right[k][1]) for k in left)


def same_or_equal(tr: Tracer, a: Value, b: Value) -> bool:
    """The comparison that containers make: identity, then equality."""
    a, b = tr.look(a), tr.look(b)
    if a is b:
        return True
    if type(a.real) is float and type(b.real) is float and a.real != a.real and b.real != b.real:
        graph_break("unsupported-operation", operation="comparison by identity", types="nan")
    return tr.truth(compare(tr, "==", a, b))


def identical(tr: Tracer, a: Value, b: Value) -> bool:
    """`a is b`."""
    a, b = tr.look(a), tr.look(b)
    if a is b:
        return True
    if isinstance(a, SymbolicValue) or isinstance(b, SymbolicValue):
        if not (_is_scalar(a) and _is_scalar(b)) or type(a.real) is not type(b.real):
            return False
    if isinstance(a, Known | SymbolicValue) and isinstance(b, Known | SymbolicValue):
        return a.concrete(tr) is b.concrete(tr)
    if a.source is not None and b.source is not None and not isinstance(a, Known) and not isinstance(b, Known):
        same = a.real is b.real
        tr.program.check_pair("is" if same else "is_not", a.source, b.source)
        return same
    if isinstance(a, TupleValue) and isinstance(b, TupleValue) and not a._items and not b._items:
        return True
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Known) and one.real is None and isinstance(other, Value):
            return False
    from segue.capture.values.function import FunctionValue, MethodValue

    if isinstance(a, FunctionValue | MethodValue) or isinstance(b, FunctionValue | MethodValue):
        if isinstance(a, Known) or isinstance(b, Known):
            return False
    return False


def _tensor_operand(value: Value) -> bool:
    return isinstance(value, TensorValue) or _is_scalar(value)


def _is_scalar(value: Value) -> bool:
    return isinstance(value, Known | SymbolicValue) and type(value.real) in (int, float, bool, complex)


def _is_plain(value: Value) -> bool:
    return isinstance(value, SymbolicValue) or (isinstance(value, Known) and isinstance(value.real, PRIMITIVES))


def _is_foldable(value: Value) -> bool:
    if isinstance(value, Known):
        plain = isinstance(value.real, (*PRIMITIVES, range, type))
        return plain or value.source is None or _by_identity(value.real)
    return isinstance(value, TupleValue) and value.is_constant()


def _by_identity(obj: Any) -> bool:
    from segue.capture.attributes import hashes_by_identity

    return hashes_by_identity(type(obj)) or type(obj).__module__ == "torch"
