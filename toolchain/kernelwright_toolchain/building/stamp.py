# SPDX-License-Identifier: MIT
"""Whether a build's inputs are what they were: a digest of contents, never of times."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelwright_toolchain import source
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import environment, system
from kernelwright_toolchain.request import Request
from kernelwright_toolchain.wheel.shares import Share


@dataclass(frozen=True)
class Row:
    """One line of the table that a build ends with."""

    code: str
    op: str
    size: int
    registers: int
    spilled: int | None  # None where there is no machine code yet
    seconds: float
    peak: int  # bytes of the compiler's largest process; as `seconds`, when the image was compiled
    served_by: str = ""  # the code whose equal image is packed in its place


@dataclass(frozen=True)
class Step:
    """What a step took: wall clock, and bytes of its largest process."""

    seconds: float
    peak: int


@dataclass(frozen=True)
class Stamp:
    """What a finished build was made from, and what it made."""

    inputs: str
    wheel: str
    sha256: str
    check: str  # what the self-check came to
    rows: tuple[Row, ...]
    library: Step  # the library's compile and the wheel's packing
    seconds: float
    shares: tuple[Share, ...] = ()  # what each family takes
    held: bool = False  # whether to its budget


def inputs(request: Request) -> str:
    """The digest of everything that this build depends on."""
    digest = hashlib.sha256(f"{request!r} {source.state(project().root)!r}".encode())
    if request.provider == "system":
        digest.update(repr((system.find_nvcc(), system.find_gcc())).encode())
    elif request.provider != "pip":
        digest.update(repr(environment.require(request.provider)).encode())
    return digest.hexdigest()


def load(path: Path) -> Stamp | None:
    """The stamp of an earlier build, if it is there and whole."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        rows = tuple(Row(**row) for row in raw.pop("rows"))
        shares = tuple(Share(**share) for share in raw.pop("shares"))
        return Stamp(rows=rows, shares=shares, library=Step(**raw.pop("library")), **raw)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def save(path: Path, stamp: Stamp) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps(asdict(stamp), indent=1), encoding="utf-8")
    part.replace(path)


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
