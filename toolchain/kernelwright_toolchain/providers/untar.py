# SPDX-License-Identifier: MIT
"""`untar.py DIRECTORY COMPONENT ARCHIVE`: lays out one of NVIDIA's redistributable archives as NVIDIA's wheels are.

Nix runs it as a script, so it imports nothing of this project.
"""

from __future__ import annotations

import sys
import tarfile
from pathlib import Path, PurePosixPath


def unpack(place: Path, component: str, file: Path) -> None:
    """Shared libraries, headers and the licence. Not the static library, which nothing here links."""
    with tarfile.open(file, mode="r:xz") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts[1:]  # without the folder COMPONENT-PLATFORM-VERSION-archive
            if not _wanted(parts):
                continue
            path = place.joinpath("nvidia", component, *parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.issym() and "/" not in member.linkname:  # libnvrtc.so.12 -> libnvrtc.so.12.2.140
                path.symlink_to(member.linkname)
            elif member.isfile() and (content := archive.extractfile(member)):
                path.write_bytes(content.read())


def _wanted(parts: tuple[str, ...]) -> bool:
    if not parts or ".." in parts:
        return False
    library = len(parts) == 2 and parts[0] == "lib" and ".so" in parts[1]
    return library or parts[0] == "include" or parts == ("LICENSE",)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
