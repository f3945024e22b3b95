# SPDX-License-Identifier: MIT
"""kernelwright's own files: whole, for this machine, with code for its GPUs."""

from __future__ import annotations

from kernelwright.doctor._cause import Area, Cause, sign

CAUSES = (
    Cause(
        code="KW-070",
        title="files of kernelwright are missing",
        area=Area.PACKAGE,
        why="An installation was interrupted, files were deleted, or a source tree was never built.",
        fix="pip install --force-reinstall --no-deps kernelwright (in a source tree: ./kw build).",
    ),
    Cause(
        code="KW-071",
        title="kernel files are not those of this build",
        area=Area.PACKAGE,
        why="Their sha256 differs from the manifest's: a damaged disk or download, or two versions installed over each other.",
        fix="pip install --force-reinstall --no-deps --no-cache-dir kernelwright.",
    ),
    Cause(
        code="KW-072",
        title="the library cannot be loaded",
        area=Area.PACKAGE,
        why="libkernelwright.so is for another processor or needs a newer glibc than this system has.",
        fix="pip install --force-reinstall --no-cache-dir kernelwright on this machine, so that pip picks its wheel.",
    ),
    Cause(
        code="KW-073",
        title="the system has no glibc",
        area=Area.PACKAGE,
        why="Alpine and others use musl; kernelwright's library, torch and NVIDIA's driver are made for glibc.",
        fix="Use an image with glibc, such as one of Debian or Ubuntu.",
        signs=(
            sign(r"error relocating \S+: \w+: symbol not found"),
            sign(r"error loading shared library \S+: no such file or directory \(needed by"),
            sign(
                r"\bld-linux-\S+\.so\.\d+: no such file.{0,60}\b(musl|alpine)|\b(musl|alpine)\b.{0,60}ld-linux-\S+: no such file",
                2,
            ),
        ),
    ),
    Cause(
        code="KW-074",
        title="this wheel has no code for a GPU that is here",
        area=Area.PACKAGE,
        why="Neither a cubin of this wheel nor its PTX runs on the GPU: it is older than the wheel's codes, or the wheel is a thin one.",
        fix="./kw build -- --archs <the GPU's code> makes one that does; python -m kernelwright lists what this one has.",
    ),
    Cause(
        code="KW-075",
        title="this wheel serves a GPU by PTX alone",
        area=Area.PACKAGE,
        why="The driver compiles the kernels on their first use: that takes seconds once, and needs a driver that knows the PTX.",
        fix="Nothing has to be done; a build for a newer toolkit has this GPU's own code.",
    ),
    Cause(
        code="KW-076",
        title="the driver is older than this wheel's toolkit needs",
        area=Area.PACKAGE,
        why="Each toolkit states the oldest driver that loads what it compiled.",
        fix="Update the driver, or install the wheel of an older toolkit (the label behind + in its version).",
    ),
    Cause(
        code="KW-077",
        title="the kernels are switched off or forced",
        area=Area.PACKAGE,
        why="An environment variable of kernelwright makes it use plain torch, another directory of kernels, or one image.",
        fix="unset the variable unless you set it on purpose.",
    ),
)
