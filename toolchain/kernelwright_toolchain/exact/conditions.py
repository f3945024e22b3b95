# SPDX-License-Identifier: MIT
"""The circumstances of a build that must not matter: two sets that differ in all that this machine can vary."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from kernelwright_toolchain.errors import ToolMismatch
from kernelwright_toolchain.exact import disguise
from kernelwright_toolchain.providers import host

STRAY = {
    "CFLAGS": "-O0 -g", "CXXFLAGS": "-O0 -g", "LDFLAGS": "-Wl,--build-id=sha1", "CMAKE_GENERATOR": "Unix Makefiles",
    "CMAKE_BUILD_TYPE": "Debug", "CPATH": "/usr/include", "MAKEFLAGS": "-k", "NVCC_APPEND_FLAGS": "-lineinfo",
    "CMAKE_CXX_COMPILER_LAUNCHER": "/bin/false", "CMAKE_INSTALL_MODE": "SYMLINK", "ZIG_LIB_DIR": "/",
}  # fmt: skip
SCRIPT = Path(disguise.__file__)
# What the tree says of the commit that it is of.
BARE, NOTED, CLONED = "none, as in a tarball", "a note's, as in an sdist", "git's, as in a clone"
_ASK = """
import importlib.util, json, platform, sys, zlib
known = sys.version_info >= (3, 11) or importlib.util.find_spec("tomli") is not None
print(json.dumps([sys.executable, platform.python_version(), sys.implementation.cache_tag, zlib.ZLIB_RUNTIME_VERSION,
                  known and sys.version_info >= (3, 10)]))
"""


@dataclass(frozen=True)
class Python:
    """An interpreter that can run the toolchain."""

    path: str
    version: str
    tag: str
    zlib: str

    def __str__(self) -> str:
        return f"Python {self.version}, zlib {self.zlib}"


@dataclass(frozen=True)
class Conditions:
    """One set. An empty `clock` is the real one; `uid` None keeps the user and the machine's name."""

    folder: str
    python: Python
    user: str
    umask: int
    zone: str
    locale: str
    jobs: int
    inputs_dated: int  # seconds since 1970
    epoch: str = ""  # SOURCE_DATE_EPOCH
    uid: int | None = None
    host: str = ""
    clock: str = ""  # what libfaketime is told
    history: str = BARE
    other_zlib: bool = False
    stray: dict[str, str] = field(default_factory=dict)  # variables that change other people's builds
    notes: dict[str, str] = field(default_factory=dict)  # aspect -> why it is not varied here


def ask(path: str) -> Python | None:
    """What this interpreter is, or None if it cannot run the toolchain."""
    done = subprocess.run([path, "-I", "-c", _ASK], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    executable, version, tag, zlib, able = json.loads(done.stdout)
    return Python(executable, version, tag, zlib) if able else None


def other_python(mine: Python, *, same_tools: bool) -> Python | None:
    """An interpreter that differs from `mine`: one with another zlib if there is one, else of another version.

    `same_tools`: only one that takes the locked extension modules that are already here.
    """
    names = ["python3", *(f"python3.{minor}" for minor in range(10, 20))]
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), "/usr/bin", "/usr/local/bin"]
    paths = {
        os.path.realpath(path) for name in names for folder in folders if (path := shutil.which(name, path=folder))
    }
    found = [python for path in sorted(paths) if (python := ask(path))]
    if same_tools:
        found = [python for python in found if python.tag == mine.tag]
    differing = [python for python in found if (python.version, python.zlib) != (mine.version, mine.zlib)]
    return max(differing, key=lambda python: (python.zlib != mine.zlib, python.version), default=None)


def _another_locale() -> str:
    """One whose rules differ from C's as much as may be: Turkish letters, German commas; else UTF-8 at least."""
    done = (
        subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False)
        if shutil.which("locale")
        else None
    )
    names = done.stdout.split() if done else []
    wanted = [
        n for start in ("tr_", "de_", "fr_", "en_", "C.") for n in names if n.startswith(start) and "utf" in n.lower()
    ]
    return wanted[0] if wanted else "C.UTF-8"


