"""Generated kernels by what they compute: loops, ends of axes, places in memory, and what is shared."""

import re

import pytest
import torch

from segue import config
from segue.backends.native import codegen, target
from segue.backends.native.codegen import Kernel
from segue.backends.native.lower import lower
from segue.backends.native.schedule import schedule
from tests.backends.native.opinfo import compiled, copies
from tests.backends.native.stages import graph_of, nests


@pytest.fixture(autouse=True)
def quick():
    with config.patch(codegen_level=0):
        yield


def whole(*sizes: int) -> torch.Tensor:
    """Small whole numbers, of which sums are exact."""
    return torch.randint(-9, 10, sizes, generator=torch.Generator().manual_seed(sum(sizes))).float()


def check(function, *tensors):
    """Assert that results and written arguments are exactly eager's, for vectors of each size."""
    expected_tensors = copies(tensors)
    expected = function(*expected_tensors)
    expected = list(expected) if isinstance(expected, tuple) else [expected]
    for bits in (128, target.host().vector_bits):
        with config.patch(vector_bits=bits):
            given = copies(tensors)
            got = compiled(function, given)(*given)
            torch.testing.assert_close([*got, *given], [*expected, *expected_tensors], rtol=0, atol=0)


LENGTHS = (1, 2, 3, 5, 7, 8, 9, 15, 17, 31, 32, 33, 63, 64, 65, 127, 130, 257)


@pytest.mark.parametrize("n", LENGTHS)
def test_ends_of_rows(n):
    check(lambda x: (x[:, :n] * 2 + 1, x[:, :n].sum(1)), whole(3, n + 2))


@pytest.mark.parametrize("n", LENGTHS)
def test_ends_of_columns(n):
    check(lambda x: (x.sum(0), x.amax(0) - x), whole(5, n))


@pytest.mark.parametrize("sizes", [(7, 9), (16, 16), (17, 33), (40, 24), (65, 130), (3, 300), (300, 3)])
def test_transposed_reads(sizes):
    check(lambda x, y: (x.t() + y, x.t().contiguous() * 2), whole(*sizes), whole(*sizes[::-1]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool])
def test_transposed_reads_of_each_dtype(dtype):
    check(lambda x, y: torch.where(y, x.t(), x.t()), whole(37, 50).abs().to(dtype), whole(50, 37) > 0)


def test_transposed_batches():
    check(lambda x: x.transpose(1, 2).contiguous() + 1, whole(3, 20, 40))
    check(lambda x: x.permute(2, 1, 0).contiguous() + 1, whole(20, 3, 40))


def test_several_outer_and_inner_axes():
    x = whole(3, 4, 5, 6)
    for axes in ((0, 2), (1, 3), (0, 3), (1, 2)):
        check(lambda x, axes=axes: (x.sum(axes), (x - x.amax(axes, keepdim=True)).sum(axes)), x)


def test_what_runs_once_a_row():
    check(lambda x: (x - x.sum(1, keepdim=True) * 2) * (x.amax(1, keepdim=True) + 1), whole(5, 19))
    check(lambda x: (x - x.sum(0, keepdim=True) * 2) * (x.amax(0, keepdim=True) + 1), whole(5, 19))


def test_several_passes_over_a_row():
    def function(x):
        for _ in range(4):
            x = x - x.amax(1, keepdim=True) + 1
        return x

    check(function, whole(5, 37))


@pytest.mark.parametrize("axis", [0, 1])
def test_temporaries_of_a_row_and_of_columns(axis):
    def function(x):
        y = x.relu() * 2
        return y - y.amax(axis, keepdim=True), y.sum(axis)

    check(function, whole(33, 70))


def test_rows_too_long_for_the_frame():
    check(lambda x: ((x * 2).amax(1, keepdim=True) - x * 2).relu(), whole(2, 20_000))


def test_expanded_and_scalar_operands():
    check(lambda x, y, z: x * y + z, whole(5, 19), whole(1), torch.tensor(3.0))
    check(lambda x: x.expand(6, 5).sum(1), whole(6, 1))


def test_steps_and_offsets():
    check(lambda x: x[1::2, ::3] + x[:-1:2, 1::3][:, :4], whole(8, 12))
    check(lambda x: x.flip(0, 1) - x, whole(5, 19))
    check(lambda x: x.flip(1).sum(0), whole(5, 19))


def test_computed_places():
    index = torch.tensor([4, 0, -1, 2, 2, 1, 3])
    check(lambda x, i: (x[i] * 2, x[:, i], x[i, i]), whole(7, 7), index)
    check(lambda x, i: x[i].sum(0), whole(7, 19), index)
    check(lambda x, i: x.gather(1, i.abs().expand(7, 7)), whole(7, 7), index)


def test_indices_as_values():
    check(lambda x: x + torch.arange(19) * 3 - torch.arange(5)[:, None], whole(5, 19))
    check(lambda x: x.triu(2) + x.tril(-3), whole(9, 21))


def test_in_place_work_in_a_nest():
    def function(x, y):
        x.add_(y)
        z = x * 2
        x.sub_(1)
        y.copy_(z + x)
        return x.sum(1)

    check(function, whole(5, 19), whole(5, 19))


def test_a_write_after_a_reduction_has_read_the_row():
    def function(x):
        y = x.sum(1, keepdim=True)
        z = x - y
        x.zero_()
        return z

    check(function, whole(5, 19))


def test_positions_over_several_axes():
    x = whole(4, 6, 21)
    check(lambda x: (x.flatten().argmax(), x.view(4, -1).argmin(1), x.argmax(0)), x)


# --- the text -----------------------------------------------------------------------------------------------


def kernels(function, *tensors) -> list[Kernel]:
    """Kernels with vectors of 8."""
    return [codegen.generate(loops, "nounwind") for nest in nests(function, *tensors) for loops in schedule(nest, 8)]


def test_a_kernel_knows_its_buffers():
    (kernel,) = kernels(lambda x, y: x.add_(y) * 2, whole(5, 19), whole(5, 19))
    assert {b.name for b in kernel.buffers} == {"b0", "b1", "b2"}
    assert {b.name for b in kernel.written} == {"b0", "b2"}


def test_what_a_nest_keeps_for_itself_has_no_pointer():
    (kernel,) = kernels(lambda x: torch.softmax(x, 1), whole(5, 19))
    assert len(kernel.buffers) == 2


def test_an_element_that_two_statements_read_is_loaded_once():
    (kernel,) = kernels(lambda x: (x + 1, x * 2, x - 3), whole(8))
    assert len(re.findall(r"= load <8 x float>", kernel.function)) == 1


def test_what_does_not_depend_on_a_loop_stands_before_it():
    (kernel,) = kernels(lambda x, y: x * y, whole(64), whole(1))
    before, _, inside = kernel.function.partition("loop")
    assert "load float" in before
    assert "load float" not in inside


def test_the_text_does_not_depend_on_names():
    first = kernels(lambda x: (x + 1).relu(), whole(5, 19))
    second = kernels(lambda x: ((x.exp(), x + 1)[1]).relu(), whole(5, 19))
    assert [k.function for k in first] == [k.function for k in second]


def test_a_graph_of_nothing_has_no_kernels():
    assert lower(graph_of(lambda x: x.t(), whole(2, 3))).statements == []
