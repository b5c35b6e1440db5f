"""Regular expressions: matching constants gives constants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from segue.capture.rules import folded, rule
from segue.capture.values.base import Value
from segue.capture.values.iterator import SequenceIterator

if TYPE_CHECKING:
    from segue.capture.tracer import Tracer

Args = list[Value]
Kwargs = dict[str, Value]


folded(re._compile)  # type: ignore[attr-defined]


@rule(re.Pattern.finditer)
def _finditer(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
    return SequenceIterator(tr.fold(_matches, args, kwargs), born=tr.here, transient=True)


def _matches(pattern: Any, *args: Any, **kwargs: Any) -> list[Any]:
    return list(pattern.finditer(*args, **kwargs))


def _substitution(method: Any, stand_in: Any) -> None:
    def substitute(tr: Tracer, args: Args, kwargs: Kwargs) -> Value:
        replacement = tr.look(args[1] if len(args) > 1 else kwargs["repl"])
        if issubclass(replacement.python_type(tr), (str, bytes)):
            return tr.fold(method, args, kwargs)
        return tr.call(tr.pinned(stand_in), args, kwargs)

    rule(method)(substitute)


def substituted(self: Any, repl: Any, string: Any, count: int = 0) -> Any:
    """`pattern.subn(repl, string, count)` for a function `repl`."""
    pieces: list[Any] = []
    position = n = 0
    for match in self.finditer(string):
        if count and n == count:
            break
        pieces.append(string[position : match.start()])
        pieces.append(repl(match))
        position = match.end()
        n += 1
    pieces.append(string[position:])
    return string[:0].join(pieces), n


def substituted_text(self: Any, repl: Any, string: Any, count: int = 0) -> Any:
    """`pattern.sub(repl, string, count)` for a function `repl`."""
    return substituted(self, repl, string, count)[0]


_substitution(re.Pattern.sub, substituted_text)
_substitution(re.Pattern.subn, substituted)
