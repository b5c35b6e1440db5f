"""`torch.func`: transforms are nodes of one graph, with what eager PyTorch computes."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)

import segue
from tests.capturing import assert_breaks, assert_captured
from tests.graphs import Graphs


def matrix():
    return torch.randn(4, 4)


def leaf():
    return torch.randn(4, 4).requires_grad_()


def of_rows(x):
    return vmap(lambda row: row.sin() * row.sum())(x) + 1


def of_columns(x):
    return vmap(lambda a, b: a @ b, in_dims=(1, None), out_dims=1)(x, x)


def nested(x):
    return vmap(vmap(lambda a: a * 2 + a.cos()))(x)


def into_containers(x):
    return vmap(lambda a: (a * 2, {"sum": a.sum()}))(x)


def reading_what_stands_outside(x):
    y = x * 2
    return vmap(lambda a: (a * y).sum())(x)


def with_random_numbers(x):
    return vmap(lambda a: a + torch.randn_like(a), randomness="different")(x)


def with_the_same_random_numbers(x):
    return vmap(lambda a: a + torch.randn_like(a), randomness="same")(x)


def in_chunks(x):
    return vmap(lambda a: a.sin(), chunk_size=3)(x)


def named(a):
    return a.sin() * a.sum()


of_named_function = vmap(named)


def made_before(x):
    return of_named_function(x)


def with_a_local_list(x):
    def function(row):
        parts = []
        for i in range(3):
            parts.append(row * i)
        return torch.stack(parts)

    return vmap(function)(x)


def gradient(x):
    return grad(lambda a: a.sin().sum())(x)


def gradient_of_two(x):
    return grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, x * 2)


def gradient_with_more(x):
    return grad(lambda a: (a.sin().sum(), a * 2), has_aux=True)(x)


def gradient_and_value(x):
    return grad_and_value(lambda a: a.sin().sum())(x)


def second_gradient(x):
    return grad(lambda a: grad(lambda b: b.sin().sum())(a).cos().sum())(x)


def gradient_per_row(x):
    return vmap(grad(lambda a: a.sin().sum()))(x)


def through_closure(x):
    w = x * 3
    return grad(lambda a: (a * w).sin().sum())(x)


def forward_mode(x):
    return jvp(lambda a: a.sin(), (x,), (torch.ones_like(x),))


def reverse_mode(x):
    output, pull_back = vjp(lambda a: a.sin(), x)
    return output, pull_back(torch.ones_like(output)), pull_back(output)


def reverse_mode_after_a_change(x):
    y = x.clone()
    w = y * 2
    output, pull_back = vjp(lambda a: a * w.sin(), y)
    w = w + 1
    return pull_back(output)


def jacobians(x):
    return jacrev(lambda a: a.sin())(x[0]), jacfwd(lambda a: a.sin())(x[0]), hessian(lambda a: a.sin().sum())(x[0])


@pytest.mark.parametrize(
    "function",
    [
        of_rows, of_columns, nested, into_containers, reading_what_stands_outside, with_random_numbers,
        with_the_same_random_numbers, in_chunks, made_before, with_a_local_list, gradient, gradient_of_two,
        gradient_with_more, gradient_and_value, second_gradient, gradient_per_row, through_closure, forward_mode,
        reverse_mode, reverse_mode_after_a_change, jacobians,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_a_transform_is_part_of_the_graph(function):
    assert_captured(function, matrix)


@pytest.mark.parametrize("function", [of_rows, nested, gradient, second_gradient, gradient_per_row, reverse_mode])
def test_the_native_backend_computes_the_same(function):
    assert_captured(function, matrix, backend="native")


@pytest.mark.parametrize("function", [of_rows, through_closure, gradient_per_row, forward_mode, reverse_mode])
def test_gradients_flow_through_a_transform(function):
    assert_captured(function, leaf)


MODEL = nn.Linear(4, 4)
MODELS = [nn.Linear(4, 4) for _ in range(3)]


def with_other_parameters(x):
    return functional_call(MODEL, {"weight": x * 2, "bias": x[0]}, (x,))


def gradient_of_parameters(x):
    parameters = {k: v.detach() for k, v in MODEL.named_parameters()}
    return grad(lambda p: functional_call(MODEL, p, (x,)).pow(2).sum())(parameters)


def gradients_per_sample(x):
    def loss(parameters, row):
        return functional_call(MODEL, parameters, (row.unsqueeze(0),)).pow(2).sum()

    parameters = {k: v.detach() for k, v in MODEL.named_parameters()}
    return vmap(grad(loss), in_dims=(None, 0))(parameters, x)


PARAMETERS, BUFFERS = stack_module_state(MODELS)


def ensemble(x):
    return vmap(lambda p, b, x: functional_call(MODEL, (p, b), (x,)), (0, 0, None))(PARAMETERS, BUFFERS, x)


@pytest.mark.parametrize(
    "function",
    [with_other_parameters, gradient_of_parameters, gradients_per_sample, ensemble],
    ids=lambda f: f.__name__,
)
def test_modules_are_called_with_other_parameters(function):
    before = MODEL.weight
    assert_captured(function, matrix)
    assert MODEL.weight is before


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4, bias=False)
        self.b = nn.Linear(4, 4, bias=False)
        self.b.weight = self.a.weight

    def forward(self, x):
        return self.b(self.a(x))


TIED = Tied()


def test_shared_parameters_are_replaced_together():
    assert_captured(lambda x: functional_call(TIED, {"a.weight": x}, (x,)), matrix)


SEEN = []


def with_an_effect(x):
    def function(row):
        SEEN.append(1)
        return row * 2

    return vmap(function)(x), len(SEEN)


def test_a_function_with_effects_is_left_to_the_interpreter():
    def observed(x):
        SEEN.clear()
        return with_an_effect(x)

    assert_breaks(observed, "effect-in-body", matrix)


def with_an_outer_list(x):
    seen = []
    result = vmap(lambda row: (seen.append(1), row * 2)[1])(x)
    return result, len(seen)


def with_an_outer_iterator(x):
    factors = iter([1, 2, 3])
    result = vmap(lambda row: row * next(factors))(x)
    return result, next(factors)


def with_an_outer_variable(x):
    n = 0

    def function(row):
        nonlocal n
        n += 1
        return row * 2

    return vmap(function)(x), n


@pytest.mark.parametrize("function", [with_an_outer_list, with_an_outer_iterator, with_an_outer_variable])
def test_changes_of_what_is_older_than_the_call_are_effects(function):
    assert_breaks(function, "effect-in-body", matrix)


def test_the_pull_back_function_can_leave():
    def function(x):
        output, pull_back = vjp(lambda a: a.sin(), x * 2)
        return pull_back, output + 1

    compiled = segue.compile(function, backend="eager")
    x = matrix()
    pull_back, output = compiled(x)
    expected_function, expected = function(x)
    assert torch.equal(output, expected)
    assert torch.equal(pull_back(output)[0], expected_function(output)[0])


def test_random_numbers_where_none_are_allowed_raise_as_in_eager():
    def function(x):
        return vmap(lambda a: a + torch.randn_like(a))(x)

    with pytest.raises(RuntimeError, match="randomness error mode"):
        segue.compile(function, backend="eager")(matrix())


def test_writing_a_mapped_input_is_seen_outside():
    assert_captured(lambda x: (vmap(lambda row: row.add_(1))(x), x), matrix)


def test_a_function_called_inside_an_interpreted_transform_is_interpreted():
    def inner(row, w):
        return (row * w).sin().sum()

    def function(x):
        w = x * 3

        def step(row):
            segue.graph_break()
            return inner(row, w[0])

        return vmap(grad(step))(x), inner(x, w)

    compiled = segue.compile(function, backend=Graphs())
    for _ in range(3):
        x = matrix()
        for got, expected in zip(compiled(x), function(x), strict=True):
            assert torch.equal(got, expected)
    assert not compiled.compiler.log.of_kind("failure")
