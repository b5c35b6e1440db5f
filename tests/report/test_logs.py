"""Log messages: what is asked for is logged, and nothing else."""

import logging

import pytest
import torch
from torch import Tensor

import segue
from segue import config

X = torch.arange(4.0)


def broken(x: Tensor) -> Tensor:
    x = torch.sin(x) + 1
    segue.graph_break()
    return x * 2


def without_handlers(monkeypatch) -> None:
    """Be a program that has set up no logging: pytest has, for the time of the test's body."""
    monkeypatch.setattr(logging.root, "handlers", [])


def test_nothing_is_logged_by_default(monkeypatch, capsys) -> None:
    without_handlers(monkeypatch)
    segue.compile(broken)(X)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("topic", "says", "unlike"),
    [
        ("breaks", "[segue] break: graph_break() was called [requested]", "graph: "),
        ("graph", "[segue] graph: 2 operations [graph]", "break: "),
        ("segments", "[segue] segment of broken at ", "break: "),
    ],
)
def test_a_topic_goes_to_standard_error(monkeypatch, capsys, topic, says, unlike) -> None:
    without_handlers(monkeypatch)
    with config.patch(log=topic):
        segue.compile(broken)(X)
    err = capsys.readouterr().err
    assert says in err and unlike not in err


def test_a_program_with_its_own_logging_gets_the_records_and_nothing_is_printed(capsys, caplog) -> None:
    with config.patch(log="recompiles"), caplog.at_level(logging.INFO, logger="segue"):
        compiled = segue.compile(broken)
        compiled(X)
        compiled(torch.ones(7))
    assert [r.message.split(":")[0] for r in caplog.records] == ["recompile"] * 2
    assert capsys.readouterr().err == ""


def test_several_topics(monkeypatch, capsys) -> None:
    without_handlers(monkeypatch)
    with config.patch(log="graph, breaks"):
        segue.compile(broken)(X)
    err = capsys.readouterr().err
    assert err.count("[segue] graph: ") == 2 and err.count("[segue] break: ") == 1
