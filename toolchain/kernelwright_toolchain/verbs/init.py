# SPDX-License-Identifier: MIT
"""`kwt init`: writes [tool.kernelwright] for a project that has a build of its own; asks nothing that its files say."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from kernelwright_toolchain.classic import found, toolkit
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.targets.read import toml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", type=Path, metavar="DIR", help="default: where you are, or above it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="write there, and leave the project's files alone")


def _list(words: tuple[str, ...]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def table(root: Path) -> str:
    """The text of the table; RequestError for what this toolchain cannot build."""
    own = root / "pyproject.toml"
    if own.is_file() and "kernelwright" in toml(own.read_text(encoding="utf-8"), str(own)).get("tool", {}):
        raise RequestError(f"{own} has [tool.kernelwright] already; nothing was written")
    rows = load()
    kit = toolkit.row_of(None, rows)
    seen = found.look(root, rows, kit)
    lines = [f'backend = "{seen.backend}"', f'toolkit = "{kit.name}"']
    if seen.archs:
        lines.append(f'archs = "{seen.archs}"')
    if seen.defines:
        lines.append(
            f"defines = {{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in seen.defines.items())} }}"
        )
    if seen.libraries:
        lines.append(f"libraries = {_list(seen.libraries)}")
    if seen.torch:
        lines.append('torch = "headers"')
    if seen.requires:
        lines.append(f"requires = {_list(seen.requires)}")
    return "\n".join(["[tool.kernelwright]", *lines, ""])


def _root(given: argparse.Namespace) -> Path:
    place = (given.project or Path.cwd()).resolve()
    if (place / "setup.py").is_file():  # a project that has no pyproject.toml yet
        return place
    return Project.around(place).root


def run(given: argparse.Namespace) -> int:
    root = _root(given)
    with serving(Project(root)):
        text = table(root)
    path = given.config or root / "pyproject.toml"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    if "[tool.kernelwright]" in before:
        raise RequestError(f"{path} has [tool.kernelwright] already; nothing was written")
    path.write_text(f"{before.rstrip()}\n\n{text}".lstrip(), encoding="utf-8")
    more = f" --config {given.config}" if given.config else ""
    print(f"{path}:\n\n{text}\nNext: kwt build{more}, then kwt repro{more}; kwt lock{more} pins what no lock names yet")
    return 0
