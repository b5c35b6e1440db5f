"""One capture: from the live state at a gate to the description of a segment.

The tracer holds the capture's own state (the program so far, the graph, what was written) and the services that values
and instructions use.  It reads the program's objects and never changes one.
"""

from __future__ import annotations

import enum
import types
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import torch

from segue.capture import operators, realise
from segue.capture.abandonment import closes_silently
from segue.capture.attributes import class_attribute
from segue.capture.breaks import KINDS, GraphBreak, Raised, Restart, Speculated, graph_break
from segue.capture.classstate import ClassWrites
from segue.capture.frame import Frame, Resumable
from segue.capture.graph import GraphBuilder
from segue.capture.leaving import GENERATOR_EXITS, BreakSite, CannotRebuild, LeaveOff, Limits, LoopFacts, Place
from segue.capture.operations import is_tensor_operation
from segue.capture.outputs import Output
from segue.capture.values.base import MISSING, Lazy, Value
from segue.capture.values.derived import DerivedValue
from segue.capture.values.function import CellValue, FunctionValue
from segue.capture.values.iterator import GeneratorValue
from segue.capture.values.known import PRIMITIVES, Known
from segue.capture.values.late import LateValue, compute_late
from segue.capture.values.mapping import DictValue, SetValue
from segue.capture.values.object import ExceptionValue
from segue.capture.values.sequence import ListValue, SequenceValue, TupleValue
from segue.capture.values.symbolic import SymbolicValue
from segue.frames.code import Code, Instruction
from segue.guards.program import Program
from segue.guards.source import Attr, Computed, Pinned, Source

V = TypeVar("V", bound=Value)

MAX_RESUMED = 100
"""How many frames, one inside the other, a segment may leave in the middle."""

MAX_RESUMED_ALIKE = 12
"""How many of them may be of one function: a recursion is then compiled call by call."""


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


