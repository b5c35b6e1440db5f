"""What the core checks of torch: tensors, the thread's global state, mode stacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from segue import _core
from segue.frames.state import FunctionState
from tests.core_support import Scripted


def matcher(*checks: Any) -> Callable[[Any], bool]:
    """Whether checks of register 0, the argument, hold at a gate."""

    def function(x: Any) -> Any:
        return False

    compiler = Scripted()
    state = compiler.states[function.__code__] = FunctionState(function.__code__)
    assert state.entry is not None
    steps = [("local", 0, 0), *checks, ("const", 1, True), ("result", 1)]
    state.entry.segments.append(_core.Segment(steps, _core.Segment.RETURN, 2))
    state.entry.is_open = False
    return _core.Entry(function, compiler)


def described(x: torch.Tensor, **changes: Any) -> tuple[Any, ...]:
    """The tensor step that this tensor passes."""
    strided = x.layout is torch.strided
    facts = {
        "cls": type(x),
        "dtype": x.dtype,
        "device_type": x.device.type,
        "device_index": x.device.index,
        "sizes": x.size(),
        "strides": x.stride() if strided else None,
        "requires_grad": x.requires_grad,
    }
    assert changes.keys() <= facts.keys()
    return ("tensor", 0, *(facts | changes).values())


class Sub(torch.Tensor):
    pass


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2, 3)


TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.ones(2, 3),
    "other sizes": lambda: torch.ones(2, 4),
    "other rank": lambda: torch.ones(6),
    "scalar": lambda: torch.tensor(1.0),
    "transposed": lambda: torch.ones(3, 2).t(),
    "expanded": lambda: torch.ones(1, 3).expand(2, 3),
    "empty": lambda: torch.ones(0, 3),
    "size one": lambda: torch.ones(2, 1),
    "size one, other stride": lambda: torch.ones(2, 2)[:, :1],
    "grad": lambda: torch.ones(2, 3, requires_grad=True),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.ones(2, 3), requires_grad=False),
    "subclass": lambda: torch.ones(2, 3).as_subclass(Sub),
    "float64": lambda: torch.ones(2, 3, dtype=torch.float64),
    "bfloat16": lambda: torch.ones(2, 3, dtype=torch.bfloat16),
    "float16": lambda: torch.ones(2, 3, dtype=torch.float16),
    "int16": lambda: torch.ones(2, 3, dtype=torch.int16),
    "uint16": lambda: torch.ones(2, 3, dtype=torch.uint16),
    "bool": lambda: torch.ones(2, 3, dtype=torch.bool),
    "complex": lambda: torch.ones(2, 3, dtype=torch.complex64),
    "float8": lambda: torch.ones(2, 3).to(torch.float8_e4m3fn),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2, 3), 1.0, 0, torch.qint8),
    "meta": lambda: torch.ones(2, 3, device="meta"),
    "fake": fake,
    "sparse": lambda: torch.eye(2).to_sparse(),
    "not a tensor": lambda: 5,  # type: ignore[dict-item,return-value]
}


@pytest.mark.parametrize("name", [name for name in TENSORS if name != "not a tensor"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_tensor_check_tells_tensors_apart(name: str) -> None:
    check = matcher(described(TENSORS[name]()))
    assert [other for other, make in TENSORS.items() if check(make())] == [name]


def test_any_size_and_any_stride() -> None:
    x = torch.ones(2, 3)
    check = matcher(described(x, sizes=(None, 3), strides=(3, 1)))
    assert check(torch.ones(7, 3)) and not check(torch.ones(7, 4))
    check = matcher(described(x, sizes=(None, None), strides=(None, 1)))
    assert check(torch.ones(7, 4)) and not check(torch.ones(4, 7).t())
    assert not check(torch.ones(7)) and not check(torch.eye(2).to_sparse())
    check = matcher(described(x, sizes=None, strides=None))
    assert check(torch.ones(7)) and check(torch.ones(1).expand(5, 6))
    check = matcher(described(x.as_subclass(Sub), sizes=(None, 3), strides=(None, 1)))
    assert check(torch.ones(5, 3).as_subclass(Sub))
    assert not check(torch.ones(5, 4).as_subclass(Sub))


def test_device_index() -> None:
    assert matcher(described(torch.ones(2, 3), device_index=0))(torch.ones(2, 3))
    assert not matcher(described(torch.ones(2, 3), device_type="cuda"))(torch.ones(2, 3))


def test_a_tensor_inside_a_functorch_transform_is_none_of_ours() -> None:
    seen = []
    check = matcher(described(torch.ones(3)))

    def function(row: torch.Tensor) -> torch.Tensor:
        assert row.size() == (3,)
        seen.append(check(row))
        return row

    torch.func.vmap(function)(torch.ones(2, 3))
    torch.func.grad(lambda row: function(row).sum())(torch.ones(3))
    assert seen == [False, False]


def test_a_tensor_check_keeps_no_reference() -> None:
    import sys

    x, other = torch.ones(2, 3), torch.ones(3)
    check = matcher(described(x))
    check(x), check(other)
    before = sys.getrefcount(x), sys.getrefcount(other), sys.getrefcount(torch.float32)
    for _ in range(10_000):
        check(x)
        check(other)
    assert (sys.getrefcount(x), sys.getrefcount(other), sys.getrefcount(torch.float32)) == before


# --- global state


class default_dtype:
    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *exc: object) -> None:
        torch.set_default_dtype(self.before)


class deterministic:
    def __init__(self, warn_only: bool) -> None:
        self.warn_only = warn_only

    def __enter__(self) -> None:
        torch.use_deterministic_algorithms(True, warn_only=self.warn_only)

    def __exit__(self, *exc: object) -> None:
        torch.use_deterministic_algorithms(False)


STATES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "no grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast to float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "autocast without a cache": lambda: torch.autocast("cpu", cache_enabled=False),
    "default dtype": lambda: default_dtype(torch.float64),
    "deterministic": lambda: deterministic(warn_only=False),
    "deterministic warnings": lambda: deterministic(warn_only=True),
    "no torch function": torch._C.DisableTorchFunctionSubclass,
}


@pytest.mark.parametrize("name", STATES)
def test_global_state(name: str) -> None:
    here = matcher(("global_state", _core.global_state()))
    with STATES[name]():
        there = matcher(("global_state", _core.global_state()))
        assert there(0) and not here(0)
    assert here(0) and not there(0)
    for other in STATES:
        with STATES[other]():
            assert there(0) == (other == name) and not here(0)


def test_global_state_has_named_facts() -> None:
    state = dict(zip(_core.STATE_FACTS, _core.global_state(), strict=True))
    assert state["default dtype"] is torch.float32 and state["grad mode"] is True


def test_global_state_is_that_of_the_thread() -> None:
    here = matcher(("global_state", _core.global_state()))
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append(here(0)))
        thread.start()
        thread.join()
        assert not here(0)
    assert seen == [True]


# --- mode stacks


class FunctionMode(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


class DispatchMode(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


@pytest.fixture
def mode_depth() -> Iterator[Callable[[int, int], None]]:
    yield _core.set_mode_depth
    _core.set_mode_depth(0, 0)


@pytest.mark.parametrize(("mode", "depth"), [(FunctionMode, (1, 0)), (DispatchMode, (0, 1))])
def test_gates_do_nothing_under_a_mode_of_the_program(
    mode: Any, depth: tuple[int, int], mode_depth: Callable[[int, int], None]
) -> None:
    compilers = []

    def function(x: int) -> str:
        compilers.append(_core.current_compiler())
        return "interpreted"

    compiler = Scripted()
    state = compiler.states[function.__code__] = FunctionState(function.__code__)
    assert state.entry is not None
    compiled = _core.Entry(function, compiler)
    assert compiled(1) == "interpreted"
    assert len(compiler.misses) == 1
    steps = [("const", 0, "compiled"), ("result", 0)]
    state.entry.segments.append(_core.Segment(steps, _core.Segment.RETURN, 1))
    assert compiled(1) == "compiled"
    with mode():
        assert compiled(1) == "interpreted"
        mode_depth(*depth)
        assert compiled(1) == "compiled"
        with mode():
            assert compiled(1) == "interpreted"
    assert compiled(1) == "compiled"
    assert len(compiler.misses) == 1
    assert compilers == [compiler] * 3


def test_a_mode_is_part_of_the_global_state(mode_depth: Callable[[int, int], None]) -> None:
    here = matcher(("global_state", _core.global_state()))
    mode_depth(1, 0)
    with FunctionMode():
        there = matcher(("global_state", _core.global_state()))
        assert there(0) and not here(0)
    assert here(0) and not there(0)


def test_the_core_works_without_torch() -> None:
    """Token and steps of a process in which setup_torch() was not called."""
    import subprocess
    import sys

    program = (
        "import importlib.util as u\n"
        f"spec = u.spec_from_file_location('segue._core', {_core.__file__!r})\n"
        "core = u.module_from_spec(spec)\n"
        "assert core.global_state() == ()\n"
        "core.Segment([('global_state', ()), ('const', 0, 1), ('result', 0)], -1, 1)\n"
        "try:\n"
        "    core.Segment([('const', 0, 1), ('tensor', 0, int, 0, '', 0, (), (), True)], 0, 1)\n"
        "except RuntimeError as error:\n"
        "    assert 'setup_torch' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
