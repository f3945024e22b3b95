# SPDX-License-Identifier: MIT
"""The two drivers: what they make, what they say when they fail, and that each compile stands alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from device_support import tree

from kernelwright_toolchain.cubin import check
from kernelwright_toolchain.device import Job, Nvcc, Nvrtc, child
from kernelwright_toolchain.device.log import spills
from kernelwright_toolchain.errors import CompileError, ToolMissing
from tests.tree import ROOT

PLAIN = 'extern "C" __global__ void plain_k(float* p) { p[threadIdx.x] *= 2.0f; }\n'
HEADER = "#pragma once\ninline __device__ float scaled(float x) { return x * 3.0f; }\n"
WITH_HEADER = '#include "scale.cuh"\nextern "C" __global__ void header_k(float* p) { p[threadIdx.x] = scaled(p[0]); }\n'
FAMILY = r"""
template <typename T, int N>
__device__ void add(T* p) {
  for (int i = 0; i < N; i++) p[i * blockDim.x + threadIdx.x] += T(N);
}
#define KERNEL(name, T, N) \
  extern "C" __global__ void __launch_bounds__(N * 32) family_##name(T* p) { add<T, N>(p); }
KERNEL(float, float, 4)
KERNEL(double, double, 2)
KERNEL(int, int, 8)
"""
FEATURES = r"""
#ifdef KW_HAS_WGMMA
extern "C" __global__ void features_wgmma(int* p) { p[0] = KW_HAS_WGMMA; }
#endif
#ifdef KW_HAS_CP_ASYNC
extern "C" __global__ void features_cp_async(int* p) { p[0] = KW_HAS_CP_ASYNC; }
#endif
extern "C" __global__ void features_any(int* p) { p[0] = 0; }
"""


@pytest.fixture
def root(tmp_path):
    place = tree(tmp_path, plain=PLAIN, header=WITH_HEADER, family=FAMILY, features=FEATURES)
    (place / "csrc/ops/toy/scale.cuh").write_text(HEADER)
    return place


def kernels(compiler, job):
    facts = check(compiler.compile(job).image, job.code)
    return [k.name for k in facts.kernels] if job.code.kind == "cubin" else [name for name, _ in facts.kernels]


@pytest.mark.parametrize("code", ["sm_80", "sm_90a", "compute_90"])
def test_a_source_becomes_a_checked_image(compiler, root, table, code):
    assert kernels(compiler, Job(root, "plain", table.codes[code])) == ["plain_k"]
    assert kernels(compiler, Job(root, "header", table.codes[code])) == ["header_k"]
    assert kernels(compiler, Job(root, "family", table.codes[code])) == ["family_double", "family_float", "family_int"]


def test_a_kernel_sees_the_features_of_its_code(compiler, root, table):
    everything = ["features_any", "features_cp_async", "features_wgmma"]
    assert kernels(compiler, Job(root, "features", table.codes["sm_90a"])) == everything
    assert kernels(compiler, Job(root, "features", table.codes["sm_90"])) == everything[:2]
    assert kernels(compiler, Job(root, "features", table.codes["sm_75"])) == everything[:1]


def test_an_image_holds_the_sources_symbols_and_no_ballast(compiler, root, table):
    """NVRTC would add forty constants of its own header nv/target."""
    facts = check(compiler.compile(Job(root, "plain", table.codes["sm_90"])).image, table.codes["sm_90"])
    assert [name for name in facts.symbols if not name.startswith(".nv.")] == ["plain_k"]


def test_an_architecture_specific_code_has_its_instructions(compiler, root, table):
    fence = 'extern "C" __global__ void plain_k() { asm volatile("wgmma.fence.sync.aligned;"); }\n'
    (root / "csrc/ops/toy/plain.cu").write_text(fence)
    assert kernels(compiler, Job(root, "plain", table.codes["sm_90a"])) == ["plain_k"]
    with pytest.raises(CompileError, match="wgmma"):
        compiler.compile(Job(root, "plain", table.codes["sm_90"]))


def test_what_a_compile_took_is_known(compiler, root, table):
    compiled = compiler.compile(Job(root, "family", table.codes["sm_80"]))
    assert 0 < compiled.seconds < 60
    assert 20 << 20 < compiled.peak < 4 << 30
    assert set(spills(compiled.log)) == {"family_double", "family_float", "family_int"}


def test_launch_bounds_arrive(compiler, root, table):
    facts = check(compiler.compile(Job(root, "family", table.codes["sm_80"])).image, table.codes["sm_80"])
    assert {k.name: k.max_threads for k in facts.kernels} == {
        "family_double": 64,
        "family_float": 128,
        "family_int": 256,
    }


def test_a_rejected_source_keeps_everything_the_compiler_said(compiler, root, table):
    text = "\nint f() { return one_error; }\nint g() { return another_error; }\n"
    (root / "csrc/ops/toy/plain.cu").write_text(PLAIN + text)
    with pytest.raises(CompileError) as caught:
        compiler.compile(Job(root, "plain", table.codes["sm_80"]))
    message = str(caught.value)
    for words in ("csrc/ops/toy/plain.cu", "sm_80", compiler.version, "exit code", "one_error", "another_error"):
        assert words in message
    assert "plain.cu(3)" in message


def test_an_option_of_a_debug_build_is_for_debug_only(compiler, root, table):
    code = table.codes["sm_80"]
    assert "-lineinfo" not in compiler.options(Job(root, "plain", code))
    assert "-lineinfo" in compiler.options(Job(root, "plain", code, debug=True))
    image = compiler.compile(Job(root, "plain", code, debug=True)).image
    assert b".debug_line" in image
    assert b".debug_line" not in compiler.compile(Job(root, "plain", code)).image


def test_no_option_names_a_place_on_this_machine(compiler, root, table):
    for code in table.codes.values():
        for option in compiler.options(Job(root, "plain", code)):
            assert str(root) not in option
            assert not Path(option.removeprefix("-I")).is_absolute()


def test_identity(compiler):
    assert compiler.version.startswith(f"{compiler.release}.")
    assert len(compiler.version.split(".")) == 3
    assert len(bytes.fromhex(compiler.digest)) == 32


def test_the_reference_nvrtc_is_the_tables(nvrtc, table):
    assert nvrtc.version == table.toolkits["cu122"].components["nvrtc"]


def test_a_file_that_is_no_nvrtc_is_refused(tmp_path):
    with pytest.raises(ToolMissing, match="NVRTC is not at"):
        Nvrtc(tmp_path / "libnvrtc.so.12")
    (tmp_path / "libnvrtc.so.12").write_bytes(b"\x7fELF nothing")
    with pytest.raises(ToolMissing, match="does not say which NVRTC"):
        _ = Nvrtc(tmp_path / "libnvrtc.so.12", memo=tmp_path).version


def test_an_nvrtc_that_does_not_load_is_a_missing_tool(root, table, tmp_path):
    broken = tmp_path / "libnvrtc.so.12"
    broken.write_bytes(b"no library, but: Cuda compilation tools, release 12.2, V12.2.140")
    with pytest.raises(ToolMissing, match=r"12\.2\.140 .*does not work here(.|\n)*invalid ELF header"):
        Nvrtc(broken, memo=tmp_path).compile(Job(root, "plain", table.codes["sm_80"]))


def test_an_nvrtc_that_crashes_ends_its_own_process_only(nvrtc, root, table, tmp_path):
    """A library cut short has pages that are not there: the loader dies on them."""
    broken = tmp_path / "libnvrtc.so.12"
    shutil.copyfile(nvrtc.library, broken)
    os.truncate(broken, broken.stat().st_size * 9 // 10)
    with pytest.raises((CompileError, ToolMissing), match=r"ended by SIG|does not work here"):
        Nvrtc(broken, memo=tmp_path).compile(Job(root, "plain", table.codes["sm_80"]))


def test_nvcc_without_a_gcc_is_refused(tmp_path, monkeypatch):
    (tmp_path / "nvcc").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="needs a GCC"):
        Nvcc(tmp_path / "nvcc")
    with pytest.raises(ToolMissing, match="nvcc is not at"):
        Nvcc(tmp_path / "none")


def test_an_nvcc_that_cannot_run_is_a_missing_tool(tmp_path):
    (tmp_path / "gcc").touch(mode=0o755)
    (tmp_path / "nvcc").write_text("#!/bin/sh\necho broken toolkit; exit 3\n")
    (tmp_path / "nvcc").chmod(0o755)
    with pytest.raises(ToolMissing, match=r"exit code 3(.|\n)*broken toolkit"):
        _ = Nvcc(tmp_path / "nvcc", tmp_path / "gcc", memo=tmp_path).version


def test_flags_in_the_environment_do_not_reach_nvcc(nvcc, root, table, monkeypatch):
    code = table.codes["sm_80"]
    expected = nvcc.compile(Job(root, "plain", code)).image
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    monkeypatch.setenv("NVCC_PREPEND_FLAGS", "-DKW_HAS_WGMMA=1")
    monkeypatch.setenv("CPATH", str(root))
    assert nvcc.compile(Job(root, "plain", code)).image == expected


def test_a_crash_is_told_as_one(tmp_path):
    ended = child.run(["/bin/sh", "-c", "echo last words; kill -SEGV $$"], cwd=tmp_path, scratch=tmp_path)
    assert (ended.code, ended.output, ended.why()) == (-signal.SIGSEGV, "last words\n", "ended by SIGSEGV")


PEAK = """
import sys
from pathlib import Path
from kernelwright_toolchain.device import child
ours = b'x' * (600 << 20)  # which is not the child's
held = "import sys; x = b'x' * (300 << 20); sys.exit(len(x) & 7)"
under = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', {held!r}]).returncode)"
place = Path(sys.argv[1])
for program in (held, under):
    print(child.run([sys.executable, "-c", program], cwd=place, scratch=place).peak)
"""


def test_the_peak_of_a_child_is_measured(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(tmp_path)], cwd=ROOT / "toolchain", capture_output=True, check=True
    )
    for peak in done.stdout.split():
        assert 300 << 20 < int(peak) < 400 << 20
