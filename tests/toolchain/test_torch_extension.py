# SPDX-License-Identifier: MIT
"""An extension of torch, compiled with the headers of a torch for CPUs; what torch's stable functions are."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from kernelwright_toolchain.classic import build, requirements, run, toolkit, torch
from kernelwright_toolchain.errors import GateError, ProvisionError
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.wheel.elf import asked, defined
from tests.tree import ROOT

EXAMPLE = ROOT / "examples" / "torch_extension"


def made(place: Path, lock: str, archs: str = "90") -> build.Made:
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns(".kw", "dist"))
    (place / requirements.LOCK).write_text(lock)
    (place / ".kw").mkdir()
    (place / ".kw" / "tools").symlink_to(ROOT / ".kw" / "tools")
    with serving(Project(place)):
        return build.build(read(place), load(), place / "dist", {"archs": archs}, jobs=1)


@pytest.fixture(scope="module")
def lock() -> str:
    """What the example needs, by hash; a torch for CPUs is among it."""
    if why := run.refusal():
        pytest.skip(f"no namespaces here: {why}")
    try:
        return requirements.pinned(requirements.wanted(EXAMPLE, "setuptools.build_meta", "headers"))
    except ProvisionError as error:
        pytest.skip(f"no torch for CPUs: {str(error).splitlines()[-1]}")


@pytest.mark.slow
@pytest.mark.long
def test_the_example_is_the_same_from_two_places_and_for_one_torch(lock, tmp_path):
    (ROOT / ".kw" / "tools").mkdir(parents=True, exist_ok=True)
    first, other = made(tmp_path / "one", lock), made(tmp_path / "another place", lock)
    assert first.sha256 == other.sha256 == hashlib.sha256(other.wheel.read_bytes()).hexdigest()
    assert first.inexact == ()
    assert first.wheel.name.startswith("scaled-0.1.0+torch2.13-cp")
    with zipfile.ZipFile(first.wheel) as archive:
        about = Parser().parsestr(archive.read("scaled-0.1.0+torch2.13.dist-info/METADATA").decode())
        name = next(name for name in archive.namelist() if name.endswith(".so"))
        library = archive.read(name)
        archive.extractall(tmp_path / "site")
    assert "torch ==2.13.*" in about.get_all("Requires-Dist")
    assert about["Version"] == "0.1.0+torch2.13"
    with pytest.raises(GateError, match=r"asks for _ZN.*torch's C\+\+.*stable-abi.*headers"):
        torch.stable({name: library})
    # A torch for CPUs cannot load it: of torch's names it lacks those of c10::cuda, and no others.
    with serving(Project(tmp_path / "one")):
        tools = pip.home(tmp_path / "one" / requirements.LOCK, per_python=True)
    libraries = [tools / "torch" / "lib" / f"lib{name}.so" for name in ("c10", "torch_cpu", "torch_python")]
    there = {symbol.name for path in libraries for symbol in defined(path.read_bytes())}
    lacking = {name for name in asked(library) if "2at" in name or "c10" in name} - there
    assert lacking
    assert [name for name in lacking if "c104cuda" not in name] == []


def test_only_what_the_shim_declares_is_stable(tmp_path):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no cc on PATH")
    for text, names in (
        ("int aoti_torch_get_dim(void*, long*); int f(void *t) { long n; return aoti_torch_get_dim(t, &n); }", ()),
        ("int _ZN2at10empty_likeEv(); int f() { return _ZN2at10empty_likeEv(); }", ("_ZN2at10empty_likeEv",)),
    ):
        (tmp_path / "a.c").write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True)
        data = (tmp_path / "a.so").read_bytes()
        assert set(names) < set(asked(data))
        if names:
            with pytest.raises(GateError, match=r"a\.so asks for _ZN2at10empty_likeEv"):
                torch.stable({"a.so": data})
        else:
            torch.stable({"a.so": data})


def test_a_torch_for_gpus_is_refused_before_it_is_fetched(monkeypatch):
    said = '{"install": [{"metadata": {"name": "torch"}}, {"metadata": {"name": "nvidia-cublas"}}]}'
    monkeypatch.setattr(pip, "run_pip", lambda *_: said)
    with pytest.raises(ProvisionError, match=r"only a torch for GPUs.*PIP_EXTRA_INDEX_URL"):
        requirements.pinned(["torch"])


def test_a_setup_script_is_told_to_compile_for_gpus_though_none_is_here(tmp_path):
    words = {"cmake": "90-real", "torch": "9.0", "archs": "90"}
    for kind, said in (("none", None), ("headers", "1"), ("stable-abi", "1")):
        assert build.said_archs(Settings(tmp_path, "a", "1", torch=kind), words).get("FORCE_CUDA") == said
    own = Settings(tmp_path, "a", "1", torch="headers", defines={"FORCE_CUDA": "0"})
    assert build.said_archs(own, words)["FORCE_CUDA"] == "0"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("a.cu:1:10: fatal error: cufft.h: No such file or directory", '["cufft"]'),
        ("a.cu:1:10: fatal error: 'npp/nppi.h' file not found", '["npp"]'),
        ("a.cpp:2:10: fatal error: cublasLt.h: No such file or directory", '["cublas"]'),
        (
            "In file included from ATen/cuda/CUDAContext.h:3,\nx.h:9:10: fatal error: cusparse.h: No such file or directory",
            '["cublas", "cusolver", "cusparse"]',
        ),
        ("a.cpp:2:10: fatal error: glog/logging.h: No such file or directory", None),
        ("a.cpp:2:10: error: cufft.h", None),
    ],
)
def test_a_header_of_a_library_that_the_table_does_not_name_is_told(said, words):
    cure = toolkit.undeclared(said, load().libraries)
    assert cure == "" if words is None else f"libraries = {words} in the table, then `kwt lock`" in cure


def test_torch_is_asked_for_where_the_table_says_so(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["scikit-build-core", "numpy"]\n')
    assert requirements.wanted(tmp_path, "scikit_build_core.build") == ["numpy"]
    assert requirements.wanted(tmp_path, "setuptools.build_meta", "headers") == ["numpy", "setuptools", "torch"]
    assert requirements.wanted(EXAMPLE, "setuptools.build_meta", "headers") == ["setuptools", "torch==2.13.0"]
