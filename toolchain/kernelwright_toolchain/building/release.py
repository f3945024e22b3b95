# SPDX-License-Identifier: MIT
"""Several wheels in one go, and what they take: time, memory, size, and the size that each code adds."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.building.options import Options
from kernelwright_toolchain.building.run import Outcome
from kernelwright_toolchain.building.table import megabytes
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.targets import Table

BEGIN, END = "<!-- begin wheels: made by `./kw wheels -- --table FILE` -->", "<!-- end wheels -->"


@dataclass(frozen=True)
class Share:
    """What one code adds: bytes of the wheel, packed, and the processor's seconds to compile it."""

    code: str
    size: int
    seconds: float


@dataclass(frozen=True)
class Made:
    """`seconds` is the wall clock of the whole, whatever was in the cache; `library` what came after the images."""

    wheel: Path
    toolkit: str
    size: int
    seconds: float
    library: float
    peak: int  # bytes, of the largest process of all, also of those whose images came out of the cache
    shares: tuple[Share, ...]

    @property
    def rest(self) -> int:
        return self.size - sum(share.size for share in self.shares)


def plan(table: Table, targets: Sequence[str], toolkits: Sequence[str]) -> Iterator[Options]:
    """One build for each pair; without targets the released ones of each toolkit, without either every target."""
    for kind, names, known in (("target", targets, table.targets), ("toolkit", toolkits, table.toolkits)):
        for name in names:
            if name not in known:
                raise RequestError(f"{kind} {name!r} is not in targets.toml; there are {', '.join(known)}")
    released = [row.name for row in table.targets.values() if row.release]
    for toolkit in toolkits or (None,):
        for target in targets or (released if toolkits else table.targets):
            yield Options(target=target, toolkit=toolkit, provider="pip")


def _place(code: str) -> tuple[bool, int, str]:
    """Cubins by number, then PTX."""
    digits = "".join(filter(str.isdigit, code))
    return (not code.startswith("sm"), int(digits or 0), code)


def _packed(wheel: Path) -> dict[str, int]:
    """code -> bytes of its images in the archive."""
    found: dict[str, int] = {}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if parts[1:2] == ["kernels"]:
                found[parts[2]] = found.get(parts[2], 0) + info.compress_size
    return found


def made(table: Table, options: Options, outcome: Outcome) -> Made:
    """What this build took."""
    stamp, packed = outcome.stamp, _packed(outcome.wheel)
    shares = [
        Share(code, packed[code], sum(row.seconds for row in stamp.rows if row.code == code))
        for code in sorted(packed, key=_place)
    ]
    toolkit = options.toolkit or table.targets[str(options.target)].toolkit
    peak = max(stamp.library.peak, *(row.peak for row in stamp.rows))
    size = outcome.wheel.stat().st_size
    return Made(outcome.wheel, toolkit, size, stamp.seconds, stamp.library.seconds, peak, tuple(shares))


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ["---"] * len(rows[0]), *rows[1:]]) + "\n"


def _codes(all_made: Sequence[Made]) -> Iterator[list[str]]:
    """One row a code, one column a toolkit: images of a code are the same bytes in every wheel of a toolkit."""
    toolkits = list(dict.fromkeys(one.toolkit for one in all_made))
    found = {(share.code, one.toolkit): share for one in all_made for share in one.shares}
    yield ["code", *toolkits]
    for code in sorted({code for code, _ in found}, key=_place):
        shares = [found.get((code, toolkit)) for toolkit in toolkits]
        yield [f"`{code}`", *(f"{share.size:,} B, {share.seconds:.0f} s" if share else "" for share in shares)]


def page(all_made: Sequence[Made]) -> str:
    """The tables, as documents have them: wheels, then codes."""
    wheels = [["wheel", "bytes", "without images", "build, s", "after the images, s", "largest process, MB"]]
    wheels += [
        [
            f"`{one.wheel.name}`", f"{one.size:,}", f"{one.rest:,}", f"{one.seconds:.0f}", f"{one.library:.0f}",
            megabytes(one.peak),
        ]
        for one in all_made
    ]  # fmt: skip
    return f"{_markdown(wheels)}\n{_markdown([*_codes(all_made)])}"


def able(path: Path) -> None:
    """Refuses a file that the tables could not be put into, before they cost anything."""
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise RequestError(f"--table {path}: this cannot be written; name a file in a directory that is there")
    if path.is_file() and BEGIN in (before := path.read_text(encoding="utf-8", errors="replace")) and END not in before:
        raise RequestError(f"{path} has {BEGIN} and no {END} after it; put that back")


def put(path: Path, text: str) -> None:
    """The tables into the file: in the place of those that a document has, or as all of it."""
    able(path)
    if path.is_file() and BEGIN in (before := path.read_text(encoding="utf-8")):
        pattern = re.compile(rf"({re.escape(BEGIN)}\n).*?({re.escape(END)})", re.DOTALL)
        text = pattern.sub(lambda match: f"{match[1]}{text}{match[2]}", before)
    path.write_text(text, encoding="utf-8")
