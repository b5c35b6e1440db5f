"""What PyTorch's own operator database says of a way to run functions: each sample, compared with eager.

    python -m tests.backends.native.opinfo [--run native|interpret] [--part 0/2] [--samples 5] [operator ...]

runs every sample of every operator, prints those that differ, and counts what was not tried and why.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from segue.backends.native import loops, plan
from segue.backends.native.ir import Invoke
from segue.backends.native.lower import lower
from segue.backends.native.values import NotGenerated
from segue.graphs import recorder
from tests.backends.native.interpreter import run as interpret
from tests.backends.native.recorder import record

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)

RunFunction = Callable[[Callable, Sequence[torch.Tensor]], Callable[..., list[Any]]]
"""run(function, example tensors): what to call with the tensors; it gives the flat results of the function."""


class Untried(Exception):
    """A sample that cannot be compared, and why."""


UNSPECIFIED = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())
"""Operations whose elements may be anything."""


@dataclass
class Tally:
    """What became of the samples.

    Attributes:
        tried: how many were compared.
        untried: how many were not, by reason.
        failures: a line for each sample that was not as eager has it.
        operations: how many were compared of each operation of the database.
        invoked: how often each ATen operation was left to ATen.
    """

    tried: int = 0
    untried: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    invoked: Counter[str] = field(default_factory=Counter)


# --- ways to run ------------------------------------------------------------------------------------------


def interpreted(function: Callable, tensors: Sequence[torch.Tensor], tally: Tally | None = None) -> Callable:
    """Record, lower and interpret."""
    try:
        graph, _ = record(function, copies(tensors))
    except Exception as e:
        raise Untried(f"recording: {type(e).__name__}") from e
    loop_graph = lower(graph)
    if tally is not None:
        _count_invoked(tally, loop_graph.statements)
    return lambda *given: interpret(loop_graph, given)


def compiled(function: Callable, tensors: Sequence[torch.Tensor], tally: Tally | None = None) -> Callable:
    """Compile to a plan, as the native backend does."""
    graph = fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    graph.output(graph.call_function(lambda *given: tuple(present(function(*given))), tuple(places)))
    module = fx.GraphModule({}, graph)
    try:
        aten = recorder.record(module, tensors)
        units = loops.kernels(lower(aten))
        made = plan.make_plan(plan.compile_kernels(aten, units), module.forward)
    except recorder.Unrecordable as e:
        raise Untried(f"unrecordable: {e}") from e
    except NotGenerated as e:
        raise Untried(f"no code: {e}") from e
    if tally is not None:
        _count_invoked(tally, units)
    return lambda *given: list(made(*given))


def _count_invoked(tally: Tally, units: Sequence[Any]) -> None:
    tally.invoked.update(str(u.call.op) for u in units if isinstance(u, Invoke))


RUNS: dict[str, Callable[..., Callable]] = {"native": compiled, "interpret": interpreted}

# --- samples ----------------------------------------------------------------------------------------------


def variants(op: Any) -> Iterator[tuple[str, Callable]]:
    """The operation and its in-place variant."""
    yield op.name, op.op
    if op.inplace_variant is not None:
        yield f"{op.name} in place", op.inplace_variant


def check(op: Any, dtype: torch.dtype, run: RunFunction, tally: Tally, n_samples: int) -> None:
    """Compare the first samples of an operation in a dtype with eager; in float32 also with strided tensors."""
    if dtype not in op.supported_dtypes("cpu") or op.name in UNSPECIFIED:
        return
    torch.manual_seed(1)
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=False), n_samples))
    for name, function in variants(op):
        for number, sample in enumerate(samples):
            label = f"{name} {op.variant_test_name} {dtype} #{number}"
            leaves, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
            _check_sample(label, op.name, Sample(function, leaves, spec), run, tally)
            if dtype is torch.float32 and isinstance(sample.input, torch.Tensor) and is_plain(sample.input):
                leaves = [strided(sample.input), *leaves[1:]]
                _check_sample(f"{label} strided", op.name, Sample(function, leaves, spec), run, tally)


class Sample:
    """A call of an operation as a function of the tensors among its arguments.

    Args:
        leaves, spec: of (first argument, other positional ones, keyword arguments).
    """

    def __init__(self, function: Callable, leaves: list[Any], spec: Any) -> None:
        self.function, self.leaves, self.spec = function, leaves, spec
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    @property
    def tensors(self) -> list[torch.Tensor]:
        return [self.leaves[i] for i in self.places]

    def __call__(self, *tensors: torch.Tensor) -> Any:
        filled = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            filled[place] = tensor
        first, args, kwargs = tree_unflatten(filled, self.spec)
        return self.function(first, *args, **kwargs)

    def reference(self) -> list[Any]:
        """What it gives, and what it writes, with all floating tensors as float64."""
        tensors = [t.double() if t.is_floating_point() else t for t in copies(self.tensors)]
        torch.manual_seed(0)
        return [*present(self(*tensors)), *tensors]


def _check_sample(label: str, name: str, sample: Sample, run: RunFunction, tally: Tally) -> None:
    try:
        check_sample(sample, run)
    except Untried as e:
        tally.untried[str(e)] += 1
        return
    except Exception as e:
        tally.failures.append(f"{label}: {type(e).__name__}: {str(e).strip().splitlines()[0:4]}")
    tally.tried += 1
    tally.operations[name] += 1


def check_sample(sample: Sample, run: RunFunction) -> None:
    """Compare one sample with eager, its results and what it writes; random numbers begin with the same seed.

    Raises:
        Untried: it cannot be compared.
        Exception: what differs.
    """
    if not all(map(is_plain, sample.tensors)):
        raise Untried("sparse or quantised")
    tensors, expected_tensors = copies(sample.tensors), copies(sample.tensors)
    expected, seed = eager(sample, expected_tensors)
    if not all(is_plain(t) for t in expected):
        raise Untried("sparse or quantised")
    if any(a.shape != b.shape or a.stride() != b.stride() for a, b in zip(tensors, expected_tensors, strict=True)):
        raise Untried("it changes the shape of an argument")
    runner = run(sample, tensors)
    torch.manual_seed(seed)
    got = runner(*tensors)
    compare([*got, *tensors], [*expected, *expected_tensors], sample.reference)


def eager(sample: Sample, tensors: Sequence[torch.Tensor]) -> tuple[list[Any], int]:
    """The flat results, and the seed that random numbers began with: some samples set one of their own."""
    torch.manual_seed(0)
    with mock.patch.object(torch, "manual_seed", side_effect=torch.manual_seed) as seeding:
        try:
            results = present(sample(*tensors))
        except Exception as e:
            raise Untried("eager raises") from e
    return results, seeding.call_args.args[0] if seeding.called else 0


def present(result: Any) -> list[Any]:
    """The results in containers, those that are there."""
    return [leaf for leaf in tree_leaves(result) if leaf is not None]


def is_plain(value: Any) -> bool:
    """Whether it is no tensor, or one that is strided memory."""
    return not isinstance(value, torch.Tensor) or (value.layout is torch.strided and not value.is_quantized)


def copies(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Tensors of their own with the same strides, but for those whose elements share memory."""
    return [copy(t.detach()) for t in tensors]


