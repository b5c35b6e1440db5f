"""nn.Module: hooks, parameters, state, lazy modules, parametrisations."""

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

from tests.support.construct import area

construct = area("nn.Module")


class Net(nn.Module):
    """A module as people write them."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 4)
        self.register_buffer("steps", torch.zeros(()))
        self.scale = 2.0
        self.notes = []

    def forward(self, x, bias=None):
        y = self.second(torch.relu(self.first(x))) * self.scale
        return y if bias is None else y + bias

    def helper(self, x):
        return self.first(x).sum()


class Attributes(nn.Module):
    """Everything that can be an attribute."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_parameter("nothing", None)
        self.register_buffer("table", torch.ones(4), persistent=False)
        self.activation = torch.relu
        self.layers = [nn.Linear(4, 4)]
        self.options = {"dim": 1}

    def forward(self, x):
        if self.nothing is None:
            x = self.activation(x) * self.weight + self.table
        return self.layers[0](x).softmax(self.options["dim"])


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


class Fallback(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)

    def forward(self, x):
        return self.inner(x) * self.in_features


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - self.mean


class Called(nn.Module):
    def __call__(self, x):
        return super().__call__(x) + 1

    def forward(self, x):
        return x * 2


def net():
    return (Net(),)


def hooked(register, **options):
    """A net with a hook on its first layer that notes that it ran."""

    def make():
        module = Net()
        register(module, module.notes)
        return (module,)

    return make


@construct("called, with keyword arguments", state=net)
def called(x, module):
    return module(x, bias=x) + module(x)


@construct(
    "parameters, buffers, `None` parameters, functions, lists and dicts as attributes", state=lambda: (Attributes(),)
)
def attributes(x, module):
    return module(x)


@construct("methods other than `forward`", state=net)
def methods(x, module):
    return module.helper(x) + module.forward(x)


@construct("attributes written: counters, buffers in place", state=lambda: (Counting(),))
def counting(x, module):
    return module(x)


@construct("a buffer replaced in `forward`", state=net)
def buffer_replaced(x, module):
    module.steps = module.steps + 1
    return module(x) * module.steps


@construct("a new attribute, a tensor kept on the module", state=net)
def kept(x, module):
    y = module(x)
    module.last = y.detach()
    return y


@construct("`training`, `train()`, `eval()`", state=net)
def modes(x, module):
    module.eval()
    y = nn.functional.dropout(module(x), 0.5, module.training)
    module.train()
    return y + module.training


@construct("`parameters`, `named_parameters`, `buffers`, `named_buffers`", state=net)
def parameters(x, module):
    total = sum(p.sum() for p in module.parameters())
    for name, p in module.named_parameters():
        if name.endswith("bias"):
            total = total + p.mean()
    return x * total, [n for n, _ in module.named_buffers()], len(list(module.buffers()))


@construct("`children`, `named_children`, `modules`, `named_modules`, `apply`", state=net)
def children(x, module):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name == "first":
            x = child(x)
    return x, len(list(module.modules())), [n for n, _ in module.named_modules()], len(list(module.children()))


@construct("`get_submodule`, `get_parameter`, `get_buffer`", state=net)
def by_path(x, module):
    return module.get_submodule("first")(x) + module.get_parameter("first.bias") + module.get_buffer("steps")


@construct("`state_dict` read", state=net)
def state_dict(x, module):
    state = module.state_dict()
    return x + state["second.bias"], list(state)


@construct("`__getattr__` of a module", state=lambda: (Fallback(),))
def getattr_(x, module):
    return module(x)


@construct("`__call__` overridden", state=lambda: (Called(),))
def call_overridden(x, module):
    return module(x)


@construct("a module made in the function")
def made(x):
    return nn.Sequential(nn.ReLU(), nn.Softmax(dim=1))(x)


@construct("a module with parameters made in the function")
def made_with_parameters(x):
    return nn.Linear(4, 2)(x)


@construct("`nn.Parameter` made in the function")
def parameter_made(x):
    return x * nn.Parameter(torch.ones(4))


@construct("a submodule replaced", state=net)
def submodule_replaced(x, module):
    before = module.first
    module.first = module.second
    module.first = before
    return module(x)


@construct("weights shared between modules", state=lambda: ((n := nn.Linear(4, 4)), nn.ModuleList([n, n])))
def shared(x, layer, layers):
    for inner in layers:
        x = inner(x)
    return x + layer(x)


@construct("`nn.Sequential`: indexed, sliced, iterated", state=lambda: (nn.Sequential(nn.Linear(4, 4), nn.ReLU()),))
def sequential(x, module):
    return module[0](x) + module[:1](x) + sum(layer(x) for layer in module) + len(module)


@construct("`nn.ModuleList`: `append`, `extend`, slices, `enumerate`", state=lambda: (nn.ModuleList([nn.ReLU()] * 3),))
def module_list(x, layers):
    for k, layer in enumerate(layers[1:]):
        x = layer(x) + k
    return layers[-1](x)


