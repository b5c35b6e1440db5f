"""Segue's errors.  Every one that a user can see derives from `SegueError`."""

from __future__ import annotations


class SegueError(Exception):
    """Base of all errors raised by Segue itself."""


class GraphBreakError(SegueError):
    """A graph break under `fullgraph=True`, raised before any side effect of the call.

    The message names the reason, a hint and the user's source lines; `.event` is the report's entry for it.
    """

    def __init__(self, message: str, event: object | None = None) -> None:
        super().__init__(message)
        self.event = event


class RecompileError(SegueError, RuntimeError):
    """Code had to be compiled again under `set_stance("fail_on_recompile")`.

    The message names the guard that failed and the user's source line.
    """


class InternalError(SegueError):
    """A failure inside the compiler.  The user's program is not at fault; please report it.

    `config.suppress_errors = True` logs it once and runs the function in the interpreter instead.
    """


class BackendError(SegueError):
    """A backend failed to compile a graph, or returned something that cannot be called."""


class GraphDeclined(SegueError):
    """A backend would rather not compile a graph: it runs as it was captured, and the report says why.

    For backends to raise; not an error for the user.
    """

    def __init__(self, id: str, reason: str) -> None:
        super().__init__(reason)
        self.id = id


class RecompileLimitWarning(UserWarning):
    """A gate reached `config.recompile_limit` segments; it runs in the interpreter from now on."""
