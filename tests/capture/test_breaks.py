"""The list of graph breaks in the documentation is the one in the code."""

from pathlib import Path

import pytest
import torch

import segue
from segue.capture.breaks import KINDS, GraphBreak, as_markdown, graph_break


def test_the_documentation_lists_every_kind():
    page = Path(__file__).parents[2] / "docs" / "breaks.md"
    assert page.read_text() == as_markdown()


def test_every_kind_says_what_to_do():
    assert all(kind.reason and kind.explanation and kind.hint for kind in KINDS.values())


def test_a_break_fills_in_its_reason():
    with pytest.raises(GraphBreak, match=r"Tensor\.item\(\) needs the value of a tensor"):
        graph_break("data-dependent-value", operation="Tensor.item()")


def test_a_break_names_its_place():
    @segue.compile
    def halve(x):
        scale = x.sum().item()
        return x / scale

    halve(torch.ones(2))
    (event,) = halve.compiler.log.of_kind("break")
    assert event.id == "data-dependent-value"
    assert event.line == halve.__wrapped__.__code__.co_firstlineno + 2
    assert "x.sum().item()" in event.place.source()
