"""A run of a graph that can be taken back: when it raises, the user's code is run from the gate instead.

The interpreter then raises the error itself, at the user's line, for the user's handlers.  For that, the run must have
left nothing behind: thread state, random generators and small tensors of the program are put back; other tensors that
an operation has already written cannot be, and then the graph's own exception is what the user gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from segue.capture.rules.torch_state import remember


class PartialRun(Exception):
    """A graph raised `error` after it had written to the program's tensors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def transactional(
    run: Callable[..., Any],
    sets_state: bool,
    is_random: bool,
    writes_inputs: bool,
    saved: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """Wrap a compiled graph so that its effects on state are undone when it raises; `run` itself if it has none.

    Args:
        run: takes the graph's inputs.
        sets_state: whether it changes the thread's state.
        is_random: whether it takes random numbers.
        writes_inputs: whether it writes to tensors of the program.
        saved: which of its inputs are copied before it runs, to be put back.
    """
    if not (sets_state or is_random or writes_inputs):
        return run

    def attempt(*args: Any) -> Any:
        put_back = remember() if sets_state else None
        generator_state = torch.get_rng_state() if is_random else None
        storages = [args[i].untyped_storage() for i in saved]
        copies = [storage.clone() for storage in storages]
        versions = _versions(args, saved) if writes_inputs else []
        try:
            return run(*args)
        except Exception as error:
            if put_back is not None:
                put_back()
            if generator_state is not None:
                torch.set_rng_state(generator_state)
            if writes_inputs and versions != _versions(args, saved):
                raise PartialRun(error) from None
            for storage, copy in zip(storages, copies, strict=True):
                storage.copy_(copy)
            raise

    return attempt


def _versions(args: tuple[Any, ...], saved: tuple[int, ...]) -> list[int]:
    """Of the tensors that are not put back."""
    return [a._version for i, a in enumerate(args) if isinstance(a, torch.Tensor) and i not in saved]
