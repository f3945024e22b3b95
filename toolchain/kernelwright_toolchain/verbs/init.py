# SPDX-License-Identifier: MIT
"""`kwt init`: writes what a project needs to be built by this toolchain; asks nothing that its files say.

The table, a flake and a conda environment, the locks, a workflow. No file that is there is written over.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from kernelwright_toolchain.classic import environments, found, toolkit
from kernelwright_toolchain.errors import KwError, RequestError
from kernelwright_toolchain.locking import conda, conda_tool
from kernelwright_toolchain.project import Project, serving
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.targets.read import toml
from kernelwright_toolchain.verbs import ci, lock
from kernelwright_toolchain.version import VERSION

_BACKEND = f"""[build-system]
requires = ["kernelwright-toolchain=={VERSION}"]
build-backend = "kernelwright_toolchain.backend"

"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--project", type=Path, metavar="DIR", help="default: where you are, or above it")
    parser.add_argument("--config", type=Path, metavar="FILE", help="write there, and leave the project's files alone")


def _list(words: tuple[str, ...]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def _parsed(path: Path) -> dict[str, Any]:
    return toml(path.read_text(encoding="utf-8"), str(path)) if path.is_file() else {}


def _tools(path: Path) -> dict[str, Any]:
    """The tables of tools that a file has."""
    found: dict[str, Any] = _parsed(path).get("tool", {})
    return found


def table(root: Path) -> str:
    """The text of the table; RequestError for what this toolchain cannot build."""
    if "kernelwright" in _tools(root / "pyproject.toml"):
        raise RequestError(f"{root / 'pyproject.toml'} has [tool.kernelwright] already; nothing was written")
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


class Writer:
    """Says of each file what became of it; `written` counts those that are new."""

    def __init__(self) -> None:
        self.written = 0

    def say(self, path: Path, words: str) -> None:
        print(f"{path}: {words}")

    def new(self, path: Path, text: str) -> None:
        if path.exists():
            self.say(path, "is there already, and is left as it is")
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.written += 1
        self.say(path, "written")

    def table(self, root: Path, config: Path | None) -> None:
        """Below what the file has; the backend too, where no line says yet what builds the project."""
        path = config or root / "pyproject.toml"
        bare = config is None and "build-system" not in _parsed(path)
        if "kernelwright" in _tools(path):
            self.say(path, "has [tool.kernelwright] already, and is left as it is")
            return
        text = table(root)
        if bare:
            text = _BACKEND + text
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        path.write_text(f"{before.rstrip()}\n\n{text}".lstrip(), encoding="utf-8")
        self.written += 1
        self.say(path, f"written\n\n{text}")
        if config is None and not bare:
            print(f"[build-system] is left as it is. For `pip install .` to build the same wheel:\n\n{_BACKEND}")

    def locks(self, settings: Settings) -> None:
        for name, make in lock.writers(settings).items():
            if (settings.locks / name).exists():
                self.say(settings.locks / name, "is there already, and is left as it is")
                continue
            try:
                print(make())
            except KwError as error:  # a package index that is out of reach ends no more than this lock
                self.say(settings.locks / name, f"not written, `kwt lock` does it: {error}")
            else:
                self.written += 1

    def workflow(self, settings: Settings) -> None:
        try:
            made = ci.texts(settings, settings.root, None)
        except RequestError as error:
            self.say(settings.root / ci.WORKFLOW, f"not written: {error}")
            return
        for path, text in made.items():
            self.new(settings.root / path, text)


def _not_here(settings: Settings) -> None:
    """The two locks that only others' programs write, and what has not been tried of them."""
    locked = settings.locks / conda.LOCK
    if not locked.exists():
        solver = next((name for name in conda_tool.SOLVERS if shutil.which(name)), None)
        why = f"kwt lock writes it by {solver}" if solver else f"needs one of {', '.join(conda_tool.SOLVERS)} on PATH"
        print(f"{locked}: not written: {why}. No channel was asked whether the environments can be solved")
    if not (settings.locks / "flake.lock").exists():
        what = "is on PATH" if shutil.which("nix") else "is not here"
        print(
            f"{settings.locks / 'flake.lock'}: not written: Nix {what}; {environments.FLAKE} was not evaluated. Put "
            "the owner of kernelwright's repository into it, then: nix flake lock"
        )


def run(given: argparse.Namespace) -> int:
    root = _root(given)
    config = given.config.resolve() if given.config else None
    with serving(Project(root)):
        writer = Writer()
        writer.table(root, config)
        settings = read(root, config)
        rows = load()
        writer.new(settings.locks / environments.FLAKE, environments.flake_text(settings, rows))
        for name, text in environments.conda_texts(settings, rows, VERSION).items():
            writer.new(settings.locks / name, text)
        writer.locks(settings)
        writer.workflow(settings)
        if not writer.written:
            raise RequestError("all of it is there already; nothing was written")
        _not_here(settings)
    more = f" --config {given.config}" if given.config else ""
    print(f"\nNext: kwt build{more}, then kwt repro{more}")
    return 0
