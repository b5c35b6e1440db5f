"""Whole programs on the native backend, against eager, with every size of vectors and with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional

import segue
from segue import config
from segue.backends.native import native
from segue.errors import GraphDeclined
from tests.backends.native.opinfo import compiled, copies
from tests.backends.native.programs import generate

HAS_AVX2 = any(name in torch.backends.cpu.get_cpu_capability() for name in ("AVX2", "AVX512"))
VECTORS = [128, pytest.param(256, marks=pytest.mark.skipif(not HAS_AVX2, reason="this machine has no such vectors"))]
"""Sizes of vectors to generate code for."""


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    """Machine code that is made fast."""
    with config.patch(codegen_level=0):
        yield


def strictly_native(graph, inputs):
    """The native backend, which must not decline."""
    try:
        return native(graph, inputs)
    except GraphDeclined as e:
        raise AssertionError(str(e)) from e


def check(function: Callable, *tensors: torch.Tensor, rtol: float | None = None, atol: float | None = None) -> None:
    """Assert that results and written arguments are eager's, in the first call and in a later one."""
    expected_tensors = copies(tensors)
    expected = function(*expected_tensors)
    ours = segue.compile(function, fullgraph=True, backend=strictly_native)
    for _ in range(2):
        given = copies(tensors)
        got = ours(*given)
        torch.testing.assert_close(got, expected, rtol=rtol, atol=atol, equal_nan=True)
        torch.testing.assert_close(given, expected_tensors, rtol=rtol, atol=atol, equal_nan=True)


