"""Corpus: tensor arithmetic inside every kind of statement; small CPU tensors, no randomness."""

import contextlib
import dataclasses
import functools
import typing

import torch
import torch.nn.functional as F

from tests.case import case, record
from tests.corpus_flow import AppError, Manager


def ramp(*shape, start=-1.0):
    """A float32 tensor of this shape with the values start, start + 0.5, ..."""
    size = 1
    for n in shape:
        size *= n
    return (torch.arange(size, dtype=torch.float32) * 0.5 + start).reshape(shape)


tensor_case = functools.partial(case, group="tensor")


@tensor_case(lambda: [(ramp(3), 4), (ramp(2, 2), 0), (ramp(3), 2)])
def tensor_for_else(x, n):
    y = x + 1
    for i in range(n):
        if i == 3:
            y = y * 10
            break
        if i == 1:
            continue
        y = (y + i).sin()
    else:
        y = y - 1
    return y.cos()


@tensor_case(lambda: [(ramp(3),), (ramp(4) * 100,), (ramp(3) - 50,)])
def tensor_while_on_values(x):
    steps = 0
    while x.abs().max() > 1:
        x = x / 2
        steps += 1
        if steps > 5:
            record("gave up")
            break
    else:
        x = x + 100
    return x, steps


@tensor_case(lambda: [(ramp(3),), (-ramp(3) - 9,), (ramp(1),)])
def tensor_branches(x):
    y = x * 2
    if x.sum() > 0:
        y = y + 1
    elif x.numel() == 1:
        return y - x.mean()
    else:
        y = y.exp()
    return y if y[0] > 0 else -y


@tensor_case(lambda: [(ramp(2, 2),), (torch.zeros(1),), (torch.ones(()),)])
def tensor_short_circuit(x):
    found = bool(x.sum() > 100 or (x.min() < 0 and x.max() > 0))
    value = x.any() and x * 2
    chained = 0 < x.max() < 5
    return not x.all(), found, value, chained


@tensor_case(lambda: [(ramp(3),), (ramp(3) * -1,)])
def tensor_logs_in_loop(x):
    history = []
    for i in range(3):
        x = torch.tanh(x) * 2
        history.append(record(round(x.mean().item(), 4)))
        x = x + history[-1] * i
    return x, history


@tensor_case(lambda: [([ramp(2), ramp(3), ramp(2)],), ([],)])
def tensor_nested_loops(tensors):
    rows = []
    for a in tensors:
        for b in tensors:
            if a.shape != b.shape:
                continue
            if a is b:
                break
            rows.append(a * b)
        else:
            rows.append(a + 1)
    return rows


@tensor_case(lambda: [(ramp(2), 0), (ramp(2), 1), (ramp(2), 2)])
def tensor_with_nested(x, path):
    y = x + 1
    with Manager("a") as name, Manager("b", suppress=(KeyError,)):
        y = y * len(name)
        with Manager("c", suppress=(ValueError,)):
            y = y.sin()
            if path == 1:
                raise ValueError("inner")
            y = y + x
            if path == 2:
                raise KeyError("outer")
        y = y.cos()
    return y - x


@tensor_case(lambda: [(ramp(3), 1), (ramp(2), 3)])
def tensor_with_suppressed_error(x, k):
    y = x
    with Manager("m", suppress=(RuntimeError,)):
        y = x * 2
        y = y + torch.ones(3, k)[:, 0].reshape(3)
        y = y * 3
    return y.sum()


@tensor_case(lambda: [(ramp(3), False), (ramp(3), True)])
def tensor_with_contextmanager(x, fails):
    @contextlib.contextmanager
    def scaled(factor):
        record("open")
        try:
            yield x * factor
        finally:
            record("close")

    with scaled(3) as y, contextlib.suppress(AppError):
        y = y + 1
        if fails:
            raise AppError("in the body")
        y = y.relu()
    return y


