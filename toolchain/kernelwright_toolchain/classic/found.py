# SPDX-License-Identifier: MIT
"""What a project's own files say of how it is built: read, never run."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.targets import Table, Toolkit
from kernelwright_toolchain.targets.read import toml

_OFFERS_CUDA = re.compile(
    r"set_property\(\s*CACHE\s+(\w+)\s+PROPERTY\s+STRINGS\s+([^)]*\bcuda\b[^)]*)\)", re.IGNORECASE
)
_ARCH_CACHE = re.compile(r"set\(\s*(\w*(?:CAPABILIT|ARCH|SM_?LIST)\w*)\s+[^)]*\bCACHE\b", re.IGNORECASE)
_SWITCH = re.compile(
    r'option\(\s*(\w*(?:USE|WITH|BUILD|ENABLE)_?(?:CUDA|GPU)\w*|CUDA)\s+(?:"[^"]*"\s+)?(?:OFF|NO|FALSE|0)\s*\)'
)
_TAKEN = ("torch", "setuptools", "distutils", "pkg_resources", "kernelwright_toolchain")


@dataclass(frozen=True)
class Found:
    backend: str
    archs: str | None = None
    torch: bool = False
    libraries: tuple[str, ...] = ()
    defines: dict[str, str] = field(default_factory=dict)
    requires: tuple[str, ...] = ()


def _text(root: Path, *names: str) -> str:
    """Of the files of these patterns, one after the other."""
    paths = [path for name in names for path in sorted(root.glob(name))]
    return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths if path.is_file())


def archs(cmake: str, setup: str, table: Table, kit: Toolkit) -> str | None:
    """What the files ask for and this toolkit knows, in the toolchain's spelling; None where they name no numbers."""
    found = re.search(r"CUDA_ARCHITECTURES\s+\"?([\d;a -]*\d[a]?(?:-\w+)?)\"?", cmake)
    numbers = re.findall(r"(\d+a?)", found[1]) if found else re.findall(r"code=sm_(\d+a?)", setup)
    known = {code.number for code in table.codes.values() if code.kind == "cubin" and code.toolkits.knows(kit.release)}
    taken = [number for number in dict.fromkeys(numbers) if number in known]
    return ";".join(taken) + "+ptx" * bool(found) if taken else None


def libraries(cmake: str, setup: str, table: Table) -> tuple[str, ...]:
    """The rows of CUDA's libraries that the files link with."""
    said = re.findall(r"CUDA::(\w+?)(?:_static)?\b|-l(\w+)|[\"']((?:cu|nv|npp)\w+)[\"']", cmake + setup)
    linked = {name for three in said for name in three}
    return tuple(sorted(row.name for row in table.libraries.values() if linked & set(row.links)))


def _defines(cmake: str) -> dict[str, str]:
    """The project's own words for which GPUs, and for having any."""
    found = {name: "{archs}" for name in _ARCH_CACHE.findall(cmake) if not name.startswith("CMAKE_")}
    for name, _ in _OFFERS_CUDA.findall(cmake):
        default = re.search(rf'set\(\s*{name}\s+"?(\w+)"?\s+CACHE', cmake)
        if default and default[1].lower() != "cuda":
            found[name] = "cuda"
    return found | dict.fromkeys(_SWITCH.findall(cmake), "ON")


def _imports(root: Path, setup: str) -> tuple[str, ...]:
    """What setup.py imports of others and [build-system] is not there to say."""
    try:
        tree = ast.parse(setup)
    except SyntaxError as error:
        raise RequestError(f"{root / 'setup.py'} cannot be read: {error}") from None
    names: set[str] = set()
    for node in tree.body:  # what is inside a condition or a try may do without
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    own = {path.stem for path in root.glob("*.py")} | {path.name for path in root.iterdir() if path.is_dir()}
    return tuple(sorted(names - own - set(sys.stdlib_module_names) - set(_TAKEN)))


def look(root: Path, table: Table, kit: Toolkit) -> Found:
    """RequestError for what has no build that makes a wheel."""
    own = root / "pyproject.toml"
    whole = toml(own.read_text(encoding="utf-8"), str(own)) if own.is_file() else {}
    backend = whole.get("build-system", {}).get("build-backend")
    setup = _text(root, "setup.py")
    if backend is None and setup:
        backend = "setuptools.build_meta"
    if backend is None:
        raise RequestError(
            f"{root} has neither a build-backend in pyproject.toml nor a setup.py: nothing says how its wheel is made. "
            "A plain CMake build runs under `kwt exec -- cmake …`; `kwt new NAME` begins a device-only package"
        )
    cmake = re.sub(r"(?m)#.*$", "", _text(root, "CMakeLists.txt", "*/CMakeLists.txt", "cmake/*.cmake"))
    torch = re.search(r"torch\.utils\.cpp_extension|find_package\(\s*Torch", cmake + setup) is not None
    said = "build-system" in whole and "requires" in whole["build-system"]
    return Found(
        backend=backend,
        archs=archs(cmake, setup, table, kit),
        torch=torch,
        libraries=libraries(cmake, setup, table),
        defines=_defines(cmake),
        requires=() if said else _imports(root, setup),
    )
