# SPDX-License-Identifier: MIT
"""Everything that is known of a wheel, library or directory, as plain data. What cannot be read says so itself."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._check import Finding, Grade
from kernelwright.doctor._told import as_data
from kernelwright.doctor.xray import (
    _asked,
    _code,
    _elf,
    _fatbin,
    _host,
    _images,
    _judge,
    _kinds,
    _paths,
    _place,
    _serve,
    _siblings,
    _sources,
    _tag,
    _toolkit,
    _torch,
)
from kernelwright.doctor.xray._advice import about
from kernelwright.doctor.xray._view import Damaged, View
from kernelwright.doctor.xray.answer import answer, gpus

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from kernelwright.doctor.machine._machine import Machine
    from kernelwright.doctor.xray._sources import Item

SCHEMA = 1
_MOST_TOLD = 100  # problems of one kind


@dataclass
class _Found:
    """What the files of one wheel hold."""

    subjects: list[_judge.Subject] = field(default_factory=list)
    images: list[tuple[str, _fatbin.Entry]] = field(default_factory=list)
    releases: set[str] = field(default_factory=set)
    kernels: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    package: str = ""
    """The name of the wheel's package."""
    requires: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    others: int = 0
    kind_of_other: str = ""


def _library(item: Item, names: frozenset[str], machine: Machine, found: _Found, *, kernels: bool) -> None:
    with item.view() as view:
        told, containers = _host.read(view)
        told["runpath"] = [_paths.path_entry(one, item.name, names, machine) for one in told["runpath"]]
        found.subjects.append(_with_code(item, view, told, _code.modules_of_library(containers), kernels=kernels))


def _fat_file(item: Item, found: _Found, *, kernels: bool) -> None:
    """A fat binary by itself."""
    with item.view() as view:
        modules = _code.modules_of_library([(item.name, images) for images in _fatbin.containers(view)])
        found.subjects.append(_with_code(item, view, {"problems": [], "skipped": []}, modules, kernels=kernels))


def _with_code(
    item: Item, view: View, told: dict[str, Any], modules: list[_code.Module], *, kernels: bool
) -> _judge.Subject:
    told |= {"name": item.name, "size": item.size, "code": _code.as_table(modules)}
    told["modules"] = sum(not module.relinked for module in modules)
    told["toolkit"] = _toolkit.evidence(told, _code.releases(view, modules), _place.table()["toolkits"])
    if kernels:
        told["kernels"], skipped = _code.kernels(view, modules)
        told["skipped"] += skipped
    return _judge.Subject(item.name, told, modules)


def _image(item: Item, head: bytes, found: _Found, *, kernels: bool) -> None:
    made = _images.cubin(head) if _images.is_cubin(head) else _images.ptx(head)
    entry = _fatbin.Entry(made.kind, made.arch, made.version, None, 0, item.size, item.size)
    found.images.append((item.name, entry))
    release = _images.release(head)
    found.releases |= {release} if release else set()
    if kernels:
        with item.view() as view:
            names, skipped = _code.kernels(view, [_code.Module(item.name, (entry,))])
        for code, more in names.items():
            found.kernels[code] = sorted({*found.kernels.get(code, []), *more})
        found.skipped += skipped


def _look(item: Item, names: frozenset[str], machine: Machine, found: _Found, *, kernels: bool, wheel: bool) -> None:
    head = item.head()
    if _images.is_cubin(head) or (not head.startswith(_elf.MAGIC) and _images.is_ptx(head)):
        _image(item, head, found, kernels=kernels)
    elif head.startswith(_elf.MAGIC) and len(head) >= 20 and struct.unpack_from("<H", head, 16)[0] in {2, 3}:
        _library(item, names, machine, found, kernels=kernels)
    elif head.startswith(_fatbin.MAGIC_BYTES):
        _fat_file(item, found, kernels=kernels)
    else:
        found.others += 1
        found.kind_of_other = _kinds.kind_of(head, item.size)
        # Beside libraries lie scripts of the linker that are called like them; no wheel has one.
        if _kinds.is_called_library(item.name) and (wheel or found.kind_of_other != "a text"):
            found.problems.append(f"{item.name} is called a library and is {found.kind_of_other}")


def _read(given: _sources.Opened, machine: Machine, *, kernels: bool) -> _Found:
    found = _Found(problems=given.problems)
    names = frozenset(item.name for item in given.items)
    for item in given.items:
        try:
            _look(item, names, machine, found, kernels=kernels, wheel=given.kind == "wheel")
        except Damaged as error:
            found.problems.append(f"{item.name}: {error}")
        except Exception as error:  # noqa: BLE001 - a member with a wrong checksum or an odd packing is its own business
            found.problems.append(f"{item.name} cannot be read: {type(error).__name__}: {error}")
    if found.images:
        modules = _code.modules_of_files(found.images)
        told = {
            "name": "images in files of their own",
            "size": sum(image.size for _, image in found.images),
            "modules": len(modules),
            "code": _code.as_table(modules),
            "problems": [],
            "skipped": found.skipped,
        }
        told["toolkit"] = _toolkit.evidence(told, sorted(found.releases), _place.table()["toolkits"])
        if kernels:
            told["kernels"] = found.kernels
        found.subjects.append(_judge.Subject(str(told["name"]), told, modules))
    return found


