"""From LLVM text to addresses: code generation in this process, or linking of an object that is on disk."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from segue import config
from segue.backends.native import cache
from segue.backends.native.target import Target
from segue.errors import InternalError
from segue.report.logs import logger


class Code:
    """Machine code in memory.  It is unmapped when this object dies: whoever keeps an address keeps this too."""

    def __init__(self, tracker: Any) -> None:
        self._tracker = tracker

    def address(self, name: str) -> int:
        """Where a symbol is.

        Raises:
            KeyError: it was not among the symbols asked for.
        """
        return int(self._tracker[name])


def compile_module(text: str, symbols: Sequence[str], target: Target) -> Code:
    """Compile LLVM text, or take its object from the cache, and link it.

    No optimisation pass runs over the text.  What it declares without defining is looked for in PyTorch's libraries
    and in what those depend on.

    Args:
        text: the module.
        symbols: the functions whose addresses are wanted.
        target: what to generate code for.

    Raises:
        InternalError: the text is not valid, or does not link; the message names a file with the text.

    Example:
        >>> from segue.backends.native.target import host
        >>> code = compile_module("define i64 @one() {\\n  ret i64 1\\n}", ["one"], host())
        >>> ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("one"))()
        1
    """
    topics = config.log.split(",")
    if "llvm" in topics:
        logger.info("LLVM text of %s:\n%s", ", ".join(symbols), text)
    start = time.perf_counter()
    store = cache.current()
    key = cache.key(text, target.triple, target.cpu, target.features, str(config.codegen_level)) if store else ""
    image = store.load(key) if store else None
    code = _link_cached(image, text, symbols) if image is not None else None
    origin = "linked from the cache"
    if code is None:
        origin = "compiled"
        try:
            image = emit_object(text, target)
            code = _link(image, text, symbols)
        except RuntimeError as error:
            raise InternalError(_explained(str(error), text)) from error
        if store:
            store.save(key, image)
    if "timing" in topics:
        logger.info("%s %s in %.1f ms", ", ".join(symbols), origin, 1000 * (time.perf_counter() - start))
    return code


def emit_object(text: str, target: Target) -> bytes:
    """The object file of a module.

    Raises:
        RuntimeError: LLVM does not accept the text.
    """
    machine = _machine(target, config.codegen_level)
    with _parsed(text, target, machine) as module:
        return bytes(machine.emit_object(module))


def emit_assembly(text: str, target: Target) -> str:
    """The assembly of a module, for people and tests.

    Raises:
        RuntimeError: LLVM does not accept the text.
    """
    machine = _machine(target, config.codegen_level)
    with _parsed(text, target, machine) as module:
        return str(machine.emit_assembly(module))


@contextlib.contextmanager
def _parsed(text: str, target: Target, machine: Any) -> Iterator[Any]:
    """A module in a context of its own, as types and constants live as long as their context.

    Both are closed by hand: the garbage collector might close the context first, and LLVM would crash.
    """
    with contextlib.ExitStack() as stack:
        context = _llvm().create_context()
        stack.callback(context.close)
        module = _llvm().parse_assembly(text, context)
        stack.callback(module.close)
        module.verify()
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        yield module


def _link_cached(image: bytes, text: str, symbols: Sequence[str]) -> Code | None:
    """The code of a cached object; None if it does not link, as it has to be compiled then."""
    try:
        return _link(image, text, symbols)
    except RuntimeError as error:
        logger.warning("a cached object of Segue does not link and is compiled again: %s", error)
        return None


def _link(image: bytes, text: str, symbols: Sequence[str]) -> Code:
    builder = _llvm().JITLibraryBuilder().add_object_img(image).add_current_process()
    for name in symbols:
        builder.export_symbol(name)
    declared = {name: _address_in_torch(name) for name in _DECLARATION.findall(text)}
    for name, address in declared.items():
        if address:
            builder.import_symbol(name, address)
    with _making:
        linker = _linker()
    try:
        return Code(builder.link(linker, f"segue.{next(_numbers)}"))
    except RuntimeError as error:
        absent = [name for name, address in declared.items() if not address]
        raise RuntimeError(f"{error} (not in PyTorch's libraries: {absent})" if absent else str(error)) from None


_DECLARATION = re.compile(r"^declare [^@\n]*@(?!llvm\.)([\w.$]+)\(", re.MULTILINE)
_numbers = itertools.count()  # LLVM never takes the name of a library twice


@functools.cache
def _llvm() -> Any:
    """llvmlite's binding, imported when it is first needed."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


_making = threading.Lock()


@functools.cache
def _linker() -> Any:
    """The only linker, which therefore outlives all that it linked; to be called under a lock."""
    return _llvm().create_lljit_compiler(use_jit_link=True)


@functools.cache
def _machine(target: Target, level: int) -> Any:
    """LLVM's code generator; position independent, as libraries may be anywhere in the address space."""
    made = _llvm().Target.from_triple(target.triple)
    return made.create_target_machine(target.cpu, target.features, level, reloc="pic", codemodel="small", jit=True)


@functools.cache
def _torch_library() -> ctypes.CDLL | None:
    """PyTorch's library of operators.

    Its symbols are looked up one by one, and not made global, as other libraries of the process would then see them.
    """
    import torch

    folder = os.path.join(os.path.dirname(torch.__file__), "lib")
    for name in ("libtorch_cpu.so", "libtorch_cpu.dylib"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return ctypes.CDLL(path)
    return None


@functools.cache
def _address_in_torch(name: str) -> int:
    """Where a function is in PyTorch's library or in one that it depends on, such as libm; 0 if nowhere."""
    function = getattr(_torch_library(), name, None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function is not None else 0


def _explained(message: str, text: str) -> str:
    """The message of a failure, with the name of a file that holds the text."""
    try:
        file, path = tempfile.mkstemp(prefix="segue-", suffix=".ll")
        with os.fdopen(file, "w") as stream:
            stream.write(text)
    except OSError as error:
        path = f"(which could not be saved: {error})"
    return f"LLVM does not accept the code that Segue generated: {message.strip()}\nthe code is in {path}"
