# SPDX-License-Identifier: MIT
"""What a device-only package's wheel must be before it is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright_toolchain.cubin import Cubin
from kernelwright_toolchain.device.build import Built
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.packages.table import Kernel
from kernelwright_toolchain.targets import Target
from kernelwright_toolchain.wheel.elf import defined, parse
from kernelwright_toolchain.wheel.tag import check_floor

ALLOWED = ("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux")


def kernels(built: Built, wanted: Sequence[Kernel]) -> None:
    """Every entry that a table names is in its images, and none of them spills unseen."""
    for image in built.images:
        if not isinstance(image.facts, Cubin):
            continue
        have = {kernel.name for kernel in image.facts.kernels}
        for kernel in wanted:
            if Path(kernel.source).stem != image.op:
                continue
            missing = [entry for entry in map(kernel.entry_of, kernel.dtypes) if entry not in have]
            if missing:
                raise GateError(
                    f"[kernel.{kernel.name}] {kernel.source} has no kernel {missing[0]} for {image.code}; it has "
                    f'{", ".join(sorted(have)) or "none"}. Declare it extern "C" __global__'
                )


def library(data: bytes, name: str, package: str, target: Target) -> None:
    """It needs the C library alone, of the target's floor, and exports the package's functions alone."""
    needs = parse(data)
    if alien := [one for one in needs.libraries if not one.startswith(ALLOWED)]:
        raise GateError(f"{name} needs {alien[0]}; a device-only package needs the C library alone")
    check_floor(needs, target, name)
    names = [symbol.name for symbol in defined(data) if symbol.is_global]
    if odd := [one for one in names if not one.startswith(f"{package}_")]:
        raise GateError(f"{name} exports {odd[0]}; it may export {package}_* alone")


def names_no_machine(members: Mapping[str, bytes], root: Path) -> None:
    """No path of the project's folder or of a home in any member."""
    for place in {f"{root}/", f"{Path.home()}/"} - {"//"}:
        for name, data in members.items():
            if len(Path(place).parts) > 2 and place.encode() in data:
                raise GateError(f"{name} holds the path {place} of the build machine")
