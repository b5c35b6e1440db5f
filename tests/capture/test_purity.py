"""Capture alone changes nothing: neither arguments, nor the program's globals, nor the state of PyTorch and Python."""

from __future__ import annotations

import inspect
import random
import sys
from types import FunctionType
from typing import Any

import pytest
import torch

from segue import _core
from segue.capture import Captured, Limits, Request, capture
from segue.frames.code import Code
from tests.corpus import CORPUS, Case, difference, events
from tests.observation import Snapshot


def raw_locals(function: FunctionType, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The local slots of a call as they are before its first instruction."""
    bound = inspect.signature(function).bind(*args)
    bound.apply_defaults()
    code = function.__code__
    kinds = inspect.signature(function).parameters.values()
    values = {p.name: bound.arguments[p.name] for p in kinds}
    slots = Code.of(code).localsplus
    return tuple(values.get(slot.name, _core.NULL) for slot in slots)


def capture_call(function: FunctionType, args: tuple[Any, ...], **limits: Any) -> Captured:
    """Capture what a call of the function begins with."""
    return capture(
        Request(
            code=Code.of(function.__code__),
            index=0,
            function=function,
            locals=raw_locals(function, args),
            stack=(),
            limits=Limits(**limits),
        )
    )


def state_of_the_process() -> dict[str, Any]:
    """Everything outside the program's own objects that a capture might disturb."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": [torch.is_autocast_enabled(d) for d in ("cpu", "cuda")],
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": torch.get_default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "random of torch": torch.get_rng_state().tolist(),
        "random of Python": random.getstate(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "recursion limit": sys.getrecursionlimit(),
        "trace": sys.gettrace(),
        "profile": sys.getprofile(),
        "handled": sys.exc_info(),
        "modules": set(sys.modules),
    }


def state_of_the_program(function: FunctionType, args: tuple[Any, ...]) -> Any:
    """The arguments, the globals of the module, the closure and the recorded events."""
    variables = {
        name: value
        for name, value in function.__globals__.items()
        if not name.startswith("__") and not inspect.ismodule(value) and value is not events
    }
    versions = [t._version for t in tensors_in(args)]
    return Snapshot()([args, variables, list(function.__closure__ or ()), events, versions])


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    return [t for item in value for t in tensors_in(item)] if isinstance(value, list | tuple) else []


@pytest.fixture(autouse=True)
def no_events() -> None:
    events.clear()


CALLS = [
    pytest.param(case, number, id=f"{case.name}-{number}") for case in CORPUS for number in range(len(case.make_args()))
]


@pytest.mark.parametrize("case, number", CALLS)
def test_capture_of_the_corpus_changes_nothing(case: Case, number: int) -> None:
    """Every call of every function; under `fullgraph` too, which looks further."""
    for limits in ({}, {"fullgraph": True}):
        args = case.make_args()[number]
        # The first capture may import modules and fill caches that belong to nobody.
        capture_call(case.function, args, **limits)
        program, process = state_of_the_program(case.function, args), state_of_the_process()
        captured = capture_call(case.function, args, **limits)
        assert difference(program, state_of_the_program(case.function, args)) is None
        assert state_of_the_process() == process
        assert isinstance(captured, Captured)


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_the_very_first_capture_leaves_arguments_and_globals_alone(case: Case) -> None:
    args, untouched = case.make_args()[0], case.make_args()[0]
    expected = state_of_the_program(case.function, untouched)
    capture_call(case.function, args)
    assert difference(expected, state_of_the_program(case.function, args)) is None


@pytest.mark.parametrize("case", CORPUS, ids=lambda case: case.name)
def test_capture_with_a_break_at_every_instruction_changes_nothing(case: Case) -> None:
    """A capture that leaves off anywhere has had no effect up to there."""
    args = case.make_args()[0]
    process = state_of_the_process()
    count = len(Code.of(case.function.__code__).instructions)
    code = case.function.__code__
    program = state_of_the_program(case.function, args)
    for at in range(0, count, max(1, count // 20)):
        capture_call(case.function, args, break_at=lambda c, i: c.original is code and i == at)
    assert difference(program, state_of_the_program(case.function, args)) is None
    after = state_of_the_process()
    assert {k: v for k, v in after.items() if k != "modules"} == {k: v for k, v in process.items() if k != "modules"}


def writes(x, items, table, thing):
    """Every kind of write that a capture replays later."""
    items.append(torch.sin(x))
    items[0] = torch.cos(x)
    table["new"] = items
    del table["old"]
    thing.count += 1
    thing.last = x.add_(1)
    x.mul_(2)
    torch.manual_seed(5)
    return torch.rand(4) + x


def draws(x):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x) + torch.randn(4)


def switches(x):
    torch.set_grad_enabled(False)
    y = torch.sin(x)
    torch.set_grad_enabled(True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return y @ torch.cos(x)


def norms(x, module):
    return module(x)


class Thing:
    def __init__(self) -> None:
        self.count = 0


PROGRAMS = {
    "writes": (writes, lambda: (torch.ones(4), [1, 2], {"old": 1}, Thing())),
    "draws": (draws, lambda: (torch.ones(4),)),
    "switches": (switches, lambda: (torch.ones(4, 4),)),
    "norms": (norms, lambda: (torch.randn(3, 4), torch.nn.BatchNorm1d(4))),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_capture_of_programs_with_effects(name) -> None:
    function, make_args = PROGRAMS[name]
    args = make_args()
    program, process = state_of_the_program(function, args), state_of_the_process()
    captured = capture_call(function, args)
    assert difference(program, state_of_the_program(function, args)) is None
    after = state_of_the_process()
    after["modules"] = process["modules"]
    assert after == process
    assert captured.graph is not None


def test_the_state_is_really_compared() -> None:
    """The comparison notices each kind of change."""
    args = PROGRAMS["writes"][1]()
    before, process = state_of_the_program(writes, args), state_of_the_process()
    writes(*args)
    assert difference(before, state_of_the_program(writes, args)) is not None
    assert state_of_the_process() != process
