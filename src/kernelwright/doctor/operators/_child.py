# SPDX-License-Identifier: MIT
"""The child process that runs each operator on one GPU of each kind. What a kernel or a driver may do ends only it.

After each step it prints all that it knows by then as one line of JSON: the last is its answer, also where a kernel
does not return.
"""

from __future__ import annotations

import ctypes
import json
from typing import TYPE_CHECKING, Any

from kernelwright import _files, _library, errors, ops
from kernelwright.doctor.operators._gpu import Driver, OnGpu
from kernelwright.doctor.operators._run import Busy, run

if TYPE_CHECKING:
    from kernelwright._library import Library


class _Told:
    """What is known so far."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {"gpus": []}

    def say(self, **facts: Any) -> None:
        self.answer |= facts
        print(json.dumps(self.answer), flush=True)


def _asked(library: Library, function: str, *arguments: Any) -> int:
    """The number that a function of the library writes to its last argument."""
    number = ctypes.c_int32()
    status = library.functions[function](*arguments, ctypes.byref(number))
    if status:
        raise library.refusal(function, status)
    return number.value


def _kinds(library: Library) -> dict[int, int]:
    """Of each compute capability the first GPU: others of the kind get the same code."""
    found: dict[int, int] = {}
    for ordinal in range(_asked(library, "kw_device_count")):
        found.setdefault(_asked(library, "kw_device_capability", ordinal), ordinal)
    return found


def _compiled(library: Library, op: str, capability: int) -> bool:
    """Whether the driver compiles the operator's code first, which may take it longer than anybody waits."""
    image = ctypes.c_char_p()
    library.functions["kw_image_for"](op.encode(), capability, ctypes.byref(image))  # none at all: its run says so
    codes = _files.read(_files.TARGETS)["codes"]
    return bool(codes.get((image.value or b"").decode(), {}).get("kind") == "ptx")


def _one_gpu(told: _Told, library: Library, capability: int, ordinal: int) -> None:
    gpu: dict[str, Any] = {"ordinal": ordinal, "capability": capability, "operators": []}
    told.answer["gpus"].append(gpu)
    told.say(running=f"a context on GPU {ordinal}")
    driver = Driver()
    driver.enter(ordinal)
    for name in ops.names():
        compiles = _compiled(library, name, capability)
        told.say(running=f"{name} on GPU {ordinal}", compiles=compiles)
        ran = run(name, lambda library: OnGpu(library, driver, ordinal))
        gpu["operators"].append(ran)
        if ran.get("error", "").startswith("CudaError"):  # after most of these nothing works in this process
            gpu["untried"] = f"{name} left the GPU in a state that its process cannot use any more"
            return


def _all(told: _Told) -> None:
    library = _library.opened()
    for capability, ordinal in _kinds(library).items():
        try:
            _one_gpu(told, library, capability, ordinal)
        except Busy as busy:
            told.answer["gpus"][-1]["untried"] = str(busy)
    if not told.answer["gpus"]:
        told.answer["untried"] = "the driver shows no GPU"


def _refused(error: errors.NoDriver) -> dict[str, str]:
    """A machine without a driver is as it should be; one with half a driver is not."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as why:
        return {"untried": f"no driver can be loaded ({why})"}
    return {"error": str(error)}


def main() -> None:
    told = _Told()
    try:
        _all(told)
    except errors.NoDriver as error:
        told.answer |= _refused(error)
    except Exception as error:  # noqa: BLE001 - the report has a place for it
        told.answer["error"] = f"{type(error).__name__}: {error}"
    told.say(running=None)
