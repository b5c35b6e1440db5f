"""A graph that raises leaves nothing behind, and the error comes from the user's line."""

import traceback

import pytest
import torch

import segue


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