@tensor_case(lambda: [(ramp(3).requires_grad_(), True), (ramp(3).requires_grad_(), False)])
def tensor_grad_modes(x, flag):
    y = x * 2
    with torch.no_grad():
        z = y + 1
        record(torch.is_grad_enabled())
        with torch.set_grad_enabled(flag):
            w = x * y
        if flag:
            return w, z.requires_grad
    with torch.enable_grad():
        return w.requires_grad, (z + x).sum()


@tensor_case(lambda: [(ramp(3), ramp(3)), (ramp(3), ramp(2)), (ramp(3), "text")])
def tensor_try_forms(a, b):
    y = a * 2
    try:
        y = y + b
    except RuntimeError as error:
        record(type(error).__name__)
        y = y - 1
    except TypeError:
        y = -y
    else:
        y = y * 3
    finally:
        record("finally")
        y = y + 0.5
    return y


@tensor_case(lambda: [(ramp(4), 1), (ramp(4), 9), (ramp(4), -9)])
def tensor_index_errors(x, i):
    try:
        try:
            return x[i] + 1
        finally:
            x = x + 1
            record(x.sum().item())
    except IndexError as error:
        if i < 0:
            raise AppError("negative") from error
        return x.mean()


@tensor_case(lambda: [(ramp(2, 2),), (ramp(2, 3),)])
def tensor_error_escapes(x):
    y = x + 1
    with Manager("m"):
        y = torch.linalg.inv(y @ x.sin())
    return y * 2


@tensor_case(lambda: [(ramp(3), 4), (ramp(3), 1)])
def tensor_try_in_loop(x, n):
    for i in range(n):
        try:
            x = x + i
            if i == 1:
                raise AppError("one", i)
            if i == 3:
                break
            x = x * 2
        except AppError as error:
            x = x - error.code
            continue
        finally:
            x = x + 0.25
        x = x.cos()
    return x


@tensor_case(lambda: [(ramp(2),), (ramp(1),)])
def tensor_return_in_finally(x):
    for i in range(3):
        try:
            y = x * i
            if i == 1:
                return record("lost")
        finally:
            if i == x.numel() - 1:
                return y + 1
            x = x + 1
    return x


@tensor_case(lambda: [(ramp(2), 1), (ramp(2), 0)])
def tensor_exception_group(x, k):
    y = x.sin()
    try:
        y = y / 2
        raise ExceptionGroup("g", [ValueError("v"), KeyError("k")][: k + 1])
    except* KeyError:
        y = y + 1
    except* ValueError:
        y = y * 3
    return y


@tensor_case(
    lambda: [
        (ramp(3), [ramp(3), ramp(3)], {"scale": 2.0}),
        (ramp(2), [], {}),
        (ramp(2), [1, 2, 3], {"no": 1}),
    ]
)
def tensor_half_built_calls(x, rest, options):
    def combine(a, b, *more, scale=1.0):
        total = a - b
        for tensor in more:
            total = total + tensor
        return total * scale

    first = combine(x.sin(), combine(x, record("b") and x * 2), *rest, **options)
    return combine(first + 1, *[x.cos()], scale=record(3)).neg().abs().sum(dim=0, keepdim=True)


@tensor_case(lambda: [([ramp(2), ramp(2)], 2.0), ([], 1.0)])
def tensor_comprehensions(tensors, k):
    doubled = [t * k for t in tensors]
    named = {f"t{i}": t + i for i, t in enumerate(doubled) if i or k}
    total = sum(t.sum() for t in doubled)
    big = any(t.max() > 0 for t in tensors)
    pairs = [[a @ b for a in tensors] for b in doubled]
    return doubled, named, total, big, pairs, sorted({t.numel() for t in tensors})


@tensor_case(lambda: [([ramp(2), ramp(3)],), ([ramp(1)],)])
def tensor_generator(tensors):
    def normalised(source):
        for t in source:
            record(t.shape[0])
            yield t / t.shape[0]

    chain = (t + 1 for t in normalised(tensors))
    first = next(chain)
    return first, [t.sum() for t in chain], list(map(torch.neg, normalised(tensors)))


