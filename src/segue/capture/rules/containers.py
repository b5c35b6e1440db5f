"""Methods of list, tuple, dict, set, str."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from segue.capture import operators
from segue.capture.breaks import Raised, graph_break
from segue.capture.rules import Rule, inline, polyfills, rule
from segue.capture.values.base import Value
from segue.capture.values.mapping import DictValue, DictView, SetValue
from segue.capture.values.sequence import ListValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]
Container = TypeVar("Container", bound=Value)


def _act_on_built_in(python_function: Callable[..., Any], *targets: Any) -> None:
    """Register Python code for methods of built-in classes, which look on no subclass for what they do."""

    def stand_in(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return tr.call(tr.pinned(python_function), [tr.look(args[0]).built_in(), *args[1:]], kwargs)

    rule(*targets)(stand_in)


inline(polyfills.dict_fromkeys, vars(dict)["fromkeys"], vars(collections.OrderedDict)["fromkeys"])
inline(polyfills.dict_update, collections.OrderedDict.update, collections.OrderedDict.__init__)
inline(polyfills.ordered_copy, collections.OrderedDict.copy)
for _python, *_targets in (
    (polyfills.list_index, list.index),
    (polyfills.tuple_index, tuple.index),
    (polyfills.sequence_count, list.count, tuple.count),
    (polyfills.list_remove, list.remove),
    (polyfills.move_to_end, collections.OrderedDict.move_to_end),
    (polyfills.set_issubset, set.issubset, frozenset.issubset),
    (polyfills.set_issuperset, set.issuperset, frozenset.issuperset),
):
    _act_on_built_in(_python, *_targets)


def _built_in(kind: type[Container], name: str) -> Callable[[Tracer, Value], Container]:
    """What takes the built-in part of a value, which the methods of a container act on."""

    def take(tr: Tracer, value: Value) -> Container:
        looked = tr.look(value).built_in()
        if not isinstance(looked, kind):
            graph_break("unsupported-operation", operation=f"a {name} method", types=looked.python_type(tr).__name__)
        return looked

    return take


_list, _dict, _set = _built_in(ListValue, "list"), _built_in(DictValue, "dict"), _built_in(SetValue, "set")


@rule(list.append)
def _append(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _list(tr, args[0]).append(tr, args[1])
    return tr.constant(None)


@rule(list.extend)
def _extend(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _list(tr, args[0])
    for item in list(tr.unpack(args[1])):
        target.append(tr, item)
    return tr.constant(None)


@rule(list.insert)
def _insert(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _list(tr, args[0])
    items = list(target.items(tr))
    items.insert(tr.index_of(args[1]), args[2])
    target.replace(tr, items)
    return tr.constant(None)


@rule(list.pop)
def _pop(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _list(tr, args[0])
    last = target.pop_last(tr) if len(args) == 1 else None
    if last is not None:
        return last
    items = list(target.items(tr))
    index = tr.index_of(args[1]) if len(args) > 1 else -1
    if not -len(items) <= index < len(items):
        tr.raise_error(IndexError, "pop index out of range" if items else "pop from empty list")
    item = items.pop(index)
    target.replace(tr, items)
    return item


@rule(list.clear)
def _clear(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _list(tr, args[0]).replace(tr, [])
    return tr.constant(None)


@rule(list.reverse)
def _reverse(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _list(tr, args[0])
    target.replace(tr, target.items(tr)[::-1])
    return tr.constant(None)


@rule(list.sort)
def _sort(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    from segue.capture.rules.builtins import sorted_items, sorting_keys

    target = _list(tr, args[0])
    items = target.take_out(tr)  # CPython does so while it sorts
    left = target.items(tr)
    try:
        keys = sorting_keys(tr, list(items), kwargs)
    except Raised:
        target.replace(tr, items)
        raise
    try:
        ordered = sorted_items(tr, items, keys, kwargs)
    except Raised:
        graph_break("opaque-call", function="list.sort() that fails half-way")
    is_changed = bool(left) or target.items(tr) is not left
    target.replace(tr, ordered)
    if is_changed:
        tr.raise_error(ValueError, "list modified during sort")
    return tr.constant(None)


@rule(list.copy)
def _copy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return ListValue(list(_list(tr, args[0]).items(tr)))


@rule(dict.update, dict.__init__)
def _dict_update(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _dict(tr, args[0])
    if len(args) > 1:
        given = tr.look(args[1])
        if isinstance(given.built_in(), DictValue):
            for key, value in tr.mapping_items(given):
                target.set_item(tr, key, value)
        else:
            tr.call(tr.pinned(polyfills.dict_update), [target, given], {})
    for name, value in kwargs.items():
        target.set_item(tr, tr.constant(name), value)
    return tr.constant(None)


@rule(dict.get)
def _get(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    found = _dict(tr, args[0]).find(tr, tr.look(args[1]).hash_key(tr))
    if found is not None:
        return found
    return args[2] if len(args) > 2 else tr.constant(None)


@rule(dict.setdefault, collections.OrderedDict.setdefault)
def _setdefault(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target, key = _dict(tr, args[0]), tr.look(args[1])
    found = target.find(tr, key.hash_key(tr))
    if found is not None:
        return found
    value = args[2] if len(args) > 2 else tr.constant(None)
    target.set_item(tr, key, value)
    return value


@rule(dict.pop, collections.OrderedDict.pop)
def _dict_pop(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    key = tr.look(args[1])
    found = _dict(tr, args[0]).remove(tr, key.hash_key(tr))
    if found is not None:
        return found
    default = args[2] if len(args) > 2 else kwargs.get("default")
    if default is None:
        tr.raise_value(KeyError, [key])
    return default


@rule(dict.popitem)
def _popitem(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    from segue.capture.values.sequence import TupleValue

    target = _dict(tr, args[0])
    entries = target.load(tr)
    if not entries:
        tr.raise_error(KeyError, "popitem(): dictionary is empty")
    key = next(reversed(entries))
    name, value = entries[key]
    target.remove(tr, key)
    return TupleValue([name, value])


@rule(dict.clear)
def _dict_clear(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _dict(tr, args[0])
    for key in list(target.load(tr)):
        target.remove(tr, key)
    return tr.constant(None)


@rule(dict.copy)
def _dict_copy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return DictValue(dict(_dict(tr, args[0]).load(tr)))


@rule(collections.defaultdict.copy, collections.defaultdict.__copy__)
def _default_copy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    factory = _dict(tr, args[0]).default_factory(tr)
    return tr.call(tr.constant(tr.look(args[0]).python_type(tr)), [factory, args[0]], {})


for _kind in ("keys", "values", "items"):

    def _view(tr: Tracer, args: Args, kwargs: Kwargs, kind: str = _kind) -> Value:
        return DictView(_dict(tr, args[0]), kind)

    rule(getattr(dict, _kind), getattr(collections.OrderedDict, _kind))(_view)


@rule(set.add)
def _add(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _set(tr, args[0]).add(tr, args[1])
    return tr.constant(None)


@rule(set.discard)
def _discard(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _set(tr, args[0]).remove(tr, args[1])
    return tr.constant(None)


@rule(set.remove)
def _remove(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    if not _set(tr, args[0]).remove(tr, args[1]):
        tr.raise_value(KeyError, [args[1]])
    return tr.constant(None)


@rule(set.clear)
def _set_clear(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    _set(tr, args[0]).clear(tr)
    return tr.constant(None)


@rule(set.copy, frozenset.copy)
def _set_copy(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return _set(tr, args[0]).copy()


@rule(set.update)
def _set_update(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    target = _set(tr, args[0])
    for given in args[1:]:
        target.update(tr, given)
    return tr.constant(None)


def _set_method(symbol: str) -> Rule:
    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        made = _set(tr, args[0]).copy()
        others = [tr.look(a).built_in() for a in args[1:]]
        for given, other in zip(args[1:], others, strict=True):
            operand = other if isinstance(other, SetValue) else tr.look(tr.call(tr.constant(set), [given], {}))
            found = operators.containers(tr, symbol, False, made, operand)
            assert isinstance(found, SetValue)
            made = found
        if len(others) > 1 or not all(isinstance(o, SetValue) for o in others):
            made.mirror = None
        return made

    return call


for _name, _symbol in (("union", "|"), ("intersection", "&"), ("difference", "-"), ("symmetric_difference", "^")):
    rule(getattr(set, _name), getattr(frozenset, _name))(_set_method(_symbol))
