"""Built-in functions and types."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from segue.capture import operators
from segue.capture.attributes import lookup, special_method
from segue.capture.breaks import graph_break
from segue.capture.calls import refuse_abstract
from segue.capture.rules import inline, polyfills, polyfills_functional, refused, rule
from segue.capture.values.base import MISSING, Value
from segue.capture.values.function import (
    CellValue,
    FunctionValue,
    MethodValue,
    PartialValue,
    SuperValue,
)
from segue.capture.values.identity import IdValue, hash_of
from segue.capture.values.iterator import CombinedIterator
from segue.capture.values.known import Known
from segue.capture.values.late import late_number
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ObjectValue
from segue.capture.values.sequence import ListValue, SequenceValue, SliceValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

inline(polyfills.any_, any)
inline(polyfills.all_, all)
inline(polyfills.sum_, sum)
refused(
    "side-effect-call",
    *(open, input, builtins.breakpoint, exec, eval, compile),
    function="input(), open(), eval() or the like",
)


@rule(sorted)
def _sorted(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    given = tr.look(args[0])
    if isinstance(given, SetValue) and "key" not in kwargs and {type(k) for k in given.entries} <= {str}:
        items = list(given.entries.values())  # in whatever order they are, the result is the same
    else:
        items = tr.unpack(given)
    return ListValue(sorted_items(tr, items, sorting_keys(tr, items, kwargs), kwargs))


def sorting_keys(tr: Tracer, items: list[Value], kwargs: Kwargs) -> list[Value]:
    """What items are sorted by."""
    key = kwargs.get("key")
    by = items if key is None or tr.look(key).real is None else [tr.call(key, [i], {}) for i in items]
    return [tr.look(k) for k in by]


def sorted_items(tr: Tracer, items: list[Value], keys: list[Value], kwargs: Kwargs) -> list[Value]:
    """Items in the order of their keys."""
    reverse = kwargs.get("reverse")
    descending = reverse is not None and tr.truth(reverse)
    if not all(k.is_constant() or isinstance(k, SymbolicValue) for k in keys):
        return _sorted_by_comparing(tr, items, keys, descending)
    objects = [k.concrete(tr) for k in keys]
    try:
        order = sorted(range(len(items)), key=objects.__getitem__, reverse=descending)
    except TypeError as e:
        tr.raise_error(TypeError, *e.args)
    return [items[i] for i in order]


def _sorted_by_comparing(tr: Tracer, items: list[Value], keys: list[Value], descending: bool) -> list[Value]:
    """By the keys' own `<`; in descending order equal ones keep their order too."""
    step = -1 if descending else 1
    places = tr.call(tr.pinned(polyfills_functional.sorted_places), [ListValue(keys[::step])], {})
    order = [tr.index_of(place) for place in tr.unpack(places)]
    return [items[::step][i] for i in order][::step]


