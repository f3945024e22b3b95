# SPDX-License-Identifier: MIT
"""The files a rule looks at: this project's tree, or a small one that a test has planted a violation in."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SOURCE_SUFFIXES = frozenset({".py", ".pyi", ".c", ".cpp", ".h", ".cu", ".cuh", ".cmake", ".nix", ".sh", ".in"})
BUILT = frozenset({"build", "dist", "__pycache__"})
HIDDEN = frozenset({".ci", ".github"})  # of the folders whose name begins with a dot, those that people write


class Tree:
    """Paths are relative to `root`, with forward slashes, sorted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @cached_property
    def files(self) -> tuple[str, ...]:
        # A new file counts before it is added; a built one that git ignores never does.
        by_git = (self.root / ".git").exists() and shutil.which("git")
        listed = self._git() if by_git else self._walk()
        return tuple(sorted(path for path in listed if (self.root / path).is_file()))

    def _git(self) -> list[str]:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        done = subprocess.run(command, cwd=self.root, check=True, capture_output=True, text=True)
        return [path for path in done.stdout.split("\0") if path]

    def _walk(self) -> Iterator[str]:
        for folder, names, files in os.walk(self.root):
            names[:] = [name for name in names if name not in BUILT and (name[0] != "." or name in HIDDEN)]
            for name in files:
                if name == ".git":  # of a second working tree: a file there
                    continue
                yield (Path(folder) / name).relative_to(self.root).as_posix()

    def under(self, *rooms: str) -> list[str]:
        """Files that are one of these paths or lie in one of these folders."""
        return [path for path in self.files if any(path == room or path.startswith(f"{room}/") for room in rooms)]

    def matching(self, pattern: str) -> dict[str, str]:
        """Stem to path of the files whose whole path matches; the pattern's first group is the stem."""
        found = ((re.fullmatch(pattern, path), path) for path in self.files)
        return {match[1]: path for match, path in found if match}

    def text(self, path: str) -> str:
        """Its text; of a binary file, nothing."""
        data = (self.root / path).read_bytes()
        return "" if b"\0" in data[:4096] else data.decode("utf-8", errors="replace")

    def lines(self, path: str) -> Iterator[tuple[str, str]]:
        """("path:number", line) for each line."""
        for number, line in enumerate(self.text(path).splitlines(), start=1):
            yield f"{path}:{number}", line

    def sources(self) -> list[str]:
        """Files that a person wrote in some language: by suffix, or by a #! line."""
        named = {"CMakeLists.txt"}
        return [
            path
            for path in self.files
            if Path(path).suffix in SOURCE_SUFFIXES or Path(path).name in named or self.text(path).startswith("#!")
        ]

    def python(self, *rooms: str) -> Iterator[tuple[str, ast.Module]]:
        """(path, syntax) of each Python file in these rooms, `kw`-like scripts included."""
        for path in self.under(*rooms) if rooms else self.files:
            is_script = "." not in Path(path).name and "python" in self.text(path).partition("\n")[0]
            if path.endswith(".py") or is_script:
                yield path, ast.parse(self.text(path), path)