@tensor_case(lambda: [(ramp(3), 2), (ramp(2), 0)])
def tensor_closures(x, n):
    y = x
    scale = 2.0

    def step(bias=1.0):
        nonlocal y
        y = y * scale + bias
        return lambda z: z + y

    last = x.neg
    for i in range(n):
        last = step(i)
        scale += 1
    return y, last() if n == 0 else last(x), scale


@tensor_case(lambda: [(ramp(2), True), (ramp(2), False)])
def tensor_unbound(x, bind):
    if bind:
        y = x + 1
    x = x * 2
    try:
        z = y * x
        del y
        return z + y
    except UnboundLocalError:
        return x.exp()


@tensor_case(lambda: [((ramp(2), ramp(2)),), ({"x": ramp(2), "k": 3},), (ramp(2),), ([ramp(1)] * 3,)])
def tensor_match(value):
    match value:
        case (a, b):
            return a + b
        case {"x": torch.Tensor() as x, **rest}:
            return x * rest["k"]
        case torch.Tensor(shape=(n,)) if n > 1:
            return value / n
        case [first, *others]:
            return first + len(others)


@tensor_case(lambda: [(ramp(3),), (ramp(3) - 9,)])
def tensor_walrus_and_ternary(x):
    if (top := x.max()) > 0 and (n := x.numel()) > 2:
        x = x / top * n
    y = x + 1 if x.dim() == 1 else x - 1
    return y, top, f"{top.item():.2f} {tuple(y.shape)!r:>6}"


@tensor_case(lambda: [(ramp(4, 4),), (ramp(2, 5),)])
def tensor_slices(x):
    a, b, *rows = x[:4]
    y = x[1:, ::2] + x[..., None].sum(-1)[1:, :1]
    z = x.clone()
    z[0] = a - b
    z[..., 1:] *= 2
    z[x > 1] = -1.0
    first, last = x[0, 0], x[-1, -1]
    first, last = last, first
    return y, z, first - last, x[None, :, 1], len(rows), rows[0] * 2


class Running:
    """State that is written while tensors are computed."""

    limit = 10

    def __init__(self):
        self.total = torch.zeros(2)
        self.calls = 0
        self.history = {}

    @property
    def mean(self):
        return self.total / max(self.calls, 1)

    def add(self, x):
        self.calls += 1
        self.total = self.total + x
        self.history.setdefault("n", []).append(self.calls)
        return self

    def __add__(self, other):
        return self.total + other

    def __getitem__(self, key):
        return self.history[key]

    def __call__(self, x, *, twice=False):
        return self.add(x).add(x) if twice else self.add(x)


@tensor_case(lambda: [(Running(), ramp(2)), (Running(), ramp(1))])
def tensor_object_state(running, x):
    running.add(x).add(x * 2)
    running(x, twice=True).total += 1
    running.total.mul_(2)
    running.history["x"] = [x]
    running.history["x"][0] = running + x
    running.label = f"{running.calls}/{Running.limit}"
    del running.history["n"]
    return running.mean, running["x"]


@tensor_case(lambda: [(ramp(3), [ramp(3)]), (ramp(2), [])])
def tensor_inplace(x, log):
    y = x.view(-1)
    x += 1
    y.mul_(2)
    log.append(y)
    x[0] = 7
    z = x
    z -= y.sum()
    log += [z.clone()]
    return y, x is z


class Block(torch.nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)
        self.register_buffer("seen", torch.zeros(1))
        with torch.no_grad():
            self.linear.weight.copy_(ramp(width, width) / 10)
            self.linear.bias.fill_(bias)

    def forward(self, x):
        self.seen += 1
        return x + F.gelu(self.linear(self.norm(x)))


def blocks():
    return torch.nn.Sequential(Block(3, 0.5), torch.nn.ReLU(), Block(3, -0.5))


@tensor_case(lambda: [(blocks(), ramp(2, 3)), (blocks().eval(), ramp(1, 3)), (blocks(), ramp(2, 2))])
def tensor_modules(model, x):
    for i, layer in enumerate(model):
        x = layer(x) if i else layer(x) * 2
        if isinstance(layer, Block):
            record(int(layer.seen))
    return x.softmax(-1), model.training


