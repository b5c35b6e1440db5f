"""Backends: what turns a captured graph into something to call.

A backend is a callable `(torch.fx.GraphModule, list of example inputs) -> callable`, PyTorch's own
convention.
"""

from segue.backends.native import native as compile_natively
from segue.backends.registry import list_backends, lookup_backend, register_backend

register_backend(compile_natively, name="native")

__all__ = ["list_backends", "lookup_backend", "register_backend"]
