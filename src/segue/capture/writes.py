"""What operations write to, which of them can fail, and what a run saves so that it can be taken back then."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from segue.capture.values.base import Value
from segue.capture.values.sequence import ListValue, TupleValue
from segue.capture.values.tensor import TensorValue

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer
    from segue.guards.source import Source

FALLIBLE_OPERATIONS = frozenset(
    """
    index_select gather take take_along_dim embedding embedding_bag scatter scatter_ scatter_add scatter_add_
    scatter_reduce index_put index_put_ index_add index_add_ index_copy index_copy_ index_fill index_fill_ inv inverse
    pinv solve solve_ex solve_triangular lstsq cholesky cholesky_ex cholesky_inverse cholesky_solve lu lu_factor
    ldl_factor qr svd svdvals eig eigh eigvals eigvalsh det slogdet logdet matrix_rank matrix_power tensorinv
    tensorsolve multinomial bernoulli one_hot nll_loss cross_entropy ctc_loss binary_cross_entropy gaussian_nll_loss
    multilabel_margin_loss multi_margin_loss bincount histc repeat_interleave floordiv floor_divide mod remainder
    ifloordiv imod fmod searchsorted unbind
    """.split()
)
"""Operations that can fail on some data although shapes and dtypes fit."""

MOST_SAVED_BYTES = 1 << 20
"""How much of the program's tensors a run may save before it writes to them: running statistics, not weights."""

_STATISTICS: dict[Any, tuple[slice, str, bool]] = {
    F.batch_norm: (slice(1, 3), "training", False),
    F.instance_norm: (slice(1, 3), "use_input_stats", True),
    torch.batch_norm: (slice(3, 5), "training", True),
    torch.instance_norm: (slice(3, 5), "use_input_stats", True),
}
"""Operations that update running statistics without a new version of them: where these are, the switch, its default."""


def statistics(tr: Tracer, target: Any, args: list[Value], kwargs: dict[str, Value]) -> list[TensorValue]:
    """The running statistics that an operation updates."""
    if not isinstance(target, Hashable) or target not in _STATISTICS:
        return []
    places, switch, default = _STATISTICS[target]
    given = args[5] if len(args) > 5 else kwargs.get(switch)
    if not (default if given is None else tr.look(given).real is not False):
        return []
    named = {k: v for k, v in kwargs.items() if k in ("running_mean", "running_var")}
    return tensors_of(args[places], named)


def saved_sources(written: Iterable[TensorValue], known: list[TensorValue]) -> list[Source] | None:
    """Where the program's tensors are that have been written; None if they cannot be put back, or are too large."""
    storages = {_storage(v) for v in written if v.fake.layout is torch.strided}
    changed = [v for v in known if v.source is not None and _is_in(v, storages)]
    size = sum(v.fake.untyped_storage().nbytes() for v in changed)
    if size > MOST_SAVED_BYTES or not all(map(_is_only_filled, changed)):
        return None
    return [v.source for v in changed if v.source is not None]


def _is_in(value: TensorValue, storages: set[int]) -> bool:
    return value.fake.layout is torch.strided and _storage(value) in storages


def _storage(value: TensorValue) -> int:
    return value.fake.untyped_storage()._cdata


def _is_only_filled(value: TensorValue) -> bool:
    """Whether a tensor of the program has got other numbers, and neither a gradient's history nor another shape."""
    fake, real = value.fake, value.real
    layout = (fake.shape, fake.stride(), fake.storage_offset()) == (real.shape, real.stride(), real.storage_offset())
    return layout and not fake.requires_grad and type(real) in (torch.Tensor, torch.nn.Parameter)


def may_fail(name: str, args: list[Value]) -> bool:
    """Whether an operation can fail on some data."""
    last = name.rpartition(".")[2]
    if last in ("getitem", "setitem"):
        return bool(tensors_of(args[1:2], {}))
    return last in FALLIBLE_OPERATIONS or name.startswith("torch.ops")


def tensors_of(args: list[Value], kwargs: dict[str, Value]) -> list[TensorValue]:
    """The tensors among operands."""
    found = []
    for value in (*args, *kwargs.values()):
        inner = getattr(value, "looked", None) or value
        if isinstance(inner, TensorValue):
            found.append(inner)
        elif isinstance(inner, (TupleValue, ListValue)):
            found += tensors_of(inner._items or [], {})
    return found
