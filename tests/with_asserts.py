"""Functions with assert statements: pytest does not rewrite those of this module."""

import torch

import segue


def on_a_tensor(x, limit):
    y = torch.sin(x)
    assert y.sum() < limit, f"too large for {limit}"
    return torch.cos(y)


def without_a_message(x, limit):
    y = torch.sin(x)
    assert (y < limit).all()
    return torch.cos(y)


def after_a_break(x, limit):
    y = torch.sin(x)
    segue.graph_break()
    assert y.max() < limit and y.min() < limit, "too large"
    return torch.cos(y)


def in_a_loop(x, limit):
    y = torch.sin(x)
    for step in range(3):
        assert y.sum() < limit, step
        y = torch.tanh(y) + 1
    return torch.cos(y)
