"""Operators that users define."""

import torch

from tests.support.construct import area

construct = area("Custom operators")

library = torch.library.Library("constructs", "DEF")
library.define("shifted(Tensor x, float by=1.0) -> Tensor")
library.impl("shifted", lambda x, by=1.0: x + by, "CompositeExplicitAutograd")
library.impl("shifted", lambda x, by=1.0: torch.empty_like(x), "Meta")


@torch.library.custom_op("constructs::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("constructs::cubed", mutates_args=())
def cubed(x: torch.Tensor, k: int = 3) -> torch.Tensor:
    return x**k


@cubed.register_fake
def _(x, k=3):
    return torch.empty_like(x)


def _saved(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


cubed.register_autograd(lambda ctx, g: (g * 3 * ctx.saved_tensors[0] ** 2, None), setup_context=_saved)


@torch.library.custom_op("constructs::increment_", mutates_args=("x",))
def increment_(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("constructs::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x - 1


@torch.library.custom_op("constructs::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positive.register_fake
def _(x):
    size = torch.library.get_ctx().new_dynamic_size()
    return x.new_empty(size)


@torch.library.triton_op("constructs::triton_like", mutates_args=())
def triton_like(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


@construct("`custom_op` with a fake")
def custom(x):
    return doubled(x) + torch.ops.constructs.doubled(x)


@construct("`custom_op` with gradients", inputs=lambda: (torch.randn(4, requires_grad=True),))
def custom_gradient(x):
    return cubed(x) + cubed(x, 3)


@construct("`custom_op` that mutates its argument")
def custom_mutation(x):
    y = x * 2
    increment_(y)
    increment_(x)
    return y + x


@construct("`custom_op` without a fake", breaks="without a fake the shape of the result is not known")
def custom_without_fake(x):
    return no_fake(x + 1) * 2


@construct("`custom_op` whose result's shape depends on data", breaks="the shape depends on data")
def custom_dynamic(x):
    return positive(x).sum()


@construct("`torch.library.Library.define` and `impl`")
def defined(x):
    return torch.ops.constructs.shifted(x, 2.0) + torch.ops.constructs.shifted.default(x)


@construct("`torch.library.triton_op`")
def triton(x):
    return triton_like(x)


@construct("`torch.ops.aten` called directly")
def aten(x):
    return torch.ops.aten.add.Tensor(x, x, alpha=2) + torch.ops.aten.sin(x)


@construct("`segue.allow_in_graph`, `torch.compiler.allow_in_graph`")
def allowed(x):
    return opaque(x) + 1


@torch.compiler.allow_in_graph
def opaque(x):
    return x * 2
