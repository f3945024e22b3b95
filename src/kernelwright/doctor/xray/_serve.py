# SPDX-License-Identifier: MIT
"""Which image a GPU gets, by NVIDIA's rules and by what the table knows better."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray._code import Module, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.xray._fatbin import Entry

Capability = tuple[int, int]


@dataclass(frozen=True)
class Service:
    """What happens to a GPU: `runs`, `compiles`, `partly` or `fails`; the codes it gets; modules without one for it."""

    outcome: str
    codes: tuple[str, ...]
    lacking: int
    of: int
    too_new: str | None = None
    """PTX that would serve it, but is newer than the driver: its version."""
    others: int = 0
    """Modules that are for other GPUs by their nature: newer ones, or one that alone has what they use."""


def capability(text: str) -> Capability:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def numbers(text: str) -> tuple[int, ...]:
    """A dotted release, to be compared."""
    return tuple(map(int, text.split(".")))


def _number(arch: str) -> tuple[Capability, str]:
    """(capability, suffix) of the part after sm_: the last digit is the minor number."""
    match = re.fullmatch(r"(\d*)(\d)([af]?)", arch)
    return ((int(match[1] or 0), int(match[2])), match[3]) if match else ((0, 0), "")


def _runs(image: Entry, gpu: Capability, codes: dict[str, Any]) -> bool:
    """Machine code runs on its own major family from its own minor number on; `a` is one GPU's alone."""
    row = codes.get(name_of(image))
    if row:
        return gpu in map(capability, row["runs_on"])
    own, suffix = _number(image.arch)
    return own == gpu if suffix == "a" else own[0] == gpu[0] and own[1] <= gpu[1]


def _compiles(image: Entry, gpu: Capability) -> bool:
    own, suffix = _number(image.arch)
    return own == gpu if suffix == "a" else own[0] == gpu[0] and own <= gpu if suffix == "f" else own <= gpu


def driver_for_ptx(version: tuple[int, int], toolkits: dict[str, Any]) -> tuple[int, int] | None:
    """The CUDA level of a driver that compiles PTX of this version; None if the table has no such release."""
    able = [capability(kit["release"]) for kit in toolkits.values() if capability(kit["ptx"]) >= version]
    return min(able, default=None)


def _one(module: Module, gpu: Capability, level: tuple[int, int] | None, table: dict[str, Any]) -> tuple[str, str]:
    """(outcome, code or PTX version) of one module."""
    fitting = [image for image in module.images if image.kind == "sass" and _runs(image, gpu, table["codes"])]
    if fitting and not module.relinked:
        return "runs", name_of(max(fitting, key=lambda image: _number(image.arch)))
    ptx = [image for image in module.images if image.kind == "ptx" and _compiles(image, gpu)]
    if not ptx:
        return ("runs", name_of(fitting[0])) if fitting else ("fails", "")
    best = max(ptx, key=lambda image: _number(image.arch))
    needed = driver_for_ptx(best.version, table["toolkits"])
    if level and (needed or (99, 0)) > level:
        return "too new", f"{best.version[0]}.{best.version[1]}"
    return "compiles", name_of(best)


def _for_others(module: Module, gpu: Capability) -> bool:
    """Whether a module without code for a GPU was never meant for it, as kernels of one generation are."""
    images = [_number(image.arch) for image in module.images if image.kind in {"sass", "ptx"}]
    return all(own > gpu or suffix for own, suffix in images)


def _fails(module: Module, gpu: Capability, level: tuple[int, int] | None, table: dict[str, Any]) -> bool:
    return _one(module, gpu, level, table)[0] == "fails"


def serve(modules: Iterable[Module], gpu: Capability, level: tuple[int, int] | None, table: dict[str, Any]) -> Service:
    """The modules of one file, of which each has to serve the GPU."""
    every = [module for module in modules if any(image.kind in {"sass", "ptx"} for image in module.images)]
    linked = [_one(module, gpu, level, table) for module in every if not module.relinked]
    again = [_one(module, gpu, level, table) for module in every if module.relinked]
    # Code that was linked on the device is one module; where it does not fit, the driver links its parts anew.
    if again and any(outcome == "fails" for outcome, _ in linked) and all(one != "fails" for one, _ in again):
        made = [("too new" if any(one == "too new" for one, _ in again) else "compiles", code) for _, code in again]
        linked = [one for one in linked if one[0] != "fails"] + made
    served = any(outcome not in {"fails", "too new"} for outcome, _ in linked)
    others = [one for one in every if not one.relinked and _for_others(one, gpu) and _fails(one, gpu, level, table)]
    dropped = len(others) if served and not again else 0
    if dropped:
        left = [one for one in every if one not in others]
        linked = [_one(module, gpu, level, table) for module in left]
    outcomes = [outcome for outcome, _ in linked]
    lacking = sum(outcome in {"fails", "too new"} for outcome in outcomes)
    codes = tuple(sorted({code for outcome, code in linked if outcome in {"runs", "compiles"} and code}))
    if lacking:
        outcome = "fails" if lacking == len(outcomes) else "partly"
    else:
        outcome = "compiles" if "compiles" in outcomes else "runs"
    too_new = next((v for o, v in linked if o == "too new"), None)
    return Service(outcome, codes, lacking, len(outcomes), too_new, dropped)
