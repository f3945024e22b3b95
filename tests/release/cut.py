# SPDX-License-Identifier: MIT
"""Cuts a version in a clone as docs/releasing.md says it, and lays out what the workflow publishes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain import targets
from kernelwright_toolchain.locking.wanted import pyproject
from kernelwright_toolchain.providers import pip
from tests.tree import ROOT

DAY = "2026-01-31"  # of the rehearsed releases
NAMES = {
    f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (("NAME", "r"), ("EMAIL", "r@r"))
}


def environment() -> dict[str, str]:
    """Compilers that this tree has fetched are not fetched again."""
    tools = ROOT / ".kw" / "tools"
    given = {pip.GIVEN: str(tools)} if tools.is_dir() and pip.GIVEN not in os.environ else {}
    return {**os.environ, **NAMES, **given}


def said(command: list[str], folder: Path, **more: str) -> str:
    """What a command prints; a failure ends the rehearsal by its own words."""
    done = subprocess.run(
        command, cwd=folder, env={**environment(), **more}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has {old!r} {text.count(old)} times"
    path.write_text(text.replace(old, new), encoding="utf-8")


@dataclass(frozen=True)
class Clone:
    """A clone without changes, at the commit that is tried."""

    tree: Path

    @classmethod
    def of(cls, source: Path, place: Path) -> Clone:
        said(["git", "clone", "--quiet", str(source), str(place)], place.parent)
        return cls(place)

    @property
    def version(self) -> str:
        return str(
            re.search(r'^version = "(.+)"$', (self.tree / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[
                1
            ]
        )  # type: ignore[index]

    def kw(self, *words: str) -> str:
        return said([sys.executable, "-m", "toolchain", *words], self.tree)

    def session(self, verb: str, *words: str) -> str:
        """`./kw`, which brings its own nox: what builds, and so installs the wheel for its self-check, needs that."""
        return said([str(self.tree / "kw"), verb, "--", *words], self.tree)

    def commit(self, message: str) -> None:
        said(["git", "commit", "--quiet", "--all", "--message", message], self.tree)

    def cut(self) -> str:
        """Steps 1 and 2 of docs/releasing.md, and the tag of step 5; the tag."""
        replaced(self.tree / "CHANGELOG.md", f"## {self.version} (unreleased)", f"## {self.version} ({DAY})")
        self.kw("abi", "--write")
        self.kw("render")
        self.commit(f"Version {self.version}")
        self.kw("abi", "--release")
        tag = f"v{self.version}"
        said(["git", "tag", "--annotate", tag, "--message", self.version], self.tree)
        return tag

    def begin(self, version: str) -> None:
        """Step 6: the next version."""
        old = self.version
        replaced(self.tree / "pyproject.toml", f'version = "{old}"', f'version = "{version}"')
        replaced(self.tree / "CITATION.cff", f"version: {old}", f"version: {version}")
        replaced(self.tree / "CHANGELOG.md", f"## {old} (", f"## {version} (unreleased)\n\nNothing yet.\n\n## {old} (")
        self.kw("abi", "--write")
        self.commit(f"After {old}")

    def wheels(self, *names: str) -> list[Path]:
        """Of these targets, by the command of step 3."""
        self.session("wheels", "--targets", ",".join(names))
        found = list((self.tree / "dist").glob(f"kernelwright-{self.version}-*.whl"))
        assert len(found) == len(names), found
        return sorted(found)


def released() -> list[str]:
    return [target.name for target in targets.load().targets.values() if target.release]


def script_of(workflow: str, holding: str) -> str:
    """The script of a workflow that has these words."""
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    found = [block for block in re.findall(r"^ +run: \|\n((?: {10}.*\n)+)", text, re.MULTILINE) if holding in block]
    assert len(found) == 1, holding
    return re.sub(r"^ {10}", "", found[0], flags=re.MULTILINE)


def publish(clone: Clone, wheels: list[Path], out: Path) -> dict[str, str]:
    """What release.yml gives to the world, by its own script: wheels, sdists, statements, SBOMs, notes and sums; the sums."""
    tag, dist = f"v{clone.version}", clone.tree / "dist"
    clone.kw("notes", "--tag", tag, "--out", "notes.md")
    clone.kw("sdist")
    clone.kw("sdist", "--toolchain")
    clone.kw("hub", *map(str, wheels), "--out", "hub")
    (out / "dist").mkdir(parents=True)
    for wheel in wheels:
        for path in (wheel, wheel.with_name(f"{wheel.name}.intoto.json")):
            shutil.copy(path, out)
    for path in [*dist.glob("*.tar.gz"), *dist.glob("kernelwright_toolchain-*.whl")]:
        shutil.copy(path, out / "dist")
    shutil.move(str(clone.tree / "notes.md"), out / "notes.md")
    said(["bash", "-eo", "pipefail", "-c", script_of("release.yml", "sboms/*.cdx.json")], out)
    said(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], out)
    lines = (out / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}


def package() -> str:
    return str(pyproject()["project"]["name"])
