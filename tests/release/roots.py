# SPDX-License-Identifier: MIT
"""Bare systems to install in: Debian's smallest, with its own Python or another of this machine's beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Release -> the Python that is installed there. "testing" becomes the next one.
SYSTEMS = {"bookworm": "3.11", "trixie": "3.13", "testing": "3.14"}
OTHERS = ("3.10", "3.12")  # which no release has: copied from this machine where it has them
_ENTER = """
set -e
root=$1; shift
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
exec chroot "$root" "$@"
"""


@dataclass(frozen=True)
class Root:
    """One system; what runs in it sees its files and this machine's network."""

    place: Path
    name: str

    @classmethod
    def made(cls, name: str, folder: Path) -> Root:
        """From Debian's packages; one that is there is taken again."""
        place = folder / name
        if not (place / "complete").exists():
            version = SYSTEMS[name]
            own = "python3" if name != "testing" else f"python{version}"
            packages = f"{own},{own}-venv,ca-certificates"
            shutil.rmtree(place, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)
            command = ["debootstrap", "--variant=minbase", f"--include={packages}", name, str(place)]
            subprocess.run(command, check=True, capture_output=True)
            (place / "complete").touch()
        return cls(place, name)

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """In namespaces of its own, so that no mount is left behind."""
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8", **variables}
        return subprocess.run(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", str(self.place), *command],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )

    def said(self, *command: str, **variables: str) -> str:
        done = self.run(*command, **variables)
        if done.returncode:
            raise AssertionError(f"{self.name}: {command[0]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def pythons(self) -> dict[str, str]:
        """Version -> program of its own and of those copied into it, each of which has what pip needs."""
        found = {SYSTEMS[self.name]: f"/usr/bin/python{SYSTEMS[self.name]}"}
        for version in OTHERS:
            prefix = elsewhere(version)
            if prefix is None:
                continue
            inside = self.place / str(prefix).lstrip("/")
            if not inside.exists():
                shutil.copytree(prefix, inside, symlinks=True, ignore=shutil.ignore_patterns("test", "site-packages"))
            program = f"{prefix}/bin/python{version}"
            if self.run(program, "-c", "import ctypes, hashlib, ssl, venv, zlib").returncode == 0:
                found[version] = program
        return found


def elsewhere(version: str) -> Path | None:
    """The prefix of this machine's Python of that version which can be copied whole, if it has one."""
    folders = sorted((Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions").glob(f"{version}.*"))
    return folders[-1] if folders else None


def missing() -> list[str]:
    """The programs that this machine lacks."""
    return [name for name in ("debootstrap", "unshare", "chroot", "git") if not shutil.which(name)]
