"""Overlapping inputs, views of changed bases, outputs that are inputs: eager's results on Segue's own backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import segue
from tests.graphs import Graphs
from tests.observation import Snapshot, difference


@pytest.fixture(params=["native", "eager", "counting"])
def backend(request) -> Any:
    return Graphs() if request.param == "counting" else request.param


def relations(tensors: list[torch.Tensor]) -> list[tuple[int, int, str]]:
    """Which tensors are one object, which share memory and from where."""
    found = []
    for i, a in enumerate(tensors):
        for j, b in enumerate(tensors[:i]):
            if a is b:
                found.append((i, j, "same"))
            elif a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr():
                found.append((i, j, f"shared at {a.storage_offset()} and {b.storage_offset()}"))
    return found


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [t for item in value for t in tensors_of(item)] if isinstance(value, list | tuple) else []


def assert_as_eager(
    f: Callable[..., Any], make_args: Callable[[], tuple[Any, ...]], backend: Any, calls: int = 3
) -> None:
    """Results, arguments, their bases, and who shares memory with whom are the same as in eager."""
    compiled = segue.compile(f, backend=backend)
    for _ in range(calls):
        seen = []
        for function in (f, compiled):
            args = make_args()
            result = function(*args)
            everything = tensors_of([result, args])
            bases = [t._base for t in everything if t._base is not None]
            seen.append((Snapshot()([result, args, bases]), relations(everything)))
        assert difference(seen[0][0], seen[1][0], rounding=True) is None
        assert seen[0][1] == seen[1][1]


def base() -> torch.Tensor:
    return torch.arange(8.0)


# --- inputs ---------------------------------------------------------------------------------------


def changed_then_read(a, b):
    a.mul_(2)
    return a + b


def both_changed(a, b):
    a.add_(1)
    b.mul_(3)
    return torch.sin(a) + torch.cos(b)


def read_then_changed(a, b):
    y = torch.sin(b)
    a.copy_(y)
    return y + b


def assigned(a, b):
    a[1] = b[0] + 1
    b[2:4] = a[:2]
    return a * b


def changed_around_a_break(a, b):
    a.mul_(2)
    segue.graph_break()
    b.add_(1)
    return a + b


def overlapping():
    x = base()
    return x[:4], x[2:6]


def apart():
    x = base()
    return x[:4], x[4:]


def the_same_twice():
    x = base()[:4]
    return x, x


def two_views_of_all():
    x = base()
    return x.view(8), x.view(8)


def transposed():
    x = base().view(2, 4)[:, :2]
    return x.contiguous().t().flatten()[:4], base()[:4]


def independent():
    return base()[:4], base()[4:]


@pytest.mark.parametrize(
    "f",
    [changed_then_read, both_changed, read_then_changed, assigned, changed_around_a_break],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize(
    "make_args",
    [overlapping, apart, the_same_twice, two_views_of_all, transposed, independent],
    ids=lambda f: f.__name__,
)
def test_inputs_that_overlap(f, make_args, backend) -> None:
    assert_as_eager(f, make_args, backend)


def test_overlap_that_comes_after_calls_without() -> None:
    """What was compiled for separate inputs is not used for overlapping ones if that matters."""
    for f in (changed_then_read, both_changed, read_then_changed, assigned):
        compiled = segue.compile(f, backend=Graphs())
        for make_args in (independent, overlapping, the_same_twice, apart, overlapping, independent):
            args, other = make_args(), make_args()
            torch.testing.assert_close(compiled(*args), f(*other), rtol=0, atol=0)
            torch.testing.assert_close(args, other, rtol=0, atol=0)


def test_the_same_list_given_twice() -> None:
    def f(x, queue, view):
        queue.append(torch.sin(x))
        return x * len(view)

    compiled = segue.compile(f, backend=Graphs())
    x = torch.ones(3)
    for shared in (False, True, False, True):
        one, two = [], []
        expected, got = f(x, one, one if shared else []), compiled(x, two, two if shared else [])
        torch.testing.assert_close(got, expected)
        assert len(two) == 1


# --- views ----------------------------------------------------------------------------------------


def view_then_base(x):
    view = x[2:5]
    x.add_(1)
    return view * 2


def base_then_view(x):
    view = x.view(2, 4)
    view[0].mul_(3)
    return x + 1


def view_of_a_view(x):
    view = x.view(2, 4).t()[1:3]
    view.zero_()
    return x, view


def view_over_a_break(x):
    view = x.view(2, 4)
    y = torch.sin(view)
    segue.graph_break()
    x.add_(1)
    return view + y


def view_of_an_intermediate(x):
    y = torch.sin(x)
    view = y.view(2, 4)
    y.mul_(2)
    segue.graph_break()
    view[1].add_(1)
    return y, view


def in_a_loop(x):
    for step in range(4):
        row = x.view(4, 2)[step]
        row.add_(step)
        segue.graph_break()
        x[step] = row.sum()
    return x * 1


def expanded(x):
    wide = x[:2].unsqueeze(1).expand(2, 3)
    x.add_(1)
    return wide + 0


def chunks(x):
    a, b = x.chunk(2)
    a += b
    b -= a
    return torch.cat([b, a])


def reshaped(x):
    y = x.reshape(2, 4)
    y.mul_(2)
    z = y.t().reshape(8)
    z.add_(1)
    return y, z


def narrow_and_fill(x):
    x.narrow(0, 1, 3).fill_(7)
    x[x > 6] = 0
    return x.clone()


@pytest.mark.parametrize(
    "f",
    [
        view_then_base,
        base_then_view,
        view_of_a_view,
        view_over_a_break,
        view_of_an_intermediate,
        in_a_loop,
        expanded,
        chunks,
        reshaped,
        narrow_and_fill,
    ],
    ids=lambda f: f.__name__,
)
def test_views_of_a_changed_base(f, backend) -> None:
    assert_as_eager(f, lambda: (base(),), backend)


# --- outputs --------------------------------------------------------------------------------------


def an_input(x):
    y = torch.sin(x)
    return x, y


def an_input_that_was_changed(x):
    x.add_(torch.sin(x))
    return x


def the_result_of_an_in_place_operation(x):
    return x.mul_(2)


def a_view_of_an_input(x):
    y = torch.sin(x)
    return x[1:3], x.view(2, 4), y


def twice_the_same(x):
    y = torch.sin(x)
    return y, [y, {"y": y}]


def two_views_of_one(x):
    y = torch.sin(x)
    return y[:4], y[2:6], y


def detached(x):
    y = torch.sin(x)
    return y, y.detach(), x.detach()


def unchanged_by_no_ops(x):
    return x.contiguous(), x.to(torch.float32), x.view(8), x.float(), torch.sin(x)


def into_an_out_argument(x):
    out = torch.empty(8)
    torch.add(x, 1, out=out)
    return out, torch.mul(out, 2, out=x)


@pytest.mark.parametrize(
    "f",
    [
        an_input,
        an_input_that_was_changed,
        the_result_of_an_in_place_operation,
        a_view_of_an_input,
        twice_the_same,
        two_views_of_one,
        detached,
        unchanged_by_no_ops,
        into_an_out_argument,
    ],
    ids=lambda f: f.__name__,
)
def test_outputs_that_are_or_share_inputs(f, backend) -> None:
    assert_as_eager(f, lambda: (base(),), backend)


def test_writing_to_an_output_reaches_what_it_shares(backend) -> None:
    def f(x):
        y = torch.sin(x)
        return x.view(2, 4), y, y[2:]

    seen = []
    for function in (f, segue.compile(f, backend=backend)):
        x = base()
        view, y, part = function(x)
        view[0, 0] = 100
        part.zero_()
        seen.append((x, y))
    torch.testing.assert_close(seen[1], seen[0])


def test_an_output_is_not_overwritten_by_the_next_call(backend) -> None:
    compiled = segue.compile(lambda x: torch.sin(x) * 2, backend=backend)
    first = compiled(base())
    kept = first.clone()
    compiled(base() + 1)
    assert first.equal(kept)
    first.zero_()
    assert compiled(base()).equal(kept)


# --- tensors inside objects -----------------------------------------------------------------------


def test_one_tensor_reached_two_ways(backend) -> None:
    def f(items, table):
        items[0].add_(1)
        table["x"].mul_(2)
        items.append(table["x"])
        return items[0] + table["x"]

    def shared():
        x = base()
        return [x], {"x": x}

    assert_as_eager(f, shared, backend)
    assert_as_eager(f, lambda: ([base()], {"x": base()}), backend)


def test_tied_parameters(backend) -> None:
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(torch.tanh(self.first(x)))

    model = Tied()
    x = torch.linspace(0, 1, 4)
    grads = []
    for forward in (model, segue.compile(model, backend=backend)):
        model.zero_grad()
        forward(x).sum().backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(grads[1], grads[0])


def test_in_place_with_gradients_through_a_view(backend) -> None:
    def f(x):
        y = x * 2
        y[1:3].mul_(3)
        view = y.view(2, 4)
        y.add_(1)
        return (view * view).sum()

    grads = []
    for function in (f, segue.compile(f, backend=backend)):
        x = base().requires_grad_()
        function(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(grads[1], grads[0])


def test_versions_count_in_place_writes(backend) -> None:
    """Autograd notices a saved tensor that compiled code has changed."""

    def change(y):
        y.add_(1)
        return y * 1

    compiled = segue.compile(change, backend=backend)
    for _ in range(2):
        x = base().requires_grad_()
        y = torch.exp(x)
        z = y * y
        with torch.no_grad():
            compiled(y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.sum().backward()
