# SPDX-License-Identifier: MIT
"""Locks of NVIDIA's redistributable archives: of toolkits whose NVRTC PyPI lacks for a kind of machine.

NVIDIA publishes one manifest a release, with the path, sha256 and size of every archive for every platform.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kernelwright_toolchain.building.place import Place, Unreachable
from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import archives
from kernelwright_toolchain.targets import Table, Toolkit

BASE = "https://developer.download.nvidia.com/compute/cuda/redist"
COMPONENT = "cuda_nvrtc"  # all that the pip provider compiles with
REGENERATE = "python -m toolchain lock"


def locks(table: Table) -> Mapping[str, tuple[Toolkit, str]]:
    """lock -> its toolkit, and NVIDIA's platform: that of the machine's released target.

    Of SBSA and Tegra, which are one kind of machine: NVRTC needs the C library alone, so SBSA's serves a Jetson too.
    """
    platforms = {target.machine: target.redist for target in table.targets.values() if target.release}
    return {
        path: (kit, platforms[machine])
        for kit in table.toolkits.values()
        for machine, path in kit.locks.items()
        if archives.is_lock(Path(path))
    }


def _manifest(base: str, kit: Toolkit) -> dict[str, Any]:
    name = f"redistrib_{kit.redist}.json"
    try:
        data = Place(base).read(name)
    except Unreachable as error:
        raise ProvisionError(f"NVIDIA's manifest of {kit.release}: {error}") from None
    if data is None:
        raise ProvisionError(f"{base} has no {name}, the manifest of {kit.name}; see `redist` of its row")
    found: dict[str, Any] = json.loads(data)
    return found


def text(kit: Toolkit, platform: str, base: str = BASE) -> str:
    """The whole lock, of what NVIDIA's manifest in `base` says; the archives are fetched from NVIDIA in any case."""
    row = _manifest(base, kit).get(COMPONENT, {})
    if row.get("version") != kit.components["nvrtc"] or platform not in row:
        raise ProvisionError(
            f"NVIDIA's manifest of {kit.redist} has {COMPONENT} {row.get('version')} for "
            f"{', '.join(key for key in row if key.startswith('linux'))}; the row of {kit.name} wants "
            f"{kit.components['nvrtc']} for {platform}"
        )
    archive = row[platform]
    rows = [{"path": archive["relative_path"], "sha256": archive["sha256"], "size": int(archive["size"])}]
    return json.dumps({"from": BASE, "archives": rows}, indent=1) + "\n"


def problems(table: Table, root: Path | None = None) -> Iterator[str]:
    """Where a lock is not of its row, a line each; needs no network."""
    root = root or project().root
    for path, (kit, platform) in locks(table).items():
        if not (root / path).is_file():
            yield f"{path} is missing; make it with `{REGENERATE} {path}`"
            continue
        base, found = archives.read(root / path)
        wanted = f"{COMPONENT}-{platform}-{kit.components['nvrtc']}"
        if (base, [archive.stem for archive in found]) != (BASE, [wanted]):
            yield f"{path} is not of {wanted} from {BASE}; run `{REGENERATE} {path}`"