def _general(wheel: dict[str, Any] | None, files: list[dict[str, Any]], problems: list[str]) -> list[Finding]:
    """What is wrong wherever it is installed."""
    told = []
    promised, needed = _tag.promised_glibc(wheel["tags"]) if wheel else None, _tag.needed_glibc(files)
    if promised and needed and _serve.numbers(needed[0]) > promised:
        evidence = f"the tag says glibc {promised[0]}.{promised[1]}, {needed[1]} needs {needed[0]}"
        told.append(Finding("KW-110", Grade.WARNS, evidence))
    leaks = [(file["name"], leak) for file in files for leak in file.get("leaks", [])]
    if leaks:
        name, first = leaks[0]
        told.append(
            Finding("KW-111", Grade.WARNS, f"{len(leaks)} names and paths, such as {first['text'][:120]} in {name}")
        )
    damaged = [*problems, *(f"{file['name']}: {problem}" for file in files for problem in file["problems"])]
    if damaged:
        grade = Grade.WARNS if files else Grade.FAILS
        told.append(Finding("KW-112", grade, "; ".join(text[:200] for text in damaged[:3])))
    return told


def _nothing(given: _sources.Opened, wheel: dict[str, Any] | None, found: _Found) -> list[Finding]:
    """What was given, if there is nothing in it to judge. A wheel that promises no more is as it should be."""
    if found.subjects or found.problems or _tag.is_pure(given, wheel):
        return []
    names = [item.name for item in given.items]
    return [Finding("KW-120", Grade.FAILS, _kinds.nothing_in(given.kind, names, found.kind_of_other))]


def _together(parts: list[dict[str, Any]], *, all_needed: bool) -> str:
    """One outcome of many. Of libraries with GPU code any one may be the one that is loaded."""
    outcomes = {one["outcome"] for one in parts}
    if len(outcomes) < 2:
        return next(iter(outcomes), _judge.UNKNOWN)
    if not all_needed:
        return "partly"
    worst = max(outcomes - {_judge.UNKNOWN}, key=_judge.ORDER.index)
    return _judge.UNKNOWN if _judge.UNKNOWN in outcomes and worst == "runs" else worst


def _verdict(found: _Found, place: _place.Place, table: dict[str, Any], *, pure: bool) -> dict[str, Any]:
    """Of all files. Where GPU code lies in libraries, these decide; where it lies in files of its own, all do."""
    names = (name for one in found.subjects for name in (PurePosixPath(one.name).name, one.facts.get("soname")))
    beside = frozenset(name for name in names if name)
    others = _siblings.not_taken((one.name for one in found.subjects if one.modules), place.torch)
    taken = [one for one in found.subjects if one.name not in others]
    judged = [_judge.judge(one, place, beside, table) for one in taken]
    with_code = [one for subject, one in zip(taken, judged, strict=True) if subject.modules]
    libraries = [] if found.images else with_code
    deciding = libraries or judged
    for one in judged:
        if one not in deciding:  # such as a build for other makers' GPUs: it matters only where it is loaded
            one["findings"] = [replace(each, grade=Grade.WARNS) for each in one["findings"]]
    parts = [
        one | {"findings": [as_data(about(each, found.package, place), found.package) for each in one["findings"]]}
        for one in judged
    ]
    outcome = _together(deciding, all_needed=not libraries)
    if pure and not judged and not found.problems:
        outcome = _judge.ORDER[0]
    whole = [as_data(one, found.package) for one in _torch.requirement(found.requires, place.torch)]
    outcome = "fails" if whole else outcome
    told = {
        "place": place.name,
        "outcome": outcome,
        "has_gpus": bool(place.gpus),
        "parts": parts,
        "findings": whole,
        "not_taken": sorted(others),
    }
    return told | {"answer": answer(told)}


def _places(machine: Machine, targets: Sequence[str], asked: _asked.Asked | None) -> list[_place.Place]:
    """This machine and the targets; where GPUs are asked about, those in its place."""
    first = _asked.places(asked) if asked else [_place.this_machine(machine)]
    return [*first, *map(_place.target, targets)]


def examine(
    path: Path,
    machine: Machine,
    targets: Sequence[str] = (),
    *,
    kernels: bool = False,
    asked: _asked.Asked | None = None,
) -> dict[str, Any]:
    """OSError, Damaged or UnknownTarget where there is nothing to tell."""
    places = _places(machine, targets, asked)
    table = _place.table()
    with _sources.opened(path) as given:
        wheel = _tag.facts(given)
        found = _read(given, machine, kernels=kernels)
        found.package = given.path.name.partition("-")[0] if wheel else ""
        found.requires = wheel["requires"] if wheel else []
        files = [one.facts for one in found.subjects]
        pure = _tag.is_pure(given, wheel)
        every = [module for one in found.subjects for module in one.modules]
        return {
            "schema": SCHEMA,
            "path": str(path),
            "kind": given.kind,
            "size": given.size,
            "wheel": wheel,
            "code": _code.as_table(every),
            "gpus": list(gpus(found.subjects, table)) if every else [],
            "files": files,
            "others": found.others,
            "problems": found.problems[:_MOST_TOLD],
            "findings": [
                as_data(one, found.package)
                for one in [*_general(wheel, files, found.problems), *_nothing(given, wheel, found)]
            ],
            "verdicts": [_verdict(found, place, table, pure=pure) for place in places],
        }


def unreadable(
    path: Path, machine: Machine, targets: Sequence[str], problem: str, asked: _asked.Asked | None = None
) -> dict[str, Any]:
    """The same of a file in which nothing can be looked at."""
    found, table = _Found(problems=[problem]), _place.table()
    places = _places(machine, targets, asked)
    return {
        "schema": SCHEMA,
        "path": str(path),
        "kind": "file",
        "size": path.stat().st_size,
        "wheel": None,
        "code": [],
        "gpus": [],
        "files": [],
        "others": 0,
        "problems": [problem],
        "findings": list(map(as_data, _general(None, [], [problem]))),
        "verdicts": [_verdict(found, place, table, pure=False) for place in places],
    }
