# SPDX-License-Identifier: MIT
"""What the two drivers have in common: what they are asked, what they answer, which options are the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from kernelwright_toolchain.errors import DeterminismError, RequestError

if TYPE_CHECKING:
    from kernelwright_toolchain.targets import Code

INCLUDE = Path("csrc")  # includes are named from here: "device/reduce.cuh", "ops/norm/geometry.h"
FAMILIES = INCLUDE / "ops"
STANDARD = "c++17"

# Options that make the output depend on where the source lies, or on more than it.
_DEBUG_ONLY = ("-lineinfo", "--generate-line-info", "-G", "--device-debug", "-g", "--debug")


def source_of(root: Path, op: str) -> Path:
    """csrc/ops/<family>/<op>.cu, relative to the root; a stem is that of one family alone."""
    found = sorted((root / FAMILIES).glob(f"*/{op}.cu"))
    if len(found) != 1:
        told = ", ".join(str(path.relative_to(root)) for path in found) or f"no {FAMILIES}/<family>/{op}.cu"
        raise RequestError(f"the device source of {op} must be one file, and there is {told}; rename or add it")
    return found[0].relative_to(root)


@dataclass(frozen=True)
class Job:
    """One image to make: an op for a code. Paths inside the tree stay relative, so no option holds one of a machine."""

    root: Path
    op: str
    code: Code
    debug: bool = False

    @cached_property
    def source(self) -> Path:
        return source_of(self.root, self.op)

    @property
    def family(self) -> str:
        return self.source.relative_to(FAMILIES).parts[0]

    def __str__(self) -> str:
        return f"{self.source} for {self.code.name}"


@dataclass(frozen=True)
class Compiled:
    """The image, what the compiler wrote, and what it took."""

    image: bytes
    log: str
    seconds: float
    peak: int  # bytes of resident memory


class DeviceCompiler(Protocol):
    """One device compiler. `version` is in full; `digest` covers every byte of it that decides the output."""

    @property
    def name(self) -> str: ...
    @property
    def provider(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def release(self) -> str: ...
    @property
    def digest(self) -> str: ...

    def examined(self) -> str: ...

    def options(self, job: Job) -> tuple[str, ...]:
        """Everything that decides the output besides source, headers and compiler."""
        ...

    def compile(self, job: Job) -> Compiled: ...


def defines(code: Code) -> tuple[str, ...]:
    """One KW_HAS_<FEATURE> for each feature of the code."""
    return tuple(f"-DKW_HAS_{feature.upper()}=1" for feature in code.features)


def check_options(options: tuple[str, ...], job: Job) -> tuple[str, ...]:
    """The options, or DeterminismError for one that only a debug build may have."""
    for option in options:
        if option in _DEBUG_ONLY and not job.debug:
            raise DeterminismError(
                f"{job}: option {option} writes paths and lines into the image; "
                "only a --debug build, which is labelled, may use it"
            )
    return options
