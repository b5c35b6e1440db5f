"""Markers in programs: Segue's own, and PyTorch's, which mean the same."""

import pytest
import torch
from torch import Tensor

import segue
from tests.graphs import Graphs

X = torch.arange(4.0)


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()


def breaks(compiled) -> list[str]:
    """The ids of the breaks and skips that a compiled function had."""
    return [e.id for e in compiled.compiler.log.of_kind("break", "skip")]


# --- graph_break and skip_frame -------------------------------------------------------------------


@pytest.mark.parametrize("graph_break", [segue.graph_break, torch._dynamo.graph_break])
def test_graph_break_makes_two_graphs(graphs, graph_break) -> None:
    def f(x: Tensor) -> Tensor:
        x = x + 1
        graph_break()
        return x + 2

    compiled = segue.compile(f, backend=graphs)
    assert torch.equal(compiled(X), f(X))
    assert graphs.count == 2 and breaks(compiled) == ["requested"]


@pytest.mark.parametrize("skip_frame", [segue.skip_frame, torch._dynamo.skip_frame])
def test_skip_frame_leaves_the_function_but_not_what_it_calls(graphs, skip_frame) -> None:
    def helper(x: Tensor) -> Tensor:
        return torch.sin(x)

    def f(x: Tensor) -> Tensor:
        x = helper(x) + 1
        skip_frame()
        return helper(x) + 2

    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        assert torch.equal(compiled(X), f(X))
    assert set(graphs.operations) == {"sin"}
    assert "skip-frame" in breaks(compiled)


def test_markers_do_nothing_eagerly() -> None:
    assert segue.graph_break() is None and segue.skip_frame() is None
    assert segue.graph_break("a text") is None and segue.skip_frame(msg="a text") is None


# --- disable --------------------------------------------------------------------------------------


def inner(x: Tensor) -> Tensor:
    return torch.cos(x)


def outer(x: Tensor) -> Tensor:
    return inner(x) + 1


@pytest.mark.parametrize("disable", [segue.disable, torch.compiler.disable, torch._dynamo.disable])
def test_a_disabled_function_and_all_below_it_stay_out(graphs, disable) -> None:
    disabled = disable(outer)

    def f(x: Tensor) -> Tensor:
        return disabled(torch.sin(x)) * 2

    compiled = segue.compile(f, backend=graphs)
    assert torch.equal(compiled(X), outer(torch.sin(X)) * 2)
    assert graphs.operations == ["sin", "mul"]
    assert breaks(compiled) == ["disabled"]


@pytest.mark.parametrize("disable", [segue.disable, torch.compiler.disable, torch._dynamo.disable])
def test_disabled_without_recursion_compiles_what_it_calls(graphs, disable) -> None:
    def middle(x: Tensor) -> Tensor:
        return inner(x) + 1

    marked = disable(middle, recursive=False)

    def f(x: Tensor) -> Tensor:
        return marked(torch.sin(x)) * 2

    compiled = segue.compile(f, backend=graphs)
    for _ in range(2):
        assert torch.equal(compiled(X), outer(torch.sin(X)) * 2)
    assert graphs.operations == ["sin", "cos", "mul"]


def test_disable_as_decorator_bare_and_with_arguments(graphs) -> None:
    @segue.disable
    def bare(x: Tensor) -> Tensor:
        return x + 1

    @segue.disable(reason="it talks to a server")
    def explained(x: Tensor) -> Tensor:
        """Explained."""
        return x + 2

    @segue.disable(recursive=False)
    def own_frame_only(x: Tensor) -> Tensor:
        return inner(x)

    def f(x: Tensor) -> Tensor:
        return own_frame_only(explained(bare(x)))

    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))
    assert graphs.operations == ["cos"]
    assert explained.__name__ == "explained" and explained.__doc__ == "Explained."


def test_marking_a_function_after_it_was_compiled(graphs) -> None:
    def f(x: Tensor) -> Tensor:
        return inner(x) + 1

    compiled = segue.compile(f, backend=graphs)
    compiled(X)
    assert graphs.operations == ["cos", "add"]
    assert segue.disable(f, recursive=False) is f
    assert torch.equal(compiled(X), f(X))
    assert graphs.operations == ["cos", "add", "cos"]


class Model:
    """Methods of every kind, disabled in the class."""

    factor = 3.0

    @segue.disable
    def method(self, x: Tensor) -> Tensor:
        return x * self.factor

    @segue.disable
    @classmethod
    def of_class(cls, x: Tensor) -> Tensor:
        return x * cls.factor

    @staticmethod
    @segue.disable
    def static(x: Tensor) -> Tensor:
        return x * 3.0

    def plain(self, x: Tensor) -> Tensor:
        return x * self.factor

    @segue.disable(recursive=False)
    def own_frame_only(self, x: Tensor) -> Tensor:
        return inner(x) * self.factor


@pytest.mark.parametrize("name", ["method", "of_class", "static"])
def test_methods_disabled_in_their_class(graphs, name) -> None:
    def f(model: Model, x: Tensor) -> Tensor:
        return getattr(model, name)(x + 1) - 1

    assert torch.equal(segue.compile(f, backend=graphs)(Model(), X), (X + 1) * 3 - 1)
    assert graphs.operations == ["add", "sub"]


def test_a_bound_method_is_disabled_by_itself(graphs) -> None:
    model = Model()
    disabled = segue.disable(model.plain)
    compiled = segue.compile(lambda x: disabled(x) + model.plain(x), backend=graphs)
    assert torch.equal(compiled(X), X * 6)
    assert sorted(graphs.operations) == ["add", "mul"]


