# SPDX-License-Identifier: MIT
"""Our reading of a cubin against NVIDIA's own tools, for every compiler that is here and both ELF encodings."""

from __future__ import annotations

import re
import subprocess

import pytest
from device_support import tree

from kernelwright_toolchain.cubin import check
from kernelwright_toolchain.cubin.elf import Elf
from kernelwright_toolchain.device import Job
from kernelwright_toolchain.device.log import spills
from kernelwright_toolchain.exact import sass
from kernelwright_toolchain.targets import Version

SOURCE = r"""
__device__ __noinline__ float gather(const float* p, int n) {
  float a[32];
  for (int i = 0; i < 32; i++) a[i] = p[i * n];
  return a[n & 31] + a[(n + 1) & 31];
}
extern "C" __global__ void __launch_bounds__(256, 2) k_shared(float* p, int n) {
  __shared__ float s[64];
  s[threadIdx.x % 64] = p[threadIdx.x];
  __syncthreads();
  p[threadIdx.x] = s[(threadIdx.x + n) % 64];
}
extern "C" __global__ void k_stack(float* p, int n) { p[0] = gather(p, n) + p[n]; }
extern "C" __global__ void __launch_bounds__(1024, 2) k_spill(float* p) {
  float a[64];
#pragma unroll
  for (int i = 0; i < 64; i++) a[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; i++) p[i * 1024 + threadIdx.x] = a[i] * a[63 - i];
}
extern "C" __global__ void k_dynamic(float* p, int n) {
  extern __shared__ float d[];
  d[n] = p[n];
  __syncthreads();
  p[n] = d[n + 1];
}
"""

CODES = ("sm_80", "sm_87", "sm_90", "sm_90a", "sm_120")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tree(tmp_path_factory.mktemp("tools"), kernels=SOURCE)


@pytest.fixture(scope="module")
def images(root, table, every_nvrtc, nvcc):
    """(label, code) -> what each compiler here made for each code it knows."""
    compilers = {**{f"nvrtc {release}": one for release, one in every_nvrtc.items()}, f"nvcc {nvcc.release}": nvcc}
    made = {}
    for name, compiler in compilers.items():
        for code in (table.codes[code] for code in CODES):
            if code.toolkits.knows(Version.parse(compiler.release)):
                made[name, code] = compiler.compile(Job(root, "kernels", code))
    return made


def _tool(path, *arguments):
    done = subprocess.run([str(path), *arguments], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_every_compilers_cubins_are_read(images):
    for (name, code), compiled in images.items():
        facts = check(compiled.image, code)
        assert [k.name for k in facts.kernels] == ["k_dynamic", "k_shared", "k_spill", "k_stack"], (name, code.name)
        by_name = {k.name: k for k in facts.kernels}
        assert by_name["k_shared"].max_threads == 256
        assert by_name["k_spill"].max_threads == 1024
        assert by_name["k_stack"].max_threads == 0
        assert by_name["k_shared"].shared % 1024 == 256  # newer GPUs reserve a kilobyte more


def test_resources_are_what_cuobjdump_says(images, cuobjdump, tmp_path):
    compared = 0
    for (name, code), compiled in images.items():
        path = tmp_path / "image.cubin"
        path.write_bytes(compiled.image)
        said = _tool(cuobjdump, "-res-usage", str(path))
        if "does not contain device code" in said:  # cuobjdump 13 refuses what 12 wrote for an `a` code
            continue
        for kernel in check(compiled.image, code).kernels:
            usage = re.search(rf"Function {kernel.name}:\s*\n(.*)", said).group(1)
            numbers = {key: int(value) for key, value in re.findall(r"(\w+(?:\[0\])?):(\d+)", usage)}
            found = (kernel.registers, kernel.shared, kernel.stack, kernel.constant)
            expected = (numbers["REG"], numbers["SHARED"], numbers["STACK"], numbers["CONSTANT[0]"])
            assert found == expected, (name, code.name, kernel.name)
            compared += 1
    assert compared >= 16


WIDTHS = {"64": 8, "128": 16}


def _local_bytes(text, instruction):
    """Bytes that the local stores (STL) or loads (LDL) of a listing move."""
    moves = re.findall(rf"\b{instruction}((?:\.\w+)*)\b", text)
    return sum(next((WIDTHS[part] for part in move.split(".") if part in WIDTHS), 4) for move in moves)


def test_spills_of_the_log_are_the_bytes_of_the_machine_code(images, nvdisasm, tmp_path):
    """k_spill has no array of its own, so every local store and load of it is a spill; k_shared has none."""
    seen = 0
    for (name, code), compiled in images.items():
        if code.name not in {"sm_80", "sm_90a"}:  # the disassembler takes a second each
            continue
        path = tmp_path / "image.cubin"
        path.write_bytes(compiled.image)
        functions = _functions(_tool(nvdisasm, "-c", str(path)))
        told = spills(compiled.log)
        for kernel in ("k_spill", "k_shared"):
            found = (_local_bytes(functions[kernel], "STL"), _local_bytes(functions[kernel], "LDL"))
            assert found == (told[kernel].stores, told[kernel].loads), (name, code.name, kernel)
        assert told["k_shared"].stores == 0
        seen += told["k_spill"].stores > 0
    assert seen >= 2


def test_machine_code_is_shown_whole_whichever_release_compiled_it(root, table, every_nvrtc):
    """By the locked disassembler, which is newer than all of them; cuobjdump of that release reads some no longer."""
    for release, compiler in every_nvrtc.items():
        for code in (table.codes[code] for code in ("sm_80", "sm_90a")):
            image = compiler.compile(Job(root, "kernels", code)).image
            elf, listing = Elf(image), sass.listing(image)
            for kernel in check(image, code).kernels:
                size = len(elf.content(elf.by_name[f".text.{kernel.name}"]))
                assert len(listing[kernel.name]) * 16 == size, (release, code.name, kernel.name)
                assert any(line.startswith("EXIT") or line.endswith(" EXIT") for line in listing[kernel.name])


def _functions(listing):
    """kernel -> its part of nvdisasm's listing."""
    parts = re.split(r"^//-+ \.text\.(\w+)\s+-+.*$", listing, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
