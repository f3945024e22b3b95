# SPDX-License-Identifier: MIT
"""Builds of one library for several releases of CUDA, side by side in a package: which of them a torch takes.

Packages load the one whose name has the CUDA release that torch was built with: libx_cuda128.so, not libx_cuda118.so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.xray._place import Torch

_RELEASE = re.compile(r"(?<=cu)(da)?[_-]?(\d{2})[._]?(\d)(?!\d)", re.IGNORECASE)


def not_taken(names: Iterable[str], torch: Torch | None) -> frozenset[str]:
    """Those that are for other releases than this torch's, where one for it is beside them."""
    if torch is None or torch.release_of_cuda is None:
        return frozenset()
    sets: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    for name in names:
        found = _RELEASE.search(name.rpartition("/")[2])
        if found:
            sets[_RELEASE.sub("", name)][int(found[2]), int(found[3])] = name
    return frozenset(
        name
        for builds in sets.values()
        if torch.release_of_cuda in builds
        for release, name in builds.items()
        if release != torch.release_of_cuda
    )
