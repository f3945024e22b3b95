# SPDX-License-Identifier: MIT
"""The same bytes from any directory, any install prefix, any time and locale; and symbols that would break that."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from device_support import FakeCompiler, Made, log_of, tree

from kernelwright_toolchain.device import Compiled, Job, Nvcc, Nvrtc, build_images, child
from kernelwright_toolchain.device.compiler import check_options
from kernelwright_toolchain.device.image import finish
from kernelwright_toolchain.errors import CompileError, DeterminismError
from kernelwright_toolchain.files import digest_of, remembered
from kernelwright_toolchain.request import resolve

SOURCE = r"""
#include "parts.cuh"
constexpr int kBlock = 256;
__constant__ float c_table[4];
__device__ int g_counter;
template <int N>
__device__ float sum(const float* p) {
  float s = 0;
  for (int i = 0; i < N; i++) s += p[i] * part(p[i]);
  return s;
}
extern "C" __global__ void __launch_bounds__(kBlock) exact_k(float* p) {
  __shared__ float s[8];
  s[threadIdx.x & 7] = sum<4>(p) + c_table[threadIdx.x & 3] + g_counter;
  __syncthreads();
  p[threadIdx.x] = s[(threadIdx.x + 1) & 7];
}
"""
PART = "#pragma once\ninline __device__ __noinline__ float part(float x) { return x * 0.5f + 1.0f / x; }\n"
CODES = ("sm_80", "sm_90a", "compute_90")


def place(path: Path) -> Path:
    root = tree(path, exact=SOURCE)
    (root / "csrc/ops/toy/parts.cuh").write_text(PART)
    return root


@pytest.mark.parametrize("code", CODES)
def test_the_directory_is_not_in_the_image(compiler, table, tmp_path, code, monkeypatch):
    images = []
    for name, zone in (("a", "UTC"), ("a much longer/place with spaces", "Pacific/Auckland")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("LC_ALL", "C.UTF-8")
        images.append(compiler.compile(Job(place(tmp_path / name), "exact", table.codes[code])).image)
    assert images[0] == images[1]


def test_the_prefix_of_nvrtc_is_not_in_the_image(nvrtc, table, tmp_path):
    elsewhere = tmp_path / "another prefix" / "lib"
    shutil.copytree(nvrtc.library.parent, elsewhere)
    copy = Nvrtc(elsewhere / nvrtc.library.name, memo=tmp_path / "memo")
    assert (copy.version, copy.digest) == (nvrtc.version, nvrtc.digest)
    root = place(tmp_path / "root")
    for code in (table.codes[name] for name in CODES):
        assert copy.compile(Job(root, "exact", code)).image == nvrtc.compile(Job(root, "exact", code)).image


def test_the_prefix_of_nvcc_is_not_in_the_image(nvcc, table, tmp_path):
    plan = child.run([str(nvcc.path), "--dryrun", "-cubin", "x.cu"], cwd=tmp_path, scratch=tmp_path).output
    home = Path(next(line for line in plan.splitlines() if "_HERE_=" in line).partition("_HERE_=")[2]).parent
    if not (home / "nvvm").is_dir():
        pytest.skip(f"the toolkit of {nvcc.path} is not in one directory; it cannot be moved")
    elsewhere = tmp_path / "another-prefix"
    for part in ("bin", "nvvm"):
        shutil.copytree(home / part, elsewhere / part, symlinks=True)
    for part in ("targets", "include", "lib64", "lib"):
        if (home / part).exists():
            (elsewhere / part).symlink_to((home / part).resolve())
    copy = Nvcc(elsewhere / "bin/nvcc", nvcc.host_gcc, memo=tmp_path / "memo")
    root = place(tmp_path / "root")
    for code in (table.codes[name] for name in CODES):
        assert copy.compile(Job(root, "exact", code)).image == nvcc.compile(Job(root, "exact", code)).image


HASHED = {
    "static function": "static __device__ __noinline__ float f(float x) { return x * sinf(x); }",
    "unnamed namespace": "namespace { __device__ __noinline__ float f(float x) { return x * sinf(x); } }",
    "static by macro": "#define S static\nS __device__ __noinline__ float f(float x) { return x * sinf(x); }",
}


@pytest.mark.parametrize("what", HASHED)
@pytest.mark.parametrize("code", ["sm_80", "compute_90"])
def test_why_internal_linkage_is_refused(nvcc, table, tmp_path, what, code):
    """nvcc names such a function after a hash that the directory goes into; what slips past the text is caught here."""
    text = HASHED[what] + '\nextern "C" __global__ void k(float* p) { p[0] = f(p[1]) + f(p[2]); }\n'
    job = Job(tree(tmp_path / "a", hashed=text), "hashed", table.codes[code])
    compiled = nvcc.compile(job)
    moved = nvcc.compile(Job(tree(tmp_path / "b", hashed=text), "hashed", table.codes[code]))
    assert compiled.image != moved.image
    with pytest.raises(DeterminismError, match="carries a hash"):
        finish(job, compiled)


def test_nvrtcs_zero_hash_is_fine(table, tmp_path):
    job = Job(tree(tmp_path, op=""), "op", table.codes["sm_89"])
    named = "_ZN34_INTERNAL_{}_4_a_cu_f335cb2c6helperEf"
    fine = Made(kernel="op_k", symbols=(named.format("00000000"),)).bytes()
    assert finish(job, Compiled(fine, log_of("op_k"), 0.0, 0)).registers == 40
    hashed = Made(kernel="op_k", symbols=(named.format("6f9278c8"),)).bytes()
    with pytest.raises(DeterminismError, match="6f9278c8"):
        finish(job, Compiled(hashed, log_of("op_k"), 0.0, 0))


def test_an_image_whose_spills_are_unknown_is_refused(table, tmp_path):
    job = Job(tree(tmp_path, op=""), "op", table.codes["sm_89"])
    with pytest.raises(CompileError, match=r"what op_k spills(.|\n)*the log"):
        finish(job, Compiled(Made(kernel="op_k").bytes(), "the log", 0.0, 0))


@pytest.mark.parametrize("option", ["-lineinfo", "-G", "-g", "--generate-line-info"])
def test_options_that_write_paths_are_refused(table, tmp_path, option):
    job = Job(tree(tmp_path, op=""), "op", table.codes["sm_89"])
    with pytest.raises(DeterminismError, match=option):
        check_options(("-O3", option), job)
    assert check_options((option,), replace(job, debug=True)) == (option,)


def test_nothing_compiles_before_every_source_was_checked(table, tmp_path):
    root = tree(tmp_path, good="int a;", worse="int b;\nstatic int c;")
    compiler = FakeCompiler()
    request = resolve(table, machine="x86_64", root=root)
    with pytest.raises(DeterminismError, match=r"worse\.cu:2"):
        build_images(request, compiler, root=root, cache_at=tmp_path / "cache")
    assert compiler.asked == []


def test_a_digest_is_taken_again_when_a_file_changes_and_only_then(tmp_path):
    tool, asked = tmp_path / "tool", []
    tool.write_bytes(b"one")

    def find():
        asked.append(tool.read_bytes())
        return [tool], {"digest": digest_of([tool])}

    first = remembered(tmp_path / "memo", "tool", find)
    assert remembered(tmp_path / "memo", "tool", find) == first
    assert asked == [b"one"]
    tool.write_bytes(b"two")
    os.utime(tool, (7, 7))
    assert remembered(tmp_path / "memo", "tool", find) != first
    for note in (tmp_path / "memo/tools").iterdir():
        note.write_text('{"files": [["nowhere", 1, 2]], "facts": {"digest": "stale"}}')
    assert remembered(tmp_path / "memo", "tool", find)["digest"] == digest_of([tool])
    size, time = tool.stat().st_size, tool.stat().st_mtime_ns
    for note in (tmp_path / "memo/tools").iterdir():  # right but for the digest, where everybody may write
        note.write_text(json.dumps({"files": [[str(tool), size, time]], "facts": {"digest": "forged"}}))
        note.chmod(0o666)
    assert remembered(tmp_path / "memo", "tool", find)["digest"] == digest_of([tool])
    tool.unlink()
    with pytest.raises(FileNotFoundError):
        remembered(tmp_path / "memo", "tool", find)
    assert asked == [b"one", b"two", b"two", b"two"]


def test_a_digest_is_of_bytes_not_of_places(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_bytes(b"same")
        os.utime(tmp_path / name / "tool", (len(name), 5))
    assert digest_of([tmp_path / "a/tool"]) == digest_of([tmp_path / "b/tool"])
    (tmp_path / "b/tool").write_bytes(b"other")
    assert digest_of([tmp_path / "a/tool"]) != digest_of([tmp_path / "b/tool"])
