# SPDX-License-Identifier: MIT
"""A default wheel against what the tree records and holds, without compiling: seconds, and no proof of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernelwright_toolchain.building import recorded
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.exact import wheel
from kernelwright_toolchain.exact.wheel import WHOLE, Difference, Wheel
from kernelwright_toolchain.request import DEFAULT_PROVIDER, resolve
from kernelwright_toolchain.targets import load


def _target(given: Wheel, tree: Path) -> str:
    """Whose default wheel it says it is; RequestError for any other."""
    asked, table = dict(given.recipe["build"]), load(tree / "targets.toml")
    known = {name: resolve(table, target=name, root=tree) for name, row in table.targets.items() if row.release}
    request = known.get(asked["target"])
    wanted = request and {"target": request.target.name, "toolkit": request.toolkit.name, "debug": "no"}
    if {key: value for key, value in asked.items() if value != DEFAULT_PROVIDER or key != "provider"} != wanted:
        told = ", ".join(f"{key} {value}" for key, value in sorted(asked.items()))
        raise RequestError(
            f"{given.name} was made with {told:.200}; only the default wheels of {', '.join(known)} are recorded. "
            "Without --quick it is made again and compared"
        )
    return str(asked["target"])


def _sources(given: Wheel, tree: Path) -> Iterator[tuple[str, Path]]:
    """Members that are files of the tree as they stand there."""
    for name in sorted(given.members):
        path = tree / "src" / name
        if name.startswith("kernelwright/") and path.is_file():
            yield name, path


def verify(path: Path, tree: Path) -> tuple[Wheel, list[str], list[Difference]]:
    """The wheel, the members that are as they should be, and what is wrong with others."""
    given = wheel.read(path)
    target = _target(given, tree)
    wrong = [*wheel.false_claims(given)]
    if given.before:
        wrong.append(Difference(WHOLE, "packing", f"{given.before:,} bytes stand before the archive; no wheel has any"))
    code = recorded.of_members(given.members)
    for line in recorded.differences(tree, target, code):
        name, _, words = line.partition(": ")
        wrong.append(Difference(f"kernelwright/{name}", "recorded", words))
    copied = dict(_sources(given, tree))
    for name, source in copied.items():
        if given.members[name] != source.read_bytes():
            wrong.append(Difference(name, "source", f"not what {source.relative_to(tree)} of the tree is"))
    bad = {difference.member for difference in wrong}
    checked = {f"kernelwright/{name}" for name in code} | copied.keys()
    return given, sorted(checked - bad), wrong
