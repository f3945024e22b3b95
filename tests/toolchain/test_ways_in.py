# SPDX-License-Identifier: MIT
"""A wheel from the backend, one from the sdist, an editable install and a plain CMake install hold the same members.

Of one operator: each way is a whole build. That the sdist has the files of all shows in its wheel's statement, which
has the digest of every input, and so in the sha256.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from kernelwright_toolchain import start
from kernelwright_toolchain.building.package import _environment
from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import find_ops
from kernelwright_toolchain.targets import load
from tests.tree import ROOT

pytestmark = pytest.mark.slow

ALONE = [op for op, images in find_ops().items() if images == (op,)]
OP = min(ALONE, key=lambda name: (ROOT / source_of(ROOT, name)).stat().st_size)
SETTINGS = json.dumps({"provider": "pip", "ops": OP})
HOOK = """
import json, os, sys
sys.path.insert(0, os.path.abspath("toolchain"))  # as pip does for a backend in the tree
from kernelwright_toolchain import pep517
print("\\n@" + getattr(pep517, sys.argv[1])(sys.argv[2], json.loads(sys.argv[3])))
"""
NOT_COPIED = shutil.ignore_patterns(".kw", ".git", ".dev", "dist", "build", "__pycache__", ".*_cache", ".hypothesis")


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the sources, as after unpacking, in a directory of an odd name; the locked tools are not fetched again."""
    place = tmp_path_factory.mktemp("ways") / "in ~=@!^é'#&(1)+ü核"
    shutil.copytree(ROOT, place, ignore=NOT_COPIED)
    return ready(place)


def ready(place: Path) -> Path:
    (place / ".kw").mkdir()
    for name in ("tools", "cache"):
        (place / ".kw" / name).symlink_to(ROOT / ".kw" / name)
    return place


def run(place: Path, *command: str) -> str:
    """What the command says, for a person who keeps Python from looking for modules in the working directory."""
    environment = _environment(host.provision(load()), 2)
    environment["PYTHONPATH"] = environment.pop(start.MODULES)  # as pip does for the build's requirements
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        command, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def hook(place: Path, name: str, out: Path) -> Path:
    """What a front end such as pip does: one call of the backend in a process of its own."""
    out.mkdir()
    said = run(place, sys.executable, "-c", HOOK, name, str(out), SETTINGS)
    return out / said.rpartition("\n@")[2].strip()


@pytest.fixture(scope="module")
def wheel(tree, tmp_path_factory) -> Path:
    return hook(tree, "build_wheel", tmp_path_factory.mktemp("wheel") / "out")


def members(wheel: Path) -> set[str]:
    """All but the metadata and Python's own files: what CMake makes."""
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("kernelwright/")}
    return {name for name in inside if not name.endswith((".py", "py.typed"))}


def test_the_sdist_gives_the_same_wheel(tree, wheel, tmp_path):
    sdist = hook(tree, "build_sdist", tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # early patch releases lack it
        archive.extractall(tmp_path / "unpacked", **safe)  # noqa: S202 - our own sdist
    (place,) = (tmp_path / "unpacked").iterdir()
    again = hook(ready(place), "build_wheel", tmp_path / "out")
    assert again.name == wheel.name
    assert hashlib.sha256(again.read_bytes()).digest() == hashlib.sha256(wheel.read_bytes()).digest()


def git(place: Path, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", place, *identity, *words], check=True, capture_output=True)


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@pytest.mark.long
def test_a_clone_gives_the_same_wheel_whatever_its_commit_and_its_other_files(tree, wheel, tmp_path):
    """`tree` has no git, as a tarball has none. What a build does not read decides nothing."""
    place = tmp_path / "clone"
    shutil.copytree(tree, place, ignore=NOT_COPIED)
    (place / "docs" / "more.md").write_text("one more page", encoding="utf-8")
    (place / "csrc" / ".a.cpp.swp").write_text("an editor's", encoding="utf-8")
    git(place, "init", "-q")
    git(place, "add", ".")
    git(place, "commit", "-q", "-m", "one")
    again = hook(ready(place), "build_wheel", tmp_path / "out")
    assert again.read_bytes() == wheel.read_bytes()


@pytest.mark.long
def test_an_editable_install_has_the_same_members(tree, wheel, tmp_path):
    editable = hook(tree, "build_editable", tmp_path / "out")
    assert members(editable) == members(wheel)
    with zipfile.ZipFile(wheel) as one, zipfile.ZipFile(editable) as other:
        different = [name for name in members(wheel) if one.read(name) != other.read(name)]
    assert not different


@pytest.mark.long
def test_an_editable_install_says_which_kernel_is_stale(tree, tmp_path):
    """A person edits a .cu file, tests, and would see the old kernel's numbers."""
    editable, site = hook(tree, "build_editable", tmp_path / "out"), tmp_path / "site"
    with zipfile.ZipFile(editable) as made:
        made.extractall(site)  # noqa: S202 - our own wheel
    act = f"import site; site.addsitedir({str(site)!r}); import kernelwright; print(kernelwright.__path__)"

    def said() -> str:
        done = subprocess.run([sys.executable, "-I", "-c", act], capture_output=True, text=True, check=True)
        assert str(tree / "src" / "kernelwright") in done.stdout
        return done.stderr

    kernel = tree / source_of(ROOT, OP)
    before = kernel.read_text(encoding="utf-8")
    assert said() == ""
    kernel.write_text(before, encoding="utf-8")  # another date alone
    assert said() == ""
    kernel.write_text(f"{before}// more\n", encoding="utf-8")
    changed = f"kernelwright was built before {kernel.relative_to(tree)} changed: what is imported is stale"
    assert changed in said()
    assert f"pip install -e {tree}" in said()
    kernel.write_text(before, encoding="utf-8")
    module = tree / "src" / "kernelwright" / "more.py"  # Python's files are never stale
    module.write_text("")
    assert said() == ""
    module.unlink()


@pytest.mark.long
def test_plain_cmake_installs_the_same_members(tree, wheel, tmp_path):
    build, prefix = str(tmp_path / "build"), tmp_path / "prefix"
    zig = host.find_zig(load())
    defines = [
        "-DKW_PROVIDER=pip",
        f"-DKW_OPS={OP}",
        "-DKW_TESTS=OFF",
        f"-DKW_PYTHON={sys.executable}",
        f"-DKW_ZIG={zig}",
    ]
    target = next(t for t in load().targets.values() if t.release and t.platform_tag in wheel.name)
    defines += ["-DCMAKE_TOOLCHAIN_FILE=cmake/zig.cmake", f"-DKW_ZIG_TARGET={target.zig}.{target.glibc}"]
    run(tree, "cmake", "-S", ".", "-B", build, "-G", "Ninja", *defines)
    run(tree, "cmake", "--build", build)
    run(tree, "cmake", "--install", build, "--prefix", str(prefix))
    installed = {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}
    assert installed == members(wheel)
    with zipfile.ZipFile(wheel) as archive:
        different = [name for name in installed if archive.read(name) != (prefix / name).read_bytes()]
    assert not different
