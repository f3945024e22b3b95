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
        fix="python -m pip install --force-reinstall --no-deps kernelwright",
        then="In a source tree: ./kw build.",
    ),
    Cause(
        code="KW-071",
        title="kernel files are not those of this build",
        area=Area.PACKAGE,
        why="Their sha256 differs from the manifest's: a damaged disk or download, or two versions installed over each other.",
        fix="python -m pip install --force-reinstall --no-deps --no-cache-dir kernelwright",
    ),
    Cause(
        code="KW-072",
        title="the library cannot be loaded",
        area=Area.PACKAGE,
        why="libkernelwright.so is for another processor or needs a newer glibc than this system has.",
        fix="python -m pip install --force-reinstall --no-deps --no-cache-dir kernelwright",
        then="On this machine, so that pip picks its wheel.",
    ),
    Cause(
        code="KW-073",
        title="the system has no glibc",
        area=Area.PACKAGE,
        why="Alpine and others use musl; kernelwright's library, torch and NVIDIA's driver are made for glibc.",
        fix="docker run --gpus all -it python:slim",
        then="An image with glibc, of Debian; nothing that is installed in this system makes it one.",
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
        fix='./kw build -- --archs "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | '
        "paste -sd ';')\"",
        then="In a source tree; python -m kernelwright lists what this wheel has.",
    ),
    Cause(
        code="KW-075",
        title="this wheel serves a GPU by PTX alone",
        area=Area.PACKAGE,
        why="The driver compiles the kernels on their first use: that takes seconds once, and needs a driver that knows the PTX.",
        fix='./kw build -- --archs "$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | '
        "paste -sd ';')\"",
        then="In a source tree, by a toolkit that knows the GPU. It does not have to be: the kernels work, and are "
        "compiled once.",
    ),
    Cause(
        code="KW-076",
        title="the driver is older than this wheel's toolkit needs",
        area=Area.PACKAGE,
        why="Each toolkit states the oldest driver that loads what it compiled.",
        fix="sudo apt-get update && sudo apt-get install -y ubuntu-drivers-common && sudo ubuntu-drivers install",
        then="Then reboot; or install the wheel of an older toolkit (the label behind + in its version).",
    ),
    Cause(
        code="KW-077",
        title="the kernels are switched off or forced",
        area=Area.PACKAGE,
        why="An environment variable of kernelwright makes it use plain torch, another directory of kernels, or one image.",
        fix="unset KERNELWRIGHT_DISABLE KERNELWRIGHT_KERNELS KERNELWRIGHT_ARCH",
        then="Unless they are set on purpose.",
    ),
    Cause(
        code="KW-078",
        title="an image is asked for that cannot be used here",
        area=Area.PACKAGE,
        why="KERNELWRIGHT_ARCH names one image by its code; where the wheel has none of that name, or the GPU cannot run it, every "
        "operator is refused: no other is taken in its place.",
        fix="unset KERNELWRIGHT_ARCH",
        then="python -m kernelwright lists the images of this wheel, and which of them each GPU gets.",
    ),
)
