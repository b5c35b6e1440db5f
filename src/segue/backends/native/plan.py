"""Plans: kernels, ATen operations and memory as the flat list of steps that the C core runs.

Every buffer of a graph has one *place*: an argument, a constant, a fresh output, what an operation returned, or a piece
of the plan's workspace, in which buffers that are not needed at the same time share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from segue import _core, config
from segue.backends.native import calls, jit, target
from segue.backends.native.codegen import NAME, Kernel
from segue.backends.native.inline import reads, writes
from segue.backends.native.ir import Invoke
from segue.backends.native.values import NotGenerated
from segue.graphs.aten import AtenGraph, Buffer, Number, View

ALIGNMENT = 64
FAILED = "a kernel met an index out of range or a division by zero"


@dataclass
class Compiled:
    """A graph with its machine code; plans are made of it.

    Attributes:
        graph: what goes in and out.
        units: kernels and ATen operations in order.
        code: the machine code of the kernels, None if there are none.
        names: for each unit, the name of its function in the code.
        threads: how many threads a kernel uses at most, 0 for as many as PyTorch.
    """

    graph: AtenGraph
    units: list[Kernel | Invoke]
    code: jit.Code | None
    names: list[str]
    threads: int


def compile_kernels(graph: AtenGraph, units: list[Kernel | Invoke]) -> Compiled:
    """Machine code for the kernels among the units; equal ones share it."""
    functions: dict[str, str] = {}
    declarations: dict[str, str] = {}
    names = []
    for unit in units:
        if isinstance(unit, Invoke):
            names.append("")
            continue
        names.append(functions.setdefault(unit.function, f"{NAME}{len(functions)}"))
        declarations |= unit.declarations
    if not functions:
        return Compiled(graph, units, None, names, config.threads)
    bodies = [body.replace(f"@{NAME}(", f"@{name}(", 1) for body, name in functions.items()]
    text = "\n".join([*declarations.values(), *bodies, ""])
    code = jit.compile_module(text, list(functions.values()), target.host())
    return Compiled(graph, units, code, names, config.threads)


def make_plan(compiled: Compiled, fallback: Callable[..., Any]) -> _core.Plan:
    """A plan that runs a compiled graph.

    Args:
        compiled: the graph.
        fallback: the graph as it was captured, for arguments whose memory overlaps.
    """
    return _Planner(compiled, fallback).plan()


class _Planner:
    """The making of one plan."""

    def __init__(self, compiled: Compiled, fallback: Callable[..., Any]) -> None:
        self.compiled = compiled
        self.graph = compiled.graph
        self.fallback = fallback
        self.steps: list[tuple[Any, ...]] = []
        self.n_registers = len(self.graph.inputs)
        self.slots: dict[Buffer, int] = {}
        self.n_slots = 0
        self.tensors = [v for v in self.graph.inputs if isinstance(v, View)]
        self.arguments = {v.buffer: i for i, v in enumerate(self.graph.inputs) if isinstance(v, View)}
        self.numbers = {v.buffer: i for i, v in enumerate(self.graph.inputs) if isinstance(v, Number)}
        self.held: dict[Buffer, tuple[int, View]] = {}
        self.views: dict[View, int] = {}
        self.constants: dict[View, torch.Tensor] = {}
        self.uses = self._uses()
        self.returned: set[int] = set()
        self.has_noted = False
        self.outputs = [o for o in self.graph.outputs if isinstance(o, View)]
        self.given = self._given()
        self.workspace = _Workspace(self._temporaries(), self.uses)

    def plan(self) -> _core.Plan:
        self._inputs()
        for at, unit in enumerate(self.compiled.units):
            if isinstance(unit, Invoke):
                self._call(unit, at)
            else:
                self._kernel(unit, self.compiled.names[at])
            self._release(at)
        self._note_writes()
        same = self.graph.same_as_input
        outputs = tuple(self._output(i, o, same[i]) for i, o in enumerate(self.graph.outputs))
        compiled, fallback = self.compiled, self.fallback
        return _core.Plan(
            tuple(self.steps),
            self.n_registers,
            self.n_slots,
            outputs,
            lambda: make_plan(compiled, fallback),
            fallback,
            n_args=len(self.graph.inputs),
        )

    # --- places ---------------------------------------------------------------------------------------

    def _uses(self) -> dict[Buffer, tuple[int, int]]:
        """The first and the last unit that uses each buffer; outputs are used after the last."""
        uses: dict[Buffer, tuple[int, int]] = {}
        for at, unit in enumerate(self.compiled.units):
            buffers = unit.buffers if isinstance(unit, Kernel) else reads(unit) | writes(unit)
            for buffer in buffers:
                uses[buffer] = (uses.get(buffer, (at, at))[0], at)
        for output in self.graph.outputs:
            if isinstance(output, View):
                end = len(self.compiled.units)
                uses[output.buffer] = (uses.get(output.buffer, (end, end))[0], end)
        return uses

    def _given(self) -> set[Buffer]:
        """Buffers that are memory which an ATen operation returns."""
        given: set[Buffer] = set()
        known: set[Buffer] = set(self.arguments) | set(self.numbers)
        for unit in self.compiled.units:
            if isinstance(unit, Kernel):
                known |= set(unit.buffers)
                continue
            if calls.takes_out(unit.call):
                known |= {r.buffer for r in unit.call.results if r is not None}
                continue
            fresh = {r.buffer for r in unit.call.results if r is not None} - known - set(unit.call.written)
            given |= fresh
            known |= fresh
        return given

    def _temporaries(self) -> list[Buffer]:
        outside = set(self.arguments) | set(self.numbers) | self.given | {o.buffer for o in self.outputs}
        return [b for b in self.uses if b not in outside and b.constant is None]

    def _slot(self, buffer: Buffer) -> int:
        """The slot with a buffer's address; makes what has no place yet."""
        if buffer in self.slots:
            return self.slots[buffer]
        slot = self.slots[buffer] = self.n_slots
        self.n_slots += 1
        if buffer.constant is not None:
            self.steps.append(("memory", buffer.constant, slot, 0))
        elif buffer in self.workspace.tensors:
            self.steps.append(("memory", self.workspace.tensors[buffer], slot, 0))
        elif buffer not in self.held:
            self._fresh_output(buffer, slot)
        return slot

    def _fresh_output(self, buffer: Buffer, slot: int) -> None:
        """Memory for a buffer that is handed to the program: shaped like the first output that is all of it."""
        whole = next((o for o in self.outputs if o.buffer is buffer and _is_whole(o)), None)
        view = whole or View(buffer, (buffer.size,), (1,))
        register = self._register()
        self.steps.append(("output", register, slot, buffer.dtype, view.sizes, view.strides, buffer.size))
        self.held[buffer] = (register, view)

    def _register(self) -> int:
        self.n_registers += 1
        return self.n_registers - 1

    # --- steps ----------------------------------------------------------------------------------------

    def _inputs(self) -> None:
        """Addresses of arguments that kernels read or that could overlap."""
        used = {b for u in self.compiled.units if isinstance(u, Kernel) for b in u.buffers}
        written = {b for u in self.compiled.units if isinstance(u, Invoke) for b in writes(u)}
        written |= self._written_by_kernels()
        checked = bool(written & self.arguments.keys())
        for view in self.tensors:
            buffer, argument = view.buffer, self.arguments[view.buffer]
            self.held[buffer] = (argument, view)
            if buffer in used or checked:
                self.slots[buffer] = self.n_slots
                self.n_slots += 1
                self.steps.append(("input", argument, self.slots[buffer]))
        for buffer, argument in self.numbers.items():
            if buffer in used:
                self.slots[buffer] = self.n_slots
                self.n_slots += 1
                kind = "d" if buffer.dtype.is_floating_point else "q"
                self.steps.append(("number", argument, self.slots[buffer], kind))
        if checked:
            spans = {b: (self.slots[b], b.size * b.dtype.itemsize) for b in self.arguments}
            ours = tuple(s for b, s in spans.items() if b in written)
            self.steps.append(("check_overlap", ours, tuple(s for b, s in spans.items() if b not in written)))

    def _written_by_kernels(self) -> set[Buffer]:
        return {b for u in self.compiled.units if isinstance(u, Kernel) for b in u.written}

    def _note_writes(self) -> None:
        """Tell autograd of the writes that it does not see itself, before the first of them."""
        if self.has_noted:
            return
        self.has_noted = True
        by_program = {b for call in self.graph.calls for b in call.written}
        by_aten = {b for u in self.compiled.units if isinstance(u, Invoke) for b in u.call.written}
        changed = [_core.Register(i) for b, i in self.arguments.items() if b in by_program - by_aten]
        if changed:
            self.steps.append(("call", calls.note_writes, tuple(changed), None, None))

    def _kernel(self, kernel: Kernel, name: str) -> None:
        assert self.compiled.code is not None
        if kernel.written & self.arguments.keys():
            self._note_writes()
        slots = tuple(self._slot(b) for b in kernel.buffers)
        address = self.compiled.code.address(name)
        self.steps.append(
            ("kernel", address, slots, kernel.units, _grain(kernel, self.compiled.threads), self.compiled.code, FAILED)
        )

    def _call(self, invoke: Invoke, at: int) -> None:
        call = invoke.call
        function, args, kwargs = calls.fastest(call)
        given = self.given - self.held.keys()
        fresh = [r if r is not None and r.buffer in given else None for r in call.results]
        if calls.takes_out(call):
            (result,) = call.results
            assert result is not None
            kwargs = {**kwargs, "out": result}
        values = [self._argument(a) for a in args]
        names = tuple(kwargs)
        values += [self._argument(v) for v in kwargs.values()]
        target: Any = None
        registers = [self._register() for _ in fresh] if any(r is not None for r in fresh) else []
        if registers:
            target = registers[0] if len(registers) == 1 else tuple(registers)
        self.steps.append(("call", function, tuple(values), names or None, target))
        for view, register in zip(fresh, registers, strict=False):
            if view is not None and self.uses[view.buffer] != (at, at):
                self._expect(view, register)
            else:
                self.steps.append(("release", register))

    def _expect(self, view: View, register: int) -> None:
        """Make sure that what an operation returned lies in memory as was foreseen."""
        if view.dtype not in calls.DTYPES or view.offset != 0:
            raise NotGenerated(f"an operation returns {view}")
        self.held[view.buffer] = (register, view)
        self.slots[view.buffer] = self.n_slots
        self.n_slots += 1
        self.steps.append(("expect", register, self.slots[view.buffer], view.dtype, view.sizes, view.strides))

    def _release(self, at: int) -> None:
        for buffer, (register, _) in list(self.held.items()):
            if buffer in self.arguments or self.uses[buffer][1] != at:
                continue
            self.steps.append(("release", register))
            del self.held[buffer]
            for view in [v for v in self.views if v.buffer is buffer]:
                self.steps.append(("release", self.views.pop(view)))

    # --- tensors --------------------------------------------------------------------------------------

    def _argument(self, value: Any) -> Any:
        """An argument of an operation: registers stand for tensors and numbers that come with a call."""
        if isinstance(value, View):
            return self._tensor(value)
        if isinstance(value, Number):
            return _core.Register(self.numbers[value.buffer])
        if isinstance(value, (list, tuple)):
            return type(value)(self._argument(v) for v in value)
        return value

    def _tensor(self, view: View) -> Any:
        """A tensor for a view: made now if its memory is the plan's own, else a register."""
        buffer = view.buffer
        base = buffer.constant if buffer.constant is not None else self.workspace.tensors.get(buffer)
        if base is not None:
            if view not in self.constants:
                offset = view.offset + int(base.storage_offset())
                self.constants[view] = torch.as_strided(base.detach(), view.sizes, view.strides, offset)
            return self.constants[view]
        if buffer not in self.held:
            self._slot(buffer)
        if buffer in self.graph.followed and self.held[buffer][0] == self.arguments[buffer]:
            self._detach(buffer)
        register, whole = self.held[buffer]
        if view == whole:
            return _core.Register(register)
        if view not in self.views:
            self.views[view] = self._register()
            self._make_view(view, register, self.views[view], buffer in self.arguments)
        return _core.Register(self.views[view])

    def _detach(self, buffer: Buffer) -> None:
        """From here on hold, in place of an argument, a tensor that autograd does not follow: nothing here needs it."""
        argument, view = self.held[buffer]
        register = self._register()
        self.steps.append(("call", calls.detach, (_core.Register(argument),), None, register))
        self.held[buffer] = register, view

    def _make_view(self, view: View, register: int, result: int, is_argument: bool) -> None:
        """A view of a held tensor; an argument's may lie anywhere in its storage."""
        function = calls.view_of(view, self.held[view.buffer][1], is_argument)
        self.steps.append(("call", function[0], (_core.Register(register), *function[1]), None, result))

    def _output(self, number: int, value: Any, same: int | None) -> Any:
        if same is not None:
            return _core.Register(same)
        if isinstance(value, View):
            return self._own_tensor(value, number in self.graph.apart)
        if isinstance(value, Number):
            return _core.Register(self.numbers[value.buffer])
        return value

    def _own_tensor(self, view: View, apart: bool) -> _core.Register:
        """A tensor object that is no argument and no other output; nor a view of one for autograd if it is `apart`."""
        found = self._tensor(view)
        assert isinstance(found, _core.Register)
        register = found.index
        shared = register < len(self.graph.inputs) or register in self.returned
        if shared or (apart and view.buffer in self.arguments.keys() - self.graph.followed):
            source, register = register, self._register()
            self.steps.append(
                ("call", calls.detach if apart else calls.alias, (_core.Register(source),), None, register)
            )
        self.returned.add(register)
        return _core.Register(register)


