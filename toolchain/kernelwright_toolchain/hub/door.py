# SPDX-License-Identifier: MIT
"""kernelwright, from the folder of this machine beside this file: what `kernels.get_kernel` returns has all its names.

The package imports itself by its name, while `kernels` gives each kernel a name of its own; so it is loaded as
`kernelwright` here, once a process, and this module hands its names on.
"""

from __future__ import annotations

import importlib.util
import json
import platform
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

NAME = "kernelwright"
HERE = Path(__file__).resolve().parent


def _load() -> ModuleType:
    place = HERE / platform.machine() / NAME
    if not place.is_dir():
        known = ", ".join(sorted(path.parent.name for path in HERE.glob(f"*/{NAME}")))
        raise ImportError(f"{NAME} has no build for {platform.machine()} in {HERE}; it has {known}")
    version = json.loads((place / "manifest.json").read_text(encoding="utf-8"))["version"]
    loaded = sys.modules.get(NAME)
    if loaded is not None:
        if loaded.__version__ != version:
            raise ImportError(
                f"{NAME} {loaded.__version__} of {loaded.__file__} is loaded already, and one process has one: "
                f"{place} has {version}. Load the same version, or this one first"
            )
        return loaded
    spec = importlib.util.spec_from_file_location(NAME, place / "__init__.py", submodule_search_locations=[str(place)])
    if spec is None or spec.loader is None:
        raise ImportError(f"{place} is no package")
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[NAME]
        raise
    return module


kernelwright = _load()


def __getattr__(name: str) -> Any:
    return getattr(kernelwright, name)


def __dir__() -> list[str]:
    return dir(kernelwright)