def copy(tensor: torch.Tensor) -> torch.Tensor:
    if 0 in tensor.stride() or tensor.layout is not torch.strided:
        return tensor.clone(memory_format=torch.preserve_format)
    fresh = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    fresh.untyped_storage().fill_(0)  # what lies between the elements can be reached by as_strided
    return fresh.copy_(tensor)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, not contiguous: transposed in memory, or at every other place."""
    if tensor.ndim > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return torch.stack([tensor, tensor], -1)[..., 0]


# --- comparing --------------------------------------------------------------------------------------------


def compare(got: list[Any], expected: list[Any], reference: Callable[[], list[Any]]) -> None:
    """Raise AssertionError where results differ, unless by a float64 reference ours is not the less accurate one."""
    assert len(got) == len(expected), f"{len(got)} results for {len(expected)}"
    for place, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not isinstance(b, (torch.Tensor, int, float, complex)):
            assert a == b, f"{a!r} for {b!r}"
            continue
        try:
            torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
        except AssertionError:
            if not isinstance(b, torch.Tensor) or a.dtype != b.dtype or a.shape != b.shape:
                raise
            if not is_as_accurate(a, b, reference()[place]):
                raise


def is_as_accurate(got: torch.Tensor, eager: torch.Tensor, exact: Any) -> bool:
    """Whether the greatest error is at most eager's, both beyond the error of rounding."""
    if not isinstance(exact, torch.Tensor) or exact.dtype != torch.float64 or exact.shape != got.shape:
        return False
    scale = exact.abs().clamp_min(torch.finfo(eager.dtype).tiny)
    errors = [((t.double() - exact) / scale).abs() for t in (got, eager)]
    if not bool(torch.equal(errors[0].isnan(), errors[1].isnan())):
        return False
    ours, theirs = (float(e.nan_to_num(0.0).max()) for e in errors)
    return ours <= max(theirs, 2 * torch.finfo(eager.dtype).eps)


# --- many -------------------------------------------------------------------------------------------------


def check_all(
    run: RunFunction,
    tally: Tally,
    names: Sequence[str] = (),
    dtypes: Sequence[torch.dtype] = DTYPES,
    n_samples: int = 5,
    part: tuple[int, int] = (0, 1),
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Compare operations, and log each sample that differs.

    Args:
        names: of the operations; none for all.
        part: (i, n): the i-th of n parts of the database.
    """
    for op in op_db[part[0] :: part[1]]:
        if names and op.name not in names:
            continue
        for dtype in dtypes:
            known = len(tally.failures)
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                check(op, dtype, run, tally, n_samples)
            for line in tally.failures[known:]:
                log(line)


def report(tally: Tally) -> str:
    """What became of the samples, for people."""
    lines = [
        f"left to ATen ({len(tally.invoked)}): {', '.join(f'{op} {n}' for op, n in tally.invoked.most_common())}",
        f"not tried: {tally.untried.total()}",
        *(f"  {n:6} {reason}" for reason, n in tally.untried.most_common()),
        f"{tally.tried} samples of {len(tally.operations)} operations, {len(tally.failures)} differ",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Check, and print what differs, what has no rule and what was not tried."""
    parser = argparse.ArgumentParser(prog="python -m tests.backends.native.opinfo", description=main.__doc__)
    parser.add_argument("names", nargs="*", metavar="operator", help="operations of the database; none for all")
    parser.add_argument("--run", choices=RUNS, default="native", help="how to run them")
    parser.add_argument("--part", default="0/1", metavar="I/N", help="the I-th of N parts of the database")
    parser.add_argument("--samples", type=int, default=5, help="of each operation and dtype at most")
    given = parser.parse_args(arguments)
    index, _, n_parts = given.part.partition("/")
    tally, start = Tally(), time.perf_counter()
    run = partial(RUNS[given.run], tally=tally)
    part = int(index), int(n_parts)
    check_all(run, tally, given.names, DTYPES, given.samples, part, lambda line: print(line, flush=True))
    print(f"{report(tally)}, {time.perf_counter() - start:.0f} s")
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
