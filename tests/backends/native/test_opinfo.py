"""Some samples of PyTorch's operator database on the native backend; the module `opinfo` runs all of them."""

from functools import partial

import pytest
import torch

from segue import config
from tests.backends.native import opinfo
from tests.backends.native.opinfo import DTYPES, Tally, Untried, check_all, check_sample, compiled, op_db

PARTS = 16


@pytest.fixture(autouse=True)
def quick():
    with config.patch(codegen_level=0):
        yield


@pytest.mark.parametrize("part", range(0, PARTS, 4))
def test_a_sample_of_every_fourth_operation_in_float32(part):
    tally = Tally()
    check_all(partial(compiled, tally=tally), tally, dtypes=(torch.float32,), n_samples=1, part=(part, PARTS))
    assert tally.failures == []
    assert tally.tried > 30


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_a_sample_of_some_operations_in_each_dtype(dtype):
    tally = Tally()
    part = DTYPES.index(dtype), 3 * len(DTYPES)
    check_all(compiled, tally, dtypes=(dtype,), n_samples=1, part=part)
    assert tally.failures == []
    assert tally.tried > 0


# --- the runner itself --------------------------------------------------------------------------------------


def sample(function, *leaves):
    return opinfo.Sample(function, list(leaves), torch.utils._pytree.tree_structure((leaves[0], tuple(leaves[1:]), {})))


def test_a_wrong_result_is_found():
    def wrong(function, tensors):
        return lambda *given: [function(*given) + 1]

    with pytest.raises(AssertionError):
        check_sample(sample(torch.add, torch.ones(3), torch.ones(3)), wrong)


def test_a_wrong_write_is_found():
    def forgetful(function, tensors):
        return lambda *given: [function(*[t.clone() for t in given])]

    with pytest.raises(AssertionError):
        check_sample(sample(torch.Tensor.add_, torch.ones(3), torch.ones(3)), forgetful)


@pytest.mark.parametrize(
    ("function", "tensor", "reason"),
    [
        (lambda x: x @ x, torch.ones(3, 2), "eager raises"),
        (lambda x: x.to_sparse(), torch.ones(3), "sparse"),
        (lambda x: x.resize_(2), torch.ones(3), "changes the shape"),
        (lambda x: x.numpy() + 1, torch.ones(3), "unrecordable"),
    ],
)
def test_why_a_sample_is_not_tried(function, tensor, reason):
    with pytest.raises(Untried, match=reason):
        check_sample(sample(function, tensor), compiled)


def test_random_numbers_are_those_of_eager():
    check_sample(sample(torch.nn.functional.dropout, torch.ones(50)), compiled)


def test_the_seed_of_a_sample_is_used():
    def seeded(x):
        torch.manual_seed(7)
        return torch.rand_like(x) + 1

    check_sample(sample(seeded, torch.ones(5)), compiled)


def test_tensors_are_made_strided():
    for x in (torch.arange(12.0).view(3, 4), torch.arange(6.0), torch.arange(24.0).view(2, 3, 4)):
        y = opinfo.strided(x)
        assert torch.equal(x, y)
        assert not y.is_contiguous()
        assert opinfo.copy(y).stride() == y.stride()


def test_every_operation_is_in_one_part():
    names = [op.name for part in range(PARTS) for op in op_db[part::PARTS]]
    assert sorted(names) == sorted(op.name for op in op_db)


def test_the_command_reports(capsys):
    assert opinfo.main(["--samples", "1", "nextafter"]) == 0
    text = capsys.readouterr().out
    assert "left to ATen" in text
    assert "nextafter.default" in text
    assert "0 differ" in text
