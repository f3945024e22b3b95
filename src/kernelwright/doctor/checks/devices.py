# SPDX-License-Identifier: MIT
"""Does the list of visible GPUs say what it means? CUDA leaves out everything behind the first entry that is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, system

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_LIST = "CUDA_VISIBLE_DEVICES"
_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
# A GPU may be named by the beginning of its UUID; a MIG device by all of its own, or by its GPU and two numbers.
_GPU, _MIG = rf"GPU-{_HEX}[0-9a-fA-F-]*", rf"MIG-{_UUID}|MIG-GPU-{_UUID}/\d+/\d+"


def _wrong(entries: list[str], there: int) -> tuple[int, str] | None:
    """(number, what is wrong) of the first entry that CUDA does not take."""
    for number, entry in enumerate(entries):
        if entry in entries[:number]:
            return number, f"{entry} stands there twice, and CUDA then shows no GPU at all"
        if re.fullmatch(_MIG, entry) or re.fullmatch(_GPU, entry):
            continue
        if entry.startswith("MIG-"):
            return number, f"{entry!r} is no whole name of a MIG device, as nvidia-smi -L shows it"
        if not entry.isdecimal():
            return number, f"{entry!r} is neither a number nor a UUID"
        if int(entry) >= there > 0:
            return number, f"{entry} is not there, the machine has {there}, counted from 0"
    return None


@check("KW-012", Grade.WARNS)
def hidden_gpus(machine: Machine) -> Seen | str | None:
    value = machine.variables.get(_LIST)
    if value is None or not (driver.kernel_module(machine) or system.is_wsl(machine)):
        return None
    if value.strip() in {"", "-1"}:
        return f"{_LIST}={value!r} hides every GPU"
    entries, there = [entry.strip() for entry in value.split(",")], len(driver.gpus_on_the_bus(machine))
    wrong = _wrong(entries, there)
    if wrong is None:
        return None
    right = [entry for entry in dict.fromkeys(entries) if _wrong([entry], there) is None]
    evidence = f"{_LIST}={value!r}: {wrong[1]}"
    return (
        Seen(evidence, f"export {_LIST}={','.join(right)}", "Those are the entries that are right.")
        if right
        else evidence
    )
