"""float16 on processors without instructions for it."""

import pytest
import torch

import segue
from segue import config


@pytest.fixture(autouse=True)
def plain_processor():
    with config.patch(vector_bits=128):
        yield


def all_halves() -> torch.Tensor:
    return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16).view(torch.float16)


def test_every_half_widens_as_in_eager() -> None:
    @segue.compile(fullgraph=True, backend="native")
    def widen(x):
        return x.float()

    got, expected = widen(all_halves()), all_halves().float()
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_floats_round_to_the_nearest_half() -> None:
    @segue.compile(fullgraph=True, backend="native")
    def narrow(x):
        return x.half()

    halves = all_halves()
    exact = halves[halves.isfinite()].float()
    between = torch.cat([exact, exact * (1 + 2**-11), exact * (1 + 2**-12), exact * (1 + 3 * 2**-12)])
    special = torch.tensor(
        [65519.996, 65520.0, 1e30, -1e30, torch.inf, -torch.inf, 2**-24, 2**-25, 3 * 2**-26, 0.0, -0.0]
    )
    x = torch.cat([between, special])
    assert torch.equal(narrow(x).view(torch.int16), x.half().view(torch.int16))


def test_a_nan_stays_one() -> None:
    @segue.compile(fullgraph=True, backend="native")
    def around(x):
        return (x.float() * 2).half()

    assert around(torch.tensor([torch.nan, 1.0], dtype=torch.float16)).isnan().tolist() == [True, False]
