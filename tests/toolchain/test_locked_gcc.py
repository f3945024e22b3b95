# SPDX-License-Identifier: MIT
"""A GCC by hash at a fixed path: its lock, what a package must be, and what is done to one."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kernelwright_toolchain.classic import build, gcc, requirements, run, toolkit
from kernelwright_toolchain.errors import ProvisionError, RequestError, TableError, ToolMissing
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import load

TABLE = load()
APT = """#!/bin/sh
case "$*" in
*print-uris*)
  echo "'http://a/g%2b%2b-12_12.2-1_amd64.deb' g++-12_12.2-1_amd64.deb 10 SHA256:0"
  echo "'http://a/libasan8_12.2-1_amd64.deb' libasan8_12.2-1_amd64.deb 10 SHA256:0"
  echo "'http://a/zlib1g_1.2-1_amd64.deb' zlib1g_1%3a1.2-1_amd64.deb 10 SHA256:0" ;;
"download g++-12=12.2-1 zlib1g=1:1.2-1") cp "$STOCK"/*.deb . ;;
"download zlib1g=1:1.2-1") cp "$STOCK"/zlib1g*.deb . ;;
*) echo "apt was asked: $*" >&2; exit 100 ;;
esac
"""
NAMES = ("g++-12_12.2-1_amd64.deb", "zlib1g_1%3a1.2-1_amd64.deb")


@pytest.fixture
def stock(tmp_path, monkeypatch) -> Path:
    """Two packages in a mirror, and an apt-get that knows of three."""
    if shutil.which("dpkg-deb") is None:
        pytest.skip("no dpkg-deb here")
    place = tmp_path / "stock"
    place.mkdir()
    for name in NAMES:
        tree = tmp_path / name.partition("_")[0]
        (tree / "DEBIAN").mkdir(parents=True)
        about = f"Package: {tree.name}\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@a>\nDescription: a\n"
        (tree / "DEBIAN" / "control").write_text(about)
        (tree / "usr" / "bin").mkdir(parents=True)
        shutil.copy("/bin/true", tree / "usr" / "bin" / f"of-{tree.name}")
        (tree / "usr" / "bin" / f"link-{tree.name}").symlink_to(f"/usr/bin/of-{tree.name}")
        subprocess.run(["dpkg-deb", "-b", tree, place / name], check=True, capture_output=True)
    program = tmp_path / "programs" / "apt-get"
    program.parent.mkdir()
    program.write_text(APT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("STOCK", str(place))
    return place


@pytest.fixture
def locked(stock, tmp_path) -> Path:
    """A project with a lock of them."""
    root = tmp_path / "project"
    root.mkdir()
    (root / gcc.LOCK).write_text(gcc.pinned("g++-12"))
    return root


def test_the_lock_has_what_apt_would_install_less_what_no_compile_reads(locked, stock):
    wanted = {hashlib.sha256((stock / name).read_bytes()).hexdigest(): name for name in NAMES}
    lines = (locked / gcc.LOCK).read_text().splitlines()
    assert lines[0] == "# g++-12, and what it needs"
    assert dict(line.split("  ") for line in lines[1:]) == wanted
    assert requirements.digests(locked) == {gcc.LOCK: hashlib.sha256((locked / gcc.LOCK).read_bytes()).hexdigest()}


def test_it_is_unpacked_once_with_programs_that_start_by_its_own_loader(locked, stock):
    with serving(Project(locked)):
        found = gcc.find(locked, "g++-12")
        shutil.rmtree(stock)
        assert gcc.find(locked, "g++-12") == found
    program = (found.root / "usr" / "bin" / "of-g++-12").read_bytes()
    before = Path("/bin/true").read_bytes()
    assert gcc.LOADER.encode() + b"\0" in program
    assert len(program) == len(before)
    assert sum(a != b for a, b in zip(program, before, strict=True)) <= len(gcc._INTERPRETER)
    assert str((found.root / "usr" / "bin" / "link-g++-12").readlink()) == "of-g++-12"  # the machine has none of it
    text = (found.root / gcc.PROGRAMS / "c++").read_text()
    assert f"exec {gcc.PLACE}/usr/bin/x86_64-linux-gnu-g++-12 --sysroot={gcc.PLACE}" in text
    assert f"-B{gcc.PLACE}/{gcc._DIRECT}/ " in text  # what inherits its libraries is no script
    assert str((found.root / gcc._DIRECT / "as").readlink()) == "../usr/bin/x86_64-linux-gnu-as"
    assert found.places()[gcc.PLACE] == str(found.root)
    assert set(found.variables().values()) == {f"{gcc.PLACE}/{gcc.PROGRAMS}/{name}" for name in ("g++", "gcc")}


def test_packages_that_are_kept_beside_the_lock_are_taken_first(locked, stock):
    (locked / gcc.KEPT).mkdir()
    shutil.move(stock / NAMES[0], locked / gcc.KEPT)
    with serving(Project(locked)):  # apt-get is asked for the other alone, or fails
        assert (gcc.find(locked, "g++-12").root / "usr" / "bin" / "of-zlib1g").is_file()


def test_another_package_of_the_same_name_is_refused(locked, stock):
    shutil.copy(stock / NAMES[1], stock / NAMES[0])
    with (
        serving(Project(locked)),
        pytest.raises(ProvisionError, match=r"g\+\+-12_12\.2-1_amd64\.deb has sha256 .* wants"),
    ):
        gcc.find(locked, "g++-12")
    assert not list((locked / ".kw" / "tools").glob("gcc-*"))


def test_without_a_lock_or_without_apt_the_way_on_is_said(tmp_path, monkeypatch):
    with pytest.raises(RequestError, match="`kwt lock` writes it"):
        gcc.find(tmp_path, "g++-12")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="put the packages"):
        gcc.pinned("g++-12")


def test_one_that_nvcc_does_not_take_is_refused_and_without_namespaces_it_is_no_promise(tmp_path, monkeypatch):
    kit, settings = TABLE.toolkits["cu122"], Settings(tmp_path, "a", "1", gcc="g++-13")
    with pytest.raises(RequestError, match="nvcc of cu122 takes GCC 6 to 12"):
        build.locked_compiler(settings, kit, [])
    monkeypatch.setattr(build, "refusal", lambda: "unshare: Operation not permitted")
    why: list[str] = []
    assert build.locked_compiler(Settings(tmp_path, "a", "1", gcc="g++-12"), kit, why) is None
    assert why == [
        f"g++-12 of {gcc.LOCK} needs namespaces (unshare: Operation not permitted); this machine's GCC was taken"
    ]
    (tmp_path / "pyproject.toml").write_text('[tool.kernelwright]\ngcc = "gcc"\n')
    with pytest.raises(TableError, match=r"gcc = 'gcc' is not a package of Debian"):
        read(tmp_path)


def test_its_programs_come_first_in_a_build(tmp_path):
    found = gcc.Gcc(tmp_path, "12", "0")
    ground = run.Ground(tmp_path, tmp_path, toolkit.Home(tmp_path, "1", None), gcc=found)
    with serving(Project(tmp_path)):
        programs = run.environment(ground, 1)["PATH"].split(os.pathsep)
        places = run._places(ground)
    assert programs[:2] == ["/kw/cuda/bin", f"{gcc.PLACE}/{gcc.PROGRAMS}"]
    assert list(places).index("/kw/cuda") < list(places).index("/kw/cuda/bin/nvcc")
    assert places[gcc.LOADER].endswith("ld-linux-x86-64.so.2")
