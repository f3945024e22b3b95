# SPDX-License-Identifier: MIT
"""The families of csrc/ops, and what each may take of a released wheel: the `budget` of its folder's family.toml.

What no family takes is `common`: the library's shared floors, the Python package, headers, papers. Its budget stands
where those floors begin, in csrc/core. A family without a file may take a small part of that. All are packed bytes of
the wheel of the table's first released target; on a machine of another kind a family may take a fifth more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.device.compiler import FAMILIES
from kernelwright_toolchain.errors import TableError
from kernelwright_toolchain.targets.read import toml

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernelwright_toolchain.targets import Table, Target

COMMON = "common"
FILE = "family.toml"
CORE = Path("csrc/core")
MOST = 8_000_000  # bytes of a released wheel for all families to come: people fetch it on a Jetson's wireless
SHARE = 40_000  # of `common`, for a family that says nothing: kernels of a few operators of elements or rows
_ELSEWHERE = 6, 5  # of a budget, on another machine than the first released target's


def family_of(path: Path) -> str:
    """The family of a source, relative to the root."""
    return path.relative_to(FAMILIES).parts[0] if path.is_relative_to(FAMILIES) else COMMON


def files(root: Path) -> dict[str, Path]:
    """Family -> its family.toml, relative to the root, whether that is there or not."""
    folders = sorted(path.relative_to(root) for path in (root / FAMILIES).iterdir() if path.is_dir())
    return {folder.name: folder / FILE for folder in folders} | {COMMON: CORE / FILE}


def _budget(root: Path, family: str, path: Path) -> int | None:
    if not (root / path).is_file():
        if family != COMMON:
            return None
        raise TableError(f"{path} is missing: it holds what all but families may take of a wheel, as `budget = BYTES`")
    values = toml((root / path).read_text(encoding="utf-8"), str(path))
    budget = values.pop("budget", None)
    if values or type(budget) is not int or budget <= 0:
        found = f"budget = {budget!r}" + "".join(f", {key} = {value!r}" for key, value in values.items())
        raise TableError(f"{path}: it should hold `budget = BYTES`, a number above 0, and nothing else; found {found}")
    return budget


def budgets(root: Path) -> dict[str, int]:
    """Family -> bytes, `common` last; TableError where there is too little for one, or all together are too much."""
    said = {family: _budget(root, family, path) for family, path in files(root).items()}
    silent = [family for family, size in said.items() if size is None]
    found = {family: SHARE if size is None else size for family, size in said.items()}
    found[COMMON] -= SHARE * len(silent)
    if found[COMMON] <= 0:
        raise TableError(
            f"no budget for {', '.join(silent)}: without {FILE} each takes {SHARE:,} bytes of that of {COMMON} "
            f"({CORE / FILE}), which is {found[COMMON] + SHARE * len(silent):,}. Write {FAMILIES / silent[-1] / FILE} "
            "with `budget = BYTES`"
        )
    if (total := sum(found.values())) > MOST:
        told = ", ".join(f"{family} {size:,}" for family, size in found.items())
        raise TableError(
            f"the budgets in {FAMILIES}/*/{FILE} and {CORE / FILE} sum to {total:,} bytes, more than {MOST:,}: {told}"
        )
    return found


def limits(root: Path, table: Table, target: Target) -> Mapping[str, int]:
    """Family -> bytes of this target's wheel."""
    first = next(row for row in table.targets.values() if row.release)
    more, of = (1, 1) if target.machine == first.machine else _ELSEWHERE
    return {family: size * more // of for family, size in budgets(root).items()}
