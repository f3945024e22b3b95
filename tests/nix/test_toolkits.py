# SPDX-License-Identifier: MIT
"""Toolkits in the flake: those whose rows claim Nix are shells and packages; a claim that nixpkgs does not keep is refused.

test_flake.py holds each shell to its row.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for flake_support

from flake_support import Flake

pytestmark = pytest.mark.skipif(
    not shutil.which("nix"), reason="Nix is not installed (Debian's nix-bin or any Nix 2.8 or newer); nothing evaluated"
)


@pytest.fixture
def changed(tmp_path):
    return Flake(tmp_path / "flake")


def test_a_row_that_claims_what_nixpkgs_lacks_is_refused_at_evaluation(changed):
    """And one that claims nothing has no shell: neither is found out by whoever enters it."""
    ask = 'lib: (lib.mkKernelShell { system = "x86_64-linux"; toolkit = "cu130"; }).drvPath'
    words = ["--raw", f"path:{changed.tree}#lib", "--apply", ask]
    assert "linux-x86_64-cu130 is not there on x86_64-linux; there are linux-x86_64 linux-x86_64-cu124" in (
        changed.against_the_stand_in("eval", words=words).stderr
    )
    text = (changed.tree / "targets.toml").read_text()
    before, row, after = text.partition("[toolkit.cu130]")
    gcc = '\n[gcc.cu130]\nversion = "14.2.0"\nmajor = 14\nsysroot = "2.28"\n'
    (changed.tree / "targets.toml").write_text(before + row + after.replace("nix = []", 'nix = ["x86_64"]', 1) + gcc)
    assert "nixpkgs has no cudaPackages_13_0" in changed.refusal("devShells.x86_64-linux.linux-x86_64-cu130")
    assert "nixpkgs has no cudaPackages_13_0" in changed.against_the_stand_in("eval", words=words).stderr
    assert changed.check().returncode != 0


def test_another_projects_shell_may_have_another_toolkit(changed):
    ask = 'lib: (lib.mkKernelShell { system = "x86_64-linux"; toolkit = "cu124"; }).KW_NIX_TOOLKIT'
    assert changed.evaluate("lib", ask) == "cu124"


def test_a_machine_without_the_releases_compilers_has_no_released_wheel(changed):
    both = 'hosts = { pip = ["x86_64", "aarch64"], conda = ["x86_64", "aarch64"]'
    changed.change("targets.toml", both, both.replace(', "aarch64"', "", 1))
    assert changed.check().returncode == 0
    assert changed.evaluate("apps", "builtins.attrNames") == ["x86_64-linux"]
    ask = """overlay: let
      final = { stdenv.hostPlatform.system = "aarch64-linux"; };
      extension = builtins.head (overlay final { pythonPackagesExtensions = [ ]; }).pythonPackagesExtensions;
    in (extension { buildPythonPackage = given: given; } { }).kernelwright.src"""
    done = changed.against_the_stand_in(
        "eval", words=["--raw", f"path:{changed.tree}#overlays.default", "--apply", ask]
    )
    assert "is not locked for aarch64-linux, so release-linux-aarch64 is not there" in done.stderr
