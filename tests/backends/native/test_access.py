"""Accesses as affine functions, against an enumeration of all indices."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.backends.native import ir
from segue.backends.native.access import (
    Affine,
    Split,
    index_expr,
    invert,
    is_injective,
    moved,
    permuted,
    split,
    squeezed,
    substitute,
)
from segue.backends.native.ir import Assign, Constant, Index, Load, LoopGraph, Reduce
from segue.graphs.aten import Buffer, View, contiguous_strides
from tests.backends.native.interpreter import evaluate, run


def place(strides, offset, index):
    return offset + sum(i * s for i, s in zip(index, strides, strict=True))


def value(affine, index):
    assert not affine.terms
    return place(affine.coefficients, affine.offset, index)


def indices(sizes):
    return itertools.product(*map(range, sizes))


def access(buffer, tensor):
    return Load(buffer, tensor.stride(), tensor.storage_offset()), tuple(tensor.shape)


def inverse(load, sizes, layout):
    """The affine indices after all splits that are asked for, with the axes that they are over; or None."""
    statement = Assign(View(Buffer("t", torch.int64, math.prod(sizes)), sizes, contiguous_strides(sizes)), load)
    for _ in range(20):
        found = invert(statement.expr, statement.sizes, layout)
        if not isinstance(found, Split):
            return found, statement
        assert statement.sizes[found.axis] % found.inner == 0
        assert 1 < found.inner < statement.sizes[found.axis]
        statement = split(statement, found.axis, found.inner)
    raise AssertionError("it asks for splits without end")


def check_inverse(found, statement, layout):
    for index in indices(statement.sizes):
        at = [value(affine, index) for affine in found]
        assert all(0 <= i < n for i, n in zip(at, layout.sizes, strict=True))
        assert place(layout.strides, layout.offset, at) == place(statement.expr.strides, statement.expr.offset, index)


@st.composite
def layouts(draw):
    """A view whose indices are all different places: axes in any order, with gaps between them."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=0, max_size=4))
    order = draw(st.permutations(range(len(sizes))))
    strides, step = [0] * len(sizes), 1
    for axis in order:
        step *= draw(st.sampled_from((1, 1, 1, 2)))
        strides[axis] = step
        step *= sizes[axis]
    offset = draw(st.sampled_from((0, 0, 3)))
    return View(Buffer("x", torch.int64, offset + max(step, 1)), tuple(sizes), tuple(strides), offset)


def some_view(draw, tensor):
    """A view of a tensor by one operation."""
    axis = draw(st.integers(0, max(tensor.ndim - 1, 0)))
    kind = draw(st.sampled_from("slice select transpose unsqueeze expand unflatten flatten".split()))
    if kind == "unsqueeze" or tensor.ndim == 0:
        return tensor.unsqueeze(0)
    size = tensor.shape[axis]
    if kind == "slice":
        start = draw(st.integers(0, size - 1))
        return tensor.as_subclass(torch.Tensor)[(slice(None),) * axis + (slice(start, None, draw(st.integers(1, 2))),)]
    if kind == "select":
        return tensor.select(axis, draw(st.integers(0, size - 1)))
    if kind == "transpose":
        return tensor.transpose(axis, -1)
    if kind == "expand":
        return tensor.unsqueeze(0).expand(2, *tensor.shape)
    if kind == "unflatten":
        inner = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        return tensor.unflatten(axis, (size // inner, inner))
    try:
        return tensor.view(-1)
    except RuntimeError:
        return tensor


@settings(max_examples=300, deadline=None)
@given(st.data(), layouts())
def test_an_inverse_reads_the_same_place(data, layout):
    memory = torch.arange(layout.buffer.size)
    tensor = torch.as_strided(memory, layout.sizes, layout.strides, layout.offset)
    for _ in range(data.draw(st.integers(0, 4))):
        tensor = some_view(data.draw, tensor)
    load, sizes = access(layout.buffer, tensor)
    found, statement = inverse(load, sizes, layout)
    if found is not None:
        check_inverse(found, statement, layout)


@settings(max_examples=200, deadline=None)
@given(layouts(), layouts())
def test_an_inverse_of_any_access_is_right_or_there_is_none(layout, other):
    load = Load(layout.buffer, other.strides, other.offset)
    found, statement = inverse(load, other.sizes, layout)
    if found is not None:
        check_inverse(found, statement, layout)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.permute(2, 0, 1),
        lambda t: t[1:3],
        lambda t: t[:, ::2],
        lambda t: t[:, 1::2, 3:],
        lambda t: t[2],
        lambda t: t[..., -1],
        lambda t: t[1, :, 2],
        lambda t: t.unsqueeze(1).expand(4, 3, 6, 8),
        lambda t: t.view(24, 8),
        lambda t: t.view(4, 48),
        lambda t: t.view(-1),
        lambda t: t.view(4, 6, 2, 4),
        lambda t: t.view(4, 6, 2, 4).permute(2, 0, 3, 1),
        lambda t: t.transpose(0, 1)[2:].unflatten(2, (4, 2)),
    ],
)
def test_views_of_a_contiguous_layout_have_an_inverse(view):
    layout = View(Buffer("x", torch.int64, 4 * 6 * 8), (4, 6, 8), (48, 8, 1))
    load, sizes = access(layout.buffer, view(torch.arange(4 * 6 * 8).view(4, 6, 8)))
    found, statement = inverse(load, sizes, layout)
    assert found is not None
    check_inverse(found, statement, layout)


