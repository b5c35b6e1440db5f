"""`logging`: every call emits its records, from the line that logs, with no break where nobody could tell."""

import io
import logging

import pytest
import torch

import segue
from tests.graphs import Graphs

FORMAT = "%(levelname)s %(name)s %(filename)s:%(lineno)d %(funcName)s %(message)s"


@pytest.fixture
def logger():
    """A logger that writes to a stream, which is its attribute `text`."""
    made = logging.Logger("records")  # not one of the manager's, to which pytest adds handlers
    made.text = io.StringIO()
    handler = logging.StreamHandler(made.text)
    handler.setFormatter(logging.Formatter(FORMAT))
    made.handlers = [handler]
    made.setLevel(logging.INFO)
    return made


def logged(logger, function, *args):
    logger.text.seek(0)
    logger.text.truncate()
    result = function(*args)
    return result.tolist(), logger.text.getvalue()


def compare(logger, function, n_calls=3):
    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    for number in range(n_calls):
        x = torch.full((3,), float(number))
        assert logged(logger, compiled, x) == logged(logger, function, x)
    return graphs.count, [event.id for event in compiled.compiler.log.of_kind("break", "skip", "failure")]


def test_records_are_emitted_at_every_call(logger):
    def function(x):
        y = x + 1
        logger.info("shape %s at %d", tuple(y.shape), 3)
        logger.debug("below the level")

        def inner():
            logger.warning("sum %s, %.2f", y.sum(), y.mean(), stacklevel=2)

        inner()
        logger.log(logging.ERROR, "end", extra={"run": 1})
        return y * 2

    assert compare(logger, function) == (1, [])


def test_levels_are_guarded(logger):
    def function(x):
        if logger.isEnabledFor(logging.DEBUG):
            x = x * 10
        logger.debug("detail")
        return x + 1

    compiled = segue.compile(function, backend=Graphs())
    for level in (logging.INFO, logging.DEBUG, logging.INFO, logging.CRITICAL):
        logger.setLevel(level)
        assert logged(logger, compiled, torch.ones(2)) == logged(logger, function, torch.ones(2))
    logger.setLevel(logging.DEBUG)
    logger.disabled = True
    try:
        assert logged(logger, compiled, torch.ones(2)) == ([2.0, 2.0], "")
    finally:
        logger.disabled = False


def test_a_level_that_the_function_sets(logger):
    def function(x):
        logger.setLevel(logging.DEBUG)
        logger.debug("seen")
        logger.setLevel(logging.INFO)
        logger.debug("unseen")
        return x + 1

    compare(logger, function)


class Collecting(logging.Handler):
    """A handler of the program's own."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append((record.getMessage(), record.lineno, record.funcName))


class Counting(Collecting):
    def emit(self, record):
        self.count = getattr(self, "count", 0) + 1
        super().emit(record)


@pytest.mark.parametrize("kind", [Collecting, Counting])
def test_handlers_of_the_program(logger, kind):
    def function(x):
        y = x + 1
        logger.info("value %s", y.sum())
        return y * len(logger.handlers[0].messages)

    seen = []
    compiled = segue.compile(function, backend=Graphs())
    for call in (function, compiled):
        logger.handlers = [kind()]
        results = [call(torch.ones(2)).tolist() for _ in range(3)]
        seen.append((results, logger.handlers[0].messages, getattr(logger.handlers[0], "count", None)))
    assert seen[0] == seen[1]


def test_filters_and_adapters(logger):
    class OnlyEven(logging.Filter):
        def filter(self, record):
            return record.args[0] % 2 == 0

    adapter = logging.LoggerAdapter(logger, {"run": 1})

    def function(x):
        for k in range(3):
            adapter.info("step %d", k)
        return x + 1

    logger.handlers[0].addFilter(OnlyEven())
    compare(logger, function)


def test_a_traceback_is_logged_by_the_interpreter(logger):
    def function(x):
        try:
            raise ValueError("bad")
        except ValueError:
            logger.exception("failed")
        return x + 1

    logger.handlers[0].setFormatter(logging.Formatter("%(message)s"))
    _, breaks = compare(logger, function)
    assert "side-effect-call" in breaks


def test_a_message_that_does_not_fit(logger, monkeypatch):
    def function(x):
        logger.info("%d", "text")
        return x + 1

    problems = []
    monkeypatch.setattr(logging.StreamHandler, "handleError", lambda self, record: problems.append(record.msg))
    compiled = segue.compile(function, backend=Graphs())
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert problems[0] == "%d"
