# SPDX-License-Identifier: MIT
"""Nix really builds and enters what the flake describes, out of a stand-in whose packages are this machine's compilers.

The derivations, their phases, the bare environment and the shell are Nix's and the flake's own; nixpkgs is not, and
there is no sandbox around a build.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "toolchain")]  # for flake_support, standin_support

import standin_support as standin
from flake_support import Flake, locked_files

from kernelwright_toolchain import targets
from kernelwright_toolchain.exact import wheel as wheels

pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(
        not shutil.which("nix"), reason="Nix is not installed (Debian's nix-bin or any Nix 2.8 or newer)"
    ),
]
TABLE = standin.TABLE
FEW = "--ops swiglu --archs 80"
WHOLE = '-j "$NIX_BUILD_CORES"'


@pytest.fixture(scope="module")
def flake(tmp_path_factory):
    """A tree whose reference toolkit is this machine's, and a nixpkgs that has it; one operator is built of it."""
    made, variables = standin.nix(tmp_path_factory.mktemp("prefix") / "prefix")
    flake = Flake(tmp_path_factory.mktemp("flake") / "flake")
    standin.with_tests(standin.tree(flake.tree, made, store=Path(flake.env["NIX_STORE_DIR"])))
    nvcc, gcc, row = standin.compilers()
    flake.change("nixpkgs/answers.nix", 'nvcc = "12.2.140"', f'nvcc = "{nvcc.version}"')
    flake.change("nixpkgs/answers.nix", 'gcc = "12.4.0"', f'gcc = "{gcc.version}"')
    flake.change("nixpkgs/answers.nix", "cudaPackages_12_2", TABLE.toolkits[row].nix)
    flake.take_this_python()
    own = targets.parse((flake.tree / "targets.toml").read_text(encoding="utf-8"))
    files = locked_files(tmp_path_factory.mktemp("files"), own)  # a shell has the release's compilers too
    real = (HERE / "real.nix").read_text().replace("@prefix@", str(made.place)).replace("@wheels@", str(files))
    (flake.nixpkgs / "build.nix").write_text(real)
    flake.change("nix/wheel.nix", WHOLE, f"{WHOLE} {FEW}")
    flake.name = variables["KW_NIX_TARGET"]
    return flake


def made_by_the_store(folder: Path) -> wheels.Wheel:
    """The one wheel in this directory, after a look at who made it."""
    (path,) = folder.glob("*.whl")
    assert "nix" in path.name.partition("+")[2].partition("-")[0].split(".")
    made = wheels.read(path)
    nvcc, gcc, row = standin.compilers()
    assert (made.recipe["build"]["provider"], made.recipe["build"]["toolkit"]) == ("nix", row)
    assert (made.recipe["device_compiler"]["driver"], made.recipe["device_compiler"]["version"]) == (
        "nvcc",
        str(nvcc.version),
    )
    assert made.recipe["host_compiler"]["front"].startswith(f"GNU {gcc.version}")
    return made


@pytest.fixture(scope="module")
def built(flake):
    """What `nix build` made."""
    done = flake.against_the_stand_in("build", words=["--json", "--no-link", f"path:{flake.tree}#{flake.name}"])
    assert done.returncode == 0, done.stderr
    return Path(json.loads(done.stdout)[0]["outputs"]["out"])


def test_a_wheel_is_built_by_the_flakes_derivation(built):
    made = made_by_the_store(built)
    assert [path.name for path in built.iterdir()] == [made.name]
    assert "commit" not in made.recipe["source"]


def test_nox_in_the_flakes_shell_makes_the_same_bytes(flake, built):
    words = [f"path:{flake.tree}#{flake.name}", "--command", "nox", "-s", "build", "--", *FEW.split()]
    done = flake.against_the_stand_in("develop", words=words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"device compiler: nvcc {standin.compilers()[0].version} ({flake.env['NIX_STORE_DIR']}/" in done.stderr
    assert done.stdout.rstrip().endswith("SUCCESS")
    assert made_by_the_store(flake.tree / "dist").sha256 == made_by_the_store(built).sha256


def test_the_shells_wheel_passes_its_tests_with_torch(flake):
    """In the shell for tests: PyPI's kind of torch is installed by its hash, and imports."""
    words = [f"path:{flake.tree}#{flake.name}-tests", "--command", "nox", "-s", "tests", "--", *standin.TESTS]
    done = flake.against_the_stand_in("develop", words=words)
    standin.passed(done)
    assert re.search(r"tests of kernelwright-\S+nix-py3-none-", done.stderr)
