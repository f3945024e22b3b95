# SPDX-License-Identifier: MIT
"""Host code for another machine: which GCC crosses, whose libraries are linked, and what is refused before a build."""

from __future__ import annotations

import platform
import shutil
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import providers
from kernelwright_toolchain.classic import build, cross, fatbin, requirements, run, toolkit
from kernelwright_toolchain.elf import Elf, View
from kernelwright_toolchain.errors import RequestError, ToolMismatch, ToolMissing
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.providers import system
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import Version, load
from kernelwright_toolchain.wheel.elf import parse, sections
from tests.toolchain.test_classic import laid_out, without_cublas
from tests.tree import Project as Tree
from tests.tree import serve

TABLE = load()
KIT = TABLE.toolkits["cu130"]
OTHER = TABLE.targets["linux-aarch64"]
NVCC = system.FoundNvcc(Path("nvcc"), Version.parse("13.0.88"))
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="it is built for aarch64 from x86-64")


def gcc(place: Path, name: str, major: int, triple: str) -> Path:
    path = place / name
    path.write_text(f"#!/bin/sh\n[ $1 = -dumpmachine ] && echo {triple} && exit\n"
                    f"echo '#define __GNUC__ {major}'; echo '#define __GNUC_MINOR__ 2'\n")  # fmt: skip
    path.chmod(0o755)
    return path


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    """Nothing else is on PATH, and no variable names a compiler."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("CUDAHOSTCXX", "NVCC_CCBIN"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "bin"


def test_the_newest_gcc_that_crosses_and_that_this_nvcc_takes_is_the_one(programs):
    with pytest.raises(
        ToolMissing, match=r"there is no aarch64-linux-gnu-g\+\+ .*g\+\+-12-aarch64-linux-gnu, or build there"
    ):
        cross.compiler(OTHER, KIT, NVCC)
    gcc(programs, "aarch64-linux-gnu-g++", 99, OTHER.triple)
    with pytest.raises(ToolMismatch, match=r"GCC 99\.2 .* newer than what nvcc 13\.0\.88"):
        cross.compiler(OTHER, KIT, NVCC)
    older = gcc(programs, "aarch64-linux-gnu-g++-11", 11, OTHER.triple)
    assert cross.compiler(OTHER, KIT, NVCC).path == older
    newer = gcc(programs, "aarch64-linux-gnu-g++-12", 12, OTHER.triple)
    assert cross.compiler(OTHER, KIT, NVCC).path == newer


def test_a_gcc_that_is_named_must_cross(programs, monkeypatch):
    monkeypatch.setenv("CUDAHOSTCXX", str(gcc(programs, "g++", 12, "x86_64-linux-gnu")))
    with pytest.raises(RequestError, match=r"g\+\+ \(CUDAHOSTCXX names it\) does not compile for aarch64-linux-gnu"):
        cross.compiler(OTHER, KIT, NVCC)
    named = gcc(programs, "theirs-g++", 12, OTHER.triple)
    monkeypatch.setenv("CUDAHOSTCXX", str(named))
    assert cross.compiler(OTHER, KIT, NVCC).path == named


def test_a_toolkit_of_this_machines_programs_and_the_other_ones_libraries(tmp_path, monkeypatch):
    for place, kind in (("here", "x86"), ("there", "arm")):
        for name in ("bin/nvcc", "nvvm/bin/cicc", "include/a.h", "lib/libcudart.so.13", "lib/libcudart_static.a"):
            path = tmp_path / place / "nvidia" / "cu13" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(kind)
    asked = []

    def install(lock: Path, *, words: list[str]) -> Path:
        asked.append((lock.read_text(), words))
        return tmp_path / "there"

    monkeypatch.setattr(cross.pip, "install", install)
    host = toolkit.Home(tmp_path / "here" / "nvidia" / "cu13", "13.0.88", "locks/a.txt")
    with serving(Project(tmp_path / "mine")):
        (tmp_path / "mine" / ".kw" / "tools").mkdir(parents=True)
        home = cross.home(host, KIT, OTHER, None)
        assert cross.home(host, KIT, OTHER, None).path == home.path
    told = {path.relative_to(home.path).as_posix(): path.read_text() for path in home.path.rglob("*") if path.is_file()}
    assert (told["bin/nvcc"], told["nvvm/bin/cicc"], told["include/a.h"]) == ("x86", "x86", "x86")
    assert {told[name] for name in told if name.startswith("lib")} == {"arm"}
    assert (home.path / "lib64" / "libcudart.so").read_text() == "arm"
    lock, words = asked[0]
    assert [line for line in lock.splitlines() if "==" in line] == [
        f"nvidia-cuda-runtime=={KIT.components['cudart']} \\"
    ]
    assert "--platform=manylinux_2_28_aarch64" in words
    assert (home.userland, host.userland) == ("sbsa", "sbsa")


def test_whose_libraries_a_machines_own_toolkit_has_says_nvidias_name_of_their_folder(tmp_path):
    own = toolkit.Home(tmp_path, "12.4.131", None)
    assert own.userland == "sbsa"
    (tmp_path / "targets" / "aarch64-linux").mkdir(parents=True)
    assert own.userland == "tegra"


@pytest.mark.parametrize(
    ("target", "toolkit", "provider", "words"),
    [
        (
            "linux-aarch64",
            None,
            "system",
            "linux-aarch64 is aarch64: a toolkit of this machine's own has no libraries for it",
        ),
        ("linux-aarch64", "cu122", "pip", "PyPI has no whole nvcc of cu122"),
        ("l4t-r36", None, "pip", r"l4t-r36 has a driver of CUDA 12\.2, which runs nothing of CUDA 13\.0"),
        ("l4t-r36", "cu130", "system", r"l4t-r36 has a driver of CUDA 12\.2, which runs nothing of CUDA 13\.0"),
        ("l4t-r36", "cu128", "system", "l4t-r36 is aarch64: a toolkit of this machine's own has no libraries for it"),
    ],
)
def test_what_cannot_be_crossed_is_refused_before_anything_is_fetched(
    tmp_path, monkeypatch, target, toolkit, provider, words
):
    place = laid_out(tmp_path / "mine")
    serve(monkeypatch, Tree(place))
    monkeypatch.setattr(providers.pip, "run_pip", lambda *_, **__: pytest.fail("something was fetched"))
    with pytest.raises(RequestError, match=words):
        build.build(read(place), TABLE, place / "dist", {"target": target, "toolkit": toolkit}, provider=provider)


def test_cmake_and_pythons_build_tools_are_told_which_machine(tmp_path):
    words = build.arch_words(tuple(code for code in TABLE.codes.values() if code.name == "sm_87"))
    said = build.said_archs(Settings(tmp_path, "a", "1"), words, cross.cmake(OTHER, "/usr/bin/aarch64-g++"))[
        "CMAKE_ARGS"
    ]
    assert "-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64" in said
    assert "-DCMAKE_CUDA_HOST_COMPILER=/usr/bin/aarch64-g++" in said
    found = cross.variables(OTHER)
    assert found["_PYTHON_HOST_PLATFORM"] == "linux-aarch64"
    assert found["SETUPTOOLS_EXT_SUFFIX"].endswith("-aarch64-linux-gnu.so")


@pytest.mark.slow
@pytest.mark.long
def test_the_example_crosses_to_a_jetsons_gpu_without_a_path_inside(tmp_path, monkeypatch):
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    if not any(shutil.which(f"{OTHER.triple}-g++-{major}") for major in range(KIT.gcc.min, KIT.gcc.max + 1)):
        pytest.skip(f"no {OTHER.triple}-g++ here")
    place = without_cublas(laid_out(tmp_path / "mine"))
    serve(monkeypatch, Tree(place))
    made = build.build(read(place), TABLE, place / "dist", {"target": OTHER.name})
    assert made.inexact == ()
    with zipfile.ZipFile(made.wheel) as archive:
        library = archive.read("classic/libclassic.so")
    assert Elf(View(library)).machine == "aarch64"
    assert made.wheel.name.endswith(f"manylinux_{str(parse(library).glibc).replace('.', '_')}_aarch64.whl")
    parts = [part for part in sections(library) if part.name == ".nv_fatbin"]
    assert {image.code for part in parts for image in fatbin.images(part.data)} == {"sm_87", "sm_90", "compute_90"}
    assert str(tmp_path).encode() not in library
    assert requirements.digests(place)
