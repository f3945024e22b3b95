# SPDX-License-Identifier: MIT
"""What each family takes of a wheel, packed: its images, and of the library the part that its sources put into it.

The library is one member, packed as a whole; a family has the share of it that its object files have of all objects'
loaded bytes. Whatever is left is `common`: with it the shares sum to the wheel's size.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.cubin.elf import NOBITS, Elf
from kernelwright_toolchain.device.compiler import source_of
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.families import COMMON, MOST, family_of, files

LIBRARY = "kernelwright/lib/libkernelwright.so"
KERNELS = "kernelwright/kernels/"
OBJECTS = "objects.json"  # in CMake's build directory; CMake hands it to the packer, which leaves it out of the wheel
_ALLOCATED = 2  # of a section's flags


@dataclass(frozen=True)
class Share:
    """Packed bytes; `limit` is what the family may take."""

    family: str
    images: int
    library: int
    rest: int  # of `common`: all that is neither
    limit: int

    @property
    def size(self) -> int:
        return self.images + self.library + self.rest


def object_sizes(objects: Iterable[Path]) -> dict[str, int]:
    """Source -> bytes that a library loads of its objects; a source may have several, one an instruction set."""
    found: Counter[str] = Counter()
    for path in objects:
        source = path.as_posix().rpartition(".dir/")[2].removesuffix(".o")
        sections = Elf(path.read_bytes()).sections
        found[source] += sum(part.size for part in sections if part.flags & _ALLOCATED and part.kind != NOBITS)
    return dict(sorted(found.items()))


def _family_of_image(member: str, root: Path) -> str:
    return family_of(source_of(root, Path(member).stem))


def shares(wheel: bytes, sizes: Mapping[str, int], limits: Mapping[str, int], root: Path) -> tuple[Share, ...]:
    """Of every family that has a limit, `common` last."""
    with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
        packed = {info.filename: info.compress_size for info in archive.infolist()}
    images: Counter[str] = Counter()
    for member, size in packed.items():
        if member.startswith(KERNELS):
            images[_family_of_image(member, root)] += size
    code: Counter[str] = Counter()
    for source, size in sizes.items():
        code[family_of(Path(source))] += size
    whole, library = code.total(), packed.get(LIBRARY, 0)
    parts = {family: library * code[family] // whole if whole else 0 for family in limits if family != COMMON}
    found = [Share(family, images[family], part, 0, limits[family]) for family, part in parts.items()]
    left = library - sum(parts.values())
    rest = len(wheel) - sum(share.size for share in found) - left
    return (*found, Share(COMMON, 0, left, rest, limits[COMMON]))


def over(family: str, size: int, limit: int, what: str, root: Path) -> GateError:
    """The refusal, which says whose budget it is and where that stands."""
    return GateError(
        f"family {family}: {what} take {size:,} packed bytes, more than its budget of {limit:,} "
        f"({files(root)[family]}). Make its kernels share code, or raise the budget there; all together may "
        f"have {MOST:,}"
    )


def sizes_of(text: bytes) -> dict[str, int]:
    """What CMake handed over."""
    return {str(source): int(size) for source, size in json.loads(text).items()}
