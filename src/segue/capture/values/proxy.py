"""Read-only views of mappings: `types.MappingProxyType`, and the `__dict__` of a class."""

from __future__ import annotations

import functools
import gc
import types
from typing import TYPE_CHECKING, Any

from segue.capture.values.base import MISSING, Value
from segue.capture.values.mapping import DictValue
from segue.guards.source import Computed

if TYPE_CHECKING:
    from segue.capture.rebuild import Rebuilder
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source


class MappingProxyValue(Value):
    """A view of `mapping`; `owner` is the class whose `__dict__` it is, if it is one."""

    def __init__(
        self, mapping: Value, source: Source | None = None, real: Any = MISSING, owner: type | None = None
    ) -> None:
        self.mapping = mapping
        self.source = source
        self.real = real
        self.owner = owner

    def __repr__(self) -> str:
        return f"MappingProxy({self.mapping})"

    @staticmethod
    def of(tr: Tracer, proxy: Any, source: Source) -> MappingProxyValue:
        """The value of a view that the program owns."""
        mapping = tr.look(tr.wrap(underlying(proxy), Computed(source, underlying, (source,))))
        return MappingProxyValue(mapping, source, proxy)

    @staticmethod
    def of_class(tr: Tracer, cls: type) -> MappingProxyValue:
        """`vars(cls)`, as it is now."""
        from segue.capture.classstate import forbid_written

        forbid_written(tr, cls)
        names, values = tuple(vars(cls)), tuple(vars(cls).values())
        tr.program.check_plain("predicate", functools.partial(_holds, cls, names, values), ())
        entries: dict[Any, tuple[Value, Value]] = {k: (tr.constant(k), tr.pinned(v)) for k, v in vars(cls).items()}
        return MappingProxyValue(DictValue(entries), owner=cls)

    def python_type(self, tr: Tracer) -> type:
        return types.MappingProxyType

    def truth(self, tr: Tracer) -> bool:
        return tr.truth(self.mapping)

    def length(self, tr: Tracer) -> int:
        return self.mapping.length(tr)

    def iterate(self, tr: Tracer) -> Value:
        return self.mapping.iterate(tr)

    def get_item(self, tr: Tracer, key: Value) -> Value:
        return self.mapping.get_item(tr, key)

    def set_item(self, tr: Tracer, key: Value, value: Value) -> None:
        tr.raise_error(TypeError, "'mappingproxy' object does not support item assignment")

    def delete_item(self, tr: Tracer, key: Value) -> None:
        tr.raise_error(TypeError, "'mappingproxy' object does not support item deletion")

    def contains(self, tr: Tracer, item: Value) -> bool:
        return self.mapping.contains(tr, item)

    def rebuild(self, to: Rebuilder) -> int:
        if self.source is not None:
            return to.program.fetch(self.source)
        if self.owner is not None:
            return to.program.call(vars, to.program.constant(self.owner))
        return to.program.call(types.MappingProxyType, to.register(self.mapping))


def underlying(proxy: Any) -> Any:
    """The mapping that a view shows."""
    return gc.get_referents(proxy)[0]


def _holds(cls: type, names: tuple[str, ...], values: tuple[Any, ...]) -> bool:
    """Whether a class has these very attributes of its own."""
    now = vars(cls)
    return tuple(now) == names and all(a is b for a, b in zip(now.values(), values, strict=True))
