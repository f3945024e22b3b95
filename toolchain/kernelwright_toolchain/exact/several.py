# SPDX-License-Identifier: MIT
"""The wheels of several builds of the same sources, side by side: a table of their sha256, and each difference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.exact import text
from kernelwright_toolchain.exact.compare import compare
from kernelwright_toolchain.exact.wheel import Wheel, read


@dataclass(frozen=True)
class Build:
    """One build: the name of its directory, and its wheels by name."""

    name: str
    wheels: dict[str, Wheel]


def builds(folders: Sequence[Path]) -> list[Build]:
    """RequestError for fewer than two builds, or one without a wheel: nothing would be compared."""
    found = []
    for folder in folders:
        paths = sorted(folder.glob("*.whl"))
        if not paths:
            raise RequestError(f"{folder} holds no wheel: name the directories that builds wrote theirs into")
        found.append(Build(folder.name, {path.name: read(path) for path in paths}))
    if len(found) < 2:
        raise RequestError(f"only {folders[0]} was named: comparing takes the wheels of two builds or more")
    return found


def _names(found: Sequence[Build]) -> list[str]:
    return sorted({name for build in found for name in build.wheels})


def table(found: Sequence[Build]) -> str:
    """In Markdown: a row for each wheel of each build."""
    lines = ["| build | wheel | sha256 | |", "| --- | --- | --- | --- |"]
    for name in _names(found):
        first = next(build.wheels[name].sha256 for build in found if name in build.wheels)
        for build in found:
            digest = build.wheels[name].sha256 if name in build.wheels else ""
            verdict = "same" if digest == first else "**different**" if digest else "**missing**"
            cells = (text.printable(build.name), f"`{text.printable(name)}`", digest and f"`{digest}`", verdict)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def differences(found: Sequence[Build]) -> Iterator[str]:
    """To the first build that made a wheel of this name, in the words of `verify`."""
    for name in _names(found):
        first = next(build for build in found if name in build.wheels)
        for build in found:
            if name not in build.wheels:
                yield f"{build.name}: has no {name}, which {first.name} made"
            elif build.wheels[name].sha256 != first.wheels[name].sha256:
                for difference in compare(build.wheels[name], first.wheels[name]):
                    yield text.printable(f"{build.name}: different  {difference}")
