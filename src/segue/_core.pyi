"""The C core: frames, gates, and the programs that segments are. See docs/architecture.md."""

from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, ClassVar, Protocol, final

class Compiler(Protocol):
    """What the core asks of a compiler; it must allow weak references. Not there at run time."""

    def admit(self, function: FunctionType, /) -> State | _Sentinel | None: ...
    def miss(
        self,
        gate: Gate,
        function: FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
        callers: list[tuple[FunctionType, tuple[Any, ...], tuple[Any, ...]]] = ...,
        /,
    ) -> Segment | None: ...
    def report_unstable(self, gate: Gate, segment: Segment, failed_step: int, /) -> object: ...

@final
class _Sentinel: ...

NULL: _Sentinel
TRANSFER: _Sentinel
DISABLE: _Sentinel
UNDECIDED: _Sentinel
STATE_FACTS: tuple[str, ...]

class State:
    """How one code object is compiled under one compiler.

    A subclass adds `exit_of(gate index)`, the number of the exit "here, past the gate" in the
    newest version, or None: stay in the frame; and `gate_in(gate, context)`, the gate at the same
    place for a context.
    """

    def __init__(self, code: CodeType) -> None: ...
    @property
    def code(self) -> CodeType: ...
    @property
    def n_args(self) -> int: ...
    @property
    def n_localsplus(self) -> int: ...
    @property
    def n_free(self) -> int: ...
    version: CodeType | None
    entry: Gate | None

class Gate:
    """An instruction boundary where interpreted execution may enter a segment."""

    def __init__(self, state: State, index: int, depth: int, context: Any = None) -> None: ...
    @property
    def state(self) -> State: ...
    @property
    def context(self) -> Any: ...
    @property
    def contexts(self) -> dict[Any, Gate] | None: ...
    @property
    def index(self) -> int: ...
    @property
    def depth(self) -> int: ...
    segments: list[Segment]
    is_open: bool
    backoff: int

@final
class Crossing:
    """What rewritten code asks before a gate's instruction, by `~`: None (go on), or (pad, payload)."""

    def __init__(self, gate: Gate, n_exits: int) -> None: ...
    def __invert__(self) -> tuple[int, Any] | None: ...
    @property
    def gate(self) -> Gate | None: ...
    @property
    def n_exits(self) -> int: ...

@final
class Landing:
    """What rewritten code asks first, by `~`: None (from the top), or (pad, payload)."""

    def __init__(self, state: State) -> None: ...
    def __invert__(self) -> tuple[int, Any] | None: ...
    @property
    def state(self) -> State | None: ...

@final
class Segment:
    """A guarded program that runs from a gate to an exit.

    Raises:
        ValueError: the program is malformed; the message names the step.
    """

    RETURN: ClassVar[int]
    STAY: ClassVar[int]
    def __init__(
        self,
        steps: Iterable[tuple[Any, ...]],
        exit: int,
        n_registers: int,
        failed: Callable[[Segment, Exception], bool] | None = None,
        level: int = 0,
    ) -> None: ...
    @property
    def level(self) -> int: ...
    @property
    def steps(self) -> tuple[tuple[Any, ...], ...]: ...
    @property
    def exit(self) -> int: ...
    @property
    def n_registers(self) -> int: ...
    @property
    def failed_step(self) -> int: ...

@final
class Continuation:
    """A call that is resumed in the middle: once, by `~` in its caller's pad.

    Args:
        point: (state, exit, context or None, number of stack slots that the caller keeps below the call).
        function: the original function.
        locals: all slots, NULL where unbound.
        stack: the value stack, top first, None for NULL.
    """

    def __init__(
        self,
        point: tuple[State, int, Any, int],
        function: FunctionType,
        locals: tuple[Any, ...],
        stack: tuple[Any, ...],
    ) -> None: ...
    def __invert__(self) -> Any: ...

@final
class Register:
    """Stands for what a register of a plan holds, in `outputs` and in arguments of its calls."""

    def __init__(self, index: int) -> None: ...
    @property
    def index(self) -> int: ...

@final
class Plan:
    """What a compiled graph does on the CPU: steps that C runs, on registers and slots.

    Args:
        steps: see docs/architecture.md, "Plans".
        n_registers: how many objects it holds; the arguments are the first of them.
        n_slots: how many addresses it holds.
        outputs: what a call returns, a `Register` where it is what the register holds.
        clone: makes an equal plan with memory of its own, for calls while this one runs.
        fallback: called with the arguments instead when they do not suit the plan.
        n_args: the number of arguments; without it, of the registers before the first that a step sets.

    Raises:
        ValueError: the plan is malformed; the message names the step.
    """

    def __init__(
        self,
        steps: tuple[tuple[Any, ...], ...],
        n_registers: int,
        n_slots: int,
        outputs: tuple[Any, ...],
        clone: Callable[[], Plan] | None = None,
        fallback: Callable[..., Any] | None = None,
        *,
        n_args: int | None = None,
    ) -> None: ...
    def __call__(self, *args: Any) -> Any: ...
    @property
    def steps(self) -> tuple[tuple[Any, ...], ...]: ...
    @property
    def outputs(self) -> tuple[Any, ...]: ...
    @property
    def n_args(self) -> int: ...
    @property
    def n_registers(self) -> int: ...
    @property
    def n_slots(self) -> int: ...

@final
class Meter:
    """Counts the runs of a graph."""

    calls: int

class Entry:
    """A function whose calls are compiled. Attributes that it lacks are those of the function.

    Raises:
        TypeError: `function` is not a plain Python function.
    """

    def __new__(cls, function: Callable[..., Any], compiler: Any, bound: tuple[Any, ...] = ()) -> Entry: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...
    def __copy__(self) -> Entry: ...
    def __deepcopy__(self, memo: Any, /) -> Entry: ...
    @property
    def compiler(self) -> Any: ...
    @property
    def bound(self) -> tuple[Any, ...]: ...
    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

@final
class BoundEntry(Entry):
    """An Entry with leading arguments; it does not bind."""

@final
class Disabled:
    """A callable that runs with compiling off, and everything below it."""

    def __init__(self, function: Callable[..., Any]) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, instance: object, owner: type | None = None, /) -> Any: ...
    def __copy__(self) -> Disabled: ...
    def __deepcopy__(self, memo: Any, /) -> Disabled: ...
    __wrapped__: Callable[..., Any]
    __name__: str
    __qualname__: str

def call_disabled(callable: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call with compiling off."""

def make_generator(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a generator function, from a segment: it is compiled like one that the program calls."""

def current_compiler() -> Any:
    """The compiler of this thread, None if compiling is off."""

def is_compiling_frames() -> bool:
    """Whether calls on this thread are compiled now."""

def hook_depth() -> int:
    """How many running calls hold the frame evaluator, over all threads."""

def global_state() -> tuple[Any, ...]:
    """torch's thread-wide state, for the step of that name; the items are named by STATE_FACTS."""

def set_mode_depth(function_modes: int, dispatch_modes: int, /) -> None:
    """How many modes the tool itself has pushed on this thread."""

def set_paused(paused: bool, /) -> bool:
    """Stop or resume compiling in the whole process; returns what was before."""

def forget_answers() -> None:
    """Ask every compiler about every code object again."""

def setup_torch(torch: Any, /) -> None:
    """Look up what the core needs of torch; once, before any tensor step is built."""

def set_pool_limit(bytes: int, /) -> int:
    """How much memory of large outputs that are gone is kept for others; returns what it was."""

def trim_pool() -> int:
    """Give the memory that is kept back to the system; returns its bytes."""
