# SPDX-License-Identifier: MIT
"""What a build is made from: its input files, their digest, and the commit they are of, as far as anybody knows."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FOLDERS = ("csrc", "src", "cmake", "toolchain", "locks")
FILES = ("CMakeLists.txt", "pyproject.toml", "targets.toml", "benchmarks/sass.toml", "README.md", "LICENSE", "kw")
NOTE = "source.json"  # what an sdist carries, since it has no git
_BESIDE = (".sha256", "/family.toml")  # what a build made, and what it may take: results and limits, not inputs
# A build needs them, or finds them in its folders, and the wheel does not depend on them: what is fetched is in the
# recipe by the locks that name it, and what looks at wheels, runs tests, writes workflows, packs the toolchain or
# builds other projects makes none.
_ASIDE = ("exact", "testing", "workflows", "distribution", "packages", "classic", "verbs")
_OF_TOOLCHAIN = ("pyproject.toml", "README.md", *(f"kernelwright_toolchain/{folder}/" for folder in _ASIDE))
_NOT_DECIDING = ("locks/", "kw", "benchmarks/", *(f"toolchain/{name}" for name in _OF_TOOLCHAIN))


@dataclass(frozen=True)
class Source:
    """`commit` and `dirty` are None where neither git nor an sdist's note can tell; `sha256` always identifies."""

    commit: str | None
    dirty: bool | None
    sha256: str

    def note(self) -> bytes:
        return (json.dumps(asdict(self), indent=2, sort_keys=True) + "\n").encode()


def input_files(root: Path) -> Iterator[Path]:
    """Every file that a build reads, in one order; a build from a copy of these alone gives the same bytes."""
    for name in FOLDERS:
        for folder, below, files in os.walk(root / name):
            below[:] = sorted(entry for entry in below if entry != "__pycache__")
            yield from (Path(folder) / file for file in sorted(files))
    yield from (root / name for name in FILES if (root / name).is_file())


def file_digests(root: Path) -> dict[str, str]:
    """path -> sha256 of each file that decides what is in the wheel."""
    paths = {path.relative_to(root).as_posix(): path for path in input_files(root)}
    return {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in paths.items() if _decides(name)}


def _decides(name: str) -> bool:
    """An editor's or a tool's hidden files go into a wheel from src/ alone, which is packed as it is."""
    hidden = any(part.startswith(".") for part in name.split("/")) and not name.startswith("src/")
    return not (hidden or name.endswith(_BESIDE) or name.startswith(_NOT_DECIDING))


def digest(files: Mapping[str, str]) -> str:
    """One over all of them, by name."""
    lines = [f"{sha256}  {path}\n" for path, sha256 in sorted(files.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _git(root: Path, *words: str) -> str | None:
    """What git says, whoever owns the tree; None if there is no git or it fails."""
    if not shutil.which("git"):
        return None
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *words]
    done = subprocess.run(command, env={**env, "LC_ALL": "C"}, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def _by_git(root: Path, own: str) -> Source | None:
    top = _git(root, "rev-parse", "--show-toplevel")
    if not top or Path(top) != root.resolve():  # a tree unpacked inside some other project's is not that project
        return None
    commit = _git(root, "rev-parse", "--verify", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", *FOLDERS, *FILES)
    # Also what somebody's own rules ignore, such as an editor's files: a build sees those as any other.
    others = _git(root, "ls-files", "--others", "-x", "__pycache__/", "--", *FOLDERS, *FILES)
    if commit is None or changes is None or others is None:
        return None
    return Source(commit, bool(changes or others), own)


def _by_note(root: Path, own: str) -> Source | None:
    """What the sdist's maker knew; dirty if the inputs are not those any more."""
    with suppress(OSError, ValueError, TypeError):
        noted = Source(**json.loads((root / NOTE).read_text(encoding="utf-8")))
        if noted.commit is None:
            return None
        return Source(noted.commit, noted.dirty if noted.sha256 == own else True, own)
    return None


def state(root: Path) -> Source:
    """The source behind a build in this tree."""
    own = digest(file_digests(root))
    return _by_git(root, own) or _by_note(root, own) or Source(None, None, own)
