# SPDX-License-Identifier: MIT
"""NVRTC out of NVIDIA's redistributable archives, where PyPI has none of a toolkit for a build machine.

A lock that ends in .json names them, by address and sha256. They are unpacked as NVIDIA's wheels are, so that nothing
else need know where a library came from.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from kernelwright_toolchain.errors import ProvisionError
from kernelwright_toolchain.providers import untar


@dataclass(frozen=True)
class Archive:
    """One file below NVIDIA's directory of archives."""

    path: str
    sha256: str
    size: int

    @property
    def component(self) -> str:
        return self.path.partition("/")[0]

    @property
    def stem(self) -> str:
        """COMPONENT-PLATFORM-VERSION: what a person knows it by."""
        return PurePosixPath(self.path).name.removesuffix("-archive.tar.xz")


def is_lock(lock: Path) -> bool:
    """Whether this lock is of archives; pip's are text."""
    return lock.suffix == ".json"


def read(lock: Path) -> tuple[str, tuple[Archive, ...]]:
    """Where the archives of this lock lie, and which they are."""
    known = json.loads(lock.read_text(encoding="utf-8"))
    return known["from"], tuple(Archive(**row) for row in known["archives"])


def fill(lock: Path, place: Path) -> None:
    """Fetches the archives of this lock and unpacks them here; ProvisionError for one that is another."""
    base, archives = read(lock)
    for archive in archives:
        data = _fetched(base, archive)
        if (own := hashlib.sha256(data).hexdigest()) != archive.sha256:
            raise ProvisionError(
                f"{base}/{archive.path} has sha256 {own}, and {lock.name} says {archive.sha256}: nothing of it was "
                "unpacked. A proxy on the way may have answered in its place; if NVIDIA itself gives these bytes, do "
                "not use them"
            )
        file = place / PurePosixPath(archive.path).name
        file.write_bytes(data)
        try:
            untar.unpack(place, archive.component, file)
        except (tarfile.TarError, lzma.LZMAError) as error:
            raise ProvisionError(f"{lock.name}: {archive.stem} is no archive of NVIDIA's ({error})") from None
        file.unlink()


def _fetched(base: str, archive: Archive) -> bytes:
    from kernelwright_toolchain.building.place import Place, Unreachable  # building imports the providers

    try:
        data = Place(base).read(archive.path)
    except Unreachable as error:
        data, why = None, str(error)
    else:
        why = f"{base}/{archive.path} is not there"
    if data is None:
        raise ProvisionError(
            f"{archive.stem} could not be fetched: {why}. PyPI has none for this machine. Is there a network, and is "
            "the proxy right (HTTPS_PROXY)? What is in .kw/ already needs none: `./kw provision` fills it while there "
            "is one"
        )
    return data
