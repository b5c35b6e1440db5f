"""One capture: from the live state at a gate to the description of a segment.

The tracer holds the capture's own state (the program so far, the graph, what was written) and the services that values
and instructions use.  It reads the program's objects and never changes one.
"""

from __future__ import annotations

import enum
import io
import math
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch

from segue.capture import operators, realise
from segue.capture.abandonment import closes_silently
from segue.capture.attributes import class_attribute
from segue.capture.breaks import Raised, Speculated, graph_break
from segue.capture.classstate import ClassWrites
from segue.capture.departures import Departures
from segue.capture.frame import Frame
from segue.capture.graph import GraphBuilder
from segue.capture.leaving import BreakSite, Limits, LoopFacts, Place
from segue.capture.operations import is_tensor_operation
from segue.capture.outputs import Output
from segue.capture.values.base import MISSING, Lazy, Value, last_serial
from segue.capture.values.derived import DerivedValue
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.iterator import GeneratorValue
from segue.capture.values.known import PRIMITIVES, Known
from segue.capture.values.late import LateValue, compute_late
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.sequence import ListValue, SequenceValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue
from segue.frames.code import Code
from segue.guards.program import Program
from segue.guards.source import Attr, Computed, Pinned, Source, Step

V = TypeVar("V", bound=Value)


def _is_watched(obj: Any) -> bool:
    """Whether a weak reference can tell when an instance of a user's class goes away."""
    is_instance = not issubclass(type(obj), (type, torch.Tensor, torch.nn.Module, types.FunctionType, types.ModuleType))
    return obj is not MISSING and is_instance and weakref.getweakrefcount(obj) > 0


def _holds_finalised(obj: Any) -> bool:
    """Whether giving up a plain container gives up objects with finalisers."""
    if type(obj) is dict:
        return any(hasattr(type(item), "__del__") for item in obj.values())
    return type(obj) in (list, tuple, set) and any(hasattr(type(item), "__del__") for item in obj)


def _trace_line(code: types.CodeType, line: int | None) -> str:
    return f'  File "{code.co_filename}", line {line}, in {code.co_name}'


def _length(source: Source) -> Source:
    return Computed(source, len, (source,))


