"""What machine code is generated for: this machine, or a plainer one that the configuration asks for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from segue import config
from segue.errors import BackendError


@dataclass(frozen=True)
class Target:
    """A machine to generate code for.

    Example:
        >>> host().vector_bits in (128, 256, 512)
        True
    """

    triple: str
    cpu: str
    features: str
    """What the machine has and has not, in LLVM's form: `+avx2,-avx512f`."""
    vector_bits: int
    """The size of the vectors that kernels are written with."""
    has_fma: bool
    """`llvm.fma` is an instruction, not a call."""
    has_f16c: bool
    """Conversions between `half` and `float` are instructions, not calls."""

    def lanes(self, bits: int) -> int:
        """How many elements of `bits` bits a vector holds."""
        return self.vector_bits // bits


_X86_VECTORS = {
    512: ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"),
    256: ("avx2", "fma"),
}
"""Vector sizes past the baseline of x86-64, widest first, with the features that each needs."""

_X86_PLAIN = ("avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe", "popcnt")
"""What code for 256 bits may use besides the baseline when a machine could do more."""


def host() -> Target:
    """The machine that this process runs on, with the vectors of `config.vector_bits` if that is set.

    Raises:
        BackendError: `config.vector_bits` is more than the machine has.
    """
    bits: int = config.vector_bits
    return _host(bits)


def function_attributes(target: Target) -> str:
    """The attributes of a generated function: it raises nothing and may use the widest vectors."""
    return f'nounwind "prefer-vector-width"="{target.vector_bits}"'


@functools.lru_cache(maxsize=8)
def _host(bits: int) -> Target:
    from llvmlite import binding

    triple, name = binding.get_process_triple(), binding.get_host_cpu_name()
    try:
        features: Mapping[str, bool] = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell for this processor
        features = {}
    return describe(triple, name, features, bits)


def describe(triple: str, cpu: str, features: Mapping[str, bool], vector_bits: int = 0) -> Target:
    """The target for a machine.

    Args:
        triple, cpu: its names, as LLVM gives them.
        features: what it has, as LLVM gives it.
        vector_bits: the size of vectors to use; 0 for the widest.

    Raises:
        BackendError: the machine has no such vectors.
    """
    is_x86 = triple.startswith("x86_64")
    vectors = _X86_VECTORS if is_x86 else {}
    widest = next((bits for bits, needed in vectors.items() if all(features.get(f) for f in needed)), 128)
    bits = vector_bits or widest
    if bits > widest:
        raise BackendError(f"config.vector_bits is {bits}, but this machine has vectors of {widest} bits")
    if not is_x86:  # the baseline of aarch64 has vectors of 128 bits, fma and conversions of half
        return Target(triple, cpu, _flat(features), bits, has_fma=True, has_f16c=True)
    if bits == 128:
        return Target(triple, "x86-64", "", bits, has_fma=False, has_f16c=False)
    if bits < widest:
        cpu, features = "x86-64", {f: True for f in _X86_PLAIN if features.get(f)}
    return Target(triple, cpu, _flat(features), bits, has_fma=True, has_f16c=bool(features.get("f16c")))


def _flat(features: Mapping[str, bool]) -> str:
    return ",".join(f"{'+' if there else '-'}{name}" for name, there in sorted(features.items()))
