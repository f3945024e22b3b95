# SPDX-License-Identifier: MIT
"""What a project's own backend needs beside the locked tools: by hash, from its lock, else as the index is now."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.targets.read import toml

LOCK = "kernelwright-build.txt"  # a project's own, beside its pyproject.toml; `kwt lock` writes it
# What the tools' lock brings, and this toolchain itself.
_OURS = ("scikit-build-core", "cmake", "ninja", "kernelwright-toolchain", "pathspec", "packaging")
_ASKING = ("--dry-run", "--quiet", "--report=-", "--ignore-installed", "--target=unused", "--only-binary=:all:")


def _name(text: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", text.strip(), maxsplit=1)[0].lower().replace("_", "-")


def wanted(root: Path, backend: str) -> list[str]:
    """Of [build-system] requires, what the tools' lock has not; and setuptools, where that is the backend."""
    own = root / "pyproject.toml"
    table = toml(own.read_text(encoding="utf-8"), str(own)) if own.is_file() else {}
    named: list[str] = [*table.get("build-system", {}).get("requires", [])]
    if backend.partition(".")[0] == "setuptools" and not any(_name(one) == "setuptools" for one in named):
        named.append("setuptools")
    return [one for one in named if _name(one) not in _OURS]


def pinned(requirements: list[str]) -> str:
    """A lock's text: each package that pip would take for them, by version and hash."""
    said = pip.run_pip(["install", *_ASKING, *requirements], f"asking the package index for {', '.join(requirements)}")
    lines = []
    for item in json.loads(said)["install"]:
        digest, about = pip.sha256_of(item), item["metadata"]
        if not digest:
            raise ProvisionError(f"{about['name']}: the package index gives no sha256; nothing was locked")
        lines.append(f"{_name(about['name'])}=={about['version']} \\\n    --hash=sha256:{digest}\n")
    return f"# From {' '.join(sorted(requirements))}\n" + "".join(sorted(lines))


def installed(root: Path, needed: list[str], why: list[str]) -> tuple[Path, ...]:
    """Directories to import from; where no lock names them, a reason why the bytes may be others another day."""
    if not needed:
        return ()
    lock = root / LOCK
    if not lock.is_file():
        key = hashlib.sha256("\0".join([*sorted(needed), sys.implementation.cache_tag]).encode()).hexdigest()[:16]
        lock = project().state / "requires" / f"{key}.txt"
        if not lock.is_file():
            text = pinned(needed)
            lock.parent.mkdir(parents=True, exist_ok=True)
            lock.write_text(text, encoding="utf-8")
        why.append(f"{', '.join(needed)}: as the package index was that day (`kwt lock` writes {LOCK})")
    return (pip.install(lock, per_python=True),)
