"""Which machine code is generated for."""

from __future__ import annotations

import platform

import pytest
from llvmlite import binding

from segue import config
from segue.backends.native.jit import emit_assembly
from segue.backends.native.target import Target, describe, function_attributes, host
from segue.errors import BackendError

AVX2 = {"avx": True, "avx2": True, "fma": True, "f16c": True, "sse4a": True, "avx512f": False}
AVX512 = {**AVX2, **dict.fromkeys(("avx512f", "avx512bw", "avx512dq", "avx512vl"), True)}
X86 = "x86_64-unknown-linux-gnu"

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="about x86-64")


@pytest.mark.parametrize(
    ("features", "bits"),
    [
        (AVX512, 512),
        (AVX512 | {"avx512vl": False}, 256),
        (AVX512 | {"avx512dq": False}, 256),
        (AVX2, 256),
        (AVX2 | {"fma": False}, 128),
        ({"avx": True}, 128),
        ({}, 128),
    ],
)
def test_the_widest_vectors_that_the_features_allow(features, bits) -> None:
    assert describe(X86, "some-cpu", features).vector_bits == bits


def test_the_natural_target_names_the_processor_and_all_its_features() -> None:
    found = describe(X86, "znver3", AVX2)
    assert found.cpu == "znver3"
    assert found.features == "+avx,+avx2,-avx512f,+f16c,+fma,+sse4a"
    assert (found.has_fma, found.has_f16c) == (True, True)


def test_conversions_of_half_are_a_feature_of_their_own() -> None:
    assert not describe(X86, "some-cpu", AVX2 | {"f16c": False}).has_f16c


def test_plainer_vectors_exclude_what_the_machine_could_do() -> None:
    found = describe(X86, "znver4", AVX512, 256)
    assert (found.cpu, found.features) == ("x86-64", "+avx,+avx2,+f16c,+fma")
    found = describe(X86, "znver4", AVX512, 128)
    assert found == Target(X86, "x86-64", "", 128, has_fma=False, has_f16c=False)


def test_aarch64_has_128_bits_with_fma() -> None:
    found = describe("aarch64-unknown-linux-gnu", "neoverse-n1", {"neon": True})
    assert (found.cpu, found.vector_bits, found.has_fma, found.has_f16c) == ("neoverse-n1", 128, True, True)


def test_more_than_the_machine_has_is_refused() -> None:
    with pytest.raises(BackendError, match=r"config\.vector_bits is 512, but this machine has vectors of 256 bits"):
        describe(X86, "znver3", AVX2, 512)


def test_lanes() -> None:
    assert [describe(X86, "znver3", AVX2).lanes(bits) for bits in (8, 16, 32, 64)] == [32, 16, 8, 4]


def test_function_attributes() -> None:
    assert function_attributes(describe(X86, "znver4", AVX512)) == 'nounwind "prefer-vector-width"="512"'


def test_the_host_is_this_machine() -> None:
    assert host().triple == binding.get_process_triple()
    assert host() is host()
    with config.patch(vector_bits=128):
        assert host().vector_bits == 128


def test_a_size_that_no_machine_has_cannot_be_set() -> None:
    with pytest.raises(ValueError, match="one of 0, 128, 256, 512, not 64"):
        config.vector_bits = 64


ADD = """
define void @add(ptr %p, ptr %q) {
  %a = load <8 x float>, ptr %p, align 4
  %b = load <8 x float>, ptr %q, align 4
  %c = fadd <8 x float> %a, %b
  store <8 x float> %c, ptr %p, align 4
  ret void
}
"""


@on_x86
@pytest.mark.parametrize("bits", [128, 256])
def test_the_size_of_vectors_shows_in_the_code(bits: int) -> None:
    assembly = emit_assembly(ADD, describe(X86, "znver3", AVX2, bits))
    assert ("ymm" in assembly, "vaddps" in assembly) == ((True, True) if bits == 256 else (False, False))


@on_x86
def test_the_function_attributes_allow_512_bits() -> None:
    target = describe(X86, "skylake-avx512", AVX512)
    text = f"""
    define <16 x float> @add(<16 x float> %a, <16 x float> %b) {function_attributes(target)} {{
      %c = fadd <16 x float> %a, %b
      ret <16 x float> %c
    }}
    """
    assert "zmm" in emit_assembly(text, target)
