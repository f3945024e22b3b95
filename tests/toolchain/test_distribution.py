# SPDX-License-Identifier: MIT
"""The toolchain as a distribution of its own: what its wheel and its sdist hold, and that they install without a network."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from kernelwright_toolchain.distribution import backend, contents, metadata
from kernelwright_toolchain.errors import RequestError, TableError
from kernelwright_toolchain.project import Project, own_tree, project, serving
from kernelwright_toolchain.targets.read import toml
from tests.tree import ROOT

TREE = ROOT / "toolchain"
MOST = 1_000_000  # bytes of its wheel


def made(tree: Path, out: Path, hook: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    out.mkdir()
    monkeypatch.chdir(tree)
    return out / getattr(backend, hook)(str(out))


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> Path:
    return made(TREE, tmp_path / "wheel", "build_wheel", monkeypatch)


@pytest.fixture
def unpacked(tmp_path, monkeypatch) -> Path:
    """Its sdist, unpacked where there is nothing else."""
    sdist = made(TREE, tmp_path / "sdist", "build_sdist", monkeypatch)
    with tarfile.open(sdist) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # early patch releases lack it
        archive.extractall(tmp_path / "unpacked", **safe)  # noqa: S202 - our own sdist
    return next((tmp_path / "unpacked").iterdir())


def test_it_has_one_version_with_kernelwright():
    first = toml((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata.project(TREE)["version"] == first["version"]
    assert metadata.project(TREE)["requires-python"] == first["requires-python"]


def test_it_is_small_and_needs_nothing_but_a_reader_of_toml(wheel):
    assert wheel.stat().st_size < MOST
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        said = Parser().parsestr(archive.read("kernelwright_toolchain-0.1.0.dist-info/METADATA").decode())
        record = archive.read("kernelwright_toolchain-0.1.0.dist-info/RECORD").decode()
        assert len(record.splitlines()) == len(archive.namelist())
    assert said.get_all("Requires-Dist") == ["tomli>=2; python_version < '3.11'"]


def test_the_table_and_every_lock_are_in_it(wheel):
    wanted = {"targets.toml": ROOT / "targets.toml"} | {f"locks/{p.name}": p for p in (ROOT / "locks").iterdir()}
    with zipfile.ZipFile(wheel) as archive:
        for name, path in wanted.items():
            assert archive.read(f"{contents.DATA}/{name}") == path.read_bytes()
        assert not [name for name in archive.namelist() if "__pycache__" in name or "/." in name]


def test_its_sdist_gives_the_same_wheel(wheel, unpacked, tmp_path, monkeypatch):
    again = made(unpacked, tmp_path / "again", "build_wheel", monkeypatch)
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def test_a_key_that_would_be_lost_is_refused(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'a'\nversion = '1'\ngui-scripts = {}\n")
    with pytest.raises(TableError, match="gui-scripts"):
        metadata.project(tmp_path)


def test_without_the_table_it_is_not_packed(tmp_path):
    (tmp_path / "a" / contents.PACKAGE).mkdir(parents=True)
    with pytest.raises(RequestError, match=r"targets\.toml is missing"):
        contents.package(tmp_path / "a")


def test_in_a_checkout_it_serves_the_checkout(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert project().root == own_tree() == ROOT
    with serving(Project(tmp_path)):
        assert project().root == tmp_path
    assert project().root == ROOT


def test_a_project_takes_what_it_has_none_of_from_the_toolchain(tmp_path):
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    found = Project.around(tmp_path / "deep" / "er")
    assert found.root == tmp_path
    assert found.data("targets.toml") == ROOT / "targets.toml"
    (tmp_path / "targets.toml").touch()
    assert found.data("targets.toml") == tmp_path / "targets.toml"
    with pytest.raises(RequestError, match="run this inside a project"):
        Project.around(Path("/proc/self"))


@pytest.mark.slow
@pytest.mark.parametrize("how", [["--no-build-isolation"], []])
def test_it_installs_without_a_network_and_serves_where_somebody_stands(how, tmp_path):
    """From the tree, with no index and no directory of packages: nothing is needed to make it."""
    place = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON"))}
    command = [place / "bin" / "python", "-m", "pip", "install", "--no-index", *how, str(TREE)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "tomli" in done.stderr and sys.version_info < (3, 11):
        pytest.skip("this Python needs tomli, which no index can give here")
    assert done.returncode == 0, done.stdout + done.stderr
    kwt = [place / "bin" / "kwt"]
    listed = subprocess.run([*kwt, "--help"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    for verb in (TREE / contents.PACKAGE / "verbs").glob("[a-z]*.py"):
        assert f"\n  {verb.stem} " in listed
    (tmp_path / "pyproject.toml").touch()
    act = (
        "from kernelwright_toolchain.project import project; from kernelwright_toolchain.targets import load; "
        "print(project().root, len(load().targets))"
    )
    said = subprocess.run(
        [place / "bin" / "python", "-c", act], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert said.stdout.split()[0] == str(tmp_path)
