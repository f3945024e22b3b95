# SPDX-License-Identifier: MIT
"""Hash-locked packages installed into a directory of their own under .kw/tools, once, by whoever comes first.

The launcher needs the same three things (a lock between processes, directories that appear whole, and a pip that hears
only where packages come from), imports nothing of the toolchain, and so is where they are written.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from kernelwright_toolchain import launcher, orphans
from kernelwright_toolchain.errors import BusyError, ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import archives, siblings


def check_place(root: Path) -> None:
    """RequestError if the tree lies where the build tools cannot build."""
    if odd := launcher.about_path(root):
        raise RequestError(odd)


def published(path: Path) -> AbstractContextManager[Path]:
    """A fresh directory to fill; it takes the name `path` only if the block ends well."""
    made: AbstractContextManager[Path] = launcher.published(path)
    return made


@contextmanager
def locked(path: Path, waiting: str, patience: float = 3600) -> Iterator[None]:
    """Holds an exclusive lock on the file; while another process has it, says `waiting` and waits, up to BusyError.

    Nothing that was started meanwhile outlives it, whatever becomes of this process.
    """
    lock = launcher.Lock(path, waiting, patience)
    try:
        lock.__enter__()
    except TimeoutError as error:
        raise BusyError(
            f"waited {patience:.0f} s, but {error}; let it finish, or end it, or use another copy of the tree"
        ) from None
    except launcher.Failed as error:
        raise ProvisionError(str(error)) from None
    try:
        with orphans.guarded(path, lock.file.fileno()) as left:
            if left:
                print(f"ended {left} processes that a killed build had left running here", file=sys.stderr, flush=True)
            yield
    finally:
        lock.__exit__(None, None, None)


def pip_command() -> list[str]:
    """How pip is run here: as a module of this interpreter, or out of virtualenv's own wheel of it."""
    if own := launcher.pip_command():
        return list(own)
    try:
        from virtualenv.seed.wheels.embed import get_embed_wheel
    except ModuleNotFoundError:
        raise ToolMissing(
            f"{sys.executable} has neither pip nor virtualenv, so nothing can be provisioned; run through ./kw"
        ) from None
    wheel = get_embed_wheel("pip", f"{sys.version_info[0]}.{sys.version_info[1]}")
    return [sys.executable, "-I", f"{wheel.path}/pip"]


def run_pip(arguments: Sequence[str], what: str, python: Path | None = None, scratch: Path | None = None) -> str:
    """pip's standard output; a ProvisionError with all it said if it failed. `python`: with that one's own pip.

    `scratch`: where it unpacks, instead of /tmp, where a killed pip leaves what it has fetched.
    """
    command = [str(python), "-I", "-m", "pip"] if python else pip_command()
    environment: Mapping[str, str] = launcher.pip_environment(command)
    if scratch:
        environment = {**environment, "TMPDIR": str(scratch)}
    done = subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = "\n".join(line for line in done.stderr.splitlines() if "is ignored: it is neither" not in line)
        raise ProvisionError(
            f"{what}: pip failed (exit code {done.returncode})\n{said.strip()}\n{launcher.what_to_do(said)}".strip()
        )
    return done.stdout


def sha256_of(item: Mapping[str, Any]) -> str | None:
    """Of one package in pip's report; pip 23.0, Debian 12's, has only the older of two forms for a file in a folder."""
    info = item["download_info"].get("archive_info", {})
    kind, _, digest = str(info.get("hash", "")).partition("=")
    found: str | None = info.get("hashes", {}).get("sha256") or (digest if kind == "sha256" else None)
    return found


# A directory that holds what locks name under the names it would have in .kw/tools: Nix fetches it, as a build in its
# sandbox has no network, and pip may have no place in its shell.
GIVEN = "KW_TOOLS"


def home(lock: Path, *, per_python: bool = False, root: Path | None = None) -> Path:
    """Where the packages of this lock lie, or will."""
    if not lock.is_file():
        raise ToolMissing(f"{lock} does not exist; `python -m toolchain lock` makes the locks from targets.toml")
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    tag = f"-{sys.implementation.cache_tag}" if per_python else ""
    name = f"{lock.stem}-{digest}{tag}"
    given = os.environ.get(GIVEN)
    if given and (Path(given) / name).is_dir():
        return Path(given) / name
    return (root or project().state) / "tools" / name


def install(lock: Path, *, per_python: bool = False, root: Path | None = None, words: Sequence[str] = ()) -> Path:
    """The directory that holds the packages of this lock, filled now if it is not there yet.

    `per_python`: the lock has compiled extension modules, so each Python gets a directory of its own.
    `words`: pip's for another machine's files.
    """
    place = home(lock, per_python=per_python, root=root)
    if place.is_dir():
        return place
    with locked(
        (root or project().state) / "tools.lock", f"another process is installing tools; waiting to have {lock.name}"
    ):
        if not place.is_dir():
            print(f"installing {project().shown(lock)}: {_names(lock)}{_to_fetch(lock, place)}", flush=True)
            with published(place) as part:
                archives.fill(lock, part) if archives.is_lock(lock) else _fill(lock, part, place, words)
    return place


def _fill(lock: Path, part: Path, place: Path, there: Sequence[str]) -> None:
    (scratch := part / ".tmp").mkdir()
    words = [*FLAGS, *there, "--target", str(part), "-r", str(_left(lock, place, part, scratch))]
    run_pip(words, f"installing {lock.name} into {place}", scratch=scratch)
    shutil.rmtree(scratch)


FLAGS = ("install", "--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:", "--no-compile")


def _left(lock: Path, place: Path, part: Path, scratch: Path) -> Path:
    """The lock that pip is given: without what another Python's directory has already, which is linked."""
    (rest := scratch / "lock.txt").write_text(siblings.take(lock, place, part), encoding="utf-8")
    return rest


def to_fetch(lock: Path, place: Path) -> int:
    """Bytes to fetch for this directory of the lock, as far as locks/files.json tells."""
    if place.is_dir():
        return 0
    if archives.is_lock(lock):
        return sum(row.size for row in archives.read(lock)[1])
    here = siblings.at_hand(lock, place)
    return sum(row["size"] for row in siblings.rows(lock) if row["file"].partition("-")[0] not in here)


def _to_fetch(lock: Path, place: Path) -> str:
    total = to_fetch(lock, place)
    return f" ({total / 1e6:,.0f} MB to fetch, once)" if total else ""


def _names(lock: Path) -> str:
    if archives.is_lock(lock):
        return ", ".join(row.stem for row in archives.read(lock)[1])
    return ", ".join(re.findall(r"^([A-Za-z0-9._-]+==[^\s;]+)", lock.read_text(encoding="utf-8"), re.MULTILINE))
