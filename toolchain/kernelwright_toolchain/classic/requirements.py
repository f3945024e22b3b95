# SPDX-License-Identifier: MIT
"""What a project's own backend needs beside the locked tools: by hash, from its lock, else as the index is now."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernelwright_toolchain.classic import gcc
from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.locking.resolve import platforms
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.targets import Toolkit, load
from kernelwright_toolchain.targets.read import toml

LOCK = "kernelwright-build.txt"  # a project's own, beside its pyproject.toml; `kwt lock` writes it
LIBRARIES = "kernelwright-libraries.txt"  # the same for CUDA's libraries
# What the tools' lock brings, and this toolchain itself.
_OURS = ("scikit-build-core", "cmake", "ninja", "kernelwright-toolchain", "pathspec", "packaging")
_FOR_GPUS = ("nvidia-", "triton")
_ASKING = ("--dry-run", "--quiet", "--report=-", "--ignore-installed", "--target=unused", "--only-binary=:all:")


def _name(text: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", text.strip(), maxsplit=1)[0].lower().replace("_", "-")


def wanted(root: Path, backend: str, torch: str = "none", more: tuple[str, ...] = ()) -> list[str]:
    """Of [build-system] requires, what the tools' lock has not; with setuptools and torch, where they are needed."""
    own = root / "pyproject.toml"
    table = toml(own.read_text(encoding="utf-8"), str(own)) if own.is_file() else {}
    named: list[str] = [*table.get("build-system", {}).get("requires", []), *more]
    if backend.partition(".")[0] == "setuptools" and not any(_name(one) == "setuptools" for one in named):
        named.append("setuptools")
    if torch != "none" and not any(_name(one) == "torch" for one in named):
        named.append("torch")
    return [one for one in named if _name(one) not in _OURS]


def pinned(requirements: list[str], *, nvidia: bool = False, machines: Sequence[str] = ()) -> str:
    """A lock's text: each package that pip would take for them, by version and hash.

    `machines`: others than this one, whose files are in it too.
    """
    found: dict[str, set[str]] = {}
    for there in [[], *(foreign(machine) for machine in machines)]:
        for name, digest in _asked(requirements, there, nvidia=nvidia):
            found.setdefault(name, set()).add(digest)
    names = [pin.partition("==")[0] for pin in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ProvisionError(f"{', '.join(twice)}: the package index has another version for another machine")
    lines = [" \\\n    ".join([pin, *(f"--hash=sha256:{one}" for one in sorted(found[pin]))]) for pin in sorted(found)]
    return f"# From {' '.join(sorted(requirements))}\n" + "".join(f"{line}\n" for line in lines)


def foreign(machine: str) -> list[str]:
    """pip's words for files of a machine that is not this one: any that its targets' C library takes."""
    floors = [target.glibc for target in load().targets.values() if target.machine == machine]
    floor = min(floors)
    tags = [f"--platform={tag}" for tag in platforms(machine, (floor.parts[0], floor.parts[1]))]
    return [*tags, "--implementation=cp", "--abi=none"]


def _asked(requirements: list[str], there: list[str], *, nvidia: bool) -> Iterator[tuple[str, str]]:
    words = ["install", *_ASKING, *there, *requirements]
    items = json.loads(pip.run_pip(words, f"asking the package index for {', '.join(requirements)}"))["install"]
    if not nvidia and (for_gpus := [item for item in items if _name(item["metadata"]["name"]).startswith(_FOR_GPUS)]):
        raise ProvisionError(
            f"the package index has only a torch for GPUs, which drags in {len(for_gpus)} packages of gigabytes; its "
            "headers are all that is needed. Name PyTorch's index of CPU builds in PIP_EXTRA_INDEX_URL, and a release "
            'that it has in [build-system] requires, as in "torch==2.13.0"'
        )
    for item in items:
        digest, about = pip.sha256_of(item), item["metadata"]
        if not digest:
            raise ProvisionError(f"{about['name']}: the package index gives no sha256; nothing was locked")
        yield f"{_name(about['name'])}=={about['version']}", digest


def libraries_wanted(toolkit: Toolkit, names: tuple[str, ...]) -> list[str]:
    """NVIDIA's package that pins every component of this release, with those that are named."""
    name, _, release = toolkit.pypi["meta"].partition("==")
    return [f"{name}[{','.join(sorted(names))}]=={release}"] if names else []


def locked(
    folder: Path, name: str, needed: list[str], why: list[str], *, nvidia: bool = False, machines: Sequence[str] = ()
) -> Path:
    """The lock that pins them: the project's own, else one as the index is now, and a reason for a label."""
    lock = folder / name
    if lock.is_file():
        return lock
    key = hashlib.sha256("\0".join([*sorted(needed), sys.implementation.cache_tag, *machines]).encode()).hexdigest()[
        :16
    ]
    lock = project().state / "requires" / f"{key}.txt"
    if not lock.is_file():
        text = pinned(needed, nvidia=nvidia, machines=machines)
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.write_text(text, encoding="utf-8")
    why.append(f"{', '.join(needed)}: as the package index was that day (`kwt lock` writes {name})")
    return lock


def digests(folder: Path) -> dict[str, str]:
    """name -> sha256 of the project's own locks."""
    paths = [folder / name for name in (LOCK, LIBRARIES, gcc.LOCK)]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.is_file()}


def installed(folder: Path, needed: list[str], why: list[str]) -> tuple[Path, ...]:
    """Directories to import from; where no lock names them, a reason why the bytes may be others another day."""
    return (pip.install(locked(folder, LOCK, needed, why), per_python=True),) if needed else ()
