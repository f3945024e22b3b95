# SPDX-License-Identifier: MIT
"""locks/torch.json: the sha256 of torch's own builds for CPUs, by version, Python and machine.

They are no packages of PyPI's, so no lock of pip's has them; the rows come from the files and from what others have
published of them. Earlier releases, which a workflow tests too (workflows/pins.toml), are PyPI's, on the machine for
which those are builds for CPUs. A row that is not there is not locked: what the index gives is then hashed when it is
installed. `./kw lock` fills such rows where an index with these builds is named, as each week's workflow `lock` does.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.locking import conda, resolve
from kernelwright_toolchain.locking.wanted import Wanted, lock_of, wanted
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers.pip import sha256_of
from kernelwright_toolchain.targets import Table
from kernelwright_toolchain.workflows import render

TABLE = "locks/torch.json"
NEEDS = "torch-needs"  # the dependency group of all that torch needs besides


def place() -> str:
    """This Python and machine, as a row is called."""
    return f"{sys.version_info[0]}.{sys.version_info[1]} {platform.machine()}"


def known() -> dict[str, dict[str, str]]:
    """version -> row -> sha256."""
    found: dict[str, dict[str, str]] = json.loads(project().data(TABLE).read_text(encoding="utf-8"))
    return found


def _wanted(table: Table) -> dict[str, Wanted]:
    """By version, the builds for CPUs on every Python that the other locks are for, and their machines."""
    needs = next(lock for lock in wanted(table) if lock.path == f"locks/{NEEDS}.txt")
    pinned = render.pins()["torch"]
    # `===`: PyTorch's own index calls its builds `2.10.0+cpu`, which are others.
    asked = {conda.torch_version(): (f"torch=={conda.torch_version()}", needs.machines)}
    asked |= {version: (f"torch==={version}", (pinned["machine"],)) for version in pinned["earlier"]}
    return {
        version: Wanted(TABLE, (requirement,), needs.pythons, machines, needs.glibc, closure=False)
        for version, (requirement, machines) in asked.items()
    }


def _places(lock: Wanted) -> list[tuple[str, str]]:
    return [(python, machine) for python in lock.pythons for machine in lock.machines]


def unlocked(table: Table) -> list[str]:
    """The rows that are not there."""
    return [
        f"{TABLE}: not locked: torch {version} for Python {python} {machine}"
        for version, lock in _wanted(table).items()
        for python, machine in _places(lock)
        if f"{python} {machine}" not in known().get(version, {})
    ]


def of_conda(table: Table, root: Path | None = None) -> list[str]:
    """Where a conda lock has another file of torch than this table, a line each: all tests are to see one torch."""
    rows = known()[conda.torch_version()]
    found = []
    for python, name in conda.LOCKS.items():
        held = {one.platform: one.sha256 for one in conda.locked(root, name) if one.name == conda.TORCH}
        for one in conda.platforms(table):
            row = f"{python} {one.target.machine}"
            digest = held.get(one.subdir)
            if digest is not None and digest != rows.get(row):
                found.append(f"{name}: {one.subdir}: torch is {digest}, and {TABLE} has {rows.get(row)} for {row}")
    return found


def text(table: Table) -> str:
    """The whole file, with the rows that the index has and the file had not; ProvisionError if it has another file."""
    made = {version: _rows(version, lock) for version, lock in _wanted(table).items()}
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def _rows(version: str, lock: Wanted) -> dict[str, str]:
    rows = dict(known().get(version, {}))
    for place in _places(lock):
        try:
            (item,) = resolve.ask(lock, place, lock.requirements)
        except ProvisionError as error:
            print(f"not locked: {str(error).splitlines()[0]}", file=sys.stderr)  # `lock --check` tells of it too
            continue
        digest, name = sha256_of(item) or "", " ".join(place)
        if rows.setdefault(name, digest) != digest or not digest:
            raise ProvisionError(_another(version, name, digest, rows[name]))
    return rows


def _another(version: str, name: str, digest: str, locked: str) -> str:
    return (
        f"the index gives another file for torch {version} than {TABLE} has for Python {name}: sha256 {digest}, "
        f"not {locked}. Try another index (PIP_EXTRA_INDEX_URL); if both give this one, do not use it"
    )


def lock(version: str, digest: str) -> str:
    """The text for pip of this torch and all that it needs, "" where its row is not locked.

    `digest`: of the file that the index gives; ProvisionError if the row has another.
    """
    locked = known().get(version, {}).get(place())
    if locked is None:
        return ""
    if locked != digest:
        raise ProvisionError(_another(version, place(), digest, locked))
    return f"torch=={version} --hash=sha256:{locked}\n{lock_of(NEEDS).read_text(encoding='utf-8')}"
