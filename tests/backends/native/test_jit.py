"""LLVM text becomes code at an address."""

from __future__ import annotations

import ctypes
import gc
import logging
import math
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from segue import config
from segue.backends.native import cache
from segue.backends.native.jit import compile_module, emit_assembly
from segue.backends.native.target import Target, host
from segue.errors import InternalError

TWICE = """
define i64 @twice(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
define i64 @thrice(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    with config.patch(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def call(address: int, *arguments: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))(address)(*arguments)


def origins(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Where the code came from in each compilation that was logged."""
    found = [re.search(r"(compiled|linked from the cache) in [\d.]+ ms", r.getMessage()) for r in caplog.records]
    return [m[1] for m in found if m]


def test_every_symbol_has_an_address() -> None:
    code = compile_module(TWICE, ["twice", "thrice"], host())
    assert call(code.address("twice"), 21) == 42
    assert call(code.address("thrice"), 21) == 63
    with pytest.raises(KeyError):
        code.address("fourfold")


def test_works_without_the_cache(folder: Path) -> None:
    with config.patch(cache=False):
        assert call(compile_module(TWICE, ["twice"], host()).address("twice"), 4) == 8
    assert not folder.exists()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_all_levels_of_code_generation(level: int, caplog) -> None:
    with config.patch(codegen_level=level, log="timing"):
        assert call(compile_module(TWICE, ["twice"], host()).address("twice"), 4) == 8
    assert origins(caplog) == ["compiled"]


def test_functions_of_sleef_are_found() -> None:
    bits = 128 if host().vector_bits == 128 else 256
    count = bits // 32
    text = f"""
    declare <{count} x float> @Sleef_expf{count}_u10(<{count} x float>)
    define void @exp(ptr %p) {{
      %a = load <{count} x float>, ptr %p, align 4
      %b = call <{count} x float> @Sleef_expf{count}_u10(<{count} x float> %a)
      store <{count} x float> %b, ptr %p, align 4
      ret void
    }}
    """
    # a declaration starts its line in generated text
    code = compile_module(text.replace("\n    ", "\n"), ["exp"], host())
    values = torch.linspace(-3, 3, count)
    expected = values.exp()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.address("exp"))(values.data_ptr())
    torch.testing.assert_close(values, expected)


def test_functions_of_libm_and_of_pytorch_are_found() -> None:
    text = """
declare double @lgamma(double)
declare i32 @omp_get_max_threads()
define double @f(double %x) {
  %y = call double @lgamma(double %x)
  ret double %y
}
define i32 @g() {
  %y = call i32 @omp_get_max_threads()
  ret i32 %y
}
"""
    code = compile_module(text, ["f", "g"], host())
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address("f"))(5.0) == math.log(24)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(code.address("g"))() >= 1


