# SPDX-License-Identifier: MIT
"""`kwt init`: writes [tool.kernelwright] for a project that has a build of its own; asks nothing that its files say."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import Project
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.targets.read import toml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", type=Path, metavar="DIR", help="default: where you are, or above it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="write there, and leave the project's files alone")


def _archs(root: Path) -> str | None:
    """What CMake files ask for, in the toolchain's spelling; None where they name no numbers."""
    for path in [root / "CMakeLists.txt", *sorted(root.glob("*/CMakeLists.txt"))]:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        if found := re.search(r"CUDA_ARCHITECTURES\s+\"?([\d;a -]*\d[a]?(?:-\w+)?)\"?", text):
            numbers = re.findall(r"(\d+a?)", found[1])
            return ";".join(dict.fromkeys(numbers)) + "+ptx"
    return None


def table(root: Path) -> str:
    """The text of the table; RequestError for what this toolchain cannot build."""
    own = root / "pyproject.toml"
    whole = toml(own.read_text(encoding="utf-8"), str(own)) if own.is_file() else {}
    if "kernelwright" in whole.get("tool", {}):
        raise RequestError(f"{own} has [tool.kernelwright] already; nothing was written")
    backend = whole.get("build-system", {}).get("build-backend")
    if backend is None and (root / "setup.py").is_file():
        backend = "setuptools.build_meta"
    if backend is None:
        raise RequestError(
            f"{root} has neither a build-backend in pyproject.toml nor a setup.py: nothing says how its wheel is made. "
            "A plain CMake build runs under `kwt exec -- cmake …`; `kwt new NAME` begins a device-only package"
        )
    rows = load()
    kit = [row for row in rows.toolkits.values() if row.nvcc][-1]
    uses = "".join(
        path.read_text(encoding="utf-8", errors="replace")
        for path in [*root.glob("CMakeLists.txt"), *root.glob("setup.py")]
    )
    lines = [f'backend = "{backend}"', f'toolkit = "{kit.name}"']
    if archs := _archs(root):
        lines.append(f'archs = "{archs}"')
    if re.search(r"torch\.utils\.cpp_extension|find_package\(\s*Torch", uses):
        lines.append('torch = "headers"')
    return "\n".join(["[tool.kernelwright]", *lines, ""])


def run(given: argparse.Namespace) -> int:
    root = Project.around((given.project or Path.cwd()).resolve()).root
    text = table(root)
    path = given.config or root / "pyproject.toml"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    path.write_text(f"{before.rstrip()}\n\n{text}".lstrip(), encoding="utf-8")
    print(f"{path}:\n\n{text}\nNext: kwt build{f' --config {given.config}' if given.config else ''}, then kwt repro")
    return 0