def test_a_method_disabled_without_recursion(graphs) -> None:
    model = Model()
    assert torch.equal(segue.compile(model.own_frame_only, backend=graphs)(X), inner(X) * 3)
    assert graphs.operations == ["cos"]


def test_a_disabled_class(graphs) -> None:
    @segue.disable
    class Scale:
        def __init__(self, x: Tensor) -> None:
            self.by = x.sum()

        def __call__(self, x: Tensor) -> Tensor:
            return x * self.by

    def f(x: Tensor) -> Tensor:
        return Scale(x + 1)(x + 2) + 3

    assert isinstance(Scale, type)
    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))
    assert set(graphs.operations) == {"add"}


def test_disabling_a_compiled_function(graphs) -> None:
    disabled = segue.disable(segue.compile(outer, backend=graphs))
    assert torch.equal(disabled(X), outer(X))
    assert graphs.count == 0 and segue.disable(disabled) is disabled


def test_a_compiled_function_inside_a_disabled_one_is_compiled(graphs) -> None:
    compiled = segue.compile(inner, backend=graphs)
    disabled = segue.disable(lambda x: compiled(x) + 1)
    assert torch.equal(disabled(X), outer(X))
    assert graphs.operations == ["cos"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"fn": 3},
            "takes a function, a method, a class, an nn.Module or another callable, not 3 (int)",
        ),
        ({"fn": len, "recursive": False}, "takes a function or method written in Python"),
        ({"fn": Model, "recursive": False}, "takes a function or method written in Python"),
        ({"recursiv": False}, "disable() has no argument 'recursiv'; did you mean 'recursive'?"),
        ({"recursive": 0}, "disable(recursive=...) takes True or False, not 0 (int)"),
        ({"reason": 3}, "disable(reason=...) takes a text, not 3 (int)"),
    ],
)
def test_a_wrong_call_of_disable_is_explained(arguments, says) -> None:
    with pytest.raises(TypeError) as refused:
        segue.disable(**{"fn": outer, **arguments})
    assert says in str(refused.value)


# --- PyTorch's other markers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        segue.is_compiling,
        torch.compiler.is_compiling,
        torch.compiler.is_dynamo_compiling,
        torch._dynamo.is_compiling,
    ],
)
def test_code_learns_that_it_is_being_compiled(graphs, query) -> None:
    def f(x: Tensor) -> Tensor:
        return x + 1 if query() else x - 1

    assert torch.equal(f(X), X - 1)
    assert torch.equal(segue.compile(f, backend=graphs, fullgraph=True)(X), X + 1)


def test_sizes_marked_for_pytorch(graphs) -> None:
    x = torch.ones(8, 3)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.maybe_mark_dynamic(x, 1)
    torch._dynamo.mark_static(x, 1)
    assert torch.equal(segue.compile(outer, backend=graphs, fullgraph=True)(x), outer(x))


@pytest.mark.parametrize(
    "mark",
    [
        lambda x: torch._dynamo.mark_dynamic(x, 0),
        lambda x: segue.mark_dynamic(x, 0),
        lambda x: segue.mark_static(x),
    ],
)
def test_marking_inside_compiled_code_happens_in_the_interpreter(graphs, mark) -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        mark(y)
        return y * 2

    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))
    assert sorted(graphs.operations) == ["add", "mul"]


def test_a_function_allowed_in_the_graph_for_pytorch(graphs) -> None:
    @torch.compiler.allow_in_graph
    def opaque(x: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(x)

    compiled = segue.compile(lambda x: opaque(x) * 2, backend=graphs, fullgraph=True)
    assert torch.equal(compiled(X), opaque(X) * 2)
    assert graphs.operations == ["opaque", "mul"]


def test_a_constant_result_assumed_for_pytorch(graphs) -> None:
    calls = []

    @torch.compiler.assume_constant_result
    def scale() -> int:
        calls.append(1)
        return 3

    compiled = segue.compile(lambda x: x * scale(), backend=graphs, fullgraph=True)
    assert torch.equal(compiled(X), X * 3) and torch.equal(compiled(X), X * 3)
    assert len(calls) == 1


@pytest.mark.parametrize("reset", [torch._dynamo.reset, torch.compiler.reset, segue.reset])
def test_reset_inside_compiled_code_happens_in_the_interpreter(graphs, reset) -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        reset()
        return y * 2

    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))


def test_a_stance_inside_compiled_code_happens_in_the_interpreter(graphs) -> None:
    def f(x: Tensor) -> Tensor:
        with segue.set_stance("force_eager"):
            y = inner(x)
        return y * 2

    for _ in range(2):
        assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))
    assert "cos" not in graphs.operations


def test_pytorchs_stance_inside_compiled_code_is_pytorchs_business(graphs) -> None:
    def f(x: Tensor) -> Tensor:
        with torch.compiler.set_stance("force_eager"):
            y = x + 1
        return y * 2

    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))


def test_compiling_inside_compiled_code(graphs) -> None:
    def f(x: Tensor) -> Tensor:
        twice = segue.compile(lambda t: t * 2, backend="eager")
        return twice(x + 1) - 1

    assert torch.equal(segue.compile(f, backend=graphs)(X), f(X))


def test_code_compiled_by_pytorch_is_part_of_the_graph(graphs) -> None:
    theirs = torch.compile(inner, backend="eager")
    compiled = segue.compile(lambda x: theirs(x) + 1, backend=graphs, fullgraph=True)
    assert torch.equal(compiled(X), outer(X))
    assert graphs.operations == ["cos", "add"]
