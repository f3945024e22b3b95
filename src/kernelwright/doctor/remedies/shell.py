# SPDX-License-Identifier: MIT
"""Words of a shell: who may do what, and search paths with entries taken out or put first."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright.doctor.machine import driver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright.doctor.machine._machine import Machine

quote = shlex.quote
_SEARCH = "LD_LIBRARY_PATH"

# Never a fixed name under /tmp: whoever makes that directory first puts code of his own into other users' processes.
OWN_CACHES = (
    'export XDG_CACHE_HOME="$(mktemp -d)" && '
    'export TRITON_CACHE_DIR="$XDG_CACHE_HOME/triton" TORCH_EXTENSIONS_DIR="$XDG_CACHE_HOME/torch_extensions"'
)


def sudo(machine: Machine) -> str:
    """Containers run as root as a rule, and have no sudo."""
    return "" if machine.root == Path("/") and os.geteuid() == 0 else "sudo "


def export(name: str, entries: Iterable[str]) -> str:
    """A variable that is a list of directories; unset where none is left."""
    value = ":".join(entries)
    return f"export {name}={quote(value)}" if value else f"unset {name}"


def search_without(machine: Machine, *unwanted: str) -> str:
    """LD_LIBRARY_PATH of this process without some directories."""
    return export(_SEARCH, (entry for entry in driver.search_path(machine) if entry not in unwanted))


def search_first(machine: Machine, directory: str) -> str:
    """LD_LIBRARY_PATH of this process with a directory before all others."""
    return export(_SEARCH, [directory, *(entry for entry in driver.search_path(machine) if entry != directory)])
