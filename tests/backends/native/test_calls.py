"""How plans call ATen."""

import pytest
import torch

from segue.backends.native import calls
from segue.graphs.aten import Buffer, Call, View, contiguous_strides

aten = torch.ops.aten


def view(name: str, *sizes: int, strides: tuple[int, ...] | None = None) -> View:
    n = 1
    for size in sizes:
        n *= size
    return View(Buffer(name, torch.float32, n), sizes, strides or contiguous_strides(sizes))


def call(op, *args, result):
    return Call(op, args, {}, [result])


@pytest.mark.parametrize(
    ("op", "result", "expected"),
    [
        (aten.mm.default, view("c", 2, 4), True),
        (aten.mm.default, view("c", 2, 4, strides=(1, 2)), False),
        (aten.mm.default, view("c", 0, 4), False),
        (aten.cumsum.default, view("c", 2, 4), False),
    ],
)
def test_which_operations_write_memory_of_the_plan(op, result, expected):
    assert calls.takes_out(call(op, view("a", 2, 3), view("b", 3, 4), result=result)) is expected


def test_a_callable_gives_what_the_operation_gives():
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    for op in (aten.mm.default, aten.add.Tensor):
        args = (a, b) if op is aten.mm.default else (a, a)
        function, given, kwargs = calls.fastest(call(op, *args, result=None))
        torch.testing.assert_close(function(*given, **kwargs), op(*args))


WHOLE = View(Buffer("x", torch.float32, 12), (3, 4), (4, 1))


@pytest.mark.parametrize(
    "part",
    [
        View(WHOLE.buffer, (4, 3), (1, 4)),
        View(WHOLE.buffer, (12,), (1,)),
        View(WHOLE.buffer, (2, 2), (4, 2), 5),
        View(WHOLE.buffer, (), (), 7),
    ],
)
@pytest.mark.parametrize("is_argument", [False, True])
def test_views_of_a_tensor(part, is_argument):
    base = torch.arange(20.0)
    tensor = base[3:15].view(3, 4) if is_argument else base[:12].clone().view(3, 4)
    function, args = calls.view_of(part, WHOLE, is_argument)
    got = function(tensor, *args)
    first = torch.arange(12.0) + 3 * is_argument
    assert got.tolist() == torch.as_strided(first, part.sizes, part.strides, part.offset).tolist()
    assert got.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()


def test_versions_of_written_tensors():
    x, y = torch.ones(2), torch.ones(2)
    with torch.inference_mode():
        z = torch.ones(2)
    calls.note_writes(x, z)
    assert (x._version, y._version) == (1, 0)
