# SPDX-License-Identifier: MIT
"""What came of the runs, on the CPU and on GPUs, in the form that text and page show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernelwright.doctor.machine._machine import Machine

RIGHT, FAILED, NOT_RUN = "right", "FAILED", "not run"


def on_gpus(machine: Machine) -> dict[str, Any]:
    """{"gpus": [{"ordinal", "capability", "operators", "untried" where it stopped}], "untried" or "error" if so}."""
    told = machine.operators
    if told.get("unasked"):
        return {"gpus": [], "untried": told["error"]}
    if not (told.get("hung") or told.get("crashed")):
        if told.get("running"):  # its last words are that nothing is
            told = told | {"error": f"the child process ended before it was done; it was at: {told['running']}"}
        return {"gpus": []} | {key: told[key] for key in ("gpus", "untried", "error") if key in told}
    before = told.get("before", {})
    gpus = before.get("gpus", [])
    at = f"; it was at: {before['running']}" if before.get("running") else ""
    if told.get("hung") and before.get("compiles"):
        compiling = f"the driver was still compiling for {before['running']}; it keeps what it has finished: try again"
        return {"gpus": gpus, "untried": compiling}
    return {"gpus": gpus, "error": f"{told['error']}{at}"}


def _run(each: dict[str, Any], where: str = "") -> tuple[str, str, str]:
    if "error" in each:
        return each["name"], FAILED, f"{where}{each['error']}"
    if "right" in each:
        return each["name"], RIGHT, f"{where}{each['right']}"
    if "no_cpu" in each:
        return each["name"], NOT_RUN, f"{where}has no CPU implementation ({each['no_cpu']}): plain torch computes it"
    return each["name"], NOT_RUN, f"{where}is left out of this build"


def runs(told: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """(operator, RIGHT or FAILED or NOT_RUN, in words) of a report; what is of all of them is called "operators"."""
    for each in told.get("operators", ()):
        yield _run(each)
    there = told.get("operators_on_gpus", {})
    for gpu in there.get("gpus", []):
        for each in gpu["operators"]:
            yield _run(each, f"on GPU {gpu['ordinal']}: ")
        if "untried" in gpu:
            yield "operators", NOT_RUN, f"on GPU {gpu['ordinal']} were not all run: {gpu['untried']}"
    if "untried" in there:
        yield "operators", NOT_RUN, f"were not run on a GPU: {there['untried']}"
    if "error" in there:
        yield "operators", FAILED, f"on GPUs: {there['error']}"
