# SPDX-License-Identifier: MIT
"""A library that is installed here: what would keep it from running, from its headers alone."""

from __future__ import annotations

import mmap
from collections import Counter
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from kernelwright.doctor.xray import _code, _elf, _fatbin, _host, _judge, _paths, _place
from kernelwright.doctor.xray._view import Damaged, View

if TYPE_CHECKING:
    from pathlib import Path

    from kernelwright.doctor._check import Finding
    from kernelwright.doctor.machine._machine import Machine

_ENOUGH = 64  # containers of a large library that are looked at: each is a page of a file that may not be in memory


@dataclass(frozen=True)
class Told:
    has_gpu_code: bool
    findings: tuple[Finding, ...]


def look(path: Path, name: str, names: frozenset[str], machine: Machine) -> Told | None:
    """`names`: every library of the packages beside it. None for what is no library, or a damaged one."""
    try:
        with path.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            facts, containers = _host.read(View(mapped), thorough=False)
    except (OSError, ValueError, Damaged):
        return None
    facts["runpath"] = [_paths.path_entry(one, name, names, machine) for one in facts["runpath"]]
    modules = _code.modules_of_library(containers)
    facts["code"] = _code.as_table(modules)
    beside = frozenset(PurePosixPath(one).name for one in names)
    verdict = _judge.judge(
        _judge.Subject(name, facts, modules), machine.once(_place.this_machine), beside, _place.table()
    )
    return Told(bool(modules), tuple(verdict["findings"]))


def codes(path: Path) -> tuple[str, ...]:
    """The GPU codes of a library such as libtorch_cuda.so, a gigabyte: those that most of its first modules have.

    Some modules are for one GPU alone, with instructions that no other has; they say nothing of the rest.
    """
    try:
        with path.open("rb") as given, mmap.mmap(given.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            elf = _elf.Elf(View(mapped))
            parts = _host.fat_binaries(elf, elf.sections())
            modules = chain.from_iterable(_fatbin.containers(part) for where, part in parts if where == _host.LOADED)
            first = [{_code.name_of(image) for image in images} for images in islice(modules, _ENOUGH)]
    except (OSError, ValueError, Damaged):
        return ()
    found = Counter(chain.from_iterable(first))
    most = [name for name, count in found.items() if count * 2 > len(first)]
    return tuple(sorted(most, key=lambda name: (name.startswith("compute"), len(name), name)))
