# SPDX-License-Identifier: MIT
"""A build tree sees every edit of a file that goes into the package, and nothing that was not edited is made again.

A small copy of this tree, with one family and one GPU code, is built by plain CMake; then headers are edited in place.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from pathlib import Path

import pytest

from kernelwright_toolchain.errors import ToolMissing
from tests.cpp.test_cpp import ARCH, ROOT, compiler_options, done, run

pytestmark = pytest.mark.slow

FAMILY = "gated"
IMAGE = "kernels/sm_90/swiglu.cubin"
LIBRARY = "lib/libkernelwright.so"


def copied(to: Path) -> Path:
    """What CMake reads, less the other families."""
    others = [path.name for path in (ROOT / "csrc/ops").iterdir() if path.is_dir() and path.name != FAMILY]
    for folder in ("csrc", "cmake", "toolchain", "locks", "src"):
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__", *others))
    for file in ("CMakeLists.txt", "pyproject.toml", "targets.toml", "kw"):
        shutil.copy(ROOT / file, to / file)
    (to / ".kw").mkdir()
    for kept in ("tools", "cache"):
        if (ROOT / ".kw" / kept).is_dir():
            (to / ".kw" / kept).symlink_to(ROOT / ".kw" / kept)
    return to


class Build:
    def __init__(self, tree: Path, where: Path) -> None:
        self.tree, self.package = tree, where / "kernelwright"
        self.command = ("cmake", "--build", where, "-j", "2")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        done("cmake", "-S", tree, "-B", where, *generator, *compiler_options("system"), f"-DKW_ARCHS={ARCH}",
             f"-DKW_PYTHON={sys.executable}", "-DKW_TESTS=OFF")  # fmt: skip

    def digests(self) -> dict[str, str]:
        done(*self.command)
        return {name: hashlib.sha256((self.package / name).read_bytes()).hexdigest() for name in (IMAGE, LIBRARY)}

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.tree / name
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{name} has no {old!r} to edit"
        path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on PATH")
    where = tmp_path_factory.mktemp("edits")
    device = run(sys.executable, "-m", "toolchain", "device", "--out", where / "probe", "--archs", ARCH,
                 "--ops", "swiglu", "--provider", "auto")  # fmt: skip
    if device.returncode == ToolMissing.exit_code:
        pytest.skip(f"no device compiler: {device.stderr.strip()}")
    return Build(copied(where / "tree"), where / "build")


def test_every_edit_reaches_the_package(build: Build) -> None:
    first = build.digests()
    library = build.package / LIBRARY
    made = library.stat().st_mtime_ns
    assert build.digests() == first
    assert library.stat().st_mtime_ns == made, "nothing was edited, and the library was linked again"

    build.edit("csrc/device/ptx/memory.cuh", "#pragma once\n", "#pragma once\n// only a comment\n")
    assert build.digests() == first, "a comment of a kernel's header is in the package"

    build.edit("csrc/ops/gated/device/math.cuh", "1.0f", "1.5f")  # of the family, two folders down from csrc/ops
    second = build.digests()
    assert second[IMAGE] != first[IMAGE], "the image is that of the header before the edit"
    assert second[LIBRARY] != first[LIBRARY], "the library knows the image's sha256"

    build.edit("csrc/ops/gated/params.h", "int slots; ", "int slots, more; ")  # host and device share it
    third = build.digests()
    assert third[IMAGE] != second[IMAGE]

    build.edit("csrc/cpu/simd.h", "#pragma once\n", "#pragma once\ninline int edited() { return 7; }\n")
    build.edit(
        "csrc/ops/gated/cpu/swiglu.cpp", "kw_status swiglu(", "[[gnu::used]] int seen = edited();\nkw_status swiglu("
    )
    fourth = build.digests()
    assert fourth[IMAGE] == third[IMAGE]
    assert fourth[LIBRARY] != third[LIBRARY]
    build.edit("csrc/cpu/simd.h", "return 7;", "return 8;")  # now the header alone
    assert build.digests()[LIBRARY] != fourth[LIBRARY], "the library is that of the CPU header before the edit"

    images = json.loads((build.package / "manifest.json").read_text(encoding="utf-8"))["images"]
    assert [image["sha256"] for image in images] == [fourth[IMAGE]]
