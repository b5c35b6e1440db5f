"""Autograd and the native backend: graphs that need gradients are declined, the others leave no trace in autograd."""

from collections.abc import Callable

import pytest
import torch
from torch.utils._pytree import tree_leaves

import segue


def operation(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return w.detach() @ x


def the_tensor(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return w.detach()


def view(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return w.detach().t()[1:]


def both(w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    detached = w.detach()
    return w, detached, detached.t(), torch.sort(detached)[0], detached * x


def without_grad_mode(w: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return w @ x, w.detach(), w.exp(), torch.sort(w)[0]


def in_place(w: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    w.detach().copy_(x @ x)
    return w.detach()


def shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


@pytest.mark.parametrize("function", [operation, the_tensor, view, both, without_grad_mode, in_place])
@pytest.mark.parametrize("grad", [True, False])
def test_results_that_need_no_gradient_of_inputs_that_do(function: Callable, grad: bool) -> None:
    w, x = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3)
    compiled = segue.compile(function, backend="native", fullgraph=True)
    mine, theirs = w.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    with torch.set_grad_enabled(grad):
        got, want = compiled(mine, x), function(theirs, x)
    assert [e.kind for e in compiled.compiler.log.events] == ["graph"]
    for a, b in zip(tree_leaves(got), tree_leaves(want), strict=True):
        torch.testing.assert_close(a, b)
        assert (a.requires_grad, a.is_leaf) == (b.requires_grad, b.is_leaf)
        assert shares(a, mine) == shares(b, theirs)
        assert (a is mine) == (b is theirs)
    assert mine._version == theirs._version


def test_writing_a_detached_result_is_noticed_by_backward() -> None:
    @segue.compile(backend="native")
    def detached(w: torch.Tensor) -> torch.Tensor:
        return w.detach()

    w = torch.ones(3, requires_grad=True)
    loss = (w * w).sum()
    detached(w).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_detached_result_is_no_view() -> None:
    @segue.compile(backend="native")
    def detached(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.detach(), x.detach().t(), x.t()

    x = torch.ones(2, 2)
    same, turned, view = detached(x)
    assert (same._base, view._base is x, turned._base is x) == (None, True, False)
    x.requires_grad_()
    same.add_(1)
    turned.add_(1)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        view.add_(1)
    assert x.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_a_graph_that_needs_gradients_is_declined_and_still_differentiated() -> None:
    @segue.compile(backend="native")
    def square(w: torch.Tensor) -> torch.Tensor:
        return (w * w).sum()

    w = torch.tensor([1.0, 2.0], requires_grad=True)
    square(w).backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]
    (declined,) = square.compiler.log.of_kind("declined")
    assert (declined.id, declined.place.function.rpartition(".")[2]) == ("gradients", "square")
