# SPDX-License-Identifier: MIT
"""The release's derivation, really run by Nix with the locked NVRTC and zig, makes the wheel that `./kw build` makes.

CMake and ninja are this machine's, no C compiler is on PATH, the files come from pip and pass Nix's own check of their
hashes. nixpkgs is the stand-in, and there is no sandbox around a build.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "toolchain")]  # for flake_support, standin_support

import standin_support as standin
from flake_support import ROOT, Flake, locked_files

from kernelwright_toolchain import source, start
from kernelwright_toolchain.exact import wheel as wheels
from kernelwright_toolchain.providers import pip

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not shutil.which("nix"), reason="Nix is not installed (Debian's nix-bin or any Nix 2.8 or newer)"
    ),
]
TABLE = standin.TABLE
FEW = "--ops swiglu --archs 80"
WHOLE = '-j "$NIX_BUILD_CORES"'
MACHINE = os.uname().machine
TARGETS = [
    name
    for name, target in TABLE.targets.items()
    if MACHINE in TABLE.toolkits[target.toolkit].hosts["pip"] and target.release
]
PROGRAMS = {"cmake": "/usr/bin/cmake", "ninja": "/usr/bin/ninja"}


@pytest.fixture(scope="module")
def flake(tmp_path_factory, request):
    """A tree as it is, and a nixpkgs of this machine's programs; one operator is built of it, with --whole all."""
    made, _ = standin.nix(tmp_path_factory.mktemp("prefix") / "prefix")
    for name, program in PROGRAMS.items():
        if not Path(program).is_file():
            pytest.skip(f"{program} is not there: PyPI's would be compared with itself")
        made._script(name, Path(program))
    flake = Flake(tmp_path_factory.mktemp("flake") / "flake")
    copied(flake.tree)
    shutil.copy(ROOT / "noxfile.py", flake.tree)
    flake.own = copied(tmp_path_factory.mktemp("own") / "tree")
    files = locked_files(tmp_path_factory.mktemp("files"), TABLE)
    real = (HERE / "real.nix").read_text().replace("@prefix@", str(made.place)).replace("@wheels@", str(files))
    (flake.nixpkgs / "build.nix").write_text(real)
    flake.take_this_python()
    if not request.config.getoption("--whole"):
        flake.change("nix/release.nix", WHOLE, f"{WHOLE} {FEW}")
    return flake


def copied(tree: Path) -> Path:
    """The inputs of a build, in a tree of their own."""
    for path in source.input_files(ROOT):
        to = tree / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return tree


def by_kw(tree: Path, target: str, few: list[str]) -> Path:
    """Where the verb puts the wheel that it makes in this tree by the tools of `./kw provision`."""
    command = start.command(sys.executable, tree, "kernelwright_toolchain", "build", "--target", target, *few)
    env = {
        **os.environ,
        pip.GIVEN: str(ROOT / ".kw" / "tools"),
        start.MODULES: start.joined([standin._with_nox(), *start.importable()]),
    }
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return tree / "dist"


@pytest.mark.parametrize("target", TARGETS)
def test_nix_makes_the_wheel_that_kw_makes(flake, target, request):
    words = ["--json", "--no-link", f"path:{flake.tree}#release-{target}"]
    done = flake.against_the_stand_in("build", words=words)
    assert done.returncode == 0, done.stderr
    built = Path(json.loads(done.stdout)[0]["outputs"]["out"])
    (path,) = built.glob("*.whl")
    made = wheels.read(path)
    assert made.recipe["device_compiler"]["driver"] == "nvrtc"
    assert made.recipe["host_compiler"]["driver"].startswith("ziglang ")
    few = [] if request.config.getoption("--whole") else FEW.split()
    (own,) = by_kw(flake.own, target, few).glob(path.name)
    assert made.sha256 == wheels.read(own).sha256
    about = json.loads((built / f"{path.name}.intoto.json").read_text())
    assert about["subject"] == [{"name": path.name, "digest": {"sha256": made.sha256}}]
    sums = (built / "SHA256SUMS").read_text()
    assert f"{made.sha256}  {path.name}\n" in sums


def test_the_shell_makes_it_too(flake):
    """`nox -s build -- --release` in `nix develop`: the shell's compilers are not taken, and nothing is fetched."""
    target = next(name for name in TARGETS if TABLE.targets[name].machine == MACHINE)
    words = [f"path:{flake.tree}#{target}", "--command", "nox", "-s", "build", "--", "--release", *FEW.split()]
    done = flake.against_the_stand_in("develop", words=words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "device compiler: nvrtc" in done.stderr.lower()
    assert not (flake.tree / ".kw" / "tools").exists()  # nothing was fetched
    (path,) = by_kw(flake.own, target, FEW.split()).glob("*swiglu*x86_64.whl")
    assert f"sha256 {wheels.read(path).sha256}" in done.stdout


def test_the_conda_environment_makes_it_too(flake, tmp_path):
    """With the variables that its activation sets; the environment's compilers are not taken."""
    made, variables = standin.conda(tmp_path / "env")
    tree = copied(tmp_path / "tree")
    shutil.copy(ROOT / "noxfile.py", tree)
    given = {pip.GIVEN: str(ROOT / ".kw" / "tools")}
    done = made.run(tree, "build", "--release", *FEW.split(), **variables, **given)
    assert done.returncode == 0, done.stdout + done.stderr
    target = next(name for name in TARGETS if TABLE.targets[name].machine == MACHINE)
    (path,) = by_kw(flake.own, target, FEW.split()).glob("*swiglu*x86_64.whl")
    assert f"sha256 {wheels.read(path).sha256}" in done.stdout


def test_another_project_gets_its_wheel_by_the_template(flake, tmp_path):
    """`nix flake init -t` and `nix build`: the template's flake, its input this tree."""
    place = tmp_path / "project"
    shutil.copytree(ROOT / "nix" / "template", place)
    given = ["--override-input", "kernelwright", f"path:{flake.tree}"]
    words = ["build", "--json", "--no-link", "--no-write-lock-file", *given, f"path:{place}"]
    done = flake.nix(*words, "--override-input", "kernelwright/nixpkgs", f"path:{flake.nixpkgs}")
    assert done.returncode == 0, done.stderr
    (path,) = Path(json.loads(done.stdout)[0]["outputs"]["out"]).glob("*.whl")
    assert path.name.startswith("my_kernels-0.1.0")
    with zipfile.ZipFile(path) as archive:
        images = json.loads(archive.read("my_kernels/kernels.json"))["images"]
    assert {(image["source"], image["code"]) for image in images} == {
        ("scale", code) for code in ("sm_80", "sm_90", "compute_90")
    }
