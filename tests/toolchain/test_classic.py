# SPDX-License-Identifier: MIT
"""Projects with a build of their own: the example under the exact compilers, its wheel made again, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import backend
from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import build, run, source, toolkit
from kernelwright_toolchain.errors import ProvisionError, RequestError, TableError
from kernelwright_toolchain.providers import machine_of
from kernelwright_toolchain.request import codes_of, find_target
from kernelwright_toolchain.settings import read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.verbs import init
from kernelwright_toolchain.wheel.elf import parse
from tests.tree import ROOT, serve
from tests.tree import Project as Tree

EXAMPLE = ROOT / "examples" / "classic"
TABLE = load()
ARCHS = next(line for line in (EXAMPLE / "pyproject.toml").read_text().splitlines() if line.startswith("archs = "))


def laid_out(to: Path) -> Path:
    """The example in a folder of its own, with this tree's tools."""
    shutil.copytree(EXAMPLE, to, ignore=shutil.ignore_patterns(".kw", "dist", "build", "__pycache__"))
    (ROOT / ".kw" / "tools").mkdir(parents=True, exist_ok=True)
    (to / ".kw").mkdir()
    (to / ".kw" / "tools").symlink_to(ROOT / ".kw" / "tools")
    return to


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    to = laid_out(tmp_path / "somewhere")
    serve(monkeypatch, Tree(to))
    return to


def without_cublas(place: Path) -> Path:
    """What needs none is shown without: its package is 423 MB, more than all others together."""
    for name, words in (
        ("CMakeLists.txt", (" cuda/product.cu", " CUDA::cublas")),
        ("pyproject.toml", ('libraries = ["cublas"]\n',)),
    ):
        text = (place / name).read_text()
        for word in words:
            assert word in text
            text = text.replace(word, "")
        (place / name).write_text(text)
    return place


@pytest.fixture
def nvcc(place) -> Path:
    """PyPI's, whole; fetched where it is not there yet."""
    try:
        return toolkit.from_pypi(TABLE.toolkits["cu130"], machine_of(TABLE)).path
    except ProvisionError as error:
        pytest.skip(f"no nvcc from PyPI: {str(error).splitlines()[-1]}")


@pytest.fixture
def exact() -> None:
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")


def kwt(*words: str | Path) -> int:
    return main([str(word) for word in words], VERBS)


def statement(wheel: Path) -> dict:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("statement.json"))
        return json.loads(archive.read(name))["predicate"]


def loads_with(wheel: Path, cublas: Path) -> None:
    """Beside NVIDIA's package of cuBLAS; with neither that nor a toolkit the loader says what is missing."""
    place = wheel.parent / "in"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)  # noqa: S202 - made just now
    env = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    for more, said in ((f":{cublas.parents[3]}", "80,90\n"), ("", "")):
        command = [sys.executable, "-c", "import classic; print(classic.archs)"]
        done = subprocess.run(
            command, env={**env, "PYTHONPATH": f"{place}{more}"}, capture_output=True, text=True, check=False
        )
        assert done.stdout == said, done.stderr
        assert bool(said) is ("libcublas.so.13: cannot open" not in done.stderr)


@pytest.mark.parametrize(
    ("archs", "cmake", "torch", "plain"),
    [
        ("80;90+ptx", "80-real;90-real;90-virtual", "8.0 9.0+PTX", "80;90"),
        ("89", "89-real", "8.9", "89"),
        ("90a", "90a-real", "9.0a", "90a"),
    ],
)
def test_archs_are_said_as_cmake_torch_and_the_project_say_them(archs, cmake, torch, plain):
    codes = codes_of(TABLE, find_target(TABLE, "linux-x86_64"), TABLE.toolkits["cu130"], archs)
    assert build.arch_words(codes) == {"cmake": cmake, "torch": torch, "archs": plain}


@pytest.mark.slow
@pytest.mark.long
def test_the_same_bytes_under_other_circumstances_by_pip_and_by_verify(place, nvcc, exact, capsys, monkeypatch):
    assert kwt("repro", "--project", place) == 0, capsys.readouterr().out
    said = capsys.readouterr().out
    assert len({line.split()[0] for line in said.splitlines() if ".whl" in line}) == 1
    monkeypatch.chdir(place)
    out = place / "dist"
    out.mkdir()
    wheel = out / backend.build_wheel(str(out))  # what pip calls
    assert wheel.name.split("-")[1] == "0.1.0"
    assert hashlib.sha256(wheel.read_bytes()).hexdigest() == said.split()[0]
    recipe = statement(wheel)
    assert recipe["inexact"] == []
    assert set(recipe["inputs"]) == {path.as_posix() for path in source.files(place)}
    with zipfile.ZipFile(wheel) as archive:
        library = archive.read("classic/libclassic.so")
    assert b"/kw/source/cuda/scale.cu" in library  # what __FILE__ gives
    assert str(place).encode() not in library
    needed = parse(library).libraries
    assert "libcublas.so.13" in needed
    assert not any(name.startswith("libcudart") for name in needed)  # linked statically
    assert not any("cublas" in name for name in zipfile.ZipFile(wheel).namelist())
    loads_with(wheel, next((place / ".kw" / "tools").glob("nvcc-*/nvidia/cu*/lib/libcublas.so.13")))
    assert kwt("verify", "--project", place, wheel) == 0
    assert "SUCCESS: the same bytes" in capsys.readouterr().out
    with (place / "cuda" / "scale.cu").open("a") as file:
        file.write("// A line more, at the end.\n")
    assert kwt("verify", "--project", place, wheel) == 1
    assert "cuda/scale.cu: source: the wheel was made from another one" in capsys.readouterr().out