def test_a_backward_access_has_an_inverse():
    layout = View(Buffer("x", torch.int64, 12), (3, 4), (4, 1))
    (rows, columns) = invert(Load(layout.buffer, (4, -1), 3), (3, 4), layout)
    assert (rows, columns) == (Affine((1, 0)), Affine((0, -1), 3))


def test_an_axis_that_runs_through_two_is_split_first():
    layout = View(Buffer("x", torch.int64, 12), (3, 4), (4, 1))
    assert invert(Load(layout.buffer, (1,)), (12,), layout) == Split(0, 4)


def test_there_is_no_inverse_between_the_elements_of_a_layout():
    even = View(Buffer("x", torch.int64, 12), (6,), (2,))
    assert invert(Load(even.buffer, (2,), 1), (6,), even) is None
    assert invert(Load(even.buffer, (1,)), (12,), even) is None
    assert invert(Load(even.buffer, (2,), 2), (6,), even) is None


def test_a_computed_index_is_the_whole_of_an_axis():
    layout = View(Buffer("x", torch.int64, 12), (3, 4), (4, 1))
    row = ir.apply("bounded", Load(Buffer("i", torch.int64, 5), (1, 0)), Constant(3, torch.int64))
    rows, columns = invert(Load(layout.buffer, (0, 1), 0, ((row, 4),)), (5, 4), layout)
    assert rows == Affine((0, 0), 0, ((row, 1),))
    assert columns == Affine((0, 1))


def test_a_computed_index_without_a_bound_has_no_inverse():
    layout = View(Buffer("x", torch.int64, 12), (3, 4), (4, 1))
    row = Load(Buffer("i", torch.int64, 5), (1, 0))
    assert invert(Load(layout.buffer, (0, 1), 0, ((row, 4),)), (5, 4), layout) is None


@settings(max_examples=100, deadline=None)
@given(layouts())
def test_layouts_are_injective(layout):
    assert is_injective(layout)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 5)), max_size=3))
def test_an_injective_view_has_no_place_twice(axes):
    view = View(Buffer("x", torch.int64, 100), tuple(n for n, _ in axes), tuple(s for _, s in axes))
    places = [place(view.strides, 0, index) for index in indices(view.sizes)]
    if is_injective(view):
        assert len(set(places)) == len(places)


# --- expressions and statements -----------------------------------------------------------------------------


