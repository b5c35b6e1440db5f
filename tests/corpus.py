"""The corpus: functions that cover every statement and expression kind of Python 3.11.

`CORPUS` is a list of `Case`; `observe(function, args)` runs one call and
`difference(expected, got)` explains how two observations differ. The functions are in `corpus_flow`
(control flow), `corpus_data` (expressions, calls, classes), `corpus_tensor` (the same constructs
around tensor arithmetic), `corpus_classes` (classes with protocols of their own, the library) and
`corpus_containers` (classes that derive from containers).

Example:
    for case in CORPUS:
        for plain, other in zip(case.make_args(), case.make_args()):
            expected, got = observe(case.function, plain), observe(changed(case.function), other)
            assert difference(expected, got) is None
"""

from tests import corpus_classes, corpus_containers, corpus_data, corpus_flow, corpus_tensor
from tests.case import CORPUS, Case, case, events
from tests.observation import Observation, difference, observe

__all__ = ["CORPUS", "MODULES", "Case", "Observation", "case", "difference", "events", "observe"]

#: The modules that define the cases.
MODULES = (corpus_flow, corpus_data, corpus_tensor, corpus_classes, corpus_containers)
