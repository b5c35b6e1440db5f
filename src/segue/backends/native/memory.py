"""Addresses, loads and stores of a kernel.

An address is put together axis by axis, in the order of the loops, so that each part is computed once, before the loops
inside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from segue.backends.native.ir import Load
from segue.backends.native.schedule import Loops
from segue.backends.native.text import Function, Lanes
from segue.backends.native.values import MEMORY
from segue.graphs.aten import Buffer


@dataclass(frozen=True)
class Vec:
    """Some neighbouring indices of the vector axis: `base` + `start`, and as many as there are lanes."""

    lanes: Lanes
    base: str
    start: int


@dataclass
class Memory:
    """Writes accesses to memory.  Values are as they are in memory (see `values`).

    Attributes:
        index: the index of each axis whose loop is open; shared with the writer of the loops.
        pointers: the address of each buffer that the kernel is given, in order.
        frames: the address of each buffer that is kept for a row, in the kernel's own frame.
    """

    function: Function
    loops: Loops
    index: dict[int, str]
    pointers: dict[Buffer, str] = field(default_factory=dict)
    frames: dict[Buffer, str] = field(init=False)

    def __post_init__(self) -> None:
        self.vector_axis = self.loops.vector_axis
        self.scalar = Lanes(self.function, 1)
        self.frames = {b: self.function.allocate(MEMORY[b.dtype], self._row_size(b)) for b in self.loops.scratch}

    def _row_size(self, buffer: Buffer) -> int:
        sizes, strides = self.loops.nest.sizes, self.loops.scratch[buffer]
        return 1 + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))

    def add_pointer(self, buffer: Buffer) -> None:
        """Take the address of the next buffer that the kernel is given."""
        slot = self.function.let(f"getelementptr ptr, ptr %pointers, i64 {len(self.pointers)}")
        self.pointers[buffer] = self.function.let(f"load ptr, ptr {slot}")

    # --- loads and stores -----------------------------------------------------------------------------

    def read(self, load: Load, terms: Sequence[tuple[str, int]], vec: Vec | None, changes: bool) -> str:
        """What a load gives.

        Args:
            terms: its computed indices, which are the same in every lane, with their strides.
            changes: whether the kernel writes the buffer.
        """
        f, element = self.function, MEMORY[load.buffer.dtype]
        base, stride = self.base(load, terms), self._strides(load)[self.vector_axis]
        take = f.fresh if changes else f.let
        if vec is None:
            return take(f"load {element}, ptr {base}")
        if stride == 1 or vec.lanes.count == 1:
            place = self._along(base, element, vec, stride)
            return take(f"load {vec.lanes.type(element)}, ptr {place}, align {_ALIGN[element]}")
        places = [self._along(base, element, one, stride) for one in self._single(vec)]
        return self._collected(vec.lanes, element, [take(f"load {element}, ptr {p}") for p in places])

    def gather(self, load: Load, terms: Sequence[tuple[str, int]], vec: Vec, indices: Sequence[tuple[str, int]]) -> str:
        """Elements at places of which `indices` are computed in lanes, with their strides; one by one."""
        f, element = self.function, MEMORY[load.buffer.dtype]
        base, stride = self.base(load, terms), load.strides[self.vector_axis]
        loaded = []
        for k, one in enumerate(self._single(vec)):
            place = self._along(base, element, one, stride)
            for value, step in indices:
                index = self._lane(vec.lanes, "i64", value, k)
                place = f.let(f"getelementptr {element}, ptr {place}, i64 {times(f, index, step)}")
            loaded.append(f.let(f"load {element}, ptr {place}"))
        return self._collected(vec.lanes, element, loaded)

    def write(self, target: Load, vec: Vec | None, value: str) -> None:
        """Store a value where `target` says."""
        f, element = self.function, MEMORY[target.buffer.dtype]
        base, stride = self.base(target), self._strides(target)[self.vector_axis]
        if vec is None:
            f.effect(f"store {element} {value}, ptr {base}")
        elif stride == 1 or vec.lanes.count == 1:
            place = self._along(base, element, vec, stride)
            f.effect(f"store {vec.lanes.type(element)} {value}, ptr {place}, align {_ALIGN[element]}")
        else:
            for k, one in enumerate(self._single(vec)):
                place = self._along(base, element, one, stride)
                f.effect(f"store {element} {self._lane(vec.lanes, element, value, k)}, ptr {place}")

    def square(self, load: Load, vec: Vec, first: int) -> list[str]:
        """Vectors along the vector axis for neighbouring indices of the axis before it, from loads along that axis.

        Pairs of rows exchange halves, quarters, ... (Eklundh, "A Fast Computer Method for Matrix Transposing", 1972).
        """
        element, width = MEMORY[load.buffer.dtype], vec.lanes.count
        kind, stride = vec.lanes.type(element), load.strides[self.vector_axis]
        base = self.base(Load(load.buffer, load.strides, load.offset + first))
        rows = []
        for k in range(width):
            place = self._along(base, element, Vec(self.scalar, vec.base, k), stride)
            rows.append(self.function.let(f"load {kind}, ptr {place}, align {_ALIGN[element]}"))
        distance = width // 2
        while distance:
            low = [k if not k & distance else width + k - distance for k in range(width)]
            high = [k + distance if not k & distance else width + k for k in range(width)]
            for i in (i for i in range(width) if not i & distance):
                pair = rows[i], rows[i + distance]
                rows[i], rows[i + distance] = (self._shuffled(kind, *pair, picks) for picks in (low, high))
            distance //= 2
        return rows

    # --- addresses ------------------------------------------------------------------------------------

    def _strides(self, access: Load) -> tuple[int, ...]:
        return self.loops.scratch.get(access.buffer, access.strides)

    def base(self, access: Load, terms: Sequence[tuple[str, int]] = ()) -> str:
        """The address of an access but for the vector axis, as far as the open loops determine it."""
        f, element = self.function, MEMORY[access.buffer.dtype]
        is_own = access.buffer in self.frames
        place = self.frames[access.buffer] if is_own else self.pointers[access.buffer]
        if access.offset and not is_own:
            place = f.let(f"getelementptr {element}, ptr {place}, i64 {access.offset}")
        for axis, stride in enumerate(self._strides(access)):
            index = self.index.get(axis, "0")
            if stride and axis != self.vector_axis and index != "0":
                place = f.let(f"getelementptr {element}, ptr {place}, i64 {times(f, index, stride)}")
        for value, stride in terms:
            place = f.let(f"getelementptr {element}, ptr {place}, i64 {times(f, value, stride)}")
        return place

    def _along(self, base: str, element: str, vec: Vec, stride: int) -> str:
        """The address of the first lane."""
        f, place = self.function, base
        if stride == 0:
            return base
        if vec.base != "0":
            place = f.let(f"getelementptr {element}, ptr {place}, i64 {times(f, vec.base, stride)}")
        return f.let(f"getelementptr {element}, ptr {place}, i64 {vec.start * stride}") if vec.start else place

    # --- lanes ----------------------------------------------------------------------------------------

    def _single(self, vec: Vec) -> list[Vec]:
        return [Vec(self.scalar, vec.base, vec.start + k) for k in range(vec.lanes.count)]

    def _lane(self, lanes: Lanes, element: str, value: str, k: int) -> str:
        if lanes.count == 1:
            return value
        return self.function.let(f"extractelement {lanes.type(element)} {value}, i64 {k}")

    def _collected(self, lanes: Lanes, element: str, scalars: Sequence[str]) -> str:
        if lanes.count == 1:
            return scalars[0]
        kind, result = lanes.type(element), "poison"
        for k, scalar in enumerate(scalars):
            result = self.function.let(f"insertelement {kind} {result}, {element} {scalar}, i64 {k}")
        return result

    def _shuffled(self, kind: str, x: str, y: str, picks: list[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        return self.function.let(f"shufflevector {kind} {x}, {kind} {y}, <{len(picks)} x i32> <{mask}>")


def times(function: Function, index: str, factor: int) -> str:
    """An i64 times a constant."""
    if index == "0" or factor == 1:
        return index
    return function.let(f"mul i64 {index}, {factor}")


def plus(function: Function, index: str, more: str | int) -> str:
    """An i64 plus another, or plus a constant."""
    if str(more) == "0":
        return index
    return str(more) if index == "0" else function.let(f"add i64 {index}, {more}")


_ALIGN = {"double": 8, "i64": 8, "float": 4, "i32": 4, "half": 2, "i16": 2, "i8": 1}
