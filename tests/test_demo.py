"""`python -m segue demo` shows that compiled training equals plain training."""

import pytest

from segue import __main__ as program


def test_the_demo(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    assert program.main(["demo", "--epochs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "23 losses and the accuracy" in shown and "equal to the last bit" in shown
    assert "batch 3 is skipped" in shown
    for title in (
        "Graph breaks",
        "Tensor operations outside graphs",
        "torch.compile",
        "segue.compile",
    ):
        assert title in shown


def test_without_the_source_tree_it_says_what_is_missing(capsys, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(program, "SCRIPT", tmp_path / "digits.py")
    assert program.main(["demo"]) == 2
    assert "digits.py of Segue's source tree" in capsys.readouterr().err


def test_an_unknown_command_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        program.main(["dmeo"])
    assert "invalid choice: 'dmeo'" in capsys.readouterr().err
