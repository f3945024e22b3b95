# SPDX-License-Identifier: MIT
"""`kwt repro`: builds the project twice, where and how it should not matter, and compares every byte."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from kernelwright_toolchain import start
from kernelwright_toolchain.classic import differ, gcc, requirements, source
from kernelwright_toolchain.errors import CompileError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.verbs._project import add_choice, add_project, chosen, opened

# directory, time zone, umask, language, jobs, date of the sources
NOBODY = 65534
CONDITIONS = (
    ("one", "UTC", 0o022, "C", "1", 1_000_000_000),
    ("another/place", "Asia/Kathmandu", 0o077, "C.UTF-8", "2", 1_500_000_000),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_project(parser)
    add_choice(parser)
    parser.add_argument("--provider", choices=("pip", "system"), default="pip", help="where nvcc is from")


def _laid_out(root: Path, place: Path, date: int) -> Path:
    """The sources, dated about then, each another second; the locked tools beside them."""
    for path in source.files(root):
        to = place / path
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, to)
        os.utime(to, (date, date + random.randrange(1000)))  # noqa: S311 - any will do
    (place / ".kw").mkdir(parents=True)
    for name in ("tools", "requires"):
        (root / ".kw" / name).mkdir(parents=True, exist_ok=True)
        (place / ".kw" / name).symlink_to(root / ".kw" / name)
    return place


def _table(settings: Settings, place: Path) -> Path | None:
    """A copy of a table that lies outside the tree, with the locks beside it; None where the tree has it."""
    if settings.config is None:
        return None
    place.mkdir(parents=True)
    for path in (
        settings.config,
        *(settings.locks / name for name in (requirements.LOCK, requirements.LIBRARIES, gcc.LOCK)),
    ):
        if path.is_file():
            shutil.copyfile(path, place / path.name)
    return place / settings.config.name


def _other_user(places: list[Path]) -> int | None:
    """One who is nobody, where root may lend these folders to one, and where what is needed can be reached by all."""
    if os.geteuid() != 0:
        return None
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
        for path in [place, *place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    locked = [path for place in places for path in (place / ".kw" / "tools").glob("*")]
    script = "import os, sys; sys.exit(not all(os.access(path, os.R_OK | os.X_OK) for path in sys.argv[1:]))"
    command = [sys.executable, "-I", "-c", script, *map(str, [*places, *locked, Path(start.__file__).parent])]
    try:
        return NOBODY if subprocess.run(command, user=NOBODY, group=NOBODY, check=False).returncode == 0 else None
    except OSError:  # this Python lies where root alone may look
        return None


def _build(
    place: Path,
    given: argparse.Namespace,
    conditions: tuple[str, str, int, str, str, int],
    out: Path,
    user: int | None,
    config: Path | None,
) -> Path:
    _, zone, umask, language, jobs, _ = conditions
    words = [f"--{name}={value}" for name, value in chosen(given).items() if value]
    words += ["--project", str(place), "--out", str(out), "-j", jobs, "--provider", given.provider]
    words += ["--config", str(config)] if config else []
    command = start.command(sys.executable, place, "kernelwright_toolchain.verbs", "build", *words)
    env = {**os.environ, "TZ": zone, "LC_ALL": language, "KERNELWRIGHT_CACHE": str(place / ".kw" / "cache")}
    done = subprocess.run(
        command,
        cwd=place,
        env=env,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        umask=umask,
        stdout=subprocess.PIPE,  # how far it is goes on to be seen
        text=True,
        check=False,
    )
    made = sorted(out.glob("*.whl"))
    if done.returncode or not made:
        raise CompileError(f"the build in {place} failed (exit code {done.returncode}):\n{done.stdout[-6000:]}")
    return made[0]


def run(given: argparse.Namespace) -> int:
    wheels = []
    with opened(given) as settings, tempfile.TemporaryDirectory(prefix="repro-", dir=_made(project().state)) as scratch:
        Path(scratch).chmod(0o755)
        for conditions in CONDITIONS:
            place = _laid_out(settings.root, Path(scratch) / conditions[0] / "tree", conditions[5])
            out = Path(scratch) / conditions[0] / "out"
            config = _table(settings, Path(scratch) / conditions[0] / "table")
            lent = [place, out, *([config.parent] if config else [])]
            user = _other_user(lent) if conditions is CONDITIONS[-1] else None
            wheels.append(_build(place, given, conditions, out, user, config))
            print(f"{differ.sha256(wheels[-1])}  {wheels[-1].name}  in {conditions[0]}, {conditions[1]}, umask "
                  f"{conditions[2]:o}, {conditions[3]}, -j {conditions[4]}, user {user or os.getuid()}",
                  flush=True)  # fmt: skip
        found = differ.wheels(*wheels)
        for line in found:
            print(f"different  {line}")
    if found:
        print(f"DIFFERENT: {len(found)} differences", file=sys.stderr)
        return 1
    print("SUCCESS: the same bytes under other directory, process numbers, dates, time zone, umask, language, jobs")
    return 0


def _made(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    return place