@pytest.mark.slow
def test_where_no_namespaces_are_the_wheel_says_that_it_is_inexact(place, nvcc, monkeypatch, capsys):
    without_cublas(place)
    monkeypatch.setattr(build, "refusal", lambda: "unshare: Operation not permitted")
    assert kwt("build", "--project", place, "--archs", "90") == 0
    (wheel,) = (place / "dist").glob("*.whl")
    assert wheel.name.split("-")[1] == "0.1.0+inexact"
    assert statement(wheel)["inexact"] == [
        "no namespaces here (unshare: Operation not permitted): paths, process numbers and dates may be in the bytes"
    ]
    said = capsys.readouterr().out
    assert "inexact: no namespaces here" in said
    assert "PyPI takes no wheel with one" in said


@pytest.mark.slow
def test_its_sdist_holds_its_sources(place, tmp_path, monkeypatch):
    monkeypatch.chdir(place)
    with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {path.as_posix() for path in source.files(place)} < names


@pytest.mark.slow
@pytest.mark.long
def test_a_plain_build_runs_under_the_exact_compilers(place, nvcc, exact, tmp_path):
    made = []
    for name, date in (("one", 1_000_000_000), ("two", 1_200_000_000)):
        tree = tmp_path / name
        tree.mkdir()
        (tree / "hidden.cu").write_text((place / "cuda" / "hidden.cu").read_text())
        os.utime(tree / "hidden.cu", (date, date))
        (tree / ".kw").mkdir()
        (tree / ".kw" / "tools").symlink_to(ROOT / ".kw" / "tools")
        assert kwt("exec", "--project", tree, "--", "nvcc", "-arch=sm_90", "-c", "/kw/source/hidden.cu",
                   "-o", "/kw/source/hidden.o") == 0  # fmt: skip
        made.append((tree / "hidden.o").read_bytes())
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("edit", "error", "words"),
    [
        (('backend = "scikit_build_core.build"\n', ""), RequestError, "names neither a kernel nor a backend"),
        (('"cu130"', '"cu122"'), RequestError, "no whole nvcc of cu122"),
        (('"cu130"', '"cu999"'), RequestError, "'cu999' is not in the table"),
        (('"scikit_build_core.build"', '"kernelwright_toolchain.backend"'), RequestError, "is this toolchain's own"),
        ((ARCHS, "archs = 80"), TableError, "archs = 80 is not a string"),
        (("toolkit =", 'torch = "all"\ntoolkit ='), TableError, "torch = 'all' is not one of"),
        (("toolkit =", "tolkit ="), TableError, "has 'tolkit'"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_refused_in_words(place, edit, error, words):
    path = place / "pyproject.toml"
    before, _, table = path.read_text().rpartition("[tool.kernelwright]\n")
    assert edit[0] in table
    path.write_text(f"{before}[tool.kernelwright]\n{table.replace(*edit)}")
    with pytest.raises(error, match=words):
        build.build(read(place), TABLE, place / "dist", {})


def test_sources_are_the_same_with_git_and_without(place, monkeypatch):
    (place / "__pycache__").mkdir()
    (place / "__pycache__" / "a.pyc").touch()
    without = source.files(place)
    assert [path.as_posix() for path in without][:2] == ["CMakeLists.txt", "cuda/classic.h"]
    subprocess.run(["git", "init", "-q", place], check=True)
    (place / ".gitignore").write_text("__pycache__/\n.kw\n")
    assert [path for path in source.files(place) if path.name != ".gitignore"] == without


def test_init_reads_what_the_project_says(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # locks are another test's
    (tmp_path / "pyproject.toml").write_text('[build-system]\nbuild-backend = "scikit_build_core.build"\n')
    (tmp_path / "CMakeLists.txt").write_text("set(CMAKE_CUDA_ARCHITECTURES 80 90a)\nfind_package(Torch)\n")
    assert kwt("init", "--project", tmp_path) == 0
    found = read(tmp_path)
    assert (found.backend, found.archs_of("any"), found.torch) == ("scikit_build_core.build", "80;90a+ptx", "headers")
    assert TABLE.toolkits[found.toolkit].nvcc
    with pytest.raises(RequestError, match=r"has \[tool.kernelwright\] already"):
        init.table(tmp_path)


def test_init_leaves_the_sources_alone_where_it_is_told_to(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # locks are another test's
    (tmp_path / "setup.py").write_text("from torch.utils.cpp_extension import CUDAExtension\n")
    config = tmp_path / "elsewhere.toml"
    (tmp_path / "pyproject.toml").touch()
    assert kwt("init", "--project", tmp_path, "--config", config) == 0
    assert read(tmp_path, config).backend == "setuptools.build_meta"
    assert not (tmp_path / "pyproject.toml").read_text()
    (tmp_path / "setup.py").unlink()
    with pytest.raises(RequestError, match="kwt exec"):
        init.table(tmp_path)