def rand(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def whole(*sizes: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(-9, 10, sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(dtype)


def in_place(x, y):
    x.mul_(2).add_(y)
    x[1:, ::2] = 0
    return x.sum(0)


def attention(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def rotary(x, angles):
    a, b = x.chunk(2, -1)
    turned = torch.cat([-b, a], -1)
    return x * angles.cos() + turned * angles.sin()


def sgd(parameter, gradient, momentum):
    momentum.mul_(0.9).add_(gradient + parameter * 0.01)
    parameter.sub_(momentum, alpha=0.1)
    return parameter * 1


def normalised(x, w, b):
    return functional.gelu(functional.layer_norm(x, x.shape[-1:], w, b)).sum(-1)


def accumulated(x):
    total = torch.zeros(x.shape[0])
    for i in range(x.shape[1]):
        total += x[:, i] * (i + 1)
    return total


PROGRAMS: dict[str, tuple[Callable, tuple[torch.Tensor, ...]]] = {
    "chain": (lambda x: ((x + 1).relu() * 2 - x).tanh(), (rand(5, 37),)),
    "scalars": (lambda x, y: x * y + 2.5, (torch.tensor(1.5), torch.tensor(-2.0))),
    "broadcast rows": (lambda x, y: (x - y) / (y.abs() + 1), (rand(6, 19), rand(19))),
    "broadcast columns": (lambda x, y: torch.maximum(x, y), (rand(6, 19), rand(6, 1))),
    "broadcast both": (lambda x, y: x * y, (rand(6, 1), rand(1, 19))),
    "outer of three": (lambda x, y: (x + y).exp(), (rand(4, 1, 3), rand(5, 1))),
    "where": (lambda x, y: torch.where(x > y, x, y * 2), (rand(3, 21), rand(3, 21))),
    "clamp": (lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0), (rand(40),)),
    "compare": (lambda x, y: ((x < y) & (x > -1)) | (y == x), (rand(33), rand(33))),
    "mixed dtypes": (lambda x, y, z: x + y * z, (rand(9, 5), whole(9, 5), whole(5, dtype=torch.int32))),
    "casts": (lambda x: (x * 10).to(torch.int32).to(torch.float64) / 3, (rand(50),)),
    "bytes": (lambda x, y: x * 3 + y, (whole(45, dtype=torch.uint8), whole(45, dtype=torch.uint8))),
    "int8 wraps": (lambda x: x * 50 + 7, (whole(45, dtype=torch.int8),)),
    "bits": (lambda x, y: ((x & y) | (x ^ 5)) << 2, (whole(31), whole(31))),
    "shift right": (lambda x: x >> 1, (whole(31, dtype=torch.int32),)),
    "floor division": (lambda x: (x // 4, x % 4, torch.fmod(x, 4)), (whole(31),)),
    "integer division": (lambda x, y: x // (y.abs() + 1), (whole(31), whole(31))),
    "bool logic": (lambda x, y: (x ^ y, ~x, x & y), (rand(29) > 0, rand(29, dtype=torch.float64) > 0)),
    "transposed": (lambda x: x.t() * 2 + 1, (rand(13, 22),)),
    "transposed sum": (lambda x, y: x.t() + y, (rand(13, 22), rand(22, 13))),
    "permuted": (lambda x: x.permute(2, 0, 1).contiguous() * 2, (rand(3, 5, 9),)),
    "slices": (lambda x: x[:, 1:] - x[:, :-1], (rand(6, 23),)),
    "steps": (lambda x: x[::2, 1::3].exp(), (rand(9, 23),)),
    "flip": (lambda x: x.flip(-1) + x, (rand(5, 18),)),
    "roll": (lambda x: x.roll(3, 1) * x, (rand(5, 18),)),
    "reshape": (lambda x: (x + 1).reshape(9, 4).sum(1), (rand(3, 12),)),
    "expand": (lambda x: x.unsqueeze(1).expand(4, 3, 7) * 2, (rand(4, 7),)),
    "unfold": (lambda x: x.unfold(0, 4, 2).mean(-1), (rand(32),)),
    "diagonal": (lambda x: x.diagonal() * 2, (rand(7, 9),)),
    "cat": (lambda x, y: torch.cat([x + 1, y * 2], 1).relu(), (rand(4, 7), rand(4, 12))),
    "cat rows": (lambda x, y: torch.cat([x, y, x], 0).exp(), (rand(2, 9), rand(1, 9))),
    "cat of dtypes": (lambda x, y: torch.cat([x, y]), (rand(5), whole(6))),
    "cat and sum": (lambda x, y: torch.cat([x + 1, y], 1).sum(1), (rand(4, 7), rand(4, 12))),
    "stack": (lambda x, y: torch.stack([x, y * 2], 1).flatten(1), (rand(4, 7), rand(4, 7))),
    "pad": (lambda x: functional.pad(x * 2, (1, 3, 2, 0), value=7.0).relu(), (rand(4, 7),)),
    "pad reflect": (lambda x: functional.pad(x[None], (2, 1), "reflect").exp(), (rand(4, 7),)),
    "tril": (lambda x: (x * 2).tril(-1) + x.triu(1), (rand(9, 9),)),
    "gather": (lambda x, i: x.gather(1, i) * 2, (rand(4, 9), whole(4, 6).abs() % 9)),
    "index": (lambda x, i: (x + 1)[i].relu(), (rand(9, 5), whole(12).abs() % 9)),
    "index two": (lambda x, i, j: x[i, j], (rand(9, 5), whole(7).abs() % 9, whole(7).abs() % 5)),
    "embedding": (lambda w, i: functional.embedding(i, w) * 2, (rand(11, 8), whole(3, 4).abs() % 11)),
    "masked fill": (lambda x: x.masked_fill(x > 0, float("-inf")).amax(1), (rand(6, 13),)),
    "one hot": (lambda i: functional.one_hot(i, 10).float() * 2, (whole(6).abs() % 10,)),
    "arange": (lambda x: x * torch.arange(x.shape[1]) + torch.ones(3, 1), (rand(3, 14),)),
    "softmax": (lambda x: torch.softmax(x, -1), (rand(6, 37),)),
    "log softmax of columns": (lambda x: torch.log_softmax(x, 0), (rand(6, 37),)),
    "layer norm": (normalised, (rand(6, 37), rand(37), rand(37))),
    "batch norm": (lambda x, m, v: functional.batch_norm(x, m, v), (rand(3, 4, 5, 6), rand(4), rand(4).abs() + 1)),
    "group norm": (lambda x: functional.group_norm(x, 2), (rand(3, 4, 5, 6),)),
    "rms norm": (lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6) * w, (rand(6, 37), rand(37))),
    "variance": (lambda x: (x.var(0), x.std(1), x.var((0, 1), correction=0)), (rand(9, 14),)),
    "logsumexp": (lambda x: torch.logsumexp(x, 1) + x[:, 0], (rand(6, 37),)),
    "argmax": (lambda x: (x.argmax(1), x.argmin(0), x.argmax()), (whole(7, 29, dtype=torch.float32),)),
    "max with indices": (lambda x: x.max(1), (whole(7, 29, dtype=torch.float32),)),
    "any all": (lambda x: ((x > 2).any(1), (x > -3).all(0), (x > 9).any()), (rand(7, 29),)),
    "prod": (lambda x: x.prod(1), (rand(7, 9),)),
    "sum of integers": (lambda x: (x.sum(), x.sum(0), x.to(torch.uint8).sum(1)), (whole(7, 29),)),
    "norm": (lambda x: (x.norm(dim=1), x.norm(), x.norm(1)), (rand(7, 29),)),
    "losses": (lambda x, i: functional.cross_entropy(x, i), (rand(8, 11), whole(8).abs() % 11)),
    "mse": (lambda x, y: functional.mse_loss(x, y), (rand(8, 11), rand(8, 11))),
    "matmul": (lambda x, y: ((x + 1) @ y).relu().sum(1), (rand(5, 8), rand(8, 6))),
    "linear": (lambda x, w, b: functional.silu(functional.linear(x, w, b)), (rand(5, 8), rand(6, 8), rand(6))),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1).relu(), (rand(2, 3, 8, 8), rand(4, 3, 3, 3))),
    "attention": (attention, (rand(2, 5, 8), rand(2, 7, 8), rand(2, 7, 6))),
    "rotary": (rotary, (rand(2, 5, 8), rand(5, 8))),
    "in place": (in_place, (rand(5, 9), rand(9))),
    "momentum": (sgd, (rand(5, 9), rand(5, 9), rand(5, 9))),
    "accumulated": (accumulated, (rand(5, 9),)),
    "cumulative": (lambda x: (x.cumsum(1) * 2).relu(), (rand(5, 9),)),
    "sort": (lambda x: x.sort(1)[0] + 1, (rand(5, 9),)),
    "dead code": (lambda x: (x.exp(), x.sin())[1] * 1, (rand(5),)),
    "same twice": (lambda x: (x + 1, x + 1, (x + 1).sum()), (rand(5, 9),)),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("bits", VECTORS)
def test_programs(name, bits):
    function, tensors = PROGRAMS[name]
    with config.patch(vector_bits=bits):
        check(function, *tensors)


@pytest.mark.parametrize("name", ["layer norm", "softmax", "log softmax of columns", "cat", "argmax", "variance"])
def test_programs_in_halves(name):
    function, tensors = PROGRAMS[name]
    for dtype, atol in ((torch.bfloat16, 5e-2), (torch.float16, 1e-2)):
        check(function, *(t.to(dtype) for t in tensors), atol=atol, rtol=5e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_chains_round_as_eager_does_in_each_dtype(dtype):
    check(lambda x, y: (x * y + x) / 3 - y, rand(50, dtype=dtype), rand(50, dtype=dtype), rtol=0, atol=0)


def row(x):
    y = (x - x.mean(1, keepdim=True)).relu()
    return y, y.sum(1), x.argmax(1), x.amin(0), (x + 1).t().contiguous()


@pytest.mark.parametrize("bits", VECTORS)
def test_each_length_of_a_row(bits):
    lanes = bits // 32
    with config.patch(vector_bits=bits):
        for n in (*range(1, 2 * lanes + 2), *range(8 * lanes - 1, 8 * lanes + 3)):
            check(row, whole(3, n, dtype=torch.float32))


@pytest.mark.parametrize(
    "axes", [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 3), (0, 3), (1, 2, 3), (0, 2, 3), (0, 1, 2, 3)]
)
def test_reductions_over_any_axes(axes):
    x = whole(3, 5, 2, 9, dtype=torch.float32)
    check(lambda x: (x.sum(axes), x.amax(axes, keepdim=True), (x * 2).mean(axes)), x)


@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: x.t().contiguous().t(),
        lambda x: torch.stack([x, x], -1)[..., 0],
        lambda x: torch.cat([x, x], 1)[:, : x.shape[1]],
        lambda x: x[:1].expand(9, x.shape[1]),
        lambda x: x[:, :1].expand(x.shape[0], 21),
        lambda x: functional.pad(x, (3, 2))[:, 3:-2],
    ],
)
def test_inputs_that_are_not_contiguous(arrange):
    def function(x, y):
        z = x * 2 + y
        return z, z.sum(0), z.sum(1), x.softmax(1), x.flatten() + 1

    x = arrange(rand(9, 21))
    check(function, x, rand(9, 21))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["rows", "columns", "all", "pointwise", "softmax"])
def test_large_tensors_with_threads(name, threads):
    functions = {
        "rows": lambda x: (x * 2).sum(1),
        "columns": lambda x: (x * 2).sum(0),
        "all": lambda x: (x * x).sum(),
        "pointwise": lambda x: x.exp() + 1,
        "softmax": lambda x: torch.softmax(x, 1),
    }
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with config.patch(threads=threads):
            check(functions[name], rand(301, 1003), rtol=1e-4, atol=1e-3)
    finally:
        torch.set_num_threads(before)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 1_000_000))
def test_random_programs(seed):
    program = generate(seed, n_lines=8)
    function = program.function()
    expected_tensors = program.copies()
    expected = function(*expected_tensors)
    run = compiled(function, program.copies())
    for _ in range(2):
        tensors = program.copies()
        got = run(*tensors)
        torch.testing.assert_close(
            [*got, *tensors], [*expected, *expected_tensors], rtol=0, atol=0, msg=program.explain
        )
