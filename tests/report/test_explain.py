"""`explain`: the graphs, the breaks with their places, and how much of the work they cover."""

import inspect

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import segue
from segue import errors
from tests.graphs import Graphs

X = torch.arange(4.0)


def line_of(function, text: str) -> int:
    """The number of the line of a function that has this text."""
    lines, first = inspect.getsourcelines(function)
    return next(first + i for i, line in enumerate(lines) if text in line)


def broken(x: Tensor) -> Tensor:
    x = torch.sin(x) + 1
    segue.graph_break()
    return x * 2


def test_a_function_with_one_break() -> None:
    explanation = segue.explain(broken)(X)
    assert torch.equal(explanation.result, broken(X))
    assert explanation.graph_count == 2 and explanation.break_count == 1
    assert [g.n_operations for g in explanation.graphs] == [2, 1]
    assert [g.runs for g in explanation.graphs] == [1, 1]
    assert (explanation.skips, explanation.recompiles, explanation.failures) == ([], [], [])


def test_a_break_is_told_with_place_reason_and_hint() -> None:
    (event,) = segue.explain(broken)(X).breaks
    assert (event.file, event.line) == (__file__, line_of(broken, "graph_break()"))
    assert event.place.function == "broken"
    assert event.place.source() == "segue.graph_break()"
    assert event.place.column == 4
    assert event.id == "requested" and event.reason and event.hint


def test_a_break_in_a_callee_has_the_users_stack() -> None:
    def helper(x: Tensor) -> Tensor:
        segue.graph_break()
        return x + 1

    def caller(x: Tensor) -> Tensor:
        return helper(x * 2)

    event = segue.explain(caller)(X).breaks[0]
    assert [p.function.rpartition(".")[2] for p in event.stack] == ["caller", "helper"]
    assert event.line == line_of(helper, "graph_break(")


def test_graphs_hold_what_the_backend_got() -> None:
    graphs = Graphs()
    explanation = segue.explain(broken, backend=graphs)(X)
    assert [g.module for g in explanation.graphs] == graphs.modules
    assert graphs.runs == 2


def test_coverage_is_1_when_everything_ran_in_graphs() -> None:
    explanation = segue.explain(broken)(X)
    assert (explanation.operations_inside, explanation.operations_outside) == (3, 0)
    assert explanation.coverage == 1.0


def test_coverage_counts_what_ran_outside_and_where() -> None:
    @segue.disable
    def outside(x: Tensor) -> Tensor:
        return torch.cos(x) + torch.sin(x)

    def f(x: Tensor) -> Tensor:
        for _ in range(3):
            x = outside(x * 2)
        return x

    explanation = segue.explain(f)(X)
    assert torch.equal(explanation.result, f(X))
    assert (explanation.operations_inside, explanation.operations_outside) == (3, 9)
    assert explanation.coverage == 0.25
    assert {o.operation.strip("_") for o in explanation.outside} == {"cos", "sin", "add"}
    assert {(o.file, o.line, o.times) for o in explanation.outside} == {(__file__, line_of(outside, "torch.cos"), 3)}


def test_coverage_of_a_function_without_tensor_work_is_1() -> None:
    explanation = segue.explain(lambda n: n + 1)(2)
    assert explanation.result == 3 and explanation.coverage == 1.0


def test_nothing_is_compiled_under_force_eager_and_coverage_says_so() -> None:
    with segue.set_stance("force_eager"):
        explanation = segue.explain(broken)(X)
    assert (explanation.graph_count, explanation.coverage) == (0, 0.0)
    assert explanation.operations_outside == 3


def test_looking_at_a_tensor_is_no_operation() -> None:
    @segue.disable
    def look(x: Tensor) -> tuple:
        return x.shape, x.dtype, x.requires_grad, x.tolist(), repr(x), x[0].item()

    def f(x: Tensor) -> Tensor:
        look(x)
        return x + 1

    explanation = segue.explain(f)(X)
    assert [o.operation.strip("_") for o in explanation.outside] == ["getitem"]


def test_a_training_step() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> float:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    before = model[0].weight.clone()
    explanation = segue.explain(step)(X)
    assert isinstance(explanation.result, float)
    assert not torch.equal(model[0].weight, before)
    assert explanation.operations_inside >= 5


def test_modules_methods_and_compiled_functions() -> None:
    layer = nn.Linear(4, 4)
    assert segue.explain(layer)(X).operations_inside == 1
    assert segue.explain(layer.forward)(X).operations_inside == 1
    assert segue.explain(segue.compile(layer))(X).operations_inside == 1
    compiled = segue.compile(broken)
    compiled(X)
    assert segue.explain(compiled)(X).graph_count == 2


def declining(gm, example_inputs):
    """A backend that does not compile graphs with more than one operation."""
    if sum(n.op.startswith("call") for n in gm.graph.nodes) > 1:
        raise errors.GraphDeclined("too-long", "it has [more] than one operation")
    return gm.forward


def test_graphs_that_the_backend_declines_are_run_counted_and_told_apart() -> None:
    explanation = segue.explain(broken, backend=declining)(X)
    assert torch.equal(explanation.result, broken(X))
    assert [(g.declined is None, g.n_operations, g.runs) for g in explanation.graphs] == [(False, 2, 1), (True, 1, 1)]
    (graph,) = explanation.declined
    assert (graph.declined.id, graph.declined.reason) == ("too-long", "it has [more] than one operation")
    assert graph.declined.line == graph.place.line
    assert explanation.coverage == 1.0


