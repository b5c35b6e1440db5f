"""Versions of buffers: what is overwritten as a whole has a buffer for each content."""

import torch

from segue.backends.native import versions
from segue.backends.native.ir import Assign, Constant, LoopGraph, Reduce
from segue.graphs.aten import Buffer, View
from tests.backends.native.stages import checked, inlined, renamed, texts


def rand(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(len(sizes)))


def targets(statements):
    return [s.target.buffer.name for s in statements if isinstance(s, (Assign, Reduce))]


def in_place(x):
    y = x.clone()
    y.add_(1)
    y.mul_(3)
    return y * 2


def test_each_content_but_the_last_has_a_buffer_of_its_own():
    assert texts(checked(renamed, in_place, rand(3, 4))) == [
        "for i0<3, i1<4: b1~1[i0*4 + i1] = b0[i0*4 + i1]",
        "for i0<3, i1<4: b1~2[i0*4 + i1] = add(b1~1[i0*4 + i1], 1.0)",
        "for i0<3, i1<4: b1[i0*4 + i1] = mul(b1~2[i0*4 + i1], 3.0)",
        "for i0<3, i1<4: b2[i0*4 + i1] = mul(b1[i0*4 + i1], 2.0)",
    ]


def test_code_in_place_is_put_together_like_other_code():
    def both(graph: LoopGraph) -> LoopGraph:
        return inlined(renamed(graph))

    assert len(checked(both, in_place, rand(3, 4))) == 1


def test_an_input_ends_with_its_last_content():
    def function(x):
        x.add_(1)
        y = x * 2
        x.neg_()
        return y

    names = targets(checked(renamed, function, rand(3, 4)))
    assert names == ["b0~1", "b1", "b0"]


def test_a_partial_write_goes_to_the_current_version():
    def function(x):
        y = x + 1
        y[1:] = 5
        y.mul_(2)
        y[0] = 7
        return y

    names = targets(checked(renamed, function, rand(3, 4)))
    assert names == ["b1~1", "b1~1", "b1", "b1"]


def test_a_view_in_another_order_begins_a_version_too():
    def function(x):
        y = x.clone()
        y.t().add_(1)
        return y * 2

    assert targets(checked(renamed, function, rand(3, 3)))[0] == "b1~1"


def test_what_aten_works_on_keeps_its_buffer():
    def function(x, y):
        z = x + 1
        z.add_(2)
        w = z @ y
        z.mul_(3)
        return w, z

    assert not any("~" in name for name in targets(checked(renamed, function, rand(3, 3), rand(3, 3))))


def test_a_view_that_has_places_twice_is_not_the_whole():
    buffer = Buffer("x", torch.float32, 6)
    overlapping = Assign(View(buffer, (2, 3), (1, 1)), Constant(1.0, torch.float32))
    whole = Assign(View(buffer, (6,), (1,)), Constant(2.0, torch.float32))
    first, second, third = versions.renamed([whole, overlapping, whole])
    assert first.target.buffer is second.target.buffer
    assert second.target.buffer is not third.target.buffer