@rule(len)
def _len(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    return value.symbolic_length(tr) or tr.constant(value.length(tr))


@rule(min)
def _min(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return _extreme(tr, min, polyfills.min_, args, kwargs)


@rule(max)
def _max(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return _extreme(tr, max, polyfills.max_, args, kwargs)


def _extreme(tr: Tracer, function: Any, python: Any, args: Args, kwargs: Kwargs) -> Value:
    looked = [tr.look(a) for a in args]
    if len(looked) > 1 and not kwargs and all(isinstance(a, Known | SymbolicValue) for a in looked):
        return tr.fold(function, looked, {})
    return tr.call(tr.pinned(python), args, kwargs)


@rule(callable)
def _callable(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    if isinstance(value, FunctionValue | MethodValue | PartialValue):
        return tr.constant(True)
    if isinstance(value, Known):
        return tr.constant(callable(value.concrete(tr)))
    return tr.constant(lookup(value.python_type(tr), "__call__") is not MISSING)


@rule(type)
def _type(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 1:
        graph_break("unsupported-class", type="a new class")
    cls = args[0].python_type(tr)
    return tr.constant(cls)


@rule(super)
def _super(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if args:
        if len(args) < 2 or not isinstance(tr.look(args[0]).real, type):
            graph_break("opaque-call", function="super() of something else than a class and an object")
        cls, instance = tr.look(args[0]).concrete(tr), tr.look(args[1])
    else:
        cls, instance = _implicit_super(tr)
    is_class = issubclass(type(instance.real), type) and issubclass(instance.real, cls)
    start = instance.concrete(tr) if is_class else instance.python_type(tr)
    if cls not in start.__mro__:
        tr.raise_error(TypeError, "super(type, obj): obj must be an instance or subtype of type")
    return SuperValue(cls, instance, start)


def _implicit_super(tr: Tracer) -> tuple[Any, Value]:
    frame = tr.frames[-1]
    names = [slot.name for slot in frame.code.localsplus]
    if "__class__" not in names or not frame.code.n_args:
        tr.raise_error(RuntimeError, "super(): __class__ cell not found")
    cell, first = frame.slots[names.index("__class__")], frame.slots[0]
    if isinstance(first, CellValue):
        first = first.contents
    if not isinstance(cell, CellValue) or cell.contents is None or first is None:
        tr.raise_error(RuntimeError, "super(): empty __class__ cell")
    return tr.look(cell.contents).concrete(tr), tr.look(first)


def _name(tr: Tracer, value: Value) -> str:
    """The name of an attribute."""
    value = tr.look(value)
    if not issubclass(value.python_type(tr), str):
        tr.raise_error(TypeError, f"attribute name must be string, not '{value.python_type(tr).__name__}'")
    return str(value.concrete(tr))


@rule(getattr)
def _getattr(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    owner, name = tr.look(args[0]), _name(tr, args[1])
    if len(args) == 2:
        return owner.get_attribute(tr, name)
    return owner.find_attribute(tr, name) or args[2]


@rule(hasattr)
def _hasattr(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    owner, name = tr.look(args[0]), _name(tr, args[1])
    return tr.constant(owner.find_attribute(tr, name) is not None)


@rule(setattr)
def _setattr(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tr.look(args[0]).set_attribute(tr, _name(tr, args[1]), args[2])
    return tr.constant(None)


@rule(delattr)
def _delattr(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tr.look(args[0]).delete_attribute(tr, _name(tr, args[1]))
    return tr.constant(None)


@rule(globals)
def _globals(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.frames[-1].function_value.namespace


@rule(id)
def _id(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return IdValue(tr.look(args[0]))


@rule(range)
def _range(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if not tr.limits.fullgraph and any(isinstance(tr.look(a), SymbolicValue) for a in args):
        graph_break("loop", why="its number of iterations has changed between calls")
    try:
        return tr.constant(range(*(tr.index_of(a) for a in args)))
    except ValueError as e:
        tr.raise_error(ValueError, *e.args)


@rule(slice)
def _slice(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    none = tr.constant(None)
    start, stop, step = [none, args[0], none] if len(args) == 1 else [*args, none][:3]
    return SliceValue(start, stop, step)


@rule(list)
def _list(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return ListValue(list(tr.unpack(args[0])) if args else [])


@rule(tuple)
def _tuple(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return TupleValue([])
    given = tr.look(args[0])
    if isinstance(given, TupleValue) and given.cls is tuple:
        return given
    return TupleValue(list(tr.unpack(given)))


def _makes_set(cls: type) -> None:
    def make(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        made = SetValue({}, cls)
        if args:
            made.update(tr, args[0])
        return made

    rule(cls)(make)


_makes_set(set)
_makes_set(frozenset)


@rule(dict)
def _dict(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    made = DictValue({})
    tr.call(tr.constant(dict.update), [made, *args], kwargs)
    return made


def _combined(kind: Any, python: Any, iterables: slice) -> None:
    def make(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        given = list(args)
        given[iterables] = [tr.look(a).iterate(tr) for a in args[iterables]]
        body = tr.call(tr.pinned(python), given, kwargs)
        return CombinedIterator(kind, given, kwargs, body, born=tr.here)

    rule(kind)(make)


for _kind, _python, _iterables in (
    (enumerate, polyfills.enumerate_, slice(0, 1)),
    (zip, polyfills.zip_, slice(None)),
    (map, polyfills.map_, slice(1, None)),
    (filter, polyfills.filter_, slice(1, 2)),
):
    _combined(_kind, _python, _iterables)


@rule(reversed)
def _reversed(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    given = tr.look(args[0])
    own = special_method(tr, given, "__reversed__") if isinstance(given, ObjectValue) else None
    if own is not None:
        return tr.call(own, [], {})
    if isinstance(given, DictValue):
        given = ListValue([k for k, _ in given.load(tr).values()])
    if not isinstance(given, SequenceValue | Known | ObjectValue) or special_method(tr, given, "__getitem__") is None:
        graph_break("opaque-call", function="reversed()")
    body = tr.call(tr.pinned(polyfills.reversed_), [given], {})
    return CombinedIterator(reversed, args, kwargs, body, born=tr.here)


@rule(bool)
def _bool(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0]) if args else tr.constant(False)
    if isinstance(value, TensorValue):
        graph_break("data-dependent-value", operation="bool()")
    if isinstance(value, SymbolicValue):
        return tr.fold(bool, [value], {})
    return tr.constant(value.truth(tr))


def _conversion(cls: type, method: str) -> None:
    def convert(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        value = tr.look(args[0]) if args else tr.constant(0)
        if isinstance(value, TensorValue):
            if cls is complex or (cls is int and value.fake.is_floating_point()):
                graph_break("data-dependent-value", operation=f"{cls.__name__}()")
            return tr.fold(cls, [late_number(tr, value, f"{cls.__name__}()")], {})
        if isinstance(value, ObjectValue):
            own = special_method(tr, value, method)
            if own is not None:
                return tr.call(own, [], {})
            graph_break("opaque-call", function=cls.__name__)
        return tr.fold(cls, args or [tr.constant(0)], kwargs)

    rule(cls)(convert)


for _cls, _method in ((int, "__int__"), (float, "__float__"), (complex, "__complex__")):
    _conversion(_cls, _method)


@rule(object)
def _object(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    made = ObjectValue(object)
    made.born = tr.here
    return made


@rule(object.__new__)
def _object_new(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    cls = tr.look(args[0]).concrete(tr)
    if cls.__new__ is not object.__new__ and any(
        not isinstance(vars(base).get("__new__"), (staticmethod, type(None))) for base in cls.__mro__[:-1]
    ):
        graph_break("unsupported-class", type=cls.__name__)
    refuse_abstract(tr, cls)
    made = ObjectValue(cls)
    made.born = tr.here
    return made


@rule(object.__init__, object.__init_subclass__)
def _nothing(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(None)


@rule(vars)
def _vars(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if not args:
        return tr.call(tr.constant(locals), [], {})
    found = tr.look(args[0]).find_attribute(tr, "__dict__")
    if found is None:
        tr.raise_error(TypeError, "vars() argument must have __dict__ attribute")
    return found


@rule(hash)
def _hash(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    if isinstance(value, SymbolicValue):
        return operators.symbolic(tr, hash, value)
    return tr.constant(hash_of(tr, value))
