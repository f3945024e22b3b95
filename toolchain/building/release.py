# SPDX-License-Identifier: MIT
"""Several wheels in one go, and what they take: time, size, and the size that each code adds."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toolchain.building.options import Options
from toolchain.building.run import Outcome, build
from toolchain.errors import RequestError
from toolchain.targets import Table


@dataclass(frozen=True)
class Made:
    """`codes` is what each adds to the wheel, packed; `rest` is everything else in it."""

    wheel: Path
    size: int
    seconds: float  # as it was, caches and all
    compiling: float  # processor time of all its images, also of those that came out of the cache
    codes: tuple[tuple[str, int], ...]

    @property
    def rest(self) -> int:
        return self.size - sum(size for _, size in self.codes)


def plan(table: Table, targets: Sequence[str], toolkits: Sequence[str]) -> Iterator[Options]:
    """One build for each pair; without targets the released ones of each toolkit, without either every target."""
    for name in [*targets, *toolkits]:
        if name not in table.targets and name not in table.toolkits:
            known = ", ".join((*table.targets, *table.toolkits))
            raise RequestError(f"{name!r} is neither a target nor a toolkit of targets.toml; there are {known}")
    released = [row.name for row in table.targets.values() if row.release]
    for toolkit in toolkits or (None,):
        for target in targets or (released if toolkits else table.targets):
            yield Options(target=target, toolkit=toolkit, provider="pip")


def _place(code: str) -> tuple[bool, int, str]:
    """Cubins by number, then PTX."""
    digits = "".join(filter(str.isdigit, code))
    return (not code.startswith("sm"), int(digits or 0), code)


def _packed(wheel: Path) -> tuple[tuple[str, int], ...]:
    """code -> bytes of its images in the archive."""
    found: dict[str, int] = {}
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = info.filename.split("/")
            if parts[1:2] == ["kernels"]:
                found[parts[2]] = found.get(parts[2], 0) + info.compress_size
    return tuple(sorted(found.items(), key=lambda item: _place(item[0])))


def _made(outcome: Outcome) -> Made:
    compiling = sum(row.seconds for row in outcome.stamp.rows)
    size = outcome.wheel.stat().st_size
    return Made(outcome.wheel, size, outcome.stamp.seconds, compiling, _packed(outcome.wheel))


def build_all(table: Table, wanted: Sequence[Options], jobs: int | None) -> Iterator[Made]:
    for options in wanted:
        yield _made(build(replace(options, jobs=jobs), table))


def page(made: Sequence[Made]) -> str:
    """The table, as documents have it."""
    head = ["wheel", "bytes", "seconds", "compiling, s", "what each code adds, bytes", "the rest"]
    rows = [
        [
            f"`{one.wheel.name}`", f"{one.size:,}", f"{one.seconds:.0f}", f"{one.compiling:.0f}",
            ", ".join(f"{code} {size:,}" for code, size in one.codes), f"{one.rest:,}",
        ]
        for one in made
    ]  # fmt: skip
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]) + "\n"
