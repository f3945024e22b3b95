# SPDX-License-Identifier: MIT
"""Programs for a child process: they touch what can crash or hang, and print what they find as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# {"library": path as the loader found it, "init": result of cuInit, "level": 12040, "gpus": [{"name", …}]}
DRIVER = """
import ctypes, json
told = {"gpus": []}
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    told["error"] = str(error)
else:
    with open("/proc/self/maps") as maps:
        told["library"] = next((line.split()[-1] for line in maps if "libcuda.so" in line), None)
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
    told["version"], told["cuda"] = torch.__version__, torch.version.cuda
    told["available"] = torch.cuda.is_available()
    told["archs"] = torch.cuda.get_arch_list() if told["cuda"] else []
except Exception as error:
    told["error"] = f"{type(error).__name__}: {error}"
with open("/proc/self/maps") as maps:
    told["libraries"] = sorted({line.split()[-1] for line in maps if "/libcu" in line or "/libnv" in line})
print(json.dumps(told))
"""

_PROGRAMS = {"driver": (DRIVER, 5.0), "torch": (TORCH, 20.0)}


def run(name: str) -> dict[str, Any]:
    """Runs a probe; {"error": …} where it crashed, hung or printed nothing."""
    program, patience = _PROGRAMS[name]
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {patience:.0f} s", "hung": True}
    except OSError as error:
        return {"error": f"no child process could be started: {error}"}
    if done.returncode < 0:
        return {"error": f"the process was ended by signal {-done.returncode}", "crashed": True}
    try:
        told = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        lines = (done.stderr or done.stdout).strip().splitlines()
        return {"error": lines[-1] if lines else f"exit code {done.returncode} and no word"}
    return told if isinstance(told, dict) else {"error": "an answer that is none"}