def test_calls_that_the_code_generator_makes_are_found() -> None:
    text = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @clear(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  ret void
}
"""
    code = compile_module(text, ["clear"], host())
    values = torch.ones(1000)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("clear"))(values.data_ptr(), 2000)
    assert values.sum() == 500


def test_modules_may_define_the_same_names() -> None:
    other = TWICE.replace("add i64 %x, %x", "sub i64 %x, %x")
    first, second = (compile_module(text, ["twice"], host()) for text in (TWICE, other))
    assert call(first.address("twice"), 5) == 10
    assert call(second.address("twice"), 5) == 0


def mapped(address: int) -> bool:
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        if low <= address < high:
            return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_code_is_in_memory_as_long_as_its_object() -> None:
    code = compile_module(TWICE, ["twice"], host())
    address = code.address("twice")
    gc.collect()
    assert mapped(address)
    del code
    gc.collect()
    assert not mapped(address)


NOT_TEXT = "define"
UNDEFINED = "define i64 @f() {\n  ret i64 %x\n}\n"
NOT_DOMINATED = "define i64 @f() {\n  %y = add i64 %z, 1\n  %z = add i64 1, 1\n  ret i64 %y\n}\n"
NOT_LINKED = "declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n  ret void\n}\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (NOT_TEXT, "expected type"),
        (UNDEFINED, "undefined value '%x'"),
        (NOT_DOMINATED, "does not dominate all uses"),
        (NOT_LINKED, "nowhere"),
    ],
)
def test_wrong_text_is_an_internal_error_that_names_a_file(text: str, says: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InternalError, match=re.escape(says)) as failure:
        compile_module(text, ["f"], host())
    saved = Path(str(failure.value).rsplit(" ", 1)[1])
    assert saved.parent == tmp_path
    assert saved.read_text() == text
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600


def test_many_failures_in_cycles_of_garbage_do_no_harm(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cycles = []
    for text in [NOT_TEXT, UNDEFINED, NOT_DOMINATED] * 10:
        with pytest.raises(InternalError) as failure:
            compile_module(text, ["f"], host())
        cycle: list[object] = [failure.value]
        cycle.append(cycle)
        cycles.append(cycle)
    del cycles, cycle, failure
    gc.collect()
    assert call(compile_module(TWICE, ["twice"], host()).address("twice"), 4) == 8


def test_a_symbol_that_is_not_defined_is_an_internal_error(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(InternalError, match="fourfold"):
        compile_module(TWICE, ["fourfold"], host())


def test_the_error_stands_if_its_file_cannot_be_written(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(InternalError, match=r"expected type(.|\n)*could not be saved"):
        compile_module(NOT_TEXT, ["f"], host())


def test_the_second_time_is_from_the_cache(caplog) -> None:
    with config.patch(log="timing"):
        for _ in range(2):
            assert call(compile_module(TWICE, ["twice"], host()).address("twice"), 4) == 8
    assert origins(caplog) == ["compiled", "linked from the cache"]


def plain(target: Target) -> Target:
    return Target(target.triple, target.cpu, "", 128, has_fma=False, has_f16c=False)


def test_another_target_text_or_level_is_compiled_anew(caplog) -> None:
    with config.patch(log="timing"):
        compile_module(TWICE, ["twice"], host())
        compile_module(TWICE, ["twice"], plain(host()))
        compile_module(TWICE + "\n", ["twice"], host())
        with config.patch(codegen_level=1):
            compile_module(TWICE, ["twice"], host())
    assert origins(caplog) == ["compiled"] * 4


def test_a_cached_object_that_does_not_link_is_compiled_again(caplog) -> None:
    target = host()
    key = cache.key(TWICE, target.triple, target.cpu, target.features, str(config.codegen_level))
    store = cache.current()
    assert store is not None
    store.save(key, b"not an object file")
    with config.patch(log="timing"):
        for _ in range(2):
            assert call(compile_module(TWICE, ["twice"], target).address("twice"), 4) == 8
    assert origins(caplog) == ["compiled", "linked from the cache"]
    assert [r.levelno for r in caplog.records].count(logging.WARNING) == 1


def test_the_text_is_logged(caplog) -> None:
    with config.patch(log="llvm"):
        compile_module(TWICE, ["twice"], host())
    assert [r.getMessage() for r in caplog.records] == [f"LLVM text of twice:\n{TWICE}"]


def test_assembly_can_be_read() -> None:
    assert "twice:" in emit_assembly(TWICE, host())


def in_a_process(code: str, folder: Path) -> subprocess.Popen[str]:
    environment = {"PYTHONPATH": ":".join(sys.path), "SEGUE_CACHE_DIR": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=environment, stderr=subprocess.PIPE, text=True
    )


def test_segue_is_imported_without_llvm(folder: Path) -> None:
    code = "import sys, segue, segue.backends.native.jit\nassert not [m for m in sys.modules if 'llvmlite' in m]"
    process = in_a_process(code, folder)
    _, error = process.communicate(timeout=120)
    assert (process.returncode, error) == (0, "")


def test_processes_compile_the_same(folder: Path) -> None:
    code = f"""
import ctypes
from segue.backends.native.jit import compile_module
from segue.backends.native.target import host
for i in range(20):
    code = compile_module({TWICE!r} + "; %d" % i, ["twice"], host())
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address("twice"))(4) == 8
"""
    processes = [in_a_process(code, folder) for _ in range(2)]
    for process in processes:
        _, error = process.communicate(timeout=120)
        assert (process.returncode, error) == (0, "")
    assert len(list(folder.rglob("*.o"))) == 20
    assert len([f for f in folder.rglob("*") if f.is_file()]) == 20
