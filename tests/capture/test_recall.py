"""A whole operation that capture does not run again gives what it gave when it ran."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.nn import functional as F

from segue.capture import recall
from segue.capture.fake import CaptureMode
from segue.capture.recall import Recall
from segue.capture.recipes import CAPACITY, Constant, Memory
from segue.capture.values.base import MISSING

X, Y = torch.empty(3, 4), torch.empty(3, 4)
INDEX = torch.empty(3, dtype=torch.int64)
IMAGE = torch.empty(2, 3, 8, 8)

CALLS = {
    "add": (operator.add, X, Y),
    "number": (operator.mul, X, 2.0),
    "promotion": (torch.add, INDEX, 1.5),
    "view": ("view", X, 12),
    "transposed": (torch.t, X),
    "item": (operator.getitem, X, (slice(None), None, 1)),
    "index": (operator.getitem, X, INDEX),
    "write to an item": (operator.setitem, X, 0, 1.0),
    "in place": ("add_", X, Y),
    "in place operator": (operator.iadd, X, Y),
    "nothing to do": ("to", X, torch.float32),
    "converted": ("to", X, torch.float64),
    "contiguous": ("contiguous", X.t()),
    "reshaped": (torch.reshape, X.t(), (12,)),
    "split": (torch.split, X, 2),
    "sorted": (torch.sort, X),
    "unbound": ("unbind", X, 0),
    "linear": (F.linear, X, Y, INDEX.float()),
    "layer norm": (F.layer_norm, X, (4,)),
    "batch norm": (F.batch_norm, IMAGE, torch.zeros(3), torch.ones(3), None, None, True),
    "attention": (F.scaled_dot_product_attention, IMAGE, IMAGE, IMAGE),
    "convolution": (F.conv2d, IMAGE, IMAGE[:, :, :3, :3]),
    "dropout": (F.dropout, X, 0.5, True),
    "no dropout": (F.dropout, X, 0.5, False),
    "random": (torch.rand_like, X),
    "uniform": ("uniform_", X),
    "detached": ("detach", X),
    "cat": (torch.cat, [X, Y], 1),
    "twice the same": (torch.maximum, X, X),
    "created": (torch.zeros, 2, 3),
    "a question": ("is_contiguous", X),
    "dtype": (torch.result_type, X, INDEX),
    "an attribute": (getattr, X, "T"),
    "data": (getattr, X, "data"),
    "ATen": (torch.ops.aten.add.Tensor, X, Y),
}

STATES = {
    "no grad": torch.no_grad,
    "grad": torch.enable_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "math attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
}


def described(result, operands):
    if isinstance(result, (tuple, list)) and not isinstance(result, torch.Size):
        return type(result).__name__, [described(r, operands) for r in result]
    if not isinstance(result, torch.Tensor):
        return type(result), result
    storage = result.untyped_storage()
    sharing = [(o is result, o.untyped_storage()._cdata == storage._cdata) for o in operands]
    place = result.shape, result.stride(), result.storage_offset(), storage.nbytes()
    history = result.requires_grad, result.is_leaf, result.grad_fn is not None, result.output_nr
    version = None if result.is_inference() else result._version
    view = torch.is_grad_enabled() and result._is_view()
    return result.dtype, result.device, place, sharing, history, version, view, result.is_inference(), type(result)


def run(mode, target, args):
    """An operation as capture runs it, and whether it was remembered."""
    call = Recall(target, args, {})
    known = call.result(mode)
    if known is not MISSING:
        return known, True
    with mode:
        result = getattr(args[0], target)(*args[1:]) if isinstance(target, str) else target(*args)
    call.keep(result)
    return result, False


def outcome(call, requires_grad=False):
    mode = CaptureMode()
    fakes: dict[int, torch.Tensor] = {}

    def fake(value):
        if isinstance(value, list):
            return [fake(v) for v in value]
        if not isinstance(value, torch.Tensor):
            return value
        made = fakes.setdefault(id(value), mode.fake_of(value))
        return made.requires_grad_() if requires_grad and made.is_floating_point() else made

    target, *args = call
    operands = [fake(a) for a in args]
    try:
        result, remembered = run(mode, target, operands)
    except Exception as error:
        return (type(error), str(error)), False
    tensors = list(fakes.values())
    return (described(result, tensors), [described(t, tensors) for t in tensors]), remembered


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch):
    monkeypatch.setattr(recall, "_remembered", Memory())


@pytest.mark.parametrize("name", CALLS)
def test_a_remembered_result_is_the_result(name) -> None:
    expected = {}
    for state, enter in STATES.items():
        for requires_grad in (False, True):
            recall._remembered.clear()
            with enter():
                expected[state, requires_grad], _ = outcome(CALLS[name], requires_grad)
    recall._remembered.clear()
    for _ in range(2):
        for (state, requires_grad), wanted in expected.items():
            with STATES[state]():
                assert outcome(CALLS[name], requires_grad)[0] == wanted


REMEMBERED = {
    "add", "number", "promotion", "index", "converted", "linear", "layer norm", "dropout", "random", "cat", "created",
    "twice the same", "convolution", "nothing to do", "no dropout", "a question", "dtype", "ATen",
}  # fmt: skip
VIEWS = {"view", "transposed", "item", "an attribute", "unbound"}
WRITES = {"write to an item", "in place", "in place operator", "uniform"}


@pytest.mark.parametrize("name", sorted(REMEMBERED | VIEWS | WRITES))
def test_what_is_remembered(name) -> None:
    for enter, expected in ((torch.no_grad, name in REMEMBERED | VIEWS), (torch.enable_grad, name in REMEMBERED)):
        with enter():
            outcome(CALLS[name])
            assert outcome(CALLS[name])[1] == expected
    outcome(CALLS[name], requires_grad=True)
    assert not outcome(CALLS[name], requires_grad=True)[1] or name in ("created", "promotion")


def test_a_write_to_a_remembered_view_is_seen_in_its_base() -> None:
    mode = CaptureMode()
    with torch.no_grad():
        for remembered in (False, True):
            base = mode.fake_of(X)
            view, was = run(mode, "view", [base, 12])
            assert was == remembered
            before = base._version
            run(mode, "add_", [view, 1.0])
            assert base._version == before + 1 == view._version


def test_operands_that_share_memory_are_told_apart() -> None:
    mode = CaptureMode()
    x, y = mode.fake_of(X), mode.fake_of(Y)
    for operands in ([x, x], [x, y], [y, x]):
        for _ in range(2):
            result, _ = run(mode, torch.broadcast_tensors, operands)
            assert [r.untyped_storage()._cdata for r in result] == [o.untyped_storage()._cdata for o in operands]


def test_only_pytorchs_own_operations_are_remembered() -> None:
    width = [1]

    def users(x):
        return x.new_ones(width[0])

    mode = CaptureMode()
    x = mode.fake_of(X)
    assert run(mode, users, [x])[0].shape == (1,)
    width[0] = 2
    assert run(mode, users, [x])[0].shape == (2,)


def test_the_memory_is_bounded() -> None:
    memory = Memory()
    for i in range(CAPACITY + 5):
        memory.keep(i, Constant(i))
        assert len(memory) <= CAPACITY
    assert memory.get(CAPACITY + 4) == Constant(CAPACITY + 4)
    assert memory.get(0) is None
