"""The standard library's C functions: operator, functools, itertools."""

from __future__ import annotations

import functools
import itertools
import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from segue.capture import operators
from segue.capture.breaks import graph_break
from segue.capture.rules import inline, polyfills, polyfills_itertools, rule
from segue.capture.values.base import Value
from segue.capture.values.function import PartialValue
from segue.capture.values.iterator import CombinedIterator
from segue.capture.values.sequence import TupleValue
from segue.capture.values.symbolic import SymbolicValue
from segue.guards.source import Computed

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]

inline(polyfills.reduce_, functools.reduce)


@rule(functools.partial)
def _partial(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    inner = tr.look(args[0])
    if isinstance(inner, PartialValue):
        return PartialValue(inner.function, [*inner.args, *args[1:]], {**inner.kwargs, **kwargs})
    return PartialValue(inner, list(args[1:]), dict(kwargs))


def _iterator(kind: Any, python: Any) -> None:
    def make(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        body = tr.call(tr.pinned(python), args, kwargs)
        return CombinedIterator(kind, args, kwargs, body, born=tr.here)

    rule(kind)(make)


for _kind, _python in (
    (itertools.chain, polyfills.chain_),
    (itertools.repeat, polyfills.repeat_),
    (itertools.count, polyfills.count_),
    (itertools.cycle, polyfills.cycle_),
    (itertools.islice, polyfills.islice_),
    (itertools.product, polyfills.product_),
    (itertools.pairwise, polyfills.pairwise_),
    (itertools.accumulate, polyfills.accumulate_),
    (itertools.starmap, polyfills.starmap_),
    (itertools.takewhile, polyfills.takewhile_),
    (itertools.dropwhile, polyfills.dropwhile_),
    (itertools.zip_longest, polyfills.zip_longest_),
    (itertools.combinations, polyfills.combinations_),
    (itertools.compress, polyfills_itertools.compress_),
    (itertools.filterfalse, polyfills_itertools.filterfalse_),
    (itertools.permutations, polyfills_itertools.permutations_),
    (itertools.combinations_with_replacement, polyfills_itertools.combinations_with_replacement_),
    (itertools.groupby, polyfills_itertools.groupby_),
):
    _iterator(_kind, _python)

_TEE: type = type(itertools.tee([], 1)[0])


@rule(itertools.tee)
def _tee(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    branches = []
    for body in tr.unpack(tr.call(tr.pinned(polyfills_itertools.tee_), args, kwargs)):
        branch = CombinedIterator(_TEE, [], {}, body, born=tr.here)
        branch.started = True  # no call makes such an iterator again: the branches share what they have read
        branches.append(branch)
    return TupleValue(list(branches))


def _operator(function: Callable[..., Any], perform: Callable[..., Value], symbol: str) -> None:
    def call(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        return perform(tr, symbol, *args)

    rule(function)(call)


for _symbol, (_function, _) in operators.BINARY.items():
    _operator(_function, operators.binary, _symbol)
for _symbol, _function in operators.INPLACE.items():
    _operator(_function, operators.binary, _symbol + "=")
for _symbol, (_function, _, _) in operators.COMPARE.items():
    _operator(_function, operators.compare, _symbol)
for _opname, (_function, _) in operators.UNARY.items():
    _operator(_function, operators.unary, _opname)
_operator(operator.concat, operators.binary, "+")
_operator(operator.iconcat, operators.binary, "+=")


@rule(operator.not_)
def _not(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(not tr.truth(args[0]))


@rule(operator.truth)
def _truth(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(tr.truth(args[0]))


@rule(operator.is_)
def _is(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(operators.identical(tr, args[0], args[1]))


@rule(operator.is_not)
def _is_not(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(not operators.identical(tr, args[0], args[1]))


@rule(operator.getitem)
def _getitem(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.look(args[0]).get_item(tr, args[1])


@rule(operator.setitem)
def _setitem(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tr.look(args[0]).set_item(tr, args[1], args[2])
    return tr.constant(None)


@rule(operator.delitem)
def _delitem(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    tr.look(args[0]).delete_item(tr, args[1])
    return tr.constant(None)


@rule(operator.index)
def _index(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    value = tr.look(args[0])
    return value if isinstance(value, SymbolicValue) else tr.constant(tr.index_of(value))


@rule(operator.contains)
def _contains(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.constant(tr.look(args[0]).contains(tr, args[1]))


@rule(vars(itertools.chain)["from_iterable"])
def _chain_from_iterable(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return tr.call(tr.pinned(polyfills.chain_from_iterable), args[1:], kwargs)


@rule(weakref.ReferenceType.__call__)
def _dereference(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    reference = tr.look(args[0])
    if reference.source is None:
        graph_break("opaque-call", function="a new weak reference")
    target = reference.real()
    return tr.wrap(target, Computed(reference.source, operator.call, (reference.source,)))
