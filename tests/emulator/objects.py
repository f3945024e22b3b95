# SPDX-License-Identifier: MIT
"""Objects of the emulator's compiler, kept beside compiled images (KERNELWRIGHT_CACHE, else .kw/cache).

Two processes of one test run need the same, and the next run mostly the same again. An object's name is a hash of the
compiler, its options and the text that the preprocessor makes: no path is in that, and no date.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.files import about_trust, make_private, write_privately

UNUSED = 7 * 24 * 3600  # seconds after which an object goes


def run(*command: str | Path) -> str:
    """What the command prints; AssertionError with all it said where it fails."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


@cache
def _version(program: str) -> str:
    return run(program, "version" if Path(program).name == "zig" else "--version")


def _folder() -> Path | None:
    """Where they are, or None where others may write: what lies there is run."""
    root = cache_dir()
    made = root / "emulator"
    return None if about_trust(root) or about_trust(made) else made


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two processes would compile the same; the second finds what the first made."""
    folder = _folder()
    if folder is None:
        yield
        return
    make_private(folder)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def compiled(
    command: Sequence[str], options: Sequence[str], where: Sequence[str | Path], source: Path, to: Path
) -> Path:
    """The object of a source, at `to`. `where` are options with paths, which decide nothing but what is found."""
    folder = _folder()
    if folder is None:
        run(*command, *options, *where, "-c", source, "-o", to)
        return to
    text = run(*command, *options, *where, "-E", "-P", source)
    parts = "\0".join([_version(command[0]), *command[1:], *options, text])
    kept = folder / hashlib.sha256(parts.encode()).hexdigest()
    try:
        data = kept.read_bytes()
        os.utime(kept)
    except FileNotFoundError:
        run(*command, *options, *where, "-c", source, "-o", to)
        write_privately(kept, to.read_bytes())
        _forget(folder)
        return to
    to.write_bytes(data)
    return to


def _forget(folder: Path) -> None:
    before = time.time() - UNUSED
    for path in folder.iterdir():
        if path.name != "lock" and path.stat().st_mtime < before:
            path.unlink(missing_ok=True)
