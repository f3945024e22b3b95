# SPDX-License-Identifier: MIT
"""Lets `import bitsandbytes` find kernelwright's package, where no bitsandbytes is installed.

A finder in front of Python's own gives the modules of kernelwright.compat.bitsandbytes under bitsandbytes' names, and
answers importlib.metadata, which programs ask whether it is there and how new it is. This file imports no torch.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright import _environment
from kernelwright.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

NAME = "bitsandbytes"
OURS = "kernelwright.compat.bitsandbytes"
VERSION = "0.50.2"
"""Of bitsandbytes, whose names and states these are."""
_METADATA = f"""Metadata-Version: 2.1
Name: {NAME}
Version: {VERSION}
Summary: bitsandbytes' names on kernelwright's kernels (kernelwright.compat.bitsandbytes)
"""


class _Distribution(importlib.metadata.Distribution):
    """What importlib.metadata knows of it."""

    def read_text(self, filename: str) -> str | None:
        return {"METADATA": _METADATA, "top_level.txt": f"{NAME}\n"}.get(filename)

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parents[2] / path


class _Loader(importlib.abc.Loader):
    """Gives a module of this package; one object has both names."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(OURS + spec.name.removeprefix(NAME))
        self.spec = self.module.__spec__
        if spec.name == NAME and not _operators:
            _operators.append(importlib.import_module(f"{OURS}._ops").define())
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # Python put the other name's there


class Finder(importlib.abc.MetaPathFinder):
    """Of modules and of the distribution."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname != NAME and not fullname.startswith(f"{NAME}."):
            return None
        ours = OURS + fullname.removeprefix(NAME)
        found = importlib.util.find_spec(ours)
        if found is None:
            return None
        package = found.submodule_search_locations is not None
        made = importlib.machinery.ModuleSpec(fullname, _Loader(), origin=found.origin, is_package=package)
        made.submodule_search_locations = found.submodule_search_locations
        return made

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = getattr(context, "name", None)
        if wanted is None or wanted.lower().replace("_", "-") == NAME:
            yield _Distribution()


_ASKED = {
    "peft.import_utils": ("is_bnb_available", "is_bnb_4bit_available"),
    "transformers.utils.import_utils": ("is_bitsandbytes_available", "_is_package_available"),
}
_finder: list[Finder] = []
_operators: list[Any] = []


def _there() -> str | None:
    """Where a real one is, and which; None: nowhere."""
    module = sys.modules.get(NAME)
    if module is not None:
        return f"{getattr(module, '__version__', 'of an unknown version')}, imported from {module.__file__}"
    spec = importlib.util.find_spec(NAME)
    if spec is None:
        return None
    try:
        version = importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        version = "of an unknown version"
    return f"{version}, in {spec.origin or list(spec.submodule_search_locations or ())}"


def installed() -> bool:
    """Whether `import bitsandbytes` gives this package now."""
    return bool(_finder)


def install() -> None:
    """From now on `import bitsandbytes` gives this package, in this process; refused where a real one is installed.

    Call it before what looks for bitsandbytes is imported: libraries ask once.

    >>> import kernelwright.compat.bitsandbytes
    >>> kernelwright.compat.bitsandbytes.install()
    """
    real = None if _finder else _there()
    if real is not None:
        raise Unsupported(
            f"kernelwright.compat.bitsandbytes cannot take the place of an installed bitsandbytes ({real}): uninstall "
            "it (pip uninstall bitsandbytes), or keep it and call kernelwright.integrations.bitsandbytes.enable()"
        )
    if not _finder:
        _finder.append(Finder())
        sys.meta_path.insert(0, _finder[0])
        _forget_answers()
        for name in [name for name in sys.modules if name.startswith("peft.tuners.") and name.endswith(".bnb")]:
            importlib.reload(sys.modules[name])  # its classes are there only where bitsandbytes is


def install_where_none_is() -> bool:
    """The same where there is none and nobody keeps it from being imported; whether it is there now."""
    if _finder or sys.modules.get(NAME, True) is None or _there() is not None:
        return bool(_finder)
    install()
    return True


def on_torch() -> None:
    """The entry point that torch calls at the end of its import; it must not end that."""
    try:
        if _environment.under_bitsandbytes() and not _environment.read().disable:
            install_where_none_is()
    except Exception as error:  # noqa: BLE001 - whatever it is, torch must go on
        print(f"kernelwright: `import bitsandbytes` is left as it is: {error}", file=sys.stderr)


def _forget_answers() -> None:
    """Libraries that were imported before have asked, and keep the answer that there is none."""
    for where, names in _ASKED.items():
        for name in names:
            clear = getattr(getattr(sys.modules.get(where), name, None), "cache_clear", None)
            if clear is not None:
                clear()


def uninstall() -> None:
    """Takes it back; what was imported in the meantime keeps it."""
    if not _finder:
        return
    while _finder:
        sys.meta_path.remove(_finder.pop())
    while _operators:
        _operators.pop()._destroy()  # noqa: SLF001 - the only way to give back what it registered
    for name in [name for name in sys.modules if name == NAME or name.startswith(f"{NAME}.")]:
        del sys.modules[name]
    _forget_answers()
