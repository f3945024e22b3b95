# SPDX-License-Identifier: MIT
"""What the two drivers have in common: what they are asked, what they answer, which options are the same."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from toolchain.errors import DeterminismError

if TYPE_CHECKING:
    from toolchain.targets import Code

SOURCES = Path("csrc/cuda")
INCLUDE = SOURCES / "include"
STANDARD = "c++17"

# Options that make the output depend on where the source lies, or on more than it.
_DEBUG_ONLY = ("-lineinfo", "--generate-line-info", "-G", "--device-debug", "-g", "--debug")


@dataclass(frozen=True)
class Job:
    """One image to make: an op for a code. Paths inside the tree stay relative, so no option holds one of a machine."""

    root: Path
    op: str
    code: Code
    debug: bool = False

    @property
    def source(self) -> Path:
        return SOURCES / f"{self.op}.cu"

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