@construct(
    "`nn.ModuleDict`: `items`, `keys`, `in`, `[]`", state=lambda: (nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()}),)
)
def module_dict(x, choices):
    for name, layer in choices.items():
        x = layer(x) + ("a" in choices) + len(name)
    return choices["a"](x)


@construct("`nn.ParameterList`", state=lambda: (nn.ParameterList([torch.randn(4), torch.randn(4)]),))
def parameter_list(x, weights):
    for k, weight in enumerate(weights):
        x = x * weight + k
    return x + weights[0] + len(weights)


@construct("`nn.ParameterDict`", state=lambda: (nn.ParameterDict({"a": torch.randn(4), "b": torch.randn(4)}),))
def parameter_dict(x, weights):
    for name, weight in weights.items():
        x = x * weight + len(name)
    return x + weights["a"] + weights.b, "a" in weights


def forward_pre(module, notes):
    module.first.register_forward_pre_hook(lambda m, args: (notes.append("pre"), (args[0] * 2,))[1])


def forward_pre_kwargs(module, notes):
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"bias": args[0]}), with_kwargs=True)


def forward(module, notes):
    module.first.register_forward_hook(lambda m, args, out: (notes.append(type(m).__name__), out + 1)[1])


def forward_kwargs(module, notes):
    module.register_forward_hook(lambda m, args, kwargs, out: out + len(kwargs), with_kwargs=True)


def forward_always(module, notes):
    module.first.register_forward_hook(lambda m, args, out: notes.append("always"), always_call=True)


def forward_prepended(module, notes):
    module.first.register_forward_hook(lambda m, args, out: out * 2)
    module.first.register_forward_hook(lambda m, args, out: out + 1, prepend=True)


def full_backward(module, notes):
    module.first.register_full_backward_hook(lambda m, gi, go: notes.append("backward"))


def full_backward_pre(module, notes):
    module.first.register_full_backward_pre_hook(lambda m, go: notes.append("backward pre"))


def parameter_gradient(module, notes):
    module.first.weight.register_hook(lambda g: g * 2)


def after_accumulation(module, notes):
    module.first.weight.register_post_accumulate_grad_hook(lambda p: notes.append("accumulated"))


for _name, _register in {
    "`register_forward_pre_hook` that changes the input": forward_pre,
    "`register_forward_pre_hook(with_kwargs=True)`": forward_pre_kwargs,
    "`register_forward_hook` that changes the output": forward,
    "`register_forward_hook(with_kwargs=True)`": forward_kwargs,
    "`register_forward_hook(always_call=True)`": forward_always,
    "`register_forward_hook(prepend=True)`": forward_prepended,
    "`register_full_backward_hook`": full_backward,
    "`register_full_backward_pre_hook`": full_backward_pre,
    "`register_hook` of a parameter": parameter_gradient,
    "`register_post_accumulate_grad_hook` of a parameter": after_accumulation,
}.items():

    @construct(_name, state=hooked(_register))
    def with_hook(x, module):
        return module(x)


@construct("a hook registered and removed in the function", state=net)
def hook_in_function(x, module):
    handle = module.first.register_forward_hook(lambda m, args, out: out + 1)
    y = module(x)
    handle.remove()
    return y + module(x)


@construct("a hook that keeps activations", state=lambda: (nn.Linear(4, 4), {}))
def hook_keeps(x, module, kept):
    handle = module.register_forward_hook(lambda m, args, out: kept.update(out=out.detach()))
    y = module(x)
    handle.remove()
    return y


@construct("global module hooks")
def global_hooks(x):
    handle = nn.modules.module.register_module_forward_hook(lambda m, args, out: out * 2)
    y = nn.functional.relu(x)
    handle.remove()
    return y


@construct("`register_state_dict_pre_hook` and `load_state_dict` hooks, present", state=lambda: (with_state_hooks(),))
def state_hooks(x, module):
    return module(x)


def with_state_hooks():
    module = Net()
    module.register_state_dict_pre_hook(lambda *args: None)
    module.register_load_state_dict_post_hook(lambda *args: None)
    return module


@construct("a lazy module, at its first call", state=lambda: (nn.LazyLinear(3),))
def lazy(x, module):
    return module(x)


@construct("a lazy module, initialised before", state=lambda: ((m := nn.LazyLinear(3)), m(torch.ones(2, 4)))[:1])
def lazy_initialised(x, module):
    return module(x)


@construct("`parametrizations.weight_norm`", state=lambda: (parametrizations.weight_norm(nn.Linear(4, 4)),))
def weight_norm(x, module):
    return module(x)


@construct("`nn.utils.weight_norm`, the older one", state=lambda: (nn.utils.weight_norm(nn.Linear(4, 4)),))
def old_weight_norm(x, module):
    return module(x)


