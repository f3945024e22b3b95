# SPDX-License-Identifier: MIT
"""Whose toolkit a project's build takes, whose libraries it links, and where it is told what went wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelwright_toolchain.__main__ import VERBS, main
from kernelwright_toolchain.classic import build, requirements, toolkit
from kernelwright_toolchain.errors import CompileError, ProvisionError, RequestError
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.providers import system
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Version, load
from kernelwright_toolchain.verbs import build as verb

TABLE = load()


def test_cuda_libraries_are_of_the_toolkits_own_release_and_lie_in_one_directory_with_it(tmp_path):
    kit = TABLE.toolkits["cu130"]
    assert requirements.libraries_wanted(kit, ()) == []
    assert requirements.libraries_wanted(kit, ("cusparse", "cublas")) == ["cuda-toolkit[cublas,cusparse]==13.0.2"]
    lock, more = tmp_path / "nvcc.txt", tmp_path / "more.txt"
    lock.write_text("# from a\nnvcc==1 \\\n    --hash=sha256:aa\nrt==2 \\\n    --hash=sha256:bb\n")
    more.write_text("# from b\ncublas==3 \\\n    --hash=sha256:cc\nrt==2 \\\n    --hash=sha256:bb\n")
    with serving(Project(tmp_path)):
        both = toolkit.together(lock, more)
        assert both.read_text() == lock.read_text() + "cublas==3 \\\n    --hash=sha256:cc\n"
        assert toolkit.together(lock, more) == both


def test_one_lock_has_the_files_of_every_machine_that_a_project_is_built_for(monkeypatch):
    def run_pip(words: list[str], _: str) -> str:
        other = [word for word in words if word.startswith("--platform=") and "aarch64" in word]
        rows = [
            ("cuda-toolkit", "13", "aa"),
            ("nvidia_cublas", run_pip.release if other else "1", "cc" if other else "bb"),
        ]
        return json.dumps(
            {
                "install": [
                    {
                        "metadata": {"name": name, "version": release},
                        "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
                    }
                    for name, release, digest in rows
                ]
            }
        )

    run_pip.release = "1"
    monkeypatch.setattr(requirements.pip, "run_pip", run_pip)
    text = requirements.pinned(["cuda-toolkit[cublas]==13"], nvidia=True, machines=["aarch64"])
    assert text.splitlines()[1:] == [
        "cuda-toolkit==13 \\", "    --hash=sha256:aa", "nvidia-cublas==1 \\", "    --hash=sha256:bb \\", "    --hash=sha256:cc",
    ]  # fmt: skip
    run_pip.release = "2"
    with pytest.raises(
        ProvisionError, match="nvidia-cublas: the package index has another version for another machine"
    ):
        requirements.pinned(["cuda-toolkit[cublas]==13"], nvidia=True, machines=["aarch64"])


def test_a_library_that_the_systems_toolkit_lacks_is_refused_before_the_build(tmp_path, monkeypatch):
    nvcc = tmp_path / "bin" / "nvcc"
    nvcc.parent.mkdir()
    nvcc.touch()
    kit = TABLE.toolkits["cu124"]
    found = system.FoundNvcc(nvcc, Version.parse(kit.components["nvcc"]))
    monkeypatch.setattr(system, "require_nvcc", lambda: found)
    with pytest.raises(RequestError, match=r"no libcublas\.so to link with.*--provider pip"):
        toolkit.find(None, TABLE, "system", ("cublas",))
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libcublas.so").touch()
    assert toolkit.find(None, TABLE, "system", ("cublas",))[1].path == tmp_path


def test_a_library_that_the_projects_lock_does_not_bring_is_refused_before_the_build(tmp_path, monkeypatch):
    home = toolkit.Home(tmp_path, "13.0.88", "locks/a.txt")
    monkeypatch.setattr(toolkit, "from_pypi", lambda *_: home)
    lock = tmp_path / requirements.LIBRARIES
    with pytest.raises(
        RequestError, match=rf"no libcublas\.so to link with: {lock.name} does not bring it; `kwt lock`"
    ):
        toolkit.find(TABLE.toolkits["cu130"], TABLE, "pip", ("cublas",), lock)
    assert toolkit.find(TABLE.toolkits["cu130"], TABLE, "pip", (), None)[1] == home


def test_a_toolkit_that_a_distribution_spread_over_the_system_is_taken_where_it_is(tmp_path, monkeypatch):
    """Mounted as a folder of its own it would hide a compiler's headers from it: `#include_next <math.h>` finds none."""
    why: list[str] = []
    monkeypatch.setattr(build.source, "copy", lambda *_: tmp_path)
    with serving(Project(tmp_path)):
        ground = build._ground(Settings(tmp_path, "a", "1"), toolkit.Home(Path("/usr"), "12.4.131", None), (), {}, why)
    assert (ground.exact, ground.at("cuda")) == (False, "/usr")
    said = (
        "no namespaces (nvcc's headers and libraries are spread over /usr, as a distribution has them): paths, process "
        "numbers and dates may be in the bytes"
    )
    assert why == [said]
    assert not toolkit.Home(tmp_path, "12.4.131", None).spread


def test_a_build_that_fails_is_told_wherever_one_stands(tmp_path, monkeypatch, capsys):
    (tmp_path / "pyproject.toml").write_text('[tool.kernelwright]\nbackend = "setuptools.build_meta"\n')

    def fails(*_: object, **__: object) -> build.Made:
        raise CompileError("the whole log is a.log")

    monkeypatch.setattr(verb.classic, "build", fails)
    monkeypatch.setattr(verb, "load", lambda: TABLE)
    monkeypatch.setattr("kernelwright_toolchain.project.own_tree", lambda: None)  # as where kwt is installed
    monkeypatch.setattr("kernelwright_toolchain.project._chosen", [])
    monkeypatch.chdir("/")
    assert main(["build", "--project", str(tmp_path)], VERBS) == CompileError.exit_code
    assert capsys.readouterr().err == "error: the whole log is a.log\n"