def expression():
    """buffer[i0, i1 + 1] * 10 + i0, over axes of sizes 3 and 4."""
    load = Load(Buffer("x", torch.int64, 15), (5, 1), 1)
    scaled = ir.apply("mul", load, Constant(10, torch.int64))
    return ir.apply("add", scaled, Index(0))


@pytest.mark.parametrize(
    ("sizes", "axes"),
    [
        ((4, 3), [Affine((0, 1)), Affine((1, 0))]),
        ((2, 2), [Affine((1, 0), 1), Affine((0, 2))]),
        ((3,), [Affine((1,)), Affine((-1,), 3)]),
        ((2, 2, 2), [Affine((0, 0, 0), 2), Affine((0, 2, 1))]),
        ((), [Affine((), 1), Affine((), 2)]),
    ],
)
def test_substituted_indices(sizes, axes):
    def values(expr, sizes):
        return evaluate(expr, sizes, lambda buffer: torch.arange(buffer.size) ** 2).broadcast_to(sizes)

    old = values(expression(), (3, 4))
    new = values(substitute(expression(), axes, len(sizes)), sizes)
    for index in indices(sizes):
        assert new[index] == old[tuple(value(a, index) for a in axes)]


def test_a_substituted_index_that_is_computed():
    chosen = Load(Buffer("i", torch.int64, 2), (1,))
    memory = {"i": torch.tensor([2, 0]), "x": torch.arange(15)}
    new = substitute(expression(), [Affine((0,), 0, ((chosen, 1),)), Affine((1,))], 1)
    got = evaluate(new, (2,), lambda buffer: memory[buffer.name])
    assert got.tolist() == [(5 * 2 + 0 + 1) * 10 + 2, (5 * 0 + 1 + 1) * 10 + 0]


def test_an_affine_function_as_an_expression():
    affine = Affine((2, 0, 1), 3, ((Index(1), 4),))
    got = evaluate(index_expr(affine), (2, 3, 4), lambda buffer: torch.empty(0))
    for index in indices((2, 3, 4)):
        assert got.broadcast_to(2, 3, 4)[index] == 2 * index[0] + index[2] + 3 + 4 * index[1]


def outputs(statement, x):
    source, target = next(iter(ir.loads(statement.expr))).buffer, statement.target.buffer
    (got,) = run(
        LoopGraph([View(source, (source.size,), (1,))], [View(target, (target.size,), (1,))], [statement]), [x]
    )
    return got


@pytest.mark.parametrize(
    "change",
    [
        lambda s: split(s, 0, 2),
        lambda s: split(s, 2, 3),
        lambda s: permuted(s, [2, 0, 1]),
        lambda s: permuted(s, [1, 2, 0]),
        squeezed,
        lambda s: moved(s, [Affine((0, 0, 1)), Affine((0, 1, 0)), Affine((1, 0, 0))], s.sizes[::-1]),
    ],
)
def test_statements_over_other_axes_do_the_same(change):
    x = Buffer("x", torch.int64, 4 * 1 * 6)
    load, memory = Load(x, (6, 6, 1)), torch.arange(24) ** 2 % 17
    assign = Assign(View(Buffer("y", torch.int64, 24), (4, 1, 6), (1, 1, 4)), load)
    reduce = Reduce(View(Buffer("z", torch.int64, 4), (4, 1, 6), (1, 0, 0)), load, "sum", frozenset({1, 2}))
    for statement in (assign, reduce):
        assert outputs(change(statement), memory).tolist() == outputs(statement, memory).tolist()


def test_axes_of_size_one_go():
    x = Buffer("x", torch.int64, 4)
    statement = squeezed(Assign(View(Buffer("y", torch.int64, 4), (1, 4, 1), (4, 1, 1)), Load(x, (4, 1, 1))))
    assert statement.sizes == (4,)
    reduce = squeezed(Reduce(View(Buffer("y", torch.int64, 1), (1, 4), (0, 0)), Load(x, (4, 1)), "sum", frozenset({1})))
    assert (reduce.sizes, reduce.reduced) == ((4,), frozenset({0}))
