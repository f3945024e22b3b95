# SPDX-License-Identifier: MIT
"""The flake of this tree, copied beside the stand-in for nixpkgs and asked of a Nix that touches nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.targets import Table

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).resolve().parent / "nixpkgs"
UNTAR = "toolchain/kernelwright_toolchain/providers/untar.py"  # what Nix runs of the toolchain outside of a build
PARTS = ("flake.nix", "flake.lock", "nix", "locks", "targets.toml", "pyproject.toml", UNTAR)
SETTINGS = (
    "experimental-features = nix-command flakes",
    "build-users-group =",
    "sandbox = false",
    "substitute = false",
    "substituters =",
    "flake-registry =",
)


def locked_files(folder: Path, table: Table) -> Path:
    """The release's compilers and tools for this machine, as Nix would fetch them, by pip."""
    machine = os.uname().machine
    kits = [table.toolkits[target.toolkit] for target in table.targets.values() if target.release]
    locks = {kit.locks[machine] for kit in kits if machine in kit.hosts["pip"]}
    for lock in (*locks, table.tools.locks[machine], "locks/audit.txt"):
        words = ["download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-d", str(folder)]
        pip.run_pip([*words, "-r", str(ROOT / lock)], f"fetching the files of {lock}")
    return folder


class Flake:
    """One copy that a test may change, with a Nix store of its own: no daemon, no network, no trace."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.nixpkgs = folder / "tree", folder / "nixpkgs"
        self.tree.mkdir(parents=True)
        for part in PARTS:
            source = ROOT / part
            (self.tree / part).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, self.tree / part)
        shutil.copytree(STAND_IN, self.nixpkgs)
        private = {f"NIX_{name}_DIR": folder / name.lower() for name in ("STORE", "STATE", "LOG", "CONF")}
        (folder / "conf").mkdir()
        (folder / "conf" / "nix.conf").write_text("\n".join(SETTINGS) + "\n")
        (folder / "home").mkdir()
        kept = {key: value for key, value in os.environ.items() if not key.startswith("NIX_")}
        self.env = {**kept, **{key: str(path) for key, path in private.items()}, "HOME": str(folder / "home")}

    def change(self, file: str, old: str, new: str) -> None:
        """Replaces text in one file of the copy or of the stand-in; it must be there."""
        path = self.nixpkgs / file.removeprefix("nixpkgs/") if file.startswith("nixpkgs/") else self.tree / file
        text = path.read_text()
        assert old in text, f"{file} does not have {old!r}"
        path.write_text(text.replace(old, new))

    def take_this_python(self) -> None:
        """The stand-in's Python is of the release that runs the tests: the locked files are fetched for it."""
        here = f"{sys.version_info[0]}.{sys.version_info[1]}"
        self.change("nixpkgs/answers.nix", 'python = "3.12"', f'python = "{here}"')

    def nix(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = ["nix", "--offline", *words]
        return subprocess.run(command, env=self.env, cwd=self.tree, capture_output=True, text=True, check=False)

    def against_the_stand_in(self, *verb: str, words: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        return self.nix(*verb, "--no-write-lock-file", "--override-input", "nixpkgs", f"path:{self.nixpkgs}", *words)

    def check(self) -> subprocess.CompletedProcess[str]:
        words = ["--no-build", f"path:{self.tree}"]
        done = self.against_the_stand_in("flake", "check", words=[*words, "--all-systems"])
        if "unrecognised flag" in done.stderr:  # older Nix: it has no such word, and checks all
            return self.against_the_stand_in("flake", "check", words=words)
        return done

    def evaluate(self, attribute: str, apply: str = "value: value") -> Any:
        done = self.against_the_stand_in("eval", words=["--json", f"path:{self.tree}#{attribute}", "--apply", apply])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def refusal(self, attribute: str) -> str:
        """What evaluation of this derivation is refused with; "" if it is not."""
        done = self.against_the_stand_in("eval", words=["--raw", f"path:{self.tree}#{attribute}.drvPath"])
        return done.stderr if done.returncode else ""
