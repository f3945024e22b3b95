# SPDX-License-Identifier: MIT
"""The head of a report: one line an area, with how it is and the few words that say most of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelwright.doctor._cause import Area
from kernelwright.doctor._check import Grade
from kernelwright.doctor.operators._all import FAILED, NOT_RUN, RIGHT, runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OK, NOT_HERE = "ok", "-"
# How the states of one area go together: the worst is told.
_WORST = (NOT_HERE, OK, Grade.WARNS.value, Grade.FAILS.value)

_OF = {
    "driver": (Area.DRIVER,),
    "GPU": (Area.GPU, Area.JETSON),
    "torch": (Area.TORCH, Area.LIBRARIES),
    "compilers": (Area.TOOLCHAIN,),
    "settings": (Area.SETTINGS, Area.MACHINE),
    "kernelwright": (Area.PACKAGE,),
}


def _driver(told: dict[str, Any]) -> tuple[str, str]:
    driver = told["driver"]
    if "error" not in driver:
        level = driver.get("level")
        shown = f"CUDA {level // 1000}.{level % 1000 // 10}" if level else "CUDA level unknown"
        return OK, f"{driver.get('kernel_module') or 'version unknown'}, {shown}"
    if driver.get("hung") or driver.get("crashed"):
        return Grade.FAILS.value, driver["error"]
    return NOT_HERE, "no NVIDIA driver here (fine for CPU use)"


def _gpus(told: dict[str, Any]) -> tuple[str, str]:
    gpus = told["gpus"]
    board = told.get("jetson") or {}
    names = ", ".join(dict.fromkeys(str(gpu.get("name")) for gpu in gpus))
    several = f"{len(gpus)} x " if len(gpus) > 1 else ""
    where = f" ({board['board']}, L4T {board['l4t']})" if board.get("board") else ""
    return (OK, f"{several}{names}{where}") if gpus else (NOT_HERE, f"none that CUDA shows{where}")


def _torch(told: dict[str, Any]) -> tuple[str, str]:
    torch = told["torch"]
    if torch is None:
        return NOT_HERE, "not installed (the operators need it, the C library does not)"
    cuda = f"CUDA {torch['cuda']}" if torch["cuda"] else "for CPUs"
    return OK, f"{torch['version']}, {cuda}, built by {torch['origin']}"


def _compilers(told: dict[str, Any]) -> tuple[str, str]:
    nvcc = [f"nvcc {one['release'] or 'of unknown release'}" for one in told["toolkits"][:1]]
    gcc = [f"g++ {told['host_compiler']['release']}"] if told["host_compiler"] else []
    return (OK if nvcc and gcc else NOT_HERE), ", ".join([*nvcc, *gcc]) or "none (the wheel needs none)"


def _settings(told: dict[str, Any]) -> tuple[str, str]:
    names = [name for name in told["variables"] if not name.startswith("CONDA")]
    return OK, ", ".join(names) or "no environment variable that changes anything"


def _package(told: dict[str, Any]) -> tuple[str, str]:
    states = [state for _, state, _ in runs(told)]
    if FAILED in states:
        return Grade.FAILS.value, f"{states.count(FAILED)} of {len(states)} runs of operators failed"
    gpus = told.get("operators_on_gpus", {})
    ran = isinstance(gpus, dict) and any(gpu.get("operators") for gpu in gpus.get("gpus", []))
    where = "on the CPU and on GPUs" if ran else "on the CPU"
    left = f", {states.count(NOT_RUN)} not run" if NOT_RUN in states and ran else ""
    return OK, f"{states.count(RIGHT)} runs of operators {where} ok{left}"


_SAY: dict[str, Callable[[dict[str, Any]], tuple[str, str]]] = {
    "driver": _driver,
    "GPU": _gpus,
    "torch": _torch,
    "compilers": _compilers,
    "settings": _settings,
    "kernelwright": _package,
}
_NEEDS = {
    "driver": ("driver",),
    "GPU": ("gpus",),
    "torch": ("torch",),
    "compilers": ("toolkits", "host_compiler"),
    "settings": ("variables",),
    "kernelwright": ("operators",),
}


def _broken(part: Any) -> bool:
    """A part of the report that could not be looked at has an error alone in its place."""
    return isinstance(part, dict) and set(part) == {"error"}


def areas(told: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(state, area, in words), for the areas that were looked at; what a finding says of one counts more."""
    for name, several in _OF.items():
        needs = _NEEDS[name]
        if any(one not in told for one in needs):
            continue
        broken = next((told[one]["error"] for one in needs if _broken(told[one]) and one != "driver"), None)
        state, words = (Grade.WARNS.value, broken) if broken else _SAY[name](told)
        own = [found for found in told["findings"] if found["area"] in {area.value for area in several}]
        worst = max([state, *(found["grade"] for found in own)], key=_WORST.index)
        codes = ", ".join(dict.fromkeys(found["code"] for found in own if not found["explained_by"]))
        yield worst, name, f"{words}; see {codes}" if codes else words