def _is_whole(view: View) -> bool:
    return view.offset == 0 and view.n_elements == view.buffer.size and _span(view) == view.buffer.size


def _span(view: View) -> int:
    return 1 + sum((n - 1) * s for n, s in zip(view.sizes, view.strides, strict=True)) if view.n_elements else 0


def _grain(kernel: Kernel, threads: int) -> int:
    """Units that one thread takes at least, so that not more than `threads` take part; 0: one thread."""
    if threads == 1 or kernel.grain == 0:
        return 0
    return kernel.grain if threads == 0 else max(kernel.grain, -(-kernel.units // threads))


class _Workspace:
    """Memory for temporaries: each has a place in one block while it is in use.

    Places are given first fit, largest buffers first, as in the greedy-by-size planner of Pisarchyk and Lee,
    "Efficient Memory Management for Deep Neural Net Inference" (2020).
    """

    def __init__(self, buffers: Sequence[Buffer], uses: dict[Buffer, tuple[int, int]]) -> None:
        self.offsets: dict[Buffer, int] = {}
        placed: list[tuple[int, int, Buffer]] = []
        for buffer in sorted(buffers, key=lambda b: -b.size * b.dtype.itemsize):
            size = -(-max(buffer.size, 1) * buffer.dtype.itemsize // ALIGNMENT) * ALIGNMENT
            offset = 0
            for start, end, other in sorted(placed, key=lambda p: p[0]):
                if uses[other][0] <= uses[buffer][1] and uses[buffer][0] <= uses[other][1]:
                    if offset + size <= start:
                        break
                    offset = max(offset, end)
            placed.append((offset, offset + size, buffer))
            self.offsets[buffer] = offset
        self.size = max((end for _, end, _ in placed), default=0)
        self.tensors = self._tensors()

    def _tensors(self) -> dict[Buffer, torch.Tensor]:
        with torch.inference_mode(False):
            block = torch.empty(self.size + ALIGNMENT, dtype=torch.uint8)
            skip = -block.data_ptr() % ALIGNMENT
            result = {}
            for buffer, offset in self.offsets.items():
                piece = block[skip + offset : skip + offset + buffer.size * buffer.dtype.itemsize]
                result[buffer] = piece.view(buffer.dtype)
            return result
