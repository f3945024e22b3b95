# SPDX-License-Identifier: MIT
"""What every program needs: memory, disk, and the right to use them."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-060",
        title="memory ran out while compiling",
        area=Area.MACHINE,
        why="Each compiler of CUDA templates takes 1 to 12 GB; as many as there are cores at once is more than the machine has, and "
        "the kernel (or the CI runner) kills one.",
        fix="export MAX_JOBS=1 CMAKE_BUILD_PARALLEL_LEVEL=1 NVCC_THREADS=1",
        then="Then build again; raise MAX_JOBS until memory is full.",
        signs=(
            sign(r"internal compiler error: killed"),
            sign(
                r"(ptxas|nvlink|cicc|fatbinary|nvcc)\b.{0,20}(fatal|error).{0,10}(memory allocation failure|out of memory)"
            ),
            sign(r"killed signal terminated program"),
            sign(r"(cicc|cudafe\+\+|ptxas|cc1plus|nvlink|fatbinary)\S*['\"]? died due to signal"),
            sign(r"fatal error: killed\b"),
            sign(r"virtual memory exhausted|cc1plus: out of memory|out of memory allocating \d+ bytes"),
            sign(r"(signal 9|sigkill|exit (code|status):? (137|-9)|returned? (137|-9)\b|error 137)", 2),
            sign(r"(oom[- ]?kill(er|ed)?|out of memory: killed process|oomkilled)"),
            sign(r"\bexit (code|status):? 143\b|received a shutdown signal|the runner has received", 2),
            sign(r"^\W*killed\W*$|\berror 0x89\b|: line \d+:\s+\d+ killed\b", 2),
            sign(r"MAX_JOBS|NVCC_THREADS", 1),
            sign(r"g?make\S*: \*\*\* .{0,200}\berror (9|137)\b", 2),
            sign(r"cannot allocate memory", 2),
        ),
        needs=(
            sign(
                r"nvcc|cicc|ptxas|cc1plus|g\+\+|ninja|cmake|setup\.py|building wheel|building extension|\.cu\b|compil|make\b|bdist|\bbuild"
            ),
        ),
        unless=(sign(r"cuda out of memory|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"),),
    ),
    Cause(
        code="KW-061",
        title="the disk, or /tmp, is full",
        area=Area.MACHINE,
        why="Compilers and pip unpack gigabytes in TMPDIR, which is often a small memory disk.",
        fix="mkdir -p ~/tmp && export TMPDIR=~/tmp",
        then="Or another directory with room: df -h shows it. python -m pip cache purge and docker system prune make "
        "some.",
        signs=(
            sign(r"no space left on device"),
            sign(r"\bENOSPC\b|\[errno 28\]"),
            sign(r"disk quota exceeded|\[errno 122\]"),
            sign(r"not enough (free )?disk space"),
        ),
    ),
    Cause(
        code="KW-062",
        title="Nix refuses to evaluate or fetch",
        area=Area.TOOLCHAIN,
        why="CUDA is unfree for nixpkgs, is not in its public cache, and old releases are dropped from new channels.",
        fix="export NIXPKGS_ALLOW_UNFREE=1",
        then="With flakes also --impure. For a release that a channel has dropped, or a hash that differs: the "
        "nixpkgs that the flake pins, not the channel.",
        signs=(
            sign(r"(package|refusing to evaluate).{0,260}(has an )?unfree license"),
            sign(
                r"attribute ['\"]?cuda(Packages|toolkit|_)\w*['\"]? (missing|not found)|does not provide attribute.{0,60}cuda"
            ),
            sign(r"hash mismatch in fixed-output derivation"),
            sign(r"cudaPackages\S*.{0,60}(has been removed|was removed|is unsupported|unsupported)", 2),
            sign(r"experimental nix feature .{0,30}is disabled"),
        ),
    ),
)
