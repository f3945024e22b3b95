# SPDX-License-Identifier: MIT
"""The folder: `build/torch-universal/` with the package of each machine, out of its wheel, and what `kernels` reads."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from kernelwright_toolchain.building.stamp import digest_of
from kernelwright_toolchain.errors import RequestError

VARIANT = "build/torch-universal"
DOOR = Path(__file__).resolve().parent / "door.py"
_TAG = re.compile(r"_(x86_64|aarch64)\.whl$")


def _machine(wheel: Path, package: str) -> str:
    found = _TAG.search(wheel.name)
    if not found or not wheel.name.startswith(f"{package}-"):
        raise RequestError(f"{wheel.name} is no wheel of {package}'s for a machine; give those of ./kw wheels")
    return found[1]


def _members(wheel: Path, package: str) -> Iterator[tuple[str, bytes]]:
    """The package's files; what lies elsewhere in the wheel is pip's."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            parts = PurePosixPath(name).parts
            if name.endswith("/") or parts[0] != package:
                continue
            if ".." in parts or name.startswith("/"):
                raise RequestError(f"{wheel.name}: {name} leads out of the folder")
            yield name, archive.read(name)


def _card(package: str, version: str, wheels: Sequence[Path]) -> str:
    """README.md, whose head the hub reads."""
    sums = "\n".join(f"    {digest_of(wheel)}  {wheel.name}" for wheel in wheels)
    return (
        f"---\nlicense: mit\ntags:\n- kernels\n---\n\n# {package} {version}\n\n"
        "CUDA kernels for PyTorch, each also for the CPU. One variant: it has no code that depends on the version of "
        "torch, of CUDA or of Python.\n\nThe files are those of these wheels:\n\n"
        f"{sums}\n"
    )


def make(wheels: Sequence[Path], out: Path, package: str) -> str:
    """Fills `out`, which must be empty or not there; returns the version.

    RequestError where the wheels do not go together.
    """
    if out.exists() and any(out.iterdir()):
        raise RequestError(f"{out} is not empty: give a folder that is, or a name that is free")
    variant, versions = out / VARIANT, {}
    for wheel in wheels:
        machine = _machine(wheel, package)
        if (variant / machine).exists():
            raise RequestError(f"{wheel.name} is a second wheel for {machine}; one machine has one")
        for name, content in _members(wheel, package):
            place = variant / machine / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        manifest = json.loads((variant / machine / package / "manifest.json").read_text(encoding="utf-8"))
        versions[wheel.name] = str(manifest["version"])
    if len(set(versions.values())) != 1:
        raise RequestError(f"these wheels are of several versions: {versions}")
    version = next(iter(versions.values()))
    shutil.copyfile(DOOR, variant / "__init__.py")
    metadata = {
        "id": f"{package}_{re.sub(r'[^0-9a-z]+', '_', version)}",
        "name": package,
        "version": int(version.partition(".")[0]),
        "license": "MIT",
        "python-depends": [],
        "backend": {"type": "cuda"},
    }
    (variant / "metadata.json").write_text(json.dumps(metadata, indent=2) + "\n", encoding="utf-8")
    (out / "README.md").write_text(_card(package, version, wheels), encoding="utf-8")
    return version
