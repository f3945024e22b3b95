# SPDX-License-Identifier: MIT
"""Products by warpgroups (wgmma) that wait for each other: ptxas makes them so where it cannot follow a source, and
mentions it in its log. A kernel is slow then, and right: no other test would see it."""

from __future__ import annotations

import pytest
from device_support import tree

from kernelwright_toolchain.cubin.code import code_of
from kernelwright_toolchain.device import Job
from kernelwright_toolchain.device.image import finish
from kernelwright_toolchain.device.log import serialized
from kernelwright_toolchain.errors import CompileError
from kernelwright_toolchain.exact import sass

# Three products on their way together; with KW_TOUCHED their sum is changed meanwhile.
SOURCE = r"""
__device__ __forceinline__ void multiply(float (&d)[4], unsigned a, unsigned long long b) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, 1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3}, {%4, %4, %4, %4}, %5, p, 1, 1, 0; }"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a), "l"(b) : "memory");
}
extern "C" __global__ void NAME_k(float* y, unsigned a, unsigned long long b) {
  float d[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int i = 0; i < 3; ++i) {
    multiply(d, a, b + i * 2);
    TOUCHED
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) :: "memory");
  for (int i = 0; i < 4; ++i) y[threadIdx.x * 4 + i] = d[i];
}
"""
TOUCH = {"together": "", "waiting": "d[0] += 1.0f;"}


@pytest.fixture
def jobs(table, tmp_path):
    sources = {name: SOURCE.replace("NAME", name).replace("TOUCHED", touch) for name, touch in TOUCH.items()}
    root = tree(tmp_path, **sources)
    return {name: Job(root, name, table.codes["sm_90a"]) for name in sources}


def test_the_log_tells_what_the_machine_code_shows(jobs, every_nvrtc):
    for release, compiler in every_nvrtc.items():
        for name, job in jobs.items():
            compiled = compiler.compile(job)
            code = sass.listing(compiled.image)[f"{name}_k"]
            products, waits = (sum(word in line for line in code) for word in ("HGMMA", "WARPGROUP.DEPBAR"))
            assert products == 3, (release, name)
            assert waits == (3 if name == "waiting" else 1), (release, name)
            read = code_of(compiled.image, f"{name}_k")
            assert [kind for kind, count in read.order for _ in range(count)] == [
                "HGMMA" if "HGMMA" in line else "WAIT" for line in code if "HGMMA" in line or "WARPGROUP.DEPBAR" in line
            ], (release, name)
            assert read.local == 0, (release, name)
            assert list(serialized(compiled.log)) == (["waiting_k"] if name == "waiting" else []), (release, name)


def test_an_image_with_such_a_kernel_is_refused(jobs, nvrtc):
    assert finish(jobs["together"], nvrtc.compile(jobs["together"])).registers > 0
    with pytest.raises(CompileError, match=r"products by warpgroups of waiting_k wait .* serialized .*\(C75\d\d\)"):
        finish(jobs["waiting"], nvrtc.compile(jobs["waiting"]))
