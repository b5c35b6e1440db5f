"""What a fake operation gives from memory is what it gave the first time."""

from __future__ import annotations

import pytest
import torch

from segue.capture.fake import CaptureMode
from segue.graphs.fakes import RememberingMode

SHAPES = {
    "x": torch.empty(3, 4),
    "t": torch.empty(4, 3).t(),
    "slice": torch.empty(8, 6)[1:4, ::2],
    "ints": torch.empty(3, 4, dtype=torch.int64),
    "scalar": torch.empty(()),
    "nothing": torch.empty(0, 4),
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
    "shape in place": lambda x: (y := x.clone()).unsqueeze_(0).add_(y),
    "layout": lambda x: torch.empty_like(x, memory_format=torch.contiguous_format),
    "reduction": lambda x: (x.sum(), x.sum(0), x.amax(dim=-1, keepdim=True) if x.numel() else x),
    "memory grown": lambda x: torch.neg(x, out=torch.empty(0, dtype=x.dtype)),
}


def described(result, inputs):
    """Shapes, and which tensors share memory or are the same."""
    if isinstance(result, (tuple, list)):
        return type(result).__name__ in ("list",), [described(r, inputs) for r in result]
    shares = [i.untyped_storage()._cdata == result.untyped_storage()._cdata for i in inputs]
    place = result.shape, result.stride(), result.storage_offset(), result.untyped_storage().nbytes()
    return result.dtype, result.device, place, shares, [i is result for i in inputs], result.requires_grad


def outcome(mode, function, real):
    fake = mode.fake_of(real)
    try:
        with mode:
            result = function(fake)
    except Exception as error:
        return type(error)
    return described(result, [fake]), described(fake, [])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_remembered_result_is_the_result(name, shape) -> None:
    function, real = OPERATIONS[name], SHAPES[shape]
    expected = outcome(CaptureMode(), function, real)
    for _ in range(3):
        assert outcome(RememberingMode(), function, real) == expected


def test_the_default_dtype_counts() -> None:
    def dtype():
        mode = RememberingMode()
        fake = mode.fake_of(SHAPES["ints"])
        with mode:
            return torch.true_divide(fake, 2).dtype

    before = torch.get_default_dtype()
    assert dtype() == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert dtype() == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_history_is_kept() -> None:
    for _ in range(2):
        mode = RememberingMode()
        fake = mode.fake_of(torch.ones(3, requires_grad=True))
        with mode:
            doubled = fake * 2
            assert doubled.requires_grad and doubled.grad_fn is not None
            (gradient,) = torch.autograd.grad(doubled.sum(), fake)
        assert gradient.shape == (3,)


def test_errors_are_raised_every_time() -> None:
    for _ in range(2):
        mode = RememberingMode()
        fake = mode.fake_of(torch.ones(3, 4))
        with mode, pytest.raises(RuntimeError, match="broadcast"):
            fake + fake.t()


def test_the_value_of_a_constant_is_not_remembered() -> None:
    with RememberingMode():
        assert [torch.tensor(v).add(1).item() for v in (1, 2)] == [2, 3]
