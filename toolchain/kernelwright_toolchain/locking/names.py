# SPDX-License-Identifier: MIT
"""locks/files.json: name and size of each file that the release's compilers and tools are, beside the locks' hashes.

pip finds a file by its hash; Nix must name it to fetch it, and a person wants to know how much there is. No lock is
rewritten for that: the digest of a lock stands in every wheel.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.exact.sass import LOCK as SASS_LOCK
from kernelwright_toolchain.locking import resolve
from kernelwright_toolchain.locking.sizes import size_of
from kernelwright_toolchain.locking.wanted import Wanted, lock_of, wanted
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers.pip import sha256_of
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.wheel.gates import POLICY_LOCK

NAMES = "locks/files.json"
REGENERATE = f"python -m toolchain lock {NAMES}"
_PIN = re.compile(r"^([a-z0-9-]+==\S+)(?: ; (.+?))?((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", re.MULTILINE)

Row = dict[str, Any]  # file, sha256, size and, unless every Python of the lock takes it, pythons


def named(table: Table) -> tuple[Wanted, ...]:
    """The locks whose files are named: all that `./kw provision` fetches."""
    paths = {path for toolkit in table.toolkits.values() for path in toolkit.locks.values()}
    paths |= {*table.tools.locks.values(), *(f"locks/{lock_of(name).name}" for name in (POLICY_LOCK, SASS_LOCK))}
    return tuple(lock for lock in wanted(table) if lock.path in paths)


def pins(text: str) -> dict[str, tuple[str, set[str]]]:
    """NAME==VERSION -> its marker, or "", and its hashes."""
    return {pin: (marker or "", set(re.findall(r"sha256:(\w+)", rest))) for pin, marker, rest in _PIN.findall(text)}


def _places(lock: Wanted) -> Iterator[resolve.Place]:
    yield from ((python, machine) for python in lock.pythons for machine in lock.machines)


def _file(item: dict[str, Any]) -> str:
    return PurePosixPath(urllib.parse.unquote(urllib.parse.urlsplit(item["download_info"]["url"]).path)).name


def _rows(lock: Wanted, text: str) -> list[Row]:
    """What the index calls the files of this lock; ProvisionError if it would give other ones."""
    found: dict[str, tuple[str, int, set[str]]] = {}
    known = pins(text)
    for place in _places(lock):
        here = [pin for pin, (marker, _) in known.items() if not marker or resolve.holds(marker, place)]
        for item in resolve.ask(lock, place, here):
            pin = f"{resolve.canonical(item['metadata']['name'])}=={item['metadata']['version']}"
            digest, file = sha256_of(item) or "", _file(item)
            if digest not in known[pin][1]:
                raise ProvisionError(f"{lock.path} has no hash of {file} ({digest}), which the index gives for {pin}")
            if file not in found:
                found[file] = (digest, size_of(item["download_info"]["url"]), set())
            found[file][2].add(place[0])
    return [
        {"file": file, "sha256": digest, "size": size}
        | ({} if pythons == set(lock.pythons) else {"pythons": sorted(pythons, key=lambda one: int(one[2:]))})
        for file, (digest, size, pythons) in sorted(found.items())
    ]


def text(table: Table, root: Path | None = None) -> str:
    """The whole file, asked of the index for the locks as they are."""
    root = root or project().root
    rows = {lock.path: _rows(lock, (root / lock.path).read_text(encoding="utf-8")) for lock in named(table)}
    return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def problems(table: Table, root: Path | None = None) -> list[str]:
    """Where the file does not belong to the locks, a line each; needs no network."""
    root = root or project().root
    path = root / NAMES
    if not path.is_file():
        return [f"{NAMES} is missing; make it with `{REGENERATE}`"]
    have: dict[str, list[Row]] = json.loads(path.read_text(encoding="utf-8"))
    found = []
    for lock in named(table):
        hashes = set().union(*(each for _, each in pins((root / lock.path).read_text(encoding="utf-8")).values()))
        if {row["sha256"] for row in have.get(lock.path, [])} != hashes:
            found.append(f"{NAMES} does not name the files of {lock.path}; run `{REGENERATE}`")
    found += [
        f"{NAMES} names files of {name}, which is no lock of compilers or tools; run `{REGENERATE}`"
        for name in sorted(have.keys() - {lock.path for lock in named(table)})
    ]
    return found