def _namespaces() -> bool:
    given = {"uid": 54321, "host": "elsewhere", "umask": 0o22, "command": [sys.executable, "-c", "pass"]}
    done = subprocess.run([sys.executable, str(SCRIPT), json.dumps(given)], capture_output=True, check=False)
    return done.returncode == 0


def faketime() -> Path | None:
    """The library that lies about the clock, if the distribution's package of it is installed."""
    found = [path for root in ("/usr/lib", "/usr/lib64") for path in Path(root).glob("**/faketime/libfaketime.so.1")]
    return found[0] if found else None


def pair(*, jobs: int | None, quick: bool, provider: str = "pip") -> tuple[Conditions, Conditions]:
    """Two sets of conditions, and in the second's notes what could not be made to differ."""
    only = host.only_python(provider)
    mine = ask(str(only or sys.executable))
    if mine is None:
        raise ToolMismatch(
            f"{only or sys.executable} cannot run the toolchain; it needs Python 3.10 with a TOML reader"
        )
    notes = {}
    theirs = None if only else other_python(mine, same_tools=quick)
    if theirs is None:
        why = f"{only} is the environment's" if only else "no other interpreter that can run the toolchain is on PATH"
        notes["Python"] = why
    same_zlib = theirs is None or theirs.zlib == mine.zlib
    if same_zlib:
        notes["zlib"] = (
            f"no interpreter with another zlib than {mine.zlib} is here; the second is told to compress less"
        )
    spaces = _namespaces()
    if not spaces:
        notes["user"] = "the kernel allows no namespaces here; only HOME, USER and LOGNAME differ"
    clock = faketime() if provider == "pip" else None
    if clock is None:
        why = "libfaketime is not installed" if provider == "pip" else "nvcc never ends under libfaketime"
        notes["clock"] = f"{why}; the second build is later, and its inputs bear other dates"
    count = jobs or len(os.sched_getaffinity(0))
    first = Conditions(
        folder="a", python=mine, user="a", umask=0o022, zone="UTC", locale="C", jobs=1,
        inputs_dated=1_000_000_000, history=NOTED,
    )  # fmt: skip
    second = Conditions(
        folder="Zweite Übersetzung (kwbuilddir)", python=theirs or mine, user="kwbuilduser", umask=0o077,
        zone="Pacific/Chatham", locale=_another_locale(), jobs=max(2, count), inputs_dated=1_600_000_000,
        epoch="1234567890", uid=54321 if spaces else None, host="kwbuildhost" if spaces else "",
        clock="+500d" if clock else "", other_zlib=same_zlib, stray=STRAY, notes=notes,
        history=CLONED if shutil.which("git") else BARE,
    )  # fmt: skip
    return first, second


def table(first: Conditions, second: Conditions) -> str:
    """What differs between the two, aspect by aspect, for people."""
    dates = (f"{c.inputs_dated} s after 1970" for c in (first, second))
    rows = [
        ("directory", first.folder, second.folder),
        ("user", f"{os.getuid()}, HOME …/{first.user}", f"{second.uid or os.getuid()}, HOME …/{second.user}"),
        ("host name", os.uname().nodename, second.host or os.uname().nodename),
        ("umask", f"{first.umask:03o}", f"{second.umask:03o}"),
        ("time zone", first.zone, second.zone),
        ("locale", first.locale, second.locale),
        ("jobs", str(first.jobs), str(second.jobs)),
        ("dates of inputs", *dates),
        ("SOURCE_DATE_EPOCH", first.epoch or "unset", second.epoch or "unset"),
        ("clock", first.clock or "real", second.clock or "real, later"),
        ("interpreter", str(first.python), str(second.python)),
        ("its zlib", "as it is", "told to compress less" if second.other_zlib else "as it is"),
        ("stray variables", "none", " ".join(second.stray)),
        ("commit", first.history, second.history),
        ("order of files", "by name", "reversed"),
    ]
    width = max(len(row[0]) for row in rows), max(len(row[1]) for row in rows)
    lines = [f"{row[0]:<{width[0]}}  {row[1]:<{width[1]}}  {row[2]}" for row in rows]
    return "\n".join([*lines, *(f"{aspect}: {why}" for aspect, why in second.notes.items())])