def test_a_graph_that_needs_gradients_is_declined_by_the_native_backend() -> None:
    explanation = segue.explain(broken, backend="native")(X.clone().requires_grad_())
    assert [g.declined.id for g in explanation.graphs] == ["gradients", "gradients"]
    assert explanation.result.requires_grad
    assert segue.explain(broken, backend="native")(X).declined == []


def test_a_generator_function_is_listed_as_skipped() -> None:
    def numbers(x: Tensor):
        yield x + 1

    explanation = segue.explain(lambda x: list(numbers(x)))(X)
    assert torch.equal(explanation.result[0], X + 1)
    (skip,) = segue.explain(numbers)(X).skips
    assert "is a generator function" in skip.reason


def test_a_skipped_function_is_listed() -> None:
    def f(x: Tensor) -> Tensor:
        segue.skip_frame()
        return x + 1

    explanation = segue.explain(f)(X)
    (skip,) = explanation.skips
    assert skip.id == "skip-frame" and skip.line == line_of(f, "skip_frame()")
    assert explanation.coverage == 0.0


def test_recompiles_are_listed_with_the_guard_that_failed() -> None:
    def inner(x: Tensor) -> Tensor:
        return x * 2

    @segue.disable(recursive=False)
    def each(xs: list[Tensor]) -> None:
        for x in xs:
            inner(x)

    explanation = segue.explain(each)([torch.ones(2), torch.ones(3)])
    (recompile,) = explanation.recompiles
    assert "(2,)" in recompile.reason and recompile.place.function.endswith("inner")


def test_the_users_exception_is_raised() -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        raise LookupError(y.sum().item())

    with pytest.raises(LookupError, match="10"):
        segue.explain(f)(X)


def test_fullgraph_raises_at_the_break() -> None:
    with pytest.raises(errors.GraphBreakError):
        segue.explain(broken, fullgraph=True)(X)


def test_a_mode_of_the_users_own_is_applied_once() -> None:
    class Double(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.sin else out

    def f(x: Tensor) -> Tensor:
        return torch.sin(x) + 1

    with Double():
        explanation = segue.explain(f)(X)
    assert torch.equal(explanation.result, torch.sin(X) * 2 + 1)


def test_explaining_leaves_no_trace() -> None:
    depth = torch._C._len_torch_function_stack()
    segue.explain(broken)(X)
    graphs = Graphs()
    compiled = segue.compile(broken, backend=graphs)
    compiled(X)
    assert torch._C._len_torch_function_stack() == depth
    assert graphs.runs == 2


def test_reset_during_an_explained_call() -> None:
    def f(x: Tensor) -> Tensor:
        x = x + 1
        segue.reset()
        return x * 2

    explanation = segue.explain(f)(X)
    assert torch.equal(explanation.result, f(X))
    assert explanation.operations_inside == 2


# --- what is printed ------------------------------------------------------------------------------


def test_the_table_names_everything() -> None:
    @segue.disable
    def outside(x: Tensor) -> Tensor:
        return torch.cos(x)

    def f(x: Tensor) -> Tensor:
        x = broken(x)
        return outside(x) + 1

    text = str(segue.explain(f)(X))
    for title in ("Graphs", "Graph breaks", "Tensor operations outside graphs"):
        assert title in text.splitlines()
    assert "Recompiles" not in text and "Skipped functions" not in text
    assert f"test_explain.py:{line_of(broken, 'graph_break()')} in broken" in text
    assert "segue.graph_break()" in text and "[requested]" in text
    assert "cos" in text
    assert text.splitlines()[-1].endswith("tensor operations ran inside graphs")
    assert max(map(len, text.splitlines())) <= 110


def test_a_reason_to_decline_is_printed_once_with_the_first_places() -> None:
    def f(x: Tensor) -> Tensor:
        x = x.sin() + 1
        segue.graph_break()
        x = x.cos() + 1
        segue.graph_break()
        x = x.tan() + 1
        segue.graph_break()
        x = x.exp() + 1
        segue.graph_break()
        return x + 1

    text = str(segue.explain(f, backend=declining)(X))
    title = next(line for line in text.splitlines() if line.startswith("Graphs that the backend did not compile"))
    assert text.index("Graphs") < text.index(title) < text.index("Graph breaks")
    assert text.count("it has [more] than one operation [too-long]") == 1
    assert "and 1 other place " in text
    assert text.splitlines()[-1].startswith("5 graphs (4 not compiled), 4 breaks; ")
    assert "not compile" not in str(segue.explain(f, backend="eager")(X))


def test_brackets_in_source_lines_are_shown_as_they_are() -> None:
    def f(names: dict, x: Tensor) -> Tensor:
        segue.graph_break(names["[bold]"])
        return x + 1

    assert 'graph_break(names["[bold]"]' in str(segue.explain(f)({"[bold]": ""}, X))


def test_the_short_form() -> None:
    explanation = segue.explain(broken)(X)
    assert repr(explanation) == "<Explanation: 2 graphs, 1 break; coverage 100.0%>"


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: segue.explain(3)(), TypeError, "or another callable, not 3 (int)"),
        (lambda: segue.explain(nn.Linear), TypeError, "not the class Linear"),
        (lambda: segue.explain(broken, fulgraph=True), TypeError, "did you mean 'fullgraph'?"),
        (lambda: segue.explain(broken, backend="egaer"), ValueError, "did you mean 'eager'?"),
    ],
)
def test_a_wrong_call_is_explained(call, error, says) -> None:
    with pytest.raises(error) as refused:
        call()
    assert says in str(refused.value)
