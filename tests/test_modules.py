"""A compiled module is still its class: rows 30 and 31 of the specification."""

import copy
import gc
import inspect
import io
import pickle
import weakref

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import segue
from tests.graphs import Graphs

X = torch.arange(6.0).reshape(2, 3)


class Net(nn.Module):
    """A module with a submodule, a buffer, a plain attribute and a method that calls the module."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("steps", torch.zeros(()))
        self.scale = 2.0
        self.seen: list[type] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(type(self))
        return torch.relu(self.linear(x)) * self.scale

    def generate(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self(x)
        return x


def quiet_backend(gm, example_inputs):
    return gm.forward


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()


@pytest.fixture
def twin(net, graphs) -> Net:
    return segue.compile(net, backend=graphs)


def test_calling_the_compiled_module_runs_a_graph_and_gives_the_same(net, twin, graphs) -> None:
    assert torch.equal(twin(X), net(X))
    assert torch.equal(twin(x=X), net(X))
    assert graphs.count >= 1 and graphs.runs == 2


def test_calling_the_module_itself_compiles_nothing(net, twin, graphs) -> None:
    net(X)
    assert graphs.count == 0


def test_it_is_an_instance_of_its_class(net, twin) -> None:
    assert isinstance(twin, Net) and isinstance(twin, nn.Module)
    assert twin.__class__ is Net
    assert (type(twin).__name__, type(twin).__module__) == ("Net", __name__)
    assert type(twin).__qualname__ == Net.__qualname__
    assert repr(twin) == repr(net)
    assert twin is not net


def test_forward_sees_the_real_class(twin) -> None:
    twin(X)
    assert twin.seen == [Net]


def test_state_dict_keys_are_unchanged(net, twin) -> None:
    assert list(twin.state_dict()) == ["steps", "linear.weight", "linear.bias"]
    assert [n for n, _ in twin.named_parameters()] == [n for n, _ in net.named_parameters()]
    weights = {k: v + 1 for k, v in net.state_dict().items()}
    twin.load_state_dict(weights)
    assert torch.equal(net.linear.weight, weights["linear.weight"])


def test_attributes_read_and_write_through_both_ways(net, twin) -> None:
    twin.scale = 5.0
    net.bias = "added to the module"
    assert net.scale == 5.0 and twin.bias == "added to the module"
    twin.linear = replaced = nn.Linear(3, 3)
    assert net.linear is replaced
    del twin.bias
    assert not hasattr(net, "bias") and not hasattr(twin, "bias")
    assert torch.equal(twin(X), net(X))


def test_an_attribute_changed_later_is_seen(net, twin) -> None:
    twin(X)
    net.scale = 7.0
    assert torch.equal(twin(X), torch.relu(net.linear(X)) * 7.0)


def test_a_missing_attribute_is_reported_as_by_the_module(net, twin) -> None:
    with pytest.raises(AttributeError) as of_module:
        _ = net.nothing
    with pytest.raises(AttributeError) as of_twin:
        _ = twin.nothing
    assert str(of_twin.value) == str(of_module.value)


def test_train_eval_and_to_act_on_the_module(net, twin) -> None:
    assert twin.eval() is twin
    assert not net.training and not net.linear.training
    assert twin.train() is twin and net.linear.training
    assert twin.double() is twin
    assert net.linear.weight.dtype == torch.float64
    assert torch.equal(twin(X.double()), net(X.double()))


def test_a_method_that_calls_the_module_uses_the_compiled_forward(net, twin, graphs) -> None:
    assert torch.equal(twin.generate(X, 3), net.generate(X, 3))
    assert graphs.runs == 3


def test_forward_called_by_name_is_the_plain_method(net, twin, graphs) -> None:
    assert torch.equal(twin.forward(X), net(X))
    assert graphs.count == 0


def test_hooks_registered_later_are_seen(net, twin) -> None:
    twin(X)
    calls = []
    before = twin.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    after = net.register_forward_hook(lambda module, args, result: calls.append(type(module)))
    assert torch.equal(twin(X), torch.relu(net.linear(X + 1)) * 2.0)
    assert calls == [Net]
    before.remove()
    after.remove()
    assert torch.equal(twin(X), net(X)) and calls == [Net]


def test_containers_behave_as_containers() -> None:
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    twin = segue.compile(layers)
    assert len(twin) == 2 and twin[0] is layers[0] and list(twin) == list(layers)
    twin.append(nn.Tanh())
    assert torch.equal(twin(X), torch.tanh(torch.relu(layers[0](X))))
    assert len(layers) == 3
    names = segue.compile(nn.ModuleDict({"a": nn.ReLU()}))
    assert "a" in names and list(names.keys()) == ["a"]


def test_it_can_be_a_part_of_another_module(graphs) -> None:
    part = segue.compile(nn.Linear(3, 3), backend=graphs)
    whole = nn.Sequential(part, nn.ReLU())
    assert list(whole.state_dict()) == ["0.weight", "0.bias"]
    assert torch.equal(whole(X), torch.relu(nn.functional.linear(X, part.weight, part.bias)))
    assert graphs.runs == 1


def test_it_can_be_called_from_compiled_code(net, twin) -> None:
    own = Graphs()
    step = segue.compile(lambda m, x: m(x) + 1, backend=own, fullgraph=True)
    assert torch.equal(step(twin, X), net(X) + 1)
    assert own.count == 1


def test_its_attributes_are_read_and_written_inside_a_graph(graphs) -> None:
    twin = segue.compile(Net())

    def f(module: Net, x: Tensor) -> Tensor:
        module.scale = module.scale + 1
        return nn.functional.linear(x, module.linear.weight) * module.scale

    result = segue.compile(f, backend=graphs, fullgraph=True)(twin, X)
    assert torch.equal(result, nn.functional.linear(X, twin.linear.weight) * 3.0)
    assert twin.scale == 3.0 and graphs.count == 1


def test_a_compiled_method_of_a_compiled_module(net, twin) -> None:
    own = Graphs()
    generate = segue.compile(twin.generate, backend=own, fullgraph=True)
    assert torch.equal(generate(X, 2), net.generate(X, 2))
    assert own.count == 1


def test_module_and_twin_in_one_compiled_function_are_one_object() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.n = 0

        def forward(self, x: Tensor) -> Tensor:
            self.n += 1
            return x * self.n

    def both(module: Counter, twin: Counter, x: Tensor) -> Tensor:
        module.n = 10
        x = twin(x)
        twin.n += 5
        return module(x) + twin.n

    counter = Counter()
    expected = both(counter, counter, X)
    again = segue.compile(both)(counter, segue.compile(counter), X)
    assert torch.equal(again, expected) and counter.n == 17


def test_training_updates_the_modules_parameters(net, twin) -> None:
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    reference = copy.deepcopy(net)
    twin(X).sum().backward()
    optimizer.step()
    reference(X).sum().backward()
    torch.optim.SGD(reference.parameters(), lr=0.1).step()
    assert torch.equal(net.linear.weight, reference.linear.weight)


def test_it_pickles_with_its_options(net) -> None:
    twin = segue.compile(net, backend=quiet_backend, fullgraph=True)
    loaded = pickle.loads(pickle.dumps(twin))
    assert isinstance(loaded, Net) and torch.equal(loaded(X), net(X))
    assert type(loaded).__call__.compiler.fullgraph
    assert type(loaded).__call__.compiler.backend is quiet_backend
    buffer = io.BytesIO()
    torch.save(twin, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=False)(X), net(X))


def test_module_and_twin_pickled_together_stay_together(net, twin) -> None:
    twin = segue.compile(net)
    module, other = pickle.loads(pickle.dumps((net, twin)))
    other.scale = 9.0
    assert module.scale == 9.0


def test_a_backend_that_cannot_be_pickled_is_named(net) -> None:
    twin = segue.compile(net, backend=lambda gm, example_inputs: gm.forward)
    with pytest.raises(pickle.PicklingError) as refused:
        pickle.dumps(twin)
    assert "a registered name or a function defined at the top of a module" in str(refused.value)


def test_copies_are_compiled(net, twin, graphs) -> None:
    deep = copy.deepcopy(twin)
    assert isinstance(deep, Net) and deep.linear is not net.linear
    deep.scale = 1.0
    assert net.scale == 2.0
    shallow = copy.copy(twin)
    assert shallow.linear is net.linear
    shallow.scale = 3.0
    assert net.scale == 2.0
    assert torch.equal(deep(X) * 3, shallow(X))
    assert graphs.runs == 2


def test_compiling_twice_gives_one_twin(net, twin, graphs) -> None:
    again = segue.compile(twin, backend=graphs, fullgraph=True)
    assert torch.equal(again(X), net(X))
    assert again.__class__ is Net and graphs.runs == 1


def test_weights_are_freed_with_the_module_and_its_twin() -> None:
    net = Net()
    twin = segue.compile(net)
    twin(X)
    weight, cls = weakref.ref(net.linear.weight), weakref.ref(type(twin))
    del net, twin
    gc.collect()
    assert weight() is None and cls() is None


def test_deriving_the_twins_class_runs_no_code_of_the_user() -> None:
    made = []

    class Registered(nn.Module):
        def __init_subclass__(cls, **kwargs) -> None:
            made.append(cls.__name__)

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    assert torch.equal(segue.compile(Registered())(X), X + 1)
    assert made == []


def test_the_modules_finaliser_runs_once() -> None:
    ended = []

    class Ends(nn.Module):
        def __del__(self) -> None:
            ended.append(True)

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    twin = segue.compile(Ends())
    twin(X)
    del twin
    gc.collect()
    assert ended == [True]


def test_a_class_with_slots_or_an_abstract_base() -> None:
    import abc

    class Base(nn.Module, abc.ABC):
        @abc.abstractmethod
        def forward(self, x: Tensor) -> Tensor: ...

    class Slotted(Base):
        __slots__ = ("size",)

        def __init__(self, size: int) -> None:
            super().__init__()
            self.size = size

        def forward(self, x: Tensor) -> Tensor:
            return x * self.size

    module = Slotted(3)
    twin = segue.compile(module)
    assert torch.equal(twin(X), X * 3) and twin.size == 3
    twin.size = 4
    assert module.size == 4 and torch.equal(twin(X), X * 4)
    assert isinstance(twin, Slotted) and isinstance(twin, Base)
    assert segue.compile(twin).size == 4


def test_a_class_with_its_own_call() -> None:
    class Doubling(nn.Module):
        def __call__(self, x: Tensor) -> Tensor:
            return super().__call__(x) * 2

        def forward(self, x: Tensor) -> Tensor:
            return x + 1

    assert torch.equal(segue.compile(Doubling())(X), (X + 1) * 2)


def test_a_lazy_module_takes_its_shape_at_the_first_call() -> None:
    lazy = nn.LazyLinear(4)
    twin = segue.compile(lazy)
    result = twin(X)
    assert result.shape == (2, 4) and lazy.weight.shape == (4, 3)
    assert type(lazy) is nn.Linear and isinstance(twin, nn.Linear)
    assert torch.equal(twin(X), lazy(X))


@pytest.mark.parametrize("through", ["module", "twin"])
def test_a_parametrization_registered_later(through) -> None:
    class Double(nn.Module):
        def forward(self, weight: Tensor) -> Tensor:
            return weight * 2

    module = nn.Linear(3, 3)
    twin = segue.compile(module)
    before = twin(X) - module.bias
    parametrize.register_parametrization(module if through == "module" else twin, "weight", Double())
    assert torch.equal(twin.weight, module.weight)
    assert torch.allclose(twin(X) - module.bias, before * 2)


def test_a_scripted_module_keeps_working() -> None:
    scripted = torch.jit.script(nn.Linear(3, 3))
    assert torch.equal(segue.compile(scripted)(X), scripted(X))


def test_a_module_made_by_fx() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU()))
    twin = segue.compile(traced)
    assert torch.equal(twin(X), traced(X)) and twin.graph is traced.graph


def test_the_signature_is_the_modules(net, twin) -> None:
    assert inspect.signature(twin) == inspect.signature(net)
    assert inspect.signature(twin.forward) == inspect.signature(net.forward)


def test_an_exception_in_forward_is_the_users_own() -> None:
    class Picky(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.shape[0] != 1:
                raise LookupError("one row at a time")
            return x + 1

    with pytest.raises(LookupError, match="one row at a time") as raised:
        segue.compile(Picky())(X)
    assert raised.traceback[-1].name == "forward"


def test_a_disabled_module_is_a_twin_too(net, graphs) -> None:
    twin = segue.disable(net)
    step = segue.compile(lambda m, x: m(x + 1) * 2, backend=graphs)
    assert torch.equal(step(twin, X), net(X + 1) * 2)
    assert graphs.count == 2  # before and after, nothing of the module
    assert isinstance(twin, Net) and list(twin.state_dict()) == list(net.state_dict())


def test_hidden_compilation_by_torch_is_looked_through(net, graphs) -> None:
    theirs = torch.compile(net, backend="eager")
    ours = segue.compile(theirs, backend=graphs)
    assert torch.equal(ours(X), net(X))
    assert isinstance(ours, Net) and graphs.runs == 1
