"""The public functions: what can be compiled, what the options do, and what is refused."""

import asyncio
import doctest
import functools
import inspect
import pickle
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

import segue
from segue import errors
from tests.graphs import Graphs

X = torch.arange(4.0)


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()


def scaled(x: Tensor, factor: float = 2.0, *, shift: float = 0.0) -> Tensor:
    """Scale and shift."""
    return torch.sin(x) * factor + shift


@segue.compile
def decorated(x: Tensor) -> Tensor:
    return x + 1


class Model:
    """Something with methods of every kind."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor

    def method(self, x: Tensor) -> Tensor:
        return x + self.factor

    @segue.compile
    def compiled_method(self, x: Tensor) -> Tensor:
        return x - self.factor

    @segue.compile
    @classmethod
    def of_class(cls, x: Tensor) -> Tensor:
        return x * len(cls.__name__)

    @segue.compile(fullgraph=True)
    @staticmethod
    def static(x: Tensor) -> Tensor:
        return x * 3


# --- what can be compiled -------------------------------------------------------------------------


def test_a_function(graphs) -> None:
    compiled = segue.compile(scaled, backend=graphs)
    assert torch.equal(compiled(X), scaled(X))
    assert torch.equal(compiled(X, 3.0, shift=1.0), scaled(X, 3.0, shift=1.0))
    assert graphs.count == 2 and graphs.runs == 2
    assert graphs.operations[:2] == ["sin", "mul"]


def test_a_compiled_function_looks_like_the_function() -> None:
    compiled = segue.compile(scaled)
    assert (compiled.__name__, compiled.__doc__) == ("scaled", "Scale and shift.")
    assert compiled.__module__ == __name__ and compiled.__wrapped__ is scaled
    assert inspect.signature(compiled) == inspect.signature(scaled)


def test_a_decorator_bare_and_with_options(graphs) -> None:
    @segue.compile
    def bare(x: Tensor) -> Tensor:
        return x + 1

    @segue.compile(backend=graphs, fullgraph=True)
    def with_options(x: Tensor) -> Tensor:
        return x + 2

    assert torch.equal(bare(X), X + 1) and torch.equal(with_options(X), X + 2)
    assert graphs.count == 1


def test_a_lambda_and_a_closure(graphs) -> None:
    def make(n: int):
        return lambda x: x + n

    assert torch.equal(segue.compile(make(3), backend=graphs)(X), X + 3)
    assert graphs.count == 1


def test_a_decorated_function_pickles_by_name() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_a_bound_method_keeps_its_object(graphs) -> None:
    model = Model(5.0)
    compiled = segue.compile(model.method, backend=graphs)
    assert torch.equal(compiled(X), X + 5)
    model.factor = 6.0
    assert torch.equal(compiled(X), X + 6)
    assert graphs.runs == 2 and compiled.__self__ is model


def test_methods_of_every_kind_in_a_class() -> None:
    assert torch.equal(Model(5.0).compiled_method(X), X - 5)
    assert torch.equal(Model.compiled_method(Model(5.0), X), X - 5)
    assert torch.equal(Model.of_class(X), X * 5) and torch.equal(Model(1.0).of_class(X), X * 5)
    assert torch.equal(Model.static(X), X * 3) and torch.equal(Model(1.0).static(X), X * 3)


def test_a_bound_method_that_is_compiled_already(graphs) -> None:
    compiled = segue.compile(Model(5.0).compiled_method, backend=graphs)
    assert torch.equal(compiled(X), X - 5)
    assert graphs.runs == 1


def test_an_object_with_call(graphs) -> None:
    model = Model(5.0)
    compiled = segue.compile(model, backend=graphs)
    assert torch.equal(compiled(X), X * 5) and torch.equal(compiled(x=X), X * 5)
    assert graphs.runs == 2


def test_a_partial_stays_a_partial(graphs) -> None:
    partial = functools.partial(scaled, factor=3.0)
    compiled = segue.compile(partial, backend=graphs)
    assert torch.equal(compiled(X), partial(X))
    assert torch.equal(compiled(X, factor=4.0), partial(X, factor=4.0))
    assert isinstance(compiled, functools.partial) and compiled.keywords == {"factor": 3.0}
    assert graphs.runs == 2


def test_a_function_of_pytorch_is_a_graph_of_one_operation(graphs) -> None:
    compiled = segue.compile(torch.sin, backend=graphs, fullgraph=True)
    assert torch.equal(compiled(X), torch.sin(X))
    assert graphs.operations == ["sin"]
    assert compiled.__name__ == "sin"


@pytest.mark.parametrize("function", [torch.nn.functional.relu, torch.ops.aten.relu])
def test_a_function_of_pytorch_in_python_is_captured_too(graphs, function) -> None:
    compiled = segue.compile(function, backend=graphs, fullgraph=True)
    assert torch.equal(compiled(X - 1), function(X - 1))
    assert graphs.operations == ["relu"]


def test_a_builtin_without_tensor_work_just_runs(graphs) -> None:
    assert segue.compile(len, backend=graphs)([1, 2]) == 2
    assert segue.compile("-".join, backend=graphs)(["a", "b"]) == "a-b"
    assert torch.equal(segue.compile(X.add, backend=graphs)(1), X + 1)
    with pytest.raises(TypeError, match=r"object of type 'int' has no len\(\)"):
        segue.compile(len)(3)


def test_a_class_is_changed_in_place(graphs) -> None:
    @segue.compile(backend=graphs)
    @dataclass
    class Shift:
        by: float

        def __call__(self, x: Tensor) -> Tensor:
            return x + self.by

    assert isinstance(Shift, type)
    assert torch.equal(Shift(3.0)(X), X + 3) and Shift(3.0) == Shift(3.0)
    assert graphs.count == 1


def test_a_class_of_modules_is_changed_in_place(graphs) -> None:
    @segue.compile(backend=graphs)
    class Net(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 2

    assert torch.equal(Net()(X), X * 2)
    assert graphs.count == 1
    assert torch.equal(segue.compile(Net(), backend=graphs)(X), X * 2)
    assert graphs.count == 2


def test_something_compiled_is_compiled_anew_with_the_options_given(graphs) -> None:
    first, second = Graphs(), graphs
    once = segue.compile(scaled, backend=first)
    twice = segue.compile(once, backend=second)
    assert torch.equal(twice(X), scaled(X))
    assert (first.count, second.count) == (0, 1) and twice.__wrapped__ is scaled


def test_something_compiled_by_torch_is_compiled_by_segue(graphs) -> None:
    compiled = segue.compile(torch.compile(scaled, backend="eager"), backend=graphs)
    assert torch.equal(compiled(X), scaled(X))
    assert graphs.count == 1


def test_something_disabled_stays_disabled(graphs) -> None:
    for disable in (segue.disable, torch.compiler.disable):
        compiled = segue.compile(disable(scaled), backend=graphs)
        assert torch.equal(compiled(X), scaled(X))
    assert graphs.count == 0


def test_disable_true_compiles_nothing() -> None:
    assert segue.compile(scaled, disable=True) is scaled
    assert segue.compile(disable=True)(scaled) is scaled


def test_a_generator_function_runs_in_the_interpreter_and_that_is_reported() -> None:
    def counting(x: Tensor):
        yield x + 1
        yield x + 2

    compiled = segue.compile(counting)
    assert [t.tolist() for t in compiled(X)] == [t.tolist() for t in counting(X)]
    (event,) = compiled.compiler.log.of_kind("skip")
    assert event.id == "generator" and "counting is a generator function" in event.reason
    assert (event.file, event.line) == (__file__, counting.__code__.co_firstlineno)
    with pytest.raises(errors.GraphBreakError, match="counting is a generator function"):
        segue.compile(counting, fullgraph=True)


def test_a_coroutine_function_runs_in_the_interpreter() -> None:
    async def serve(x: Tensor) -> Tensor:
        await asyncio.sleep(0)
        return x + 1

    compiled = segue.compile(serve)
    assert torch.equal(asyncio.run(compiled(X)), X + 1)
    assert [e.kind for e in compiled.compiler.log.events] == ["skip"]


# --- what is refused ------------------------------------------------------------------------------


class NotCallable:
    pass


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            {"model": 3},
            TypeError,
            "takes a function, a method, an nn.Module or another callable, not 3 (int)",
        ),
        ({"model": X}, TypeError, "or another callable, not tensor("),
        ({"model": property(scaled)}, TypeError, "(property)"),
        (
            {"model": NotCallable},
            TypeError,
            "instances of the class have no __call__ written in Python",
        ),
        ({"model": int}, TypeError, "segue.compile(int)"),
        (
            {"fulgraph": True},
            TypeError,
            "compile() has no argument 'fulgraph'; did you mean 'fullgraph'?",
        ),
        (
            {"colour": True},
            TypeError,
            "there are: model, fullgraph, dynamic, backend, mode, options, disable",
        ),
        ({"fullgraph": 1}, TypeError, "compile(fullgraph=...) takes True or False, not 1 (int)"),
        (
            {"dynamic": "auto"},
            TypeError,
            "compile(dynamic=...) takes True, False or None, not 'auto' (str)",
        ),
        ({"mode": 3}, TypeError, "compile(mode=...) takes the name of a mode or None, not 3 (int)"),
        ({"mode": "max-autotun"}, ValueError, "did you mean 'max-autotune'?"),
        ({"options": ["a"]}, TypeError, "compile(options=...) takes a dict of settings or None"),
        ({"options": {3: 4}}, TypeError, "a dict whose keys are strings, not 3 (int)"),
        ({"mode": "max-autotune", "options": {"a": 1}}, ValueError, "not both"),
        (
            {"disable": "yes"},
            TypeError,
            "compile(disable=...) takes True or False, not 'yes' (str)",
        ),
        ({"backend": "egaer"}, ValueError, "there is no backend 'egaer'; did you mean 'eager'?"),
        ({"backend": "zzz"}, ValueError, "there is no backend 'zzz'; there are: "),
        (
            {"backend": 3},
            TypeError,
            "takes a name or a callable (graph, example inputs) -> callable, not 3",
        ),
    ],
)
def test_a_wrong_call_of_compile_is_explained(arguments, error, says) -> None:
    with pytest.raises(error) as refused:
        segue.compile(**{"model": scaled, **arguments})
    assert says in str(refused.value)


def test_wrong_options_are_refused_before_the_decorator_is_applied() -> None:
    with pytest.raises(ValueError, match="no backend"):
        segue.compile(backend="nothing")


def test_a_wrong_call_of_the_compiled_function_is_pythons_own_error() -> None:
    with pytest.raises(TypeError) as eager:
        scaled()
    with pytest.raises(TypeError) as compiled:
        segue.compile(scaled)()
    assert str(compiled.value) == str(eager.value)


def test_a_backend_that_fails_is_named() -> None:
    def broken(gm, example_inputs):
        raise RuntimeError("out of registers")

    with pytest.raises(errors.BackendError, match=r"'broken' failed .* out of registers"):
        segue.compile(scaled, backend=broken)(X)


def test_a_backend_that_returns_no_callable_is_named() -> None:
    def useless(gm, example_inputs):
        return 3

    with pytest.raises(errors.BackendError, match="returned 3, which cannot be called"):
        segue.compile(scaled, backend=useless)(X)


# --- reset ----------------------------------------------------------------------------------------


def test_reset_forgets_what_was_compiled(graphs) -> None:
    compiled = segue.compile(scaled, backend=graphs)
    compiled(X)
    compiled(X)
    assert graphs.count == 1
    segue.reset()
    assert torch.equal(compiled(X), scaled(X))
    assert graphs.count == 2


def test_reset_in_the_middle_of_a_call(graphs) -> None:
    def loop(x: Tensor) -> Tensor:
        for _ in range(3):
            x = x + 1
            segue.reset()
            x = x * 2
        return x

    assert torch.equal(segue.compile(loop, backend=graphs)(X), loop(X))


# --- stance ---------------------------------------------------------------------------------------


def test_force_eager_as_context_manager_decorator_and_function(graphs) -> None:
    compiled = segue.compile(scaled, backend=graphs)

    @segue.set_stance("force_eager")
    def eagerly() -> Tensor:
        return compiled(X)

    with segue.set_stance("force_eager"):
        assert torch.equal(compiled(X), scaled(X))
    assert torch.equal(eagerly(), scaled(X))
    segue.set_stance("force_eager")
    assert torch.equal(compiled(X), scaled(X))
    segue.set_stance("default")
    assert graphs.count == 0
    compiled(X)
    assert graphs.count == 1


def test_a_stance_ends_with_an_exception(graphs) -> None:
    with pytest.raises(KeyError), segue.set_stance("force_eager"):
        raise KeyError
    segue.compile(scaled, backend=graphs)(X)
    assert graphs.count == 1


def test_stances_nest() -> None:
    with segue.set_stance("force_eager"):
        with segue.set_stance("default"):
            inner = Graphs()
            segue.compile(scaled, backend=inner)(X)
        outer = Graphs()
        segue.compile(scaled, backend=outer)(X)
    assert (inner.count, outer.count) == (1, 0)


def test_eager_on_recompile_uses_what_there_is(graphs) -> None:
    compiled = segue.compile(scaled, backend=graphs)
    compiled(X)
    with segue.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X), scaled(X))
        assert torch.equal(compiled(torch.ones(7)), scaled(torch.ones(7)))
    assert graphs.count == 1 and graphs.runs == 2
    compiled(torch.ones(7))
    assert graphs.count == 2


def test_fail_on_recompile_names_the_guard(graphs) -> None:
    compiled = segue.compile(scaled, backend=graphs)
    with segue.set_stance("fail_on_recompile"):
        compiled(X)
        compiled(X)
        with pytest.raises(errors.RecompileError) as failed:
            compiled(torch.ones(2, 7))
    assert "fail_on_recompile" in str(failed.value) and "in scaled" in str(failed.value)
    assert isinstance(failed.value, RuntimeError)
    assert torch.equal(compiled(torch.ones(2, 7)), scaled(torch.ones(2, 7)))


@pytest.mark.parametrize(
    ("stance", "error", "says"),
    [
        ("force_eagre", ValueError, "cannot be 'force_eagre'; did you mean 'force_eager'?"),
        (None, TypeError, "set_stance(stance) takes the name of a stance, not None"),
    ],
)
def test_a_wrong_stance_is_explained(stance, error, says) -> None:
    with pytest.raises(error) as refused:
        segue.set_stance(stance)
    assert says in str(refused.value)


# --- is_compiling, allow_in_graph, assume_constant_result -----------------------------------------


def test_is_compiling() -> None:
    def which() -> str:
        return "compiled" if segue.is_compiling() else "eager"

    def f(x: Tensor) -> tuple[str, Tensor]:
        return which(), x + 1

    assert f(X)[0] == "eager"
    assert segue.compile(f)(X)[0] == "compiled"


def test_allow_in_graph_puts_the_call_into_the_graph(graphs) -> None:
    @segue.allow_in_graph
    def opaque(x: Tensor) -> Tensor:
        return torch.sin(x) + torch.cos(x)

    def f(x: Tensor) -> Tensor:
        return opaque(x + 1) * 2

    assert torch.equal(segue.compile(f, backend=graphs, fullgraph=True)(X), f(X))
    assert graphs.operations == ["add", "opaque", "mul"]


def test_allow_in_graph_takes_several() -> None:
    functions = [lambda x: x + 1, lambda x: x + 2]
    assert segue.allow_in_graph(functions) is functions


def test_assume_constant_result_calls_the_function_at_capture_only(graphs) -> None:
    calls = []

    @segue.assume_constant_result
    def size(name: str) -> int:
        calls.append(name)
        return len(name)

    compiled = segue.compile(lambda x: x * size("four"), backend=graphs, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), X * 4)
    assert calls == ["four"]


@pytest.mark.parametrize("mark", [segue.allow_in_graph, segue.assume_constant_result])
def test_what_cannot_be_taken_on_trust_is_explained(mark) -> None:
    with pytest.raises(TypeError, match=f"{mark.__name__} takes a function, not 3"):
        mark(3)
    with pytest.raises(TypeError, match="not the bound method"):
        mark(Model(1.0).method)


# --- marks on sizes -------------------------------------------------------------------------------


def test_marked_tensors_compile_as_others_do(graphs) -> None:
    x = torch.ones(8, 3)
    segue.mark_dynamic(x, 0, min=1, max=64)
    segue.mark_dynamic(x, [0, -1])
    segue.mark_static(x, 1)
    segue.mark_static(x)
    for dynamic in (None, True, False):
        assert torch.equal(segue.compile(scaled, dynamic=dynamic, backend=graphs)(x), scaled(x))
    assert graphs.count == 3


@pytest.mark.parametrize(
    ("mark", "error", "says"),
    [
        (lambda x: segue.mark_dynamic(3, 0), TypeError, "mark_dynamic takes a tensor, not 3 (int)"),
        (
            lambda x: segue.mark_dynamic(x, "0"),
            TypeError,
            "the index of a dimension or several, not '0'",
        ),
        (
            lambda x: segue.mark_dynamic(x, True),
            TypeError,
            "the index of a dimension or several, not True",
        ),
        (
            lambda x: segue.mark_dynamic(x, 2),
            IndexError,
            "a tensor of 2 dimensions has no dimension 2",
        ),
        (
            lambda x: segue.mark_dynamic(x, 0, min="1"),
            TypeError,
            "mark_dynamic(min=...) takes a size or None",
        ),
        (
            lambda x: segue.mark_dynamic(x, 0, max=4),
            ValueError,
            "dimension 0 has size 8, not between 0 and 4",
        ),
        (lambda x: segue.mark_static(3), TypeError, "mark_static takes a tensor, not 3 (int)"),
        (lambda x: segue.mark_static(x, 5), IndexError, "has no dimension 5"),
    ],
)
def test_a_wrong_mark_is_explained(mark, error, says) -> None:
    with pytest.raises(error) as refused:
        mark(torch.ones(8, 3))
    assert says in str(refused.value)


# --- install --------------------------------------------------------------------------------------


@pytest.fixture
def installed():
    before = (torch.compile, torch.compiler.set_stance, torch.compiler.reset)
    segue.install()
    yield
    segue.uninstall()
    assert (torch.compile, torch.compiler.set_stance, torch.compiler.reset) == before


def test_install_makes_torch_compile_segues(installed, graphs) -> None:
    segue.install()
    assert torch.compile is segue.compile

    @torch.compile(backend=graphs, fullgraph=True)
    def f(x: Tensor) -> Tensor:
        return x + 1

    assert torch.equal(f(X), X + 1) and graphs.count == 1
    with torch.compiler.set_stance("force_eager"):
        f(torch.ones(9))
    assert graphs.count == 1
    torch.compiler.reset()
    f(X)
    assert graphs.count == 2


def test_install_covers_modules_compiled_in_place(installed, graphs) -> None:
    layer = torch.nn.Linear(4, 4)
    expected = layer(X)
    layer.compile(backend=graphs)
    assert torch.equal(layer(X), expected) and graphs.count == 1


def test_uninstall_twice() -> None:
    original = torch.compile
    segue.install()
    segue.uninstall()
    segue.uninstall()
    assert torch.compile is original


# --- the whole ------------------------------------------------------------------------------------


def test_every_public_name_is_documented() -> None:
    for name in segue.__all__:
        value = getattr(segue, name)
        assert inspect.getdoc(value), name
        if callable(value):
            assert ">>> " in inspect.getdoc(value), f"{name} has no example"


@pytest.mark.parametrize("name", [n for n in segue.__all__ if n != "errors"])
def test_the_example_of_every_public_name_works(name) -> None:
    for example in doctest.DocTestFinder(recurse=False).find(getattr(segue, name), name, globs={}):
        assert doctest.DocTestRunner().run(example).failed == 0