class Tracer:
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
        self.limits = limits
        self.marks = marks
        self._loops_of = loops_of
        self._symbolic = symbolic
        self._can_resume = can_resume
        self.program = Program()
        self.graph = GraphBuilder()
        self.frames: list[Frame] = []
        self.root: Frame | None = None
        self.unbound: set[tuple[int | None, int]] = set()
        """Level and slot of what is unbound at the gate; guarded when the program notices."""
        self.handled: Value = self.constant(None)
        self.here: Place | None = None
        """Where to break so that the interpreter does what is done now."""
        self.is_direct = False
        """The function called next gives the result of the calling frame's instruction."""
        self.is_speculating = False
        """What runs now may be undone: nothing can leave off inside it."""
        self.outer_codes: list[Code] = []
        """The code of the callers of the frame at the gate."""
        self.changes = 0
        self.instructions = 0
        self.guarded_facts: dict[Source, Any] = {}
        self.classes: dict[type, dict[str, Any]] = {}
        self.class_writes: dict[type, ClassWrites] = {}
        self.written: dict[int, Value] = {}
        self.looked: list[Value] = []
        self._tracked: dict[int, tuple[Any, Value]] = {}
        self.generators: list[GeneratorValue] = []
        self.outputs: list[Output] = []
        self._overlays: dict[int, DictValue] = {}
        self._iterations: dict[tuple[int, int], int] = {}
        self._started = False
        self._n_run = 0
        self._codes: dict[Place, Code] = {}

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
        for body in self.graph.bodies:
            body.note_change(value)
        if value.source is not None:
            self.written.setdefault(id(value), value)

    def dropping(self, value: Value | None) -> None:
        """A place gives up a value: if that may run a finaliser, it happens in the interpreter, at its time."""
        if value is None:
            return
        cls = type(value.real) if value.real is not MISSING else getattr(value, "cls", object)
        if issubclass(cls, types.GeneratorType):
            left_half_way = value.real is not MISSING and value.real.gi_frame is not None
        else:
            left_half_way = hasattr(cls, "__del__") or _is_watched(value.real) or _holds_finalised(value.real)
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
            self.make_resumable(frame, caller.resumable.place(caller.current))
        return frame.run(self)

    def _may_resume(self, caller: Frame, frame: Frame) -> bool:
        """Whether a segment may leave off in the middle of a called frame."""
        if caller.code.is_generator or self.is_speculating:
            return False
        outer = [*self.outer_codes, *(f.code for f in self.frames)]
        if len(outer) >= MAX_RESUMED or outer.count(frame.code) >= MAX_RESUMED_ALIKE:
            return False
        function = frame.function_value
        return self._can_resume(function.code, None if function.real is MISSING else function.real)

    def make_resumable(self, frame: Frame, path: Place) -> None:
        """Let the segment leave off in the middle of a frame."""
        self._codes[path] = frame.code
        frame.resumable = Resumable(path, self._loops_of(frame.code))

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

    def give_back(self, place: Place | None, what: str, kind: str = "rebuild") -> NoReturn:
        """Begin again with a break at an instruction whose result cannot be rebuilt."""
        if place is None or place in self.marks:
            raise CannotRebuild(what)
        code, index = self._codes[place[:-1]], place[-1]
        frames = [(code.original, code.instructions[index])]
        self.marks[place] = BreakSite(kind, KINDS[kind].reason.format(what=what, type=what), frames)
        raise Restart

    def check_abandoned(self) -> None:
        """Generators that are dropped half-way close at once in eager Python: such ones are made by the interpreter."""
        for generator in self.generators:
            if generator.started and not generator.finished and not closes_silently(self, generator.frame):
                self.give_back(generator.born, "a generator that is left half-way")

    # --- events while frames run ------------------------------------------------------------------

    def enter_operation(self) -> None:
        """An operation is about to run on fake tensors: its in-place effect on them cannot be taken back."""
        self._n_run += 1

    def before_instruction(self, frame: Frame, resumable: Resumable, i: Instruction) -> None:
        """Leave off where a mark says so; remember the state before the instruction of a resumable frame."""
        place = self.here = resumable.place(i)
        self.is_direct = False
        if place in self.marks:
            raise LeaveOff(frame, i.index, False, self.marks[place])
        if i.opname == "FOR_ITER" and i.index in resumable.loops.in_place:
            raise LeaveOff(frame, i.index, False, resumable.loops.too_long.get(i.index))
        if frame.code.is_generator and i.opname in GENERATOR_EXITS:
            self._leave_generator(frame, resumable, i)
        if self._started and self._is_forced(frame.code, i.index):
            self._keep_loops_in_place(frame)
            raise LeaveOff(frame, i.index, False, BreakSite("forced", KINDS["forced"].reason, self.sites()))
        self._started = True
        resumable.stack = list(frame.stack)
        resumable.before = self._progress()

    def _is_forced(self, code: Code, index: int) -> bool:
        return self.limits.break_at is not None and index >= code.start and self.limits.break_at(code, index)

    def _progress(self) -> tuple[int, int, int]:
        return self.changes, len(self.graph.graph.nodes), self._n_run

    def _leave_generator(self, frame: Frame, resumable: Resumable, i: Instruction) -> NoReturn:
        """Leave off where a generator's frame is suspended or ends; loops around a yield are in place."""
        if i.opname != "RETURN_VALUE" and self._keep_in_place(frame, i.index):
            raise Restart
        raise LeaveOff(frame, i.index, False, None)

    def broke(self, frame: Frame, resumable: Resumable, i: Instruction, broke: GraphBreak) -> None:
        """Leave off before an instruction that broke, from a clean state; nothing if that is for the caller."""
        site: BreakSite = broke.site  # type: ignore[attr-defined]
        for operand in map(self.look, resumable.stack):
            if isinstance(operand, LateValue) and operand.born not in self.marks:
                operand.wanted(self)
        if site.kind == "skip-frame" and frame is not self.root and len(site.frames) == len(self.frames):
            return
        if site.kind == "budget":
            resumable.loops.too_long.update((loop.header, site) for loop in frame.code.enclosing_loops(i.index))
        self._keep_loops_in_place(frame)
        if resumable.before == self._progress():
            frame.stack[:] = resumable.stack
            raise LeaveOff(frame, i.index, False, site)
        self.marks[resumable.place(i)] = site
        raise Restart

    def root_raised(self, frame: Frame, i: Instruction, raised: Raised) -> NoReturn:
        """An exception leaves the function: the interpreter raises it."""
        assert frame.resumable is not None
        cls, origin = raised.value.cls, raised.value.origin
        if origin is not None and origin != frame.resumable.place(i):
            self.give_back(origin, cls.__name__, "raise")
        broke = GraphBreak(KINDS["raise"], KINDS["raise"].reason.format(type=cls.__name__))
        self.locate(broke)
        self.broke(frame, frame.resumable, i, broke)
        raise AssertionError("a raise in the frame at the gate is left to the interpreter")

    def locate(self, broke: GraphBreak) -> None:
        """Note the captured frames at which a break happened, where it happened first."""
        if not hasattr(broke, "site"):
            broke.site = BreakSite(broke.kind.id, broke.reason, self.sites())  # type: ignore[attr-defined]

    def sites(self) -> list[tuple[types.CodeType, Instruction]]:
        """The captured frames now, outermost first."""
        return [(f.code.original, f.current) for f in self.frames if f.current is not None]

    def stack_trace(self) -> str:
        """The captured frames as text, for graph nodes."""
        return "\n".join([_trace_line(code, i.position.lineno) for code, i in self.sites()])

    def count_instruction(self) -> None:
        """Keep to the capture budget."""
        self.instructions += 1
        if self.instructions > self.limits.budget:
            self.instructions = 0
            graph_break("budget", count=self.limits.budget)

    # --- loops ------------------------------------------------------------------------------------

    def loop_iteration(self, frame: Frame, header: int) -> None:
        """FOR_ITER gave an item."""
        self._count_iteration(frame, header)

    def keep_in_place(self, frame: Frame, header: int) -> None:
        """Leave a `for` loop to the interpreter, if this is a frame that can be left."""
        if frame.resumable is not None and not self.limits.fullgraph:
            frame.resumable.loops.in_place.add(header)
            raise LeaveOff(frame, header, False, None)

    def loop_done(self, frame: Frame, header: int) -> None:
        """FOR_ITER is at its end."""
        self._iterations.pop((id(frame), header), None)

    def loop_back(self, frame: Frame, header: int) -> None:
        """A jump back to a loop's header."""
        if frame.code.instructions[header].opname == "FOR_ITER":
            return
        if frame.resumable is not None and header in frame.resumable.loops.in_place:
            raise LeaveOff(frame, header, True, None)
        self._count_iteration(frame, header)

    def _count_iteration(self, frame: Frame, header: int) -> None:
        key = (id(frame), header)
        count = self._iterations[key] = self._iterations.get(key, 0) + 1
        if frame.resumable is not None:
            frame.resumable.entered.add(header)
        if count <= self.limits.unroll or self.limits.fullgraph:
            return
        if frame.resumable is None:
            graph_break("loop", why=f"it has more than {self.limits.unroll} iterations")
        frame.resumable.loops.in_place.add(header)
        raise Restart

    def _keep_loops_in_place(self, frame: Frame) -> None:
        """A break inside loops that this segment entered, of any frame: iterations are compiled one by one."""
        if self.limits.fullgraph:
            return
        begin_again = False
        inner: Frame | None = frame
        while inner is not None:
            assert inner.current is not None
            begin_again |= self._keep_in_place(inner, inner.current.index)
            inner = inner.caller
        if begin_again:
            raise Restart

    def _keep_in_place(self, frame: Frame, index: int) -> bool:
        """Keep the loops around an instruction in place; whether this segment has unrolled one of them."""
        assert frame.resumable is not None
        loops = frame.resumable.loops
        around = [loop.header for loop in frame.code.enclosing_loops(index)]
        entered = [h for h in around if h in frame.resumable.entered and h not in loops.in_place]
        loops.in_place.update(around)
        return bool(entered)
