"""What PyTorch's own operator database says of a way to run functions: each sample, compared with eager.

python -m tests.backends.native.opinfo [operator ...]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from segue.backends.native import native
from segue.backends.native.ir import Invoke
from segue.backends.native.lower import lower
from segue.errors import GraphDeclined
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

RunFunction = Callable[[Callable, Sequence[torch.Tensor]], list[Any]]
"""run(function, tensors): the flat results of function(*tensors), which may write the tensors."""


class Untried(Exception):
    """A sample that cannot be run for a reason that is not the runner's."""


UNSPECIFIED = frozenset("empty empty_like empty_strided empty_permuted new_empty new_empty_strided".split())
"""Operations whose elements may be anything."""


@dataclass
class Tally:
    """What became of the samples.

    Attributes:
        failures: a line for each sample that was not as eager has it.
        invoked: how often each operation was left to ATen.
    """

    tried: int = 0
    untried: int = 0
    failures: list[str] = field(default_factory=list)
    invoked: Counter[str] = field(default_factory=Counter)


def interpreted(function: Callable, tensors: Sequence[torch.Tensor], tally: Tally | None = None) -> list[Any]:
    """Record, lower and interpret."""
    try:
        graph, _ = record(function, [t.clone(memory_format=torch.preserve_format) for t in tensors])
    except Exception as e:
        raise Untried(f"recording: {type(e).__name__}: {e}") from e
    loops = lower(graph)
    if tally is not None:
        tally.invoked.update(str(s.call.op) for s in loops.statements if isinstance(s, Invoke))
    torch.manual_seed(0)
    return interpret(loops, tensors)


def compiled(function: Callable, tensors: Sequence[torch.Tensor]) -> list[Any]:
    """Compile by the native backend and run."""
    graph = fx.Graph()
    places = [graph.placeholder(f"x{i}") for i in range(len(tensors))]
    graph.output(graph.call_function(lambda *given: tuple(present(function(*given))), tuple(places)))
    try:
        plan = native(fx.GraphModule({}, graph), list(tensors))
    except GraphDeclined as e:
        raise Untried(f"declined: {e}") from e
    torch.manual_seed(0)
    return list(plan(*tensors))


def present(result: Any) -> list[Any]:
    """The results in containers, those that are there."""
    return [leaf for leaf in tree_leaves(result) if leaf is not None]


def variants(op: Any) -> Iterator[tuple[str, Callable]]:
    """The operation and its in-place variant."""
    yield op.name, op.op
    if op.inplace_variant is not None:
        yield f"{op.name} in place", op.inplace_variant


def check(op: Any, dtype: torch.dtype, run: RunFunction, tally: Tally, n_samples: int) -> None:
    """Compare the first samples of an operation in a dtype with eager."""
    if dtype not in op.supported_dtypes("cpu") or op.name in UNSPECIFIED:
        return
    torch.manual_seed(1)
    samples = list(islice(op.sample_inputs("cpu", dtype, requires_grad=False), n_samples))
    for name, function in variants(op):
        for number, sample in enumerate(samples):
            label = f"{name} {op.variant_test_name} {dtype} #{number}"
            check_sample(label, function, (sample.input, sample.args, sample.kwargs), run, tally)


def check_sample(label: str, function: Callable, given: Any, run: RunFunction, tally: Tally) -> None:
    """Compare one sample with eager, its results and what it writes."""
    leaves, spec = tree_flatten(given)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    if any(is_beyond(leaf) for leaf in leaves):
        tally.untried += 1
        return

    def called(*tensors: torch.Tensor) -> Any:
        filled = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            filled[place] = tensor
        first, args, kwargs = tree_unflatten(filled, spec)
        return function(first, *args, **kwargs)

    tensors, expected_tensors = copies(leaves, places), copies(leaves, places)
    try:
        torch.manual_seed(0)
        expected = present(called(*expected_tensors))
    except Exception:
        tally.untried += 1
        return
    if any(is_beyond(t) for t in expected) or any(
        a.shape != b.shape or a.stride() != b.stride() for a, b in zip(tensors, expected_tensors, strict=True)
    ):
        tally.untried += 1
        return
    tally.tried += 1
    try:
        got = run(called, tensors)
        compare([*got, *tensors], [*expected, *expected_tensors], lambda: reference(called, leaves, places))
    except Untried:
        tally.tried, tally.untried = tally.tried - 1, tally.untried + 1
    except Exception as e:
        if is_random(called, copies(leaves, places)):
            tally.tried, tally.untried = tally.tried - 1, tally.untried + 1
            return
        tally.failures.append(f"{label}: {type(e).__name__}: {str(e).strip().splitlines()[0:4]}")


class Draws(TorchDispatchMode):
    """Whether an operation draws random numbers."""

    found = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.found |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **kwargs or {})


def is_random(function: Callable, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a function draws random numbers; some samples set the seed, which a compiled run does not repeat."""
    with Draws() as draws:
        function(*tensors)
    return draws.found


def copies(leaves: list[Any], places: list[int]) -> list[torch.Tensor]:
    return [leaves[i].detach().clone(memory_format=torch.preserve_format) for i in places]


def is_beyond(value: Any) -> bool:
    """Whether comparing it makes no sense here."""
    return isinstance(value, torch.Tensor) and (value.layout is not torch.strided or value.is_quantized)


def reference(function: Callable, leaves: list[Any], places: list[int]) -> list[Any]:
    """What the function gives, and what it writes, with all floating tensors as float64."""
    tensors = [t.double() if t.is_floating_point() else t for t in copies(leaves, places)]
    torch.manual_seed(0)
    return [*present(function(*tensors)), *tensors]


def compare(got: list[Any], expected: list[Any], reference: Callable[[], list[Any]]) -> None:
    """Raise AssertionError where results differ, unless by a float64 reference ours is not the less accurate one."""
    assert len(got) == len(expected), f"{len(got)} results for {len(expected)}"
    for place, (a, b) in enumerate(zip(got, expected, strict=True)):
        if not isinstance(b, torch.Tensor):
            continue
        try:
            torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
        except AssertionError:
            if a.dtype != b.dtype or a.shape != b.shape or not is_as_accurate(a, b, reference()[place]):
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


def check_all(
    run: RunFunction,
    tally: Tally,
    names: Sequence[str] = (),
    dtypes: Sequence[torch.dtype] = DTYPES,
    n_samples: int = 5,
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Compare every operation, or those named, and log each sample that differs."""
    for op in op_db:
        if not names or op.name in names:
            for dtype in dtypes:
                known = len(tally.failures)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    check(op, dtype, run, tally, n_samples)
                for line in tally.failures[known:]:
                    log(line)


def main(arguments: Sequence[str]) -> int:
    """Check, and print what differs and what has no rule."""
    tally, start = Tally(), time.perf_counter()
    run = compiled if "--native" in arguments else partial(interpreted, tally=tally)
    names = [a for a in arguments if not a.startswith("--")]
    check_all(run, tally, names, log=lambda line: print(line, flush=True))
    print("left to ATen:", ", ".join(f"{op} {n}" for op, n in tally.invoked.most_common()))
    seconds = time.perf_counter() - start
    print(f"{tally.tried} samples, {len(tally.failures)} differ, {tally.untried} not tried, {seconds:.0f} s")
    return bool(tally.failures)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