class Tracer(Departures):
    """The state of one capture attempt; see `segue.capture.capture`."""

    enum_type: type = type(enum.Enum)

    def __init__(
        self,
        limits: Limits,
        loops_of: Callable[[Code], LoopFacts],
        marks: dict[Place, BreakSite],
        symbolic: Callable[[Source, Any], bool],
        can_resume: Callable[[types.CodeType, Any], bool],
    ) -> None:
        super().__init__(limits, loops_of, marks, can_resume)
        self._symbolic = symbolic
        self.program = Program()
        self.graph = GraphBuilder()
        self.frames: list[Frame] = []
        self.unbound: set[tuple[int | None, int]] = set()
        """Level and slot of what is unbound at the gate; guarded when the program notices."""
        self.handled: Value = self.constant(None)
        self.instructions = 0
        self.guarded_facts: dict[Source, Any] = {}
        self.classes: dict[type, dict[str, Any]] = {}
        self.class_writes: dict[type, ClassWrites] = {}
        self.oldest_change: float = math.inf
        """The least serial number of what was changed, since `without_effects` began."""
        self.last_checks: list[Step] = []
        """Checks that themselves leave traces: made after all others, and only if there is a graph to run."""
        self.written: dict[int, Value] = {}
        self.looked: list[Value] = []
        self._tracked: dict[int, tuple[Any, Value]] = {}
        self.generators: list[GeneratorValue] = []
        self.outputs: list[Output] = []
        self.state: dict[Any, Any] = {}
        """What rules know of this capture, by subject."""
        self._overlays: dict[int, DictValue] = {}

    # --- values of objects ------------------------------------------------------------------------

    def constant(self, obj: Any) -> Known:
        """A known object that needs no guard."""
        return Known(obj)

    def plain_value(self, obj: Any) -> Value:
        """The value of an object that an operation on constants gave."""
        if isinstance(obj, (tuple, torch.Size)) and type(obj) in (tuple, torch.Size):
            return TupleValue([self.plain_value(x) for x in obj], type(obj))
        if type(obj) is list:
            return ListValue([self.plain_value(x) for x in obj])
        if type(obj) is dict:
            return DictValue({k: (self.plain_value(k), self.plain_value(v)) for k, v in obj.items()})
        if type(obj) is set:
            return SetValue({k: self.plain_value(k) for k in obj})
        if type(obj) is frozenset:
            return SetValue({k: self.plain_value(k) for k in obj}, frozenset, Pinned(obj), obj)
        if type(obj) is slice:
            from segue.capture.values.sequence import SliceValue

            start, stop, step = (self.plain_value(p) for p in (obj.start, obj.stop, obj.step))
            return SliceValue(start, stop, step)
        return Known(obj)

    def pinned(self, obj: Any) -> Value:
        """An object whose owner is guarded already, or that never changes its place."""
        return self.wrap(obj, Pinned(obj))

    def wrap(self, obj: Any, source: Source) -> Value:
        """The value of an object of the program; nothing is guarded until it is looked at."""
        return Lazy(obj, source)

    def bound(self, value: V) -> V:
        """A value out of a place that may be empty at another call; guarded even if nobody looks at the value."""
        if isinstance(value, Lazy):
            assert value.source is not None
            self.program.fetch(value.source)
        return value

    def look(self, value: Value) -> Value:
        """What kind of value a lazy one is; guards its type."""
        if not isinstance(value, Lazy):
            return value
        if value.looked is None:
            assert value.source is not None
            value.looked = self._realise(value.real, value.source)
        return value.looked

    def _realise(self, obj: Any, source: Source) -> Value:
        known = self._tracked.get(id(obj))
        if known is not None:
            self._same_object(known[1], source)
            return known[1]
        if type(obj) in (int, float, str) and not isinstance(source, Pinned) and self._symbolic(source, obj):
            self.program.check("type_is", source, type(obj))
            return SymbolicValue(obj, source)
        return realise.realise(self, obj, source)

    def _same_object(self, value: Value, source: Source) -> None:
        assert value.source is not None
        if source != value.source and not (isinstance(source, Pinned) and isinstance(value.source, Pinned)):
            self.program.check_pair("is", source, value.source)

    def track(self, obj: Any, value: V) -> V:
        """Remember the one value of an object that has identity."""
        self._tracked[id(obj)] = (obj, value)
        self.looked.append(value)
        return value

    def tracked(self, obj: Any) -> Value | None:
        """The value of an object, if it was looked at."""
        known = self._tracked.get(id(obj))
        return known[1] if known else None

    def instance_dict(self, owner: Value, real: Any, source: Source) -> DictValue:
        """The `__dict__` of an instance of the program."""
        return self.namespace(object.__getattribute__(real, "__dict__"), source)

    def namespace(self, real: dict[str, Any], source: Source) -> DictValue:
        """A dict of names that the program owns: globals or an instance dict."""
        known = self.tracked(real)
        if isinstance(known, DictValue):
            return known
        return self.track(real, DictValue(None, dict, source, real))

    def own_namespace(self, value: Value) -> DictValue:
        """The instance dict of a value that is about to be written."""
        from segue.capture.values.object import ObjectValue

        own = value.namespace(self) if isinstance(value, ObjectValue) else None
        if own is None:
            graph_break("unsupported-attribute", name="", type=value.python_type(self).__name__, verb="written")
        return own

    def overlay_of(self, value: Value) -> DictValue:
        """What capture has written to an object that has no instance dict of its own here."""
        return self._overlays.setdefault(id(value), DictValue({}))

    def new_dict(self, entries: dict[str, Value]) -> DictValue:
        """A dict made by the program, with string keys."""
        return DictValue({k: (self.constant(k), v) for k, v in entries.items()})

    def size_of(self, tensor: Any) -> Value:
        """The shape of a tensor as the program sees it."""
        return TupleValue([self.constant(int(n)) for n in tensor.fake.shape], torch.Size)

    # --- guards -----------------------------------------------------------------------------------

    def guard_value(self, source: Source, obj: Any) -> None:
        """The object at a source is this one: by equality for plain constants, else by identity."""
        if isinstance(source, Pinned):
            return
        if type(obj) in PRIMITIVES and obj is not NotImplemented:
            if type(obj) in (int, float, str):
                self.guarded_facts[source] = obj
            self.program.check("equals", source, obj)
        elif type(obj) is range:
            self.program.check("type_is", source, range)
            for part in ("start", "stop", "step"):
                self.guard_value(Attr(source, part), getattr(obj, part))
        elif type(obj) is torch.device:
            self.program.check_plain("predicate", obj.__eq__, (self.program.fetch(source),))
        else:
            self.program.check_is(source, obj)

    def guard_length(self, source: Source, n: int) -> None:
        """The container at a source has this length."""
        self.guarded_facts[_length(source)] = n
        self.program.check("length", source, n)

    def guard_truth(self, source: Source, truth: bool) -> bool:
        """The container at a source is empty or not, as now."""
        self.program.check("true" if truth else "false", Computed(source, bool, (source,)))
        return truth

    def has_changed(self, source: Source, value: Any) -> bool:
        """Whether the number at a source has changed between calls."""
        return self._symbolic(source, value)

    def symbolic_length(self, source: Source, n: int) -> Value | None:
        """The length of a container as a symbolic number, if it has changed between calls."""
        if not self._symbolic(_length(source), n):
            return None
        return SymbolicValue(n, _length(source))

    def guard_class(self, cls: type, name: str) -> None:
        """The lookup of `name` on a user's class gives what it gives now."""
        class_attribute(self, cls, name)

    def changed(self) -> None:
        """Something is being changed that the nodes of the graph do not show."""
        if self.is_speculating:
            raise Speculated
        self.changes += 1

    def mutated(self, value: Value) -> None:
        """A value is being changed; one of the program's own must be written back."""
        self.changed()
        self.oldest_change = min(self.oldest_change, value.serial if value.source is None else 0)
        for body in self.graph.bodies:
            body.note_change(value)
        if value.source is not None:
            self.written.setdefault(id(value), value)

    def without_effects(self, function: Callable[[], V], what: str) -> V:
        """Run captured code that Python may run another number of times: it must not change what is older than it."""
        born, outer, self.oldest_change = last_serial(), self.oldest_change, math.inf
        n_effects = len(self.program.effects)
        try:
            result = function()
            changed = self.oldest_change <= born or len(self.program.effects) != n_effects
        finally:
            self.oldest_change = min(outer, self.oldest_change)
        if changed:
            graph_break("opaque-call", function=f"{what}, which has effects")
        return result

    def dropping(self, value: Value | None) -> None:
        """A place gives up a value: if that may run a finaliser, it happens in the interpreter, at its time."""
        if value is None:
            return
        cls = type(value.real) if value.real is not MISSING else getattr(value, "cls", object)
        if issubclass(cls, types.GeneratorType):
            left_half_way = value.real is not MISSING and value.real.gi_frame is not None
        else:
            has_finaliser = hasattr(cls, "__del__") and cls is not io.StringIO
            left_half_way = has_finaliser or _is_watched(value.real) or _holds_finalised(value.real)
        if left_half_way:
            graph_break("finaliser", type=cls.__name__)

    def dropping_locals(self, frame: Frame) -> None:
        """A live frame ends, and its caller goes on."""
        for place, value in zip(frame.code.localsplus, frame.slots, strict=True):
            if place.kind != "free":
                self.dropping(value.contents if isinstance(value, CellValue) else value)

    # --- services ---------------------------------------------------------------------------------

    def truth(self, value: Value) -> bool:
        """`bool(value)`."""
        return self.look(value).truth(self)

    def index_of(self, value: Value) -> int:
        """The int that a value gives as an index."""
        value = self.look(value)
        if isinstance(value, (Known, SymbolicValue)) and isinstance(value.real, int):
            return int(value.concrete(self))
        from segue.capture.attributes import special_method
        from segue.capture.values.tensor import TensorValue

        if isinstance(value, TensorValue):
            graph_break("data-dependent-value", operation="an index")
        method = special_method(self, value, "__index__")
        if method is None:
            name = value.python_type(self).__name__
            self.raise_error(TypeError, f"'{name}' object cannot be interpreted as an integer")
        return self.index_of(self.call(method, [], {}))

    def unpack(self, value: Value, at_most: int | None = None) -> list[Value]:
        """The items that iterating over a value gives."""
        value = self.look(value)
        if isinstance(value, SequenceValue):
            return value.items(self)
        iterator = self.look(value.iterate(self))
        items: list[Value] = []
        while at_most is None or len(items) < at_most:
            item = iterator.next(self)
            if item is None:
                break
            items.append(item)
            self.count_instruction()
        return items

    def mapping_items(self, value: Value) -> list[tuple[Value, Value]]:
        """The entries of a mapping."""
        value = self.look(value)
        if isinstance(value, DerivedValue) and class_attribute(self, value.cls, "__iter__") is dict.__iter__:
            value = value.contents
        if isinstance(value, DictValue):
            return list(value.load(self).values())
        keys = self.unpack(self.call(value.get_attribute(self, "keys"), [], {}))
        return [(k, value.get_item(self, k)) for k in keys]

    def call(self, function: Value, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """`function(*args, **kwargs)`."""
        function = self.look(function)
        if isinstance(function, FunctionValue) and function.real is not MISSING:
            from segue.capture.rules import find_rule

            rule = find_rule(function.real)
            if rule is not None or is_tensor_operation(function.real):
                self.is_direct = False
                assert function.source is not None
                if not isinstance(function.source, Pinned):
                    self.program.check_is(function.source, function.real)
                if rule is not None:
                    return rule(self, args, kwargs)
                return self.graph.call(self, "call_function", function.real, args, kwargs)
        return function.call(self, args, kwargs)

    def is_tensor_operation(self, target: Any) -> bool:
        """Whether a call of `target` is a node of the graph."""
        return is_tensor_operation(target)

    def is_pure(self, target: Any) -> bool:
        """Whether `target` may be called during capture when its arguments are constants."""
        from segue.capture.rules.pure import is_pure

        return is_pure(target)

    def fold(self, target: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """Compute a pure function of constants."""
        args = [self.look(a) for a in args]
        if not kwargs and any(isinstance(a, LateValue) for a in args):
            return compute_late(self, target, args)
        if not kwargs and any(isinstance(a, SymbolicValue) for a in args):
            if all(isinstance(a, (Known, SymbolicValue)) for a in args):
                return operators.symbolic(self, target, *args)
        keywords = {k: self.look(v) for k, v in kwargs.items()}
        foldable = (SymbolicValue, SequenceValue, DictValue, SetValue)
        if not all(a.is_constant() or isinstance(a, foldable) for a in (*args, *keywords.values())):
            from segue.capture.calls import name_of

            graph_break("opaque-call", function=name_of(target))
        objects = [self.python_object(a) for a in args]
        try:
            result = target(*objects, **{k: self.python_object(v) for k, v in keywords.items()})
        except Exception as e:
            self.raise_error(type(e), *e.args)
        return self.plain_value(result)

    def python_object(self, value: Value) -> Any:
        """A fresh Python object equal to a value made of constants."""
        value = self.look(value)
        if isinstance(value, ListValue) and value.cls is list:
            return [self.python_object(i) for i in value.items(self)]
        if isinstance(value, TupleValue) and value.cls in (tuple, torch.Size):
            return value.cls(self.python_object(i) for i in value.items(self))
        if isinstance(value, SetValue) and value.cls in (set, frozenset):
            return value.cls(self.python_object(i) for i in value.entries.values())
        if isinstance(value, DictValue) and value.cls is dict:
            return {k: self.python_object(v) for k, (_, v) in value.load(self).items()}
        return value.concrete(self)

    def new_builtin(self, cls: type, new: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
        """An instance of a class that derives from a built-in one."""
        from segue.capture.rules.types import new_builtin

        return new_builtin(self, cls, new, args, kwargs)

    def init_builtin(self, made: Value, init: Any, args: list[Value], kwargs: dict[str, Value]) -> None:
        """Run a built-in class's `__init__` on an instance."""
        from segue.capture.rules.types import init_builtin

        init_builtin(self, made, init, args, kwargs)

    def run_inlined(self, frame: Frame) -> Value:
        """Run the frame of an inlined call."""
        nested = sum(f.code is frame.code for f in self.frames)
        if len(self.frames) >= self.limits.depth or nested >= self.limits.recursion:
            graph_break("depth", depth=len(self.frames))
        is_direct, self.is_direct = self.is_direct, False
        caller = self.frames[-1]
        if is_direct and caller.resumable is not None and self._may_resume(caller, frame):
            assert caller.current is not None
            frame.caller = caller
            self.make_resumable(frame, (*caller.resumable.place(caller.current), id(frame.code)))
        return frame.run(self)

    # --- exceptions of the program ----------------------------------------------------------------

    def raise_error(self, cls: type[BaseException], *args: Any) -> NoReturn:
        """Raise an exception of the program with constant arguments."""
        self.raise_value(cls, [self.plain_value(a) for a in args])

    def raise_value(self, cls: type[BaseException], args: list[Value]) -> NoReturn:
        """Raise an exception of the program."""
        value = ExceptionValue(cls, args)
        value.origin = self.here
        value.born = self.here
        value.was_raised(self, self.handled)
        raise Raised(value)

    def traceback_of(self, exception: ExceptionValue) -> Value:
        """The traceback that `__exit__` gets; only the interpreter can make one."""
        from segue.capture.values.object import ObjectValue

        made = ObjectValue(types.TracebackType)
        made.born = exception.origin
        return made

    def made_by_interpreter(self, value: ExceptionValue) -> NoReturn:
        """Begin again, leaving to the interpreter the instruction that raises this exception."""
        if value.origin is not None:
            self.give_back(value.origin, value.cls.__name__, "raise")
        self.give_back(value.born, f"an exception of class {value.cls.__name__}")

    def check_abandoned(self) -> None:
        """Generators that are dropped half-way close at once in eager Python: such ones are made by the interpreter."""
        for generator in self.generators:
            if generator.started and not generator.finished and not closes_silently(self, generator.frame):
                self.give_back(generator.born, "a generator that is left half-way")

    def stack_trace(self) -> str:
        """The captured frames as text, for graph nodes."""
        return "\n".join([_trace_line(code, i.position.lineno) for code, i in self.sites()])

    def count_instruction(self) -> None:
        """Keep to the capture budget."""
        self.instructions += 1
        if self.instructions > self.limits.budget:
            self.instructions = 0
            graph_break("budget", count=self.limits.budget)
