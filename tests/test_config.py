"""Settings: assignment, `patch`, environment variables, and what is refused."""

import subprocess
import sys

import pytest

from segue import config


def test_patch_changes_settings_for_a_block() -> None:
    with config.patch(recompile_limit=3, suppress_errors=True):
        assert (config.recompile_limit, config.suppress_errors) == (3, True)
    assert (config.recompile_limit, config.suppress_errors) == (8, False)


def test_patch_puts_settings_back_after_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), config.patch(unroll_limit=1):
        1 / 0  # noqa: B018
    assert config.unroll_limit == 128


def test_patch_decorates_a_function() -> None:
    @config.patch(recompile_limit=2)
    def limit() -> int:
        return config.recompile_limit

    assert (limit(), config.recompile_limit, limit()) == (2, 8, 2)


def test_a_refused_patch_changes_nothing() -> None:
    with pytest.raises(TypeError), config.patch(recompile_limit=2, unroll_limit="many"):
        pass
    assert config.recompile_limit == 8


def test_a_setting_is_assigned_under_its_older_name() -> None:
    try:
        config.cache_size_limit = 5
        assert config.recompile_limit == config.cache_size_limit == 5
    finally:
        config.recompile_limit = 8


@pytest.mark.parametrize(
    ("name", "value", "error", "says"),
    [
        ("recompile_limt", 1, AttributeError, "did you mean 'recompile_limit'?"),
        ("color", "red", AttributeError, "there are: backend, suppress_errors"),
        ("recompile_limit", "8", TypeError, "takes int, not '8' (str)"),
        ("recompile_limit", True, TypeError, "takes int, not True (bool)"),
        ("recompile_limit", -1, ValueError, "cannot be -1"),
        ("suppress_errors", 1, TypeError, "takes bool, not 1 (int)"),
        ("break_at", 3, TypeError, "takes a callable or None"),
        ("log", "brakes", ValueError, "did you mean 'breaks'?"),
        ("log", "noise", ValueError, "breaks, recompiles, graph, segments, loops, llvm, timing, all"),
    ],
)
def test_what_cannot_be_set_is_explained(name, value, error, says) -> None:
    with pytest.raises(error) as refused:
        setattr(config, name, value)
    assert says in str(refused.value)
    if error is AttributeError:
        with pytest.raises(AttributeError):
            getattr(config, name)


def test_all_topics() -> None:
    with config.patch(log="all"):
        assert config.log == "breaks,recompiles,graph,segments,loops,llvm,timing"


def test_settings_are_listed() -> None:
    assert {"recompile_limit", "cache_size_limit", "patch"} <= set(dir(config))


def in_environment(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own with environment variables."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_environment_variables_set_the_defaults() -> None:
    done = in_environment(
        "from segue import config as c; print(c.recompile_limit, c.suppress_errors, c.log)",
        SEGUE_RECOMPILE_LIMIT="3",
        SEGUE_SUPPRESS_ERRORS="yes",
        SEGUE_LOG="breaks, graph",
    )
    assert done.stdout == "3 True breaks,graph\n", done.stderr


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("SEGUE_RECOMPILE_LIMIT", "many", "takes int"),
        ("SEGUE_SUPPRESS_ERRORS", "perhaps", "one of 1, true, yes, on, 0, false, no, off"),
        ("SEGUE_LOG", "brakes", "did you mean 'breaks'?"),
    ],
)
def test_a_wrong_environment_variable_is_explained(variable, text, says) -> None:
    done = in_environment("import segue", **{variable: text})
    assert done.returncode != 0
    assert says in done.stderr.strip().splitlines()[-1]