@tensor_case(lambda: [(blocks(), ramp(2, 3), 2), (blocks(), ramp(4, 3), 0)])
def tensor_training(model, x, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), x.roll(1, 0))
        loss.backward()
        with Manager(f"step {step}"):
            optimizer.step()
        losses.append(loss.item())
    return losses


@tensor_case(lambda: [(ramp(3).requires_grad_(),), (ramp(3),)])
def tensor_backward(x):
    y = (x * x).sin()
    try:
        y.sum().backward()
    except RuntimeError as error:
        return record(str(error))
    return x.grad * 2, y.detach()


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None
    tags: list = dataclasses.field(default_factory=list)


class Span(typing.NamedTuple):
    low: torch.Tensor
    high: torch.Tensor

    def width(self):
        return self.high - self.low


@tensor_case(lambda: [(ramp(2, 3), torch.tensor([0, 2])), (ramp(2, 3), None)])
def tensor_dataclasses(logits, target):
    output = Output(logits * 2)
    if target is not None:
        output.loss = F.cross_entropy(output.logits, target)
        output.tags.append(record("loss"))
    span = Span(logits.min(), high=logits.max())
    low, high = span
    return output, span, span.width(), low + high, dataclasses.replace(output, loss=None)


@tensor_case(lambda: [(ramp(2), 3), (ramp(2), "x")])
def tensor_class_inside(x, k):
    class Scale:
        factor = x + 1

        def __init__(self, offset):
            self.offset = offset

        def __matmul__(self, other):
            return self.factor * other + self.offset

        @staticmethod
        def twice(t):
            return t * 2

    class Shifted(Scale):
        def __matmul__(self, other):
            return super().__matmul__(other) - 1

    return (Shifted(1) @ x) + Scale.twice(x) * k


@tensor_case(lambda: [(ramp(3), 2), (ramp(3), -1)])
def tensor_decorators_and_partial(x, n):
    def checked(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            result = function(*args, **kwargs)
            assert result.isfinite().all(), function.__name__
            return record(result.numel()) and result

        return wrapper

    @checked
    def power(base, *, exponent):
        return base**exponent

    square = functools.partial(power, exponent=2)
    return square(x) + functools.reduce(torch.add, [x] * 3) + power(x + (n > 0), exponent=n)


@tensor_case(lambda: [(ramp(3), 3), (ramp(3), 0)])
def tensor_recursion(x, depth):
    if depth == 0:
        return x
    with Manager(f"d{depth}"):
        return tensor_recursion(x * 0.5, depth - 1) + x


@tensor_case(lambda: [({"a": ramp(2), "b": ramp(2)},), ({},)])
def tensor_dicts(state):
    new = {k: v + 1 for k, v in state.items()} | {"bias": torch.ones(2)}
    state.update({k: v * 2 for k, v in reversed(new.items())})
    first, *_ = state.values()
    total = torch.stack([*state.values()]).sum(0)
    state.pop("a", None)
    return new, total, max(state), first, {**state, "n": len(state)}


@tensor_case(lambda: [(ramp(2, 3), 1), (ramp(2, 3), "sum"), (ramp(2, 3), None)])
def tensor_python_numbers(x, how):
    n, m = x.shape
    scale = n / m + x.dim() ** 2 - (n // m)
    match how:
        case int(axis):
            y = x.sum(axis)
        case str(name):
            y = getattr(x, name)()
        case _:
            y = x
    return y * scale, int(y.sum()), float(x[0, 0]) + True, x.tolist()[0], complex(x[1, 1].item(), n)


@tensor_case(lambda: [(ramp(3),), (ramp(3).double(),), (torch.tensor([1, 2, 3]),), (ramp(3) > 0,)])
def tensor_dtypes(x):
    kinds = {torch.float32: "single", torch.float64: "double"}
    kind = kinds.get(x.dtype, "other")
    y = x.float() if x.is_floating_point() else x.to(torch.float64)
    out = y + x if kind != "other" else y.where(y > 1, torch.tensor(0.5))
    return kind, out, out.dtype == x.dtype, torch.promote_types(x.dtype, torch.int32)
