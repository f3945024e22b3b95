# SPDX-License-Identifier: MIT
"""What variables, caches and search paths lead elsewhere than the packages expect?"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Grade, Seen, check
from kernelwright.doctor.machine import driver, jetson, python
from kernelwright.doctor.remedies import packages, shell

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_RUNTIME = re.compile(r"libcudart\.so\.(\d{1,4})(?:\.\d+)*$")


@check("KW-027", Grade.WARNS)
def conda_told_otherwise(machine: Machine) -> Seen | None:
    """An override that was good for locking on another machine, and stayed in the shell."""
    value, level = machine.variables.get("CONDA_OVERRIDE_CUDA"), machine.driver.get("level")
    if value is None or not level or value == driver.shown(level):
        return None
    fix = (
        "unset CONDA_OVERRIDE_CUDA",
        "conda then asks the driver; conda info shows __cuda. Shell profiles may set it again.",
    )
    if not value:
        evidence = (
            f"CONDA_OVERRIDE_CUDA is empty: conda takes builds without CUDA; the driver has {driver.shown(level)}"
        )
        return Seen(evidence, *fix)
    numbers = re.match(r"(\d{1,4})(?:\.(\d{1,4}))?", value)
    newer = numbers and int(numbers[1]) * 1000 + int(numbers[2] or 0) * 10 > level
    return Seen(f"CONDA_OVERRIDE_CUDA={value}, the driver's level is {driver.shown(level)}", *fix) if newer else None


@check("KW-028", Grade.WARNS)
def bitsandbytes_without_its_library(machine: Machine) -> Seen | None:
    """It takes the library of torch's CUDA release, or the newest of the same major version."""
    found, torch = machine.once(python.packages).get("bitsandbytes"), python.torch(machine)
    if not found or torch is None or torch.cuda is None:
        return None
    major, _, minor = torch.cuda.partition(".")
    wanted = machine.variables.get("BNB_CUDA_VERSION") or f"{major}{minor}"
    there = re.findall(r"libbitsandbytes_cuda(\d+)\.so", " ".join(machine.find(f"{found[0].place}/bitsandbytes/*.so")))
    fits = wanted in there or ("BNB_CUDA_VERSION" not in machine.variables and any(one[:-1] == major for one in there))
    if not there or fits:
        return None
    has = " ".join(sorted(there))
    evidence = f"bitsandbytes {found[0].version} looks for libbitsandbytes_cuda{wanted}.so, and has {has}"
    if "BNB_CUDA_VERSION" in machine.variables:
        return Seen(
            evidence, "unset BNB_CUDA_VERSION", "It then takes the one for torch's CUDA release, if it has that."
        )
    then = f"If the newest has none for CUDA {torch.cuda} either: a torch of a release that it has."
    return Seen(evidence, packages.pip(machine, "install", "--upgrade", "bitsandbytes"), then)


@check("KW-031", Grade.WARNS)
def other_runtime_first(machine: Machine) -> Seen | None:
    """LD_LIBRARY_PATH goes before the libraries that torch brings."""
    torch = python.torch(machine)
    if torch is None or torch.cuda is None or jetson.model(machine) is not None:
        return None
    own = torch.cuda.split(".")[0]
    for entry in driver.search_path(machine):
        found = [name.rpartition("/")[2] for name in machine.find(f"{entry}/lib*.so.*")]
        mixed = [name for name in found if re.match(r"lib(cublas|cublasLt|cudnn|cusparse|nvJitLink|nccl)\.so", name)]
        other = [match[1] for name in found if (match := _RUNTIME.match(name)) and match[1] != own]
        if mixed or other:
            what = f"libcudart.so.{other[0]}" if other else mixed[0]
            evidence = f"LD_LIBRARY_PATH names {entry}, whose {what} comes before what torch {torch.version} brings"
            return Seen(evidence, shell.search_without(machine, entry), "A shell profile or a module may set it again.")
    return None


@check("KW-089", Grade.WARNS)
def stale_cache(machine: Machine) -> Seen | None:
    """torch keeps what it compiled by the releases of Python and CUDA, not by its own."""
    torch = python.torch(machine)
    home = machine.variables.get("HOME", "")
    place = machine.variables.get("TORCH_EXTENSIONS_DIR") or f"{home}/.cache/torch_extensions"
    installed = machine.changed(f"{torch.place}/version.py") if torch else None
    if torch is None or installed is None or not place.startswith("/"):
        return None
    for built in machine.find(f"{place}/*/*/*.so"):
        then = machine.changed(built)
        if then is not None and then < installed:
            evidence = f"{built} is older than torch {torch.version}, which was installed after it was compiled"
            return Seen(
                evidence, f"rm -rf {shell.quote(built.rpartition('/')[0])}", "It is compiled again on first use."
            )
    return None


@check("KW-108", Grade.WARNS)
def nowhere_to_write(machine: Machine) -> Seen | None:
    """Where compilers of kernels keep what they made."""
    home = machine.variables.get("HOME", "")
    for place in (machine.variables.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else ""), home):
        if place.startswith("/") and machine.exists(place):
            if machine.may(place, os.W_OK):
                return None
            return Seen(
                f"{place} may not be written by this user",
                shell.OWN_CACHES,
                "A directory of this user's own, in the shell that it is set in; for longer name one that is kept.",
            )
    wrong = f"HOME={home}: no such directory" if home else "HOME is not set"
    then = "In a container's description: a home that is there, and belongs to the user."
    return Seen(wrong, 'export HOME="$(mktemp -d)"', then) if python.torch(machine) is not None else None
