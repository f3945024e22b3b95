# SPDX-License-Identifier: MIT
"""`python -I start.py TREE MODULE WORDS…`: runs a module of the tree as `python -m` does, wherever somebody stands.

-I keeps Python from importing what lies in the working directory, in a user's own folder or on PYTHONPATH. Then it
finds no tree either, so the tree and this toolchain are added here, and nothing else but the directories of locked
packages that KW_MODULES names.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HERE = Path(__file__).resolve().parent
NAME = HERE.name
MODULES = "KW_MODULES"  # directories of packages, in front of the interpreter's own; absolute, joined as in PATH


def command(python: str | Path, tree: str | Path, module: str, *words: str) -> list[str]:
    """Runs a module of the tree, with the words as its arguments."""
    return [str(python), "-I", str(HERE / "start.py"), str(tree), module, *words]


def others(python: str | Path, module: str, *words: str) -> list[str]:
    """Runs somebody else's module, which may lie in KW_MODULES: no file of the tree can take its place."""
    return command(python, "", module, *words)


def joined(directories: Iterable[str | Path]) -> str:
    """What KW_MODULES is to be for these directories and those it names already."""
    return os.pathsep.join([*map(str, directories), *filter(None, [os.environ.get(MODULES)])])


def importable() -> list[str]:
    """Where this process finds modules, for a child that is started as above; nothing that depends on a place."""
    return [entry for entry in sys.path if Path(entry).is_absolute() and Path(entry).is_dir()]


def main(tree: str, module: str, words: list[str]) -> None:
    named = [entry for entry in os.environ.get(MODULES, "").split(os.pathsep) if Path(entry).is_absolute()]
    own = Path(tree) / "toolchain"  # a tree that holds a toolchain is built by that one
    ours = [tree, str(own if (own / NAME).is_dir() else HERE.parent)] if tree else []
    sys.path[:0] = [*ours, *named]
    sys.argv = [module, *words]  # run_module puts the file's path in front
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
