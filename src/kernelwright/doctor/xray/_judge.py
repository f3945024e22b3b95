# SPDX-License-Identifier: MIT
"""Will a file run in a place: on each of its GPUs, and what its CPU code needs there. Causes are the doctor's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.doctor._check import Finding, Grade
from kernelwright.doctor.xray import _paths
from kernelwright.doctor.xray import _torch as _asked
from kernelwright.doctor.xray._place import Gpu, Place
from kernelwright.doctor.xray._serve import Service, numbers, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kernelwright.doctor.xray._code import Module

ORDER = ("runs", "compiles", "partly", "fails")
UNKNOWN = "unknown"

# Drivers unpack Zstandard from this CUDA level on; LZ4 they always did.
_ZSTD_FROM = (12, 4)
_SERVERS = re.compile(r"\bsbsa\b")
_CUDA_LIBRARY = re.compile(r"^lib(cud|cub|cusp|cuso|cufft|curand|cupti|cufile|nv|nccl|npp)")


@dataclass(frozen=True)
class Subject:
    """What is judged by itself: a library with its GPU code, or the images of a directory together."""

    name: str
    facts: dict[str, Any]
    modules: Sequence[Module]


def _level(found: tuple[int, int]) -> str:
    return f"{found[0]}.{found[1]}"


def _fails(code: str, evidence: str) -> Finding:
    return Finding(code, Grade.FAILS, evidence)


def _warns(code: str, evidence: str) -> Finding:
    return Finding(code, Grade.WARNS, evidence)


def _libc(facts: dict[str, Any], place: Place) -> Iterator[Finding]:
    needed = facts.get("glibc")
    if needed and place.glibc and numbers(needed) > place.glibc:
        yield _fails("KW-052", f"it needs glibc {needed}, {place.name} has {_level(place.glibc)}")
    if needed and place.oldest_glibc and numbers(needed) > place.oldest_glibc:
        yield _warns(
            "KW-052", f"it needs glibc {needed}; machines of {place.name} may have {_level(place.oldest_glibc)}"
        )


def _runtime(facts: dict[str, Any], place: Place) -> Iterator[Finding]:
    """The CUDA runtime it is linked to, beside the driver."""
    linked = [
        int(match[1]) for name in facts["needed"] if (match := re.fullmatch(r"libcudart\.so\.(\d{1,3})[\d.]*", name))
    ]
    if linked and place.level and linked[0] > place.level[0]:
        yield _fails(
            "KW-003", f"it is linked to the runtime of CUDA {linked[0]}, the driver's level is {_level(place.level)}"
        )
    if place.userland == "tegra" and (facts["registers_kernels"] or linked):
        servers = next((entry["path"] for entry in facts["runpath"] if _SERVERS.search(entry["path"])), None)
        if servers:
            yield _fails("KW-030", f"it brings or links CUDA's runtime, and was linked against the servers': {servers}")
        else:
            yield _warns(
                "KW-030", "it brings or links CUDA's runtime; whether the board's or the servers', nothing in it says"
            )


def _here(facts: dict[str, Any], place: Place, beside: frozenset[str]) -> Iterator[Finding]:
    """What can be looked up on this machine alone."""
    if place.here is None:
        return
    missing = _paths.missing(facts["needed"], facts["runpath"], beside, place.here)
    gone = [entry["path"] for entry in facts["runpath"] if entry["exists"] is False]
    if "libcuda.so.1" in missing:
        yield _fails("KW-001", "it needs libcuda.so.1, which is not here")
        missing.remove("libcuda.so.1")
    cuda = [name for name in missing if _CUDA_LIBRARY.match(name)]
    others = [name for name in missing if name not in cuda]
    if cuda:
        yield _fails("KW-050", f"not here: {' '.join(cuda)}")
    if others:
        yield _fails("KW-054", f"not here: {' '.join(others)}")
    if gone and missing:
        yield _warns("KW-083", f"not here: {' '.join(gone)}")


def _torch(facts: dict[str, Any], beside: frozenset[str]) -> Iterator[Finding]:
    wanted = facts.get("torch")
    if wanted and wanted["unstable"] and "libc10.so" not in beside:  # torch itself fits itself
        yield _warns(
            "KW-020",
            f"it wants {wanted['unstable']} symbols of torch's C++ interface, such as "
            f"{wanted['examples'][0][:80]}: it fits {_asked.in_words(facts) or 'one release of torch'}",
        )


def _packing(modules: Sequence[Module], place: Place) -> Iterator[Finding]:
    packed = any(image.packing == "zstd" for module in modules for image in module.images)
    if packed and place.level and place.level < _ZSTD_FROM:
        yield _fails(
            "KW-053",
            f"its GPU code is packed with Zstandard, which drivers unpack from CUDA {_level(_ZSTD_FROM)} on; "
            f"this one's level is {_level(place.level)}",
        )


def _named(gpus: Sequence[Gpu]) -> str:
    return ", ".join(f"{_level(gpu.capability)} ({gpu.name})" for gpu in gpus)


def _gpus(found: Sequence[tuple[Gpu, Service]], have: str) -> Iterator[Finding]:
    """One finding for all GPUs to which the same happens."""
    too_new = [(gpu, one) for gpu, one in found if one.too_new]
    for version in sorted({one.too_new for _, one in too_new if one.too_new}):
        gpus = [gpu for gpu, one in too_new if one.too_new == version]
        yield _fails("KW-005", f"only PTX {version} would serve {_named(gpus)}, and the driver cannot compile it yet")
    left = [(gpu, one) for gpu, one in found if not one.too_new]
    none = [gpu for gpu, one in left if one.outcome == "fails"]
    if none:
        yield _fails("KW-010", f"nothing for {_named(none)}; the file has {have}")
    for lacking, of in sorted({(one.lacking, one.of) for _, one in left if one.outcome == "partly"}):
        gpus = [gpu for gpu, one in left if one.outcome == "partly" and one.lacking == lacking]
        yield _warns("KW-010", f"{lacking} of {of} modules have nothing for {_named(gpus)}; the file has {have}")
    compiled = [gpu for gpu, one in left if one.outcome == "compiles"]
    if compiled:
        yield _warns("KW-075", f"the driver compiles PTX on first use for {_named(compiled)}")


def judge(subject: Subject, place: Place, beside: frozenset[str], table: dict[str, Any]) -> dict[str, Any]:
    """The verdict on one subject in one place, as data."""
    findings: list[Finding] = []
    if "machine" in subject.facts:
        if place.machine and subject.facts["machine"] != place.machine:
            other = _fails("KW-036", f"the file is for {subject.facts['machine']}, {place.name} is {place.machine}")
            return {"name": subject.name, "outcome": "fails", "gpus": [], "findings": [other]}
        if subject.facts.get("cut"):
            findings.append(_fails("KW-112", f"it cannot be loaded anywhere: {subject.facts['cut']}"))
        findings += [
            *_libc(subject.facts, place),
            *_runtime(subject.facts, place),
            *_here(subject.facts, place, beside),
            *(_torch(subject.facts, beside) if place.torch is None else _asked.judged(subject.facts, place.torch)),
        ]
    served = []
    if subject.modules:
        findings += _packing(subject.modules, place)
        served = [(gpu, serve(subject.modules, gpu.capability, place.level, table)) for gpu in place.gpus]
        findings += _gpus(served, " ".join(row["code"] for row in subject.facts["code"] if not row["relinked"]))
    gpus = [
        {
            "name": gpu.name,
            "capability": _level(gpu.capability),
            "outcome": found.outcome,
            "codes": list(found.codes),
            "others": found.others,
        }
        for gpu, found in served
    ]
    outcome = max(
        (found.outcome for _, found in served), key=ORDER.index, default=UNKNOWN if subject.modules else "runs"
    )
    if any(one.grade is Grade.FAILS and one.code not in {"KW-005", "KW-010"} for one in findings):
        outcome = "fails"
    return {"name": subject.name, "outcome": outcome, "gpus": gpus, "findings": findings}
