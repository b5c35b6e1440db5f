"""Segue: a just-in-time compiler for PyTorch programs.

`segue.compile(fn)` watches a function's bytecode, compiles its tensor work as graphs, and leaves
the rest to Python.
"""

from segue import config, errors
from segue.api import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    install,
    is_compiling,
    mark_dynamic,
    mark_static,
    reset,
    uninstall,
)
from segue.backends import list_backends, register_backend
from segue.markers import graph_break, skip_frame
from segue.report.explain import explain
from segue.stance import set_stance

__version__ = "0.1.0"

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "disable",
    "errors",
    "explain",
    "graph_break",
    "install",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "register_backend",
    "reset",
    "set_stance",
    "skip_frame",
    "uninstall",
]
