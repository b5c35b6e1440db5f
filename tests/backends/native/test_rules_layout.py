"""Rules of creation, layout and indexing, against eager."""

import pytest
import torch
import torch.nn.functional as F

from tests.backends.native.interpreter import run
from tests.backends.native.lowering import check, check_gradients, lowered


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone(),
        lambda x: x.t().contiguous(),
        lambda x: x.to(torch.bfloat16),
        lambda x: x.to(torch.int32),
        lambda x: (x * 3).to(torch.uint8),
        lambda x: x.bool(),
        lambda x: torch.zeros_like(x) + torch.ones(3, 1) + x.new_full((4,), 2.5),
        lambda x: x + torch.arange(4) + torch.arange(1, 9, 2) + torch.arange(0.5, 1.5, 0.25),
        lambda x: torch.linspace(-1, 1, 7),
        lambda x: torch.eye(3, 4) + x,
        lambda x: torch.full((2, 2), 3, dtype=torch.bfloat16),
        lambda x: x.fill_(2.0),
        lambda x: x[1].zero_(),
        lambda x: torch.tril(x) + torch.triu(x, 1) + x.tril(-1),
        lambda x: torch.cat([x, x.t().reshape(2, 6)[:, :4], x], 0),
        lambda x: torch.cat([x, torch.empty(0), x.half()], -1),
        lambda x: torch.stack([x, x + 1], 1),
        lambda x: torch.hstack([x, x]),
        lambda x: F.pad(x, (1, 2)),
        lambda x: F.pad(x, (1, 0, 2, 3), value=1.5),
        lambda x: F.pad(x, (-1, 2, 1, -1)),
        lambda x: F.pad(x[None], (2, 1), mode="reflect"),
        lambda x: F.pad(x[None], (2, 1), mode="replicate"),
        lambda x: F.pad(x[None], (1, 2, 2, 1), mode="reflect"),
        lambda x: F.pad(x[None], (1, 2, 2, 1), mode="replicate"),
        lambda x: x.flip(0, 1),
        lambda x: torch.roll(x, (1, -2), (0, 1)),
        lambda x: torch.roll(x, 5, 1),
        lambda x: x.repeat(2, 3),
        lambda x: x.repeat(2, 1, 2),
        lambda x: x.tile(2, 2),
        lambda x: F.pixel_shuffle(x.expand(2, 8, 3, 4), 2),
        lambda x: F.pixel_unshuffle(x.repeat(2, 1)[None], 2),
        lambda x: F.channel_shuffle(x.expand(4, 3, 4).transpose(0, 1)[None, :2], 2),
        lambda x: F.interpolate(x[None], scale_factor=2),
        lambda x: F.interpolate(x[None, None], size=(5, 7)),
        lambda x: F.interpolate(x[None, None], scale_factor=(1.5, 0.6)),
        lambda x: x.slice_scatter(x[:2] + 1, 0, 1),
        lambda x: x.select_scatter(x[0], 0, 2),
        lambda x: x.diagonal_scatter(torch.zeros(3), 1),
        lambda x: torch.diag_embed(x, 1),
    ],
)
def test_moves(function):
    check(function, rand(3, 4))
    check(function, rand(4, 3).t())


@pytest.mark.parametrize("dtype", [torch.bool, torch.int16, torch.float16, torch.float64])
def test_moves_of_each_dtype(dtype):
    x = (torch.arange(12).reshape(3, 4) % 5).to(dtype)
    check(lambda x: (torch.cat([x, x]), F.pad(x, (1, 1)), x.flip(1), x.repeat(2, 2), x.tril()), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1:, ::2],
        lambda x: x[1],
        lambda x: x.diagonal(1),
        lambda x: torch.cat([x[1:], x], 0),
        lambda x: F.pad(x, (1, 2)),
        lambda x: x.repeat(2, 1),
        lambda x: x.flip(1),
        lambda x: x.tril(),
    ],
)
def test_gradients_of_moves(function):
    check_gradients(function, rand(4, 6))


ROWS, COLUMNS = torch.tensor([2, 0, -1]), torch.tensor([[1], [-2]])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[ROWS],
        lambda x: x[:, ROWS],
        lambda x: x[ROWS, COLUMNS],
        lambda x: x[ROWS, :, COLUMNS],
        lambda x: x[:, ROWS, COLUMNS],
        lambda x: x[None, :, ROWS],
        lambda x: x[ROWS.int()],
        lambda x: x.index_select(1, ROWS.abs()),
        lambda x: x.gather(0, COLUMNS.abs()[:, :, None].expand(2, 3, 4)),
        lambda x: torch.take_along_dim(x, COLUMNS.abs()[:, :, None], 0),
        lambda x: F.embedding(COLUMNS.abs(), x[0]),
        lambda x: torch.take(x[0, 0], ROWS),
    ],
)
def test_indexing(function):
    check(function, rand(3, 4, 4))
    check(function, rand(4, 4, 3).permute(2, 0, 1))


def test_a_mask_is_left_to_aten():
    check(lambda x: x[x > 0], rand(3, 4), left=("index",))


def test_a_number_stored_by_a_mask():
    def function(x):
        x[x > 0] = 2.5
        x[x[:, 0] < 0] = -1

    check(function, rand(3, 4))


@pytest.mark.parametrize(
    "function", [lambda x, i: x[i], lambda x, i: x.index_select(0, i), lambda x, i: F.embedding(i, x)]
)
def test_an_index_out_of_range_raises(function):
    x = rand(3, 4)
    loops = lowered(function, x, torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        run(loops, [x, torch.tensor([0, 3])])


def test_negative_indices_raise_where_eager_does_not_take_them():
    x = rand(3, 4)
    loops = lowered(lambda x, i: x.index_select(0, i), x, torch.tensor([0, 1]))
    with pytest.raises(IndexError):
        run(loops, [x, torch.tensor([0, -1])])
