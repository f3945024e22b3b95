# SPDX-License-Identifier: MIT
"""The environment variables of kernelwright: this file alone reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass

from kernelwright.errors import InvalidEnvironment

DISABLE = "KERNELWRIGHT_DISABLE"
KERNELS = "KERNELWRIGHT_KERNELS"
ARCH = "KERNELWRIGHT_ARCH"
CACHE = "KERNELWRIGHT_CACHE"
BITSANDBYTES = "KERNELWRIGHT_BITSANDBYTES"

MEANINGS = {
    DISABLE: "1: every operator runs its reference in plain torch, no kernel is loaded",
    KERNELS: "a directory to load kernel files from instead of the installed ones; their hashes are not checked",
    ARCH: "the one image to load, by its name in the list of images; refused on a GPU that cannot run it",
    CACHE: "where building from source keeps compiled kernels; the installed package does not use it",
    BITSANDBYTES: "1: `import bitsandbytes` puts kernelwright's kernels under its operators, or gives kernelwright's "
    "package of these names where none is installed",
}

_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")


@dataclass(frozen=True)
class Settings:
    """What the environment asks of this process. `kernels` and `arch` are empty where nothing is asked."""

    disable: bool
    kernels: str
    arch: str


def read() -> Settings:
    """The environment as it is now. Operators are registered once: a later change has no effect on them."""
    disable = _switch(DISABLE)
    kernels = os.environ.get(KERNELS, "")
    if kernels and not os.path.isdir(kernels):  # noqa: PTH112 - pathlib is a slow import
        raise InvalidEnvironment(
            f"{KERNELS}={kernels!r} is not a directory: give the one that holds <code>/<op>.cubin, or unset it"
        )
    return Settings(disable=disable, kernels=kernels, arch=os.environ.get(ARCH, "").strip())


def under_bitsandbytes() -> bool:
    """Whether bitsandbytes is to run on kernelwright; asked whenever bitsandbytes is imported."""
    return _switch(BITSANDBYTES)


def _switch(name: str) -> bool:
    answer = os.environ.get(name, "").strip().lower()
    if answer not in _YES + _NO:
        raise InvalidEnvironment(
            f"{name}={os.environ[name]!r} is neither yes ({', '.join(_YES)}) nor no (0, false, no, off)"
        )
    return answer in _YES


def describe() -> list[tuple[str, str | None, str]]:
    """Each variable: name, value or None, what it does."""
    return [(name, os.environ.get(name), meaning) for name, meaning in MEANINGS.items()]


def everything() -> dict[str, str]:
    """All variables of the process: the doctor looks at other programs' too."""
    return dict(os.environ)