@construct(
    "`parametrizations.spectral_norm`, in training", state=lambda: (parametrizations.spectral_norm(nn.Linear(4, 4)),)
)
def spectral_norm(x, module):
    return module(x)


@construct(
    "`parametrizations.spectral_norm`, in evaluation",
    state=lambda: (parametrizations.spectral_norm(nn.Linear(4, 4)).eval(),),
)
def spectral_norm_eval(x, module):
    return module(x)


@construct("`nn.utils.spectral_norm`, the older one", state=lambda: (nn.utils.spectral_norm(nn.Linear(4, 4)),))
def old_spectral_norm(x, module):
    return module(x)


@construct("`parametrizations.orthogonal`", state=lambda: (parametrizations.orthogonal(nn.Linear(4, 4)),))
def orthogonal(x, module):
    return module(x)


def symmetric():
    module = nn.Linear(4, 4)
    parametrize.register_parametrization(module, "weight", Symmetric())
    return (module,)


@construct("`register_parametrization` of one's own", state=symmetric)
def parametrized(x, module):
    return module(x) + module.weight.sum()


@construct("`parametrize.cached`", state=symmetric)
def parametrized_cached(x, module):
    with parametrize.cached():
        return module(x) + module(x)


@construct("`parametrize.is_parametrized`, `module.parametrizations`", state=symmetric)
def parametrized_reads(x, module):
    if parametrize.is_parametrized(module, "weight"):
        return x @ module.parametrizations.weight.original
    return x


@construct("`torch.nn.utils.prune`", state=lambda: (prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5),))
def pruned(x, module):
    return module(x)


@construct("`torch.nn.init` in the function", state=net)
def initialised(x, module):
    with torch.no_grad():
        nn.init.ones_(module.first.bias)
        nn.init.normal_(module.second.bias)
    return module(x)


@construct("`nn.utils.clip_grad_norm_`, `parameters_to_vector`", state=net)
def utilities(x, module):
    return nn.utils.parameters_to_vector(module.parameters()) * x.sum()


@construct("`requires_grad_` of a module and of parameters", state=net)
def requires_grad(x, module):
    module.requires_grad_(False)
    y = module(x)
    module.requires_grad_(True)
    return y


@construct("`module.to(dtype)`, `half`, `float`", state=lambda: (nn.Linear(4, 4),))
def converted(x, module):
    y = module.double()(x.double())
    module.float()
    return y


@construct("`__repr__`, `extra_repr` of a module", state=lambda: (nn.Linear(4, 4),))
def text(x, module):
    return module(x), repr(module), module.extra_repr()


@construct("`nn.functional`: activations, losses, attention, padding, one_hot, interpolate")
def functional(x):
    F = nn.functional
    y = F.gelu(x) + F.softmax(x, -1) + F.layer_norm(x, (4,)) + F.pad(x, (1, 1))[:, 1:5] + F.normalize(x)
    q = x.reshape(1, 1, 4, 4)
    z = F.scaled_dot_product_attention(q, q, q, is_causal=True) + F.interpolate(q, scale_factor=2)[..., :4, :4]
    return y + z, F.mse_loss(x, y), F.one_hot(torch.arange(3), 4), F.unfold(q, 2)


@construct(
    "an optimiser's step in the function",
    state=lambda: ((m := nn.Linear(4, 4)), torch.optim.SGD(m.parameters(), lr=0.1)),
)
def optimiser(x, module, optimiser):
    optimiser.zero_grad()
    loss = module(x).sum()
    loss.backward()
    optimiser.step()
    return loss.detach()


@construct("a packed sequence", breaks="the sizes of its steps depend on data")
def packed(x):
    lengths = torch.tensor([4, 3, 2, 1])
    sequence = nn.utils.rnn.pack_padded_sequence(x.unsqueeze(2), lengths, batch_first=True)
    return sequence.data * 2


@construct("`pad_sequence`")
def pad_sequence(x):
    return nn.utils.rnn.pad_sequence([x[0], x[1, :2]], batch_first=True)


@construct(
    "message passing as in torch-geometric: `index_select`, `scatter_add`, by `inspect`",
    state=lambda: (MessagePassing(),),
)
def message_passing(x, layer):
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    return layer(x, edges)


class MessagePassing(nn.Module):
    """Collects what its `message` asks for by name, and adds the messages up at their targets."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, edges):
        return self.propagate(edges, x=self.linear(x))

    def propagate(self, edges, **features):
        wanted = self.message.__code__.co_varnames[1 : self.message.__code__.co_argcount]
        given = {name: features[name[:-2]][edges[0 if name.endswith("_j") else 1]] for name in wanted}
        messages = self.message(**given)
        return torch.zeros_like(features["x"]).index_add(0, edges[1], messages)

    def message(self, x_i, x_j):
        return x_j - x_i
