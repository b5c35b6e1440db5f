"""What a fake operation gives from memory is what it gave the first time."""

from __future__ import annotations

import pytest
import torch

from segue.capture import fake
from segue.capture.fake import CaptureMode

SHAPES = {
    "x": torch.empty(3, 4),
    "t": torch.empty(4, 3).t(),
    "slice": torch.empty(8, 6)[1:4, ::2],
    "ints": torch.empty(3, 4, dtype=torch.int64),
    "complex": torch.empty(3, 4, dtype=torch.complex64),
    "scalar": torch.empty(()),
    "nothing": torch.empty(0, 4),
    "meta": torch.empty(3, 4, device="meta"),
}

OPERATIONS = {
    "pointwise": lambda x: x + 1,
    "default dtype": lambda x: torch.true_divide(x, 2),
    "kind of a number": lambda x: (x + 1, x + 1.0, x + True),
    "dtype": lambda x: (x.to(torch.float64), x.to(torch.int8)),
    "several results": lambda x: torch.sort(x),
    "a list": lambda x: torch.split(x, 1),
    "fresh list": lambda x: torch._foreach_add([x, x], 1),
    "views": lambda x: (x.t(), x[1:], x.unsqueeze(0).expand(2, -1, -1, -1) if x.dim() == 2 else x.view(1)),
    "the argument itself": lambda x: x.mul_(2),
    "an argument's view in place": lambda x: x[:1].mul_(2) if x.dim() else x,
    "given memory": lambda x: torch.neg(x, out=torch.empty_like(x)),
    "its own memory": lambda x: (torch.neg(x, out=x), torch.neg(x, out=torch.empty_like(x))),
    "copied": lambda x: (x.copy_(x), x.copy_(x.clone())),
    "shape in place": lambda x: (y := x.clone()).unsqueeze_(0).add_(y),
    "layout": lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    "reduction": lambda x: (x.sum(), x.sum(0), x.amax(dim=-1, keepdim=True) if x.numel() else x),
    "memory grown": lambda x: torch.neg(x, out=torch.empty(0, dtype=x.dtype)),
    "random": lambda x: (torch.rand_like(x), torch.nn.functional.dropout(x, 0.5), x.uniform_()),
    "conjugate": lambda x: (x.conj(), x.conj() * 2, x.imag),
    "detached": lambda x: (x.detach(), x.data),
    "created": lambda x: (torch.zeros(2, 3), torch.arange(4), x.new_ones(2)),
    "index": lambda x: (x[:, None], x[..., 0], x[x.new_zeros(2, dtype=torch.int64)]),
    "a write to an item": lambda x: x.__setitem__(slice(0, 1), 0) or x,
}

STATES = {
    "no grad": torch.no_grad,
    "grad": torch.enable_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
}


def described(result, inputs):
    """Metadata, and which tensors share memory or are the same."""
    if not isinstance(result, torch.Tensor):
        return type(result).__name__, [described(r, inputs) for r in result]
    storage = result.untyped_storage()
    shares = [i.untyped_storage()._cdata == storage._cdata for i in inputs]
    place = result.shape, result.stride(), result.storage_offset(), storage.nbytes()
    history = result.requires_grad, result.is_leaf, result.grad_fn is not None, result._is_view(), result.output_nr
    version = None if result.is_inference() else result._version
    bits = result.is_conj(), result.is_neg(), result.is_inference(), type(result)
    return result.dtype, result.device, place, shares, [i is result for i in inputs], history, version, bits


def outcome(function, real, state, requires_grad):
    mode = CaptureMode()
    if mode.allow_meta is False and real.is_meta:
        pytest.skip("fake tensors of the device meta")
    with STATES[state]():
        given = mode.fake_of(real)
        if requires_grad:
            given.requires_grad_()
        try:
            with mode:
                result = function(given)
            return described(result, [given]), described(given, [])
        except Exception as error:
            return type(error), str(error)


@pytest.fixture
def forgotten():
    """A memory with nothing in it, put back as it was."""
    before = dict(fake._remembered._recipes)
    fake._remembered.clear()
    yield fake._remembered
    fake._remembered._recipes.update(before)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_remembered_result_is_the_result(name, shape, state, forgotten) -> None:
    function, real = OPERATIONS[name], SHAPES[shape]
    for requires_grad in (False, True):
        if requires_grad and not (real.is_floating_point() or real.is_complex()):
            continue
        forgotten.clear()
        expected = outcome(function, real, state, requires_grad)
        for _ in range(2):
            assert outcome(function, real, state, requires_grad) == expected


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_what_one_state_remembers_is_right_in_another(name, shape, forgotten) -> None:
    function, real = OPERATIONS[name], SHAPES[shape]
    expected = {}
    for state in STATES:
        forgotten.clear()
        expected[state] = outcome(function, real, state, False)
    forgotten.clear()
    for state in (*STATES, *reversed(STATES)):
        assert outcome(function, real, state, False) == expected[state]
