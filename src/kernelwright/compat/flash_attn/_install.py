# SPDX-License-Identifier: MIT
"""kernelwright under the name flash_attn: what `import flash_attn` finds, and what asks whether it is installed."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from kernelwright.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION = "2.8.3"  # the release of flash-attn whose functions these are
_NAME = "flash_attn"
_MODULES = ("flash_attn_interface", "bert_padding", "layers", "layers.rotary")
_OURS = "kernelwright.compat.flash_attn"
_METADATA = f"""Metadata-Version: 2.1
Name: flash-attn
Version: {VERSION}
Summary: flash-attn's functions by kernelwright (kernelwright.compat.flash_attn.install())
"""


class _Distribution(importlib.metadata.Distribution):
    """Some programs ask for the distribution "flash-attn" before they import the module."""

    def read_text(self, filename: str) -> str | None:
        return {"METADATA": _METADATA, "top_level.txt": f"{_NAME}\n"}.get(filename)

    def locate_file(self, path: Any) -> Any:
        return importlib.import_module("pathlib").Path(path)


class _Finder:
    """Among those that Python asks for distributions; modules it has none to give."""

    @staticmethod
    def find_spec(*_: Any) -> None:
        return None

    @staticmethod
    def find_distributions(context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        name = getattr(context, "name", None)
        return [_Distribution()] if name is None or name.lower().replace("_", "-") == "flash-attn" else []


_finder = _Finder()


def _forget() -> None:
    """transformers keeps what it found out of installed packages."""
    kept = sys.modules.get("transformers.utils.import_utils")
    for name in ("_package_distribution_mapping", "is_flash_attn_2_available"):
        clear = getattr(getattr(kept, name, None), "cache_clear", None)
        if clear is not None:
            clear()


def installed() -> bool:
    """Whether `import flash_attn` gives kernelwright's."""
    return _finder in sys.meta_path


def install() -> None:
    """Makes `import flash_attn` give kernelwright.compat.flash_attn in this process, until `uninstall()`.

    Call it before the programs that use flash-attn are imported. Where flash-attn itself is installed it is refused.
    """
    if installed():
        return
    found = importlib.util.find_spec(_NAME)
    if found is not None:
        raise Unsupported(
            f"flash_attn is installed already ({found.origin}): remove it (pip uninstall flash-attn), or import "
            f"{_OURS} by its own name"
        )
    package = importlib.import_module(_OURS)
    modules = {name: importlib.import_module(f"{_OURS}.{name}") for name in _MODULES}
    for name, module in ((_NAME, package), *((f"{_NAME}.{m}", module) for m, module in modules.items())):
        stand_in = type(sys)(name, module.__doc__)
        public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
        vars(stand_in).update(public, __getattr__=vars(module)["__getattr__"], __version__=VERSION)
        stand_in.__spec__ = importlib.machinery.ModuleSpec(name, None, origin=module.__file__)
        stand_in.__file__, stand_in.__path__ = module.__file__, []
        sys.modules[name] = stand_in
    for name in _MODULES:
        parent, _, last = f"{_NAME}.{name}".rpartition(".")
        setattr(sys.modules[parent], last, sys.modules[f"{_NAME}.{name}"])
    sys.meta_path.append(_finder)
    _forget()


def uninstall() -> None:
    """Takes it back; what was imported from it stays with whoever imported it."""
    if installed():
        sys.meta_path.remove(_finder)
        for name in (_NAME, *(f"{_NAME}.{m}" for m in _MODULES)):
            sys.modules.pop(name, None)
        _forget()
