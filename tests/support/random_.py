"""Random numbers of PyTorch."""

import torch
from torch import nn

from tests.support.construct import area

construct = area("Random numbers of PyTorch")


@construct("`rand`, `randn`, `randint`, `randperm`, `*_like`, `bernoulli`, `multinomial`, `normal`")
def draws(x):
    y = torch.rand(4) + torch.randn(4) + torch.randint(5, (4,)) + torch.randperm(4) + torch.rand_like(x)
    return y + torch.bernoulli(torch.full((4,), 0.5)) + torch.normal(0.0, 1.0, (4,)), torch.multinomial(
        torch.ones(4), 2
    )


@construct("in place: `uniform_`, `normal_`, `bernoulli_`, `exponential_`, `random_`")
def in_place(x):
    return x.clone().uniform_() + x.clone().normal_(0, 2) + x.clone().bernoulli_(0.3) + x.clone().exponential_()


@construct("`dropout`, functional and module", state=lambda: (nn.Dropout(0.5),))
def dropout(x, module):
    return nn.functional.dropout(x, 0.3) + module(x) + nn.functional.alpha_dropout(x, training=True)


@construct("`torch.manual_seed` in the function")
def seeded(x):
    torch.manual_seed(7)
    return x + torch.rand(4)


@construct("`torch.Generator` as an argument", state=lambda: (torch.Generator().manual_seed(3),))
def generator(x, g):
    return x + torch.rand(4, generator=g) + torch.randn(4, generator=g)


@construct("`torch.Generator` made in the function")
def generator_made(x):
    g = torch.Generator(device="cpu")
    g.manual_seed(5)
    return x + torch.rand(4, generator=g)


@construct("`torch.get_rng_state`, `set_rng_state`")
def states(x):
    state = torch.get_rng_state()
    a = torch.rand(4)
    torch.set_rng_state(state)
    return x + a - torch.rand(4)


@construct("`torch.initial_seed`, `torch.seed`", breaks="the state of the generator is read")
def seeds(x):
    return x + (torch.initial_seed() >= 0)


@construct("`torch.distributions`: `Normal`, `Categorical`, `rsample`, `log_prob`, `kl_divergence`")
def distributions(x):
    normal = torch.distributions.Normal(x, torch.ones(4))
    categorical = torch.distributions.Categorical(logits=x)
    y = normal.rsample() + normal.log_prob(x) + categorical.entropy()
    return y + categorical.sample(), torch.distributions.kl_divergence(normal, normal)


@construct("gumbel softmax, stochastic depth by a drawn tensor")
def sampling(x):
    keep = (torch.rand(4, 1) > 0.5).float()
    return nn.functional.gumbel_softmax(x, tau=0.5) * keep


@construct("a branch on a drawn number", breaks="the interpreter decides on a tensor's value")
def branch(x):
    y = x * 2
    if torch.rand(()) < 0.5:
        return y + 1
    return y - 1
