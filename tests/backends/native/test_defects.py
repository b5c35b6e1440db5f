"""Defects that random programs have found: each test says what eager does."""

from __future__ import annotations

import pytest
import torch

import segue


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def outcome(function, *args):
    """What a call gives and does to its tensors, which are copied: the result or the error, and the arguments."""
    args = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    try:
        result = function(*args)
    except (RuntimeError, IndexError) as error:
        result = type(error), str(error)
    return result, args


def assert_like_eager(function, *calls):
    """The compiled function does the same in each of some calls."""
    compiled = segue.compile(function)
    for call in calls:
        wanted, after = outcome(function, *call)
        found, after_compiled = outcome(compiled, *call)
        if isinstance(wanted, tuple) and isinstance(wanted[0], type):
            assert found == wanted
        else:
            torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        torch.testing.assert_close(after_compiled, after, rtol=0, atol=0)


# --- recording --------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("shape", [(1,), (2, 1), (3, 3), (2, 2)])
def test_an_out_argument_of_another_shape_is_resized(shape):
    def function(x):
        out = torch.zeros(shape)
        torch.add(x, 3, out=out)
        return out * 2

    assert_like_eager(function, (torch.arange(4.0).view(2, 2),))


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_a_reduction_resizes_its_out_argument():
    def function(x):
        out = x.max().expand(3)
        torch.sum(x, -1, out=out)
        return out

    assert_like_eager(function, (torch.arange(3.0),))


def test_a_float_that_is_stored_as_an_integer_changes_from_call_to_call():
    def function(x, n):
        y = x.clone()
        y[...] = n
        return x ^ y

    x = torch.tensor([5, 6])
    assert_like_eager(function, (x, 2.0), (x, -3.0), (x, 0.25))


def test_the_truth_of_a_number_changes_from_call_to_call():
    def function(x, n):
        y = x > 0
        y[...] = n
        return y, x * n

    x = torch.tensor([1.0, -1.0])
    assert_like_eager(function, (x, 2.0), (x, 0.0), (x, 1.0))


def test_a_write_of_no_elements_is_a_new_version():
    def function(x):
        x[3:].fill_(2)
        return x + 1

    x, y = torch.ones(3), torch.ones(3)
    segue.compile(function)(x)
    function(y)
    assert x._version == y._version == 1


# --- errors -----------------------------------------------------------------------------------------------

INDICES = [torch.tensor(i) for i in ([0, 1, 2], [0, 1, 5], [2, 0, 1], [0, -7, 1])]


def unread(t, i):
    t[i]
    return t + 1


def partly_read(t, i):
    return t[i][:1] * 2


@pytest.mark.parametrize("function", [unread, partly_read])
def test_an_index_out_of_range_is_an_error_though_nobody_reads_the_element(function):
    assert_like_eager(function, *((torch.arange(4.0), i) for i in INDICES))


def test_a_division_by_zero_is_an_error_though_nobody_reads_the_quotient():
    def function(x, d):
        x // d
        return x + 1

    x = torch.tensor([3, 4])
    assert_like_eager(function, (x, torch.tensor([1, 2])), (x, torch.tensor([1, 0])))


def into_the_argument(x, t, i):
    x.add_(t[i])
    return x * 2


def beside_the_argument(x, t, i):
    y = t[i]
    x.mul_(2)
    return y + x


def with_another_read(x, t, i):
    y = t[i]
    z = y.sum()
    x.mul_(2).add_(y)
    return z


@pytest.mark.parametrize("function", [into_the_argument, beside_the_argument, with_another_read])
def test_an_error_comes_before_the_arguments_are_written(function):
    assert_like_eager(function, *((torch.ones(3), torch.arange(4.0), i) for i in INDICES))


FILLS = {
    "fill": lambda x, n: x.fill_(n),
    "full": lambda x, n: torch.full((2,), n, dtype=x.dtype),
    "masked_fill": lambda x, n: x.masked_fill(x > 1, n),
    "clamp": lambda x, n: x.clamp(min=n),
    "alpha": lambda x, n: x.add(x, alpha=n),
    "sum": lambda x, n: x + n,
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int64])
@pytest.mark.parametrize("name", FILLS)
def test_a_number_that_overflows(name, dtype):
    x = torch.tensor([1, 2, 3], dtype=dtype)
    assert_like_eager(FILLS[name], (x, 2), (x, 3), (x, 300), (x, -4))


@pytest.mark.parametrize("name", ["fill", "full", "masked_fill"])
def test_a_number_that_overflows_a_half(name):
    x = torch.ones(3, dtype=torch.float16)
    assert_like_eager(FILLS[name], (x, 2.0), (x, 70000.0), (x, float("inf")))
    assert_like_eager(lambda x: FILLS[name](x, 70000.0), (x,))


def test_a_float_is_not_stored_in_an_integer_in_place():
    assert_like_eager(lambda x, n: x.mul_(n), (torch.tensor([1, 2]), 2.0))


# --- loops ------------------------------------------------------------------------------------------------


def test_what_runs_once_a_row_has_none_of_the_reduced_axes():
    def function(x):
        both = torch.hstack([x, x])
        count = torch.count_nonzero(x - both, [0, 1])
        x.triu_()
        return count

    assert_like_eager(function, (torch.ones(4, 1)[::2],), (torch.arange(2.0).view(2, 1),))


def test_a_tile_reads_what_the_loop_itself_makes():
    def function(x):
        made = x <= 0.5
        index = x.long().reshape(-1)
        x.logical_not_()
        made.masked_fill_(made, True)
        return made[..., 1:], torch.ones(8).index_fill(0, index, 1)

    assert_like_eager(function, (torch.arange(264, dtype=torch.int16).view(8, 33).t() % 2,))


# --- thread state -----------------------------------------------------------------------------------------


def test_empty_tensors_are_filled_where_the_program_wants_determinism():
    def function(x):
        return torch.empty(3), torch.empty_like(x) + 1, x.new_empty(2, dtype=torch.long)

    torch.use_deterministic_algorithms(True)
    try:
        wanted = function(torch.ones(2))
        torch.testing.assert_close(segue.compile(function)(torch.ones(2)), wanted, equal_nan=True)
    finally:
        torch.use_deterministic_algorithms(False)
