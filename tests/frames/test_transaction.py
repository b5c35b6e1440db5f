"""A graph that raises leaves nothing behind, and the error comes from the user's line."""

import copy
import traceback

import pytest
import torch

import segue
from tests.graphs import Graphs


def test_the_error_has_the_users_line():
    def pick(table, index):
        return table[index]

    def first(table, index):
        return pick(torch.sin(table), index) + 1

    compiled = segue.compile(first)
    table = torch.ones(4)
    compiled(table, torch.tensor([1]))
    with pytest.raises(IndexError) as raised:
        compiled(table, torch.tensor([40]))
    assert [f.name for f in traceback.extract_tb(raised.tb)][-2:] == ["first", "pick"]


def test_grad_mode_and_random_numbers_are_put_back():
    def draw(x, index):
        try:
            with torch.no_grad():
                return torch.nn.functional.dropout(x, 0.5)[index]
        except IndexError:
            return x * 2, torch.rand(2)

    compiled = segue.compile(draw)
    x = torch.ones(4)
    for number in (1, 9, 2, 9):
        index = torch.tensor([number])
        torch.manual_seed(0)
        expected = draw(x, index)
        torch.manual_seed(0)
        got = compiled(x, index)
        assert str(got) == str(expected)
        assert torch.is_grad_enabled()


def test_what_a_graph_has_written_is_not_written_twice():
    def bump(x, index):
        x.add_(1)
        return x[index]

    compiled = segue.compile(bump)
    compiled(torch.zeros(3), torch.tensor([1]))
    x = torch.zeros(3)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, torch.tensor([10]))
    assert torch.equal(x, torch.ones(3))


def test_a_graph_that_raises_is_reported():
    def broken(gm, example_inputs):
        def run(*args):
            raise RuntimeError("the kernel is broken")

        return run

    compiled = segue.compile(lambda x: x + 1, backend=broken)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    (event,) = compiled.compiler.log.of_kind("failure")
    assert "the kernel is broken" in event.reason


def test_small_tensors_are_put_back():
    """Running statistics: what comes before and after an operation that can fail is one graph."""

    def embed(x, index, norm, table):
        y = norm(x)
        try:
            return table[index] + y
        except IndexError:
            return y * 0

    norm, table, graphs = torch.nn.BatchNorm1d(4), torch.randn(5, 4), Graphs()
    plain = copy.deepcopy(norm)
    compiled = segue.compile(embed, backend=graphs)
    for number in (1, 2, 7, 3, 9):
        x, index = torch.randn(3, 4), torch.tensor([number] * 3)
        torch.testing.assert_close(compiled(x, index, norm, table), embed(x, index, plain, table))
        torch.testing.assert_close(norm.state_dict(), plain.state_dict())
        if number == 2:
            assert (graphs.count, graphs.runs) == (1, 2)


def test_running_statistics_alone_are_put_back():
    def embed(x, index, mean, var, table):
        y = torch.nn.functional.batch_norm(x, mean, var, training=True)
        return y + table[index]

    compiled, table = segue.compile(embed, backend="eager"), torch.randn(5, 4)
    found, expected = ((torch.zeros(4), torch.ones(4)) for _ in range(2))
    for number in (1, 7, 2):
        x, index = torch.randn(3, 4), torch.tensor([number] * 3)
        for function, statistics in ((compiled, found), (embed, expected)):
            try:
                function(x, index, *statistics, table)
            except IndexError:
                assert number == 7
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("kind", ["large", "with gradients"])
def test_what_cannot_be_put_back_begins_a_new_graph(kind):
    def write(x, weight, index):
        x.mul_(weight)
        return x[index] * 2

    weight = torch.tensor(2.0, requires_grad=kind == "with gradients")
    size = 1 << 19 if kind == "large" else 3
    seen = segue.explain(write, backend="eager")(torch.ones(size), weight, torch.tensor([1]))
    assert [e.id for e in seen.breaks] == ["order"]
    compiled, x = segue.compile(write, backend="eager"), torch.ones(size)
    with pytest.raises(IndexError):
        compiled(x, weight, torch.tensor([size]))
    assert x.unique().tolist() == [2.0]
