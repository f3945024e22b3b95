# SPDX-License-Identifier: MIT
"""Programs for a child process: they touch what can crash or hang, and print what they find as JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# {"library": path as the loader found it, "init": result of cuInit, "level": 12040, "gpus": [{"name", …}]}
DRIVER = """
import ctypes, json
told = {"gpus": []}
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    told["error"] = str(error)
else:
    try:
        with open("/proc/self/maps", errors="replace") as maps:
            told["library"] = next((line.split()[-1] for line in maps if "libcuda.so" in line), None)
    except OSError:
        told["library"] = None
    number, size, text = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)
    if cuda.cuDriverGetVersion(ctypes.byref(number)) == 0:
        told["level"] = number.value
    told["init"] = cuda.cuInit(0)
    if told["init"] == 0 and cuda.cuDeviceGetCount(ctypes.byref(number)) == 0:
        for ordinal in range(number.value):
            gpu, device, value = {}, ctypes.c_int(), ctypes.c_int()
            cuda.cuDeviceGet(ctypes.byref(device), ordinal)
            if cuda.cuDeviceGetName(text, 256, device) == 0:
                gpu["name"] = text.value.decode(errors="replace")
            capability = []
            for attribute in (75, 76):  # compute capability, major and minor
                cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
                capability.append(value.value)
            gpu["capability"] = capability[0] * 10 + capability[1]
            cuda.cuDeviceGetAttribute(ctypes.byref(value), 18, device)  # shares memory with the CPU
            gpu["integrated"] = bool(value.value)
            if cuda.cuDeviceTotalMem_v2(ctypes.byref(size), device) == 0:
                gpu["memory"] = size.value
            told["gpus"].append(gpu)
print(json.dumps(told))
"""

# {"version", "cuda", "available", "archs": [...], "libraries": [paths of CUDA's in this process]}
TORCH = """
import json
told = {}
try:
    import torch
    told["version"], told["cuda"] = str(torch.__version__), torch.version.cuda and str(torch.version.cuda)
    told["available"] = bool(torch.cuda.is_available())
    told["archs"] = [str(arch) for arch in torch.cuda.get_arch_list()] if told["cuda"] else []
except Exception as error:
    told["error"] = f"{type(error).__name__}: {error}"
try:
    with open("/proc/self/maps", errors="replace") as maps:
        told["libraries"] = sorted({line.split()[-1] for line in maps if "/libcu" in line or "/libnv" in line})
except OSError:
    told["libraries"] = []
print(json.dumps(told))
"""

# This package as this process imports it, whose path may be of its own making. See operators/_child.py.
OPERATORS = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from kernelwright.doctor.operators._child import main
main()
"""

_PROGRAMS = {"driver": DRIVER, "operators": OPERATORS, "torch": TORCH}


class Probes:
    """The child processes, each started once and waited for only where its answer is wanted: the rest goes on beside.

    `patience` has the seconds from the start after which one is ended. Calling it with a name gives the answer,
    {"error": …} where the child crashed, hung or printed nothing, with its last words in "before"; "unasked" where none
    could be started at all.
    """

    def __init__(self, patience: Mapping[str, float]) -> None:
        self._patience = patience
        self._started: dict[str, tuple[subprocess.Popen[str] | None, float, str]] = {}

    def start(self, name: str) -> None:
        """Starts a probe unless that was done."""
        if name not in self._started:
            process, error = _begin(_PROGRAMS[name])
            self._started[name] = (process, time.monotonic(), error)

    def __call__(self, name: str) -> dict[str, Any]:
        self.start(name)
        process, began, error = self._started[name]
        if process is None:
            return {"error": f"no child process could be started: {error}", "unasked": True}
        return _answer(process, self._patience[name], began)

    def close(self) -> None:
        """Ends what nobody waited for."""
        for process, _, _ in self._started.values():
            if process is not None and process.poll() is None:
                _end(process)


def _begin(program: str) -> tuple[subprocess.Popen[str] | None, str]:
    options = ["-B"] if sys.dont_write_bytecode else []  # who asked that nothing be written means children too
    try:
        process = subprocess.Popen(
            [sys.executable, *options, "-c", program, json.dumps([str(place) for place in sys.path])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
    except (OSError, ValueError, TypeError) as error:  # an embedded Python has no executable at all
        return None, str(error)
    return process, ""


def _end(process: subprocess.Popen[str]) -> None:
    """With what it started, which may outlive it and hold its pipes open: nobody waits for their end."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=1)
    for pipe in filter(None, (process.stdout, process.stderr)):
        pipe.close()


def _answer(process: subprocess.Popen[str], patience: float, began: float) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=max(0.0, began + patience - time.monotonic()))
    except subprocess.TimeoutExpired as late:
        _end(process)
        return {"error": f"no answer within {patience:g} s", "hung": True, "before": _last_words(late.stdout)}
    told = _last_words(out)
    if process.returncode < 0:
        return {"error": f"the process was ended by signal {-process.returncode}", "crashed": True, "before": told}
    if not told:
        lines = (err or out).strip().splitlines()
        return {"error": lines[-1] if lines else f"exit code {process.returncode} and no word"}
    return told


def _last_words(out: str | bytes | None) -> dict[str, Any]:
    """The last line that is an answer as a whole; the one after it may have been cut short."""
    text = out.decode(errors="replace") if isinstance(out, bytes) else out or ""
    for line in reversed(text.splitlines()[-2:]):
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            if isinstance(told, dict):
                return told
    return {}
