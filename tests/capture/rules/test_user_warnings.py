"""`warnings`: the same warnings, from the same lines, by the program's filters and the registries of its modules."""

import warnings

import pytest
import torch

import segue
from tests.graphs import Graphs


def seen(function, filters, n_calls=3):
    """What a few calls give and warn of, with the registry of this module as new."""
    globals().pop("__warningregistry__", None)
    found = []
    with warnings.catch_warnings(record=True) as log:
        warnings.resetwarnings()
        for given in filters:
            warnings.simplefilter(*given)
        for number in range(n_calls):
            try:
                found.append(function(torch.full((2,), float(number))).tolist())
            except Warning as error:
                found.append((type(error), str(error)))
    return found, [(w.category, str(w.message), w.filename, w.lineno) for w in log]


def callee(x):
    warnings.warn(f"deprecated for {x.dim()} dimensions", DeprecationWarning, stacklevel=2)
    return x * 2


def plain(x):
    y = x + 1
    warnings.warn("careful")
    warnings.warn(UserWarning("an object"))
    return callee(y)


def of_a_tensor(x):
    y = x + 1
    warnings.warn(f"sum {y.sum()}", RuntimeWarning, stacklevel=1)
    return y


def ignored(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("unseen")
        y = x * 2
    warnings.warn("seen")
    return y


def filtered(x):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="not th", category=UserWarning)
        warnings.warn("not this")
        warnings.warn("but this")
        return x * 2


def turned_into_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("careful")
        except UserWarning as error:
            return x + len(str(error))


FILTERS = [[("always",)], [("default",)], [("once",)], [("ignore",)], [("always",), ("ignore", DeprecationWarning)]]


@pytest.mark.parametrize(
    "function", [plain, of_a_tensor, ignored, filtered, turned_into_errors], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_warnings_are_shown_without_a_break(function, filters):
    graphs = Graphs()
    compiled = segue.compile(function, backend=graphs)
    assert seen(compiled, filters) == seen(function, filters)
    assert compiled.compiler.log.of_kind("break", "skip", "failure") == []
    assert graphs.count == 1


@pytest.mark.parametrize("function", [plain, of_a_tensor, ignored], ids=lambda f: f.__name__)
def test_one_segment_serves_other_filters(function):
    compiled = segue.compile(function, backend=Graphs())
    for filters in (*FILTERS, [("error",)], [("always",)]):
        assert seen(compiled, filters) == seen(function, filters)


@pytest.mark.parametrize("function", [plain, ignored, filtered, turned_into_errors], ids=lambda f: f.__name__)
def test_breaks_between_filters(function):
    with segue.config.patch(break_at=lambda code, index: True):
        compiled = segue.compile(function, backend=Graphs())
        assert seen(compiled, [("always",)]) == seen(function, [("always",)])
