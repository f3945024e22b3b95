# SPDX-License-Identifier: MIT
"""The verbs a person or CI uses. Each hands over to toolchain/; what follows `--` is the verb's own options.

`./kw VERB OPTIONS` is `nox -s VERB -- OPTIONS`.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import nox

TREE = Path(__file__).resolve().parent

nox.options.default_venv_backend = "none"
nox.options.sessions = ["build"]
nox.options.error_on_missing_interpreters = True
logging.getLogger("nox").setLevel(logging.ERROR)  # which session runs is what somebody has just asked for


def toolchain(session: nox.Session, verb: str) -> None:
    """The toolchain needs nothing but this Python; what a verb needs beside it, it provisions from locks/.

    Not by session.run, which kills its child half a second after an interrupt, and whose failures all end with 1.
    """
    start = str(
        TREE / "toolchain" / "kernelwright_toolchain" / "start.py"
    )  # -I: nothing is imported that lies where somebody stands
    command = [sys.executable, "-I", start, str(TREE), "kernelwright_toolchain", verb, *session.posargs]
    env = {**os.environ, "KW_PARENT": str(os.getpid())}
    # While its Python starts, Ctrl-C waits: nothing there would catch it. The verb lets it through.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    child = subprocess.Popen(command, env=env)
    code = None
    while code is None:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
            code = child.wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
    if code:
        raise SystemExit(code if code > 0 else 128 - code)


@nox.session
def build(session: nox.Session) -> None:
    """Compile every kernel, build the wheel into dist/, install it in a clean environment, run its self-check."""
    toolchain(session, "build")


@nox.session
def install(session: nox.Session) -> None:
    """Take a wheel --from a directory or an address, by its listed sha256, else build it; install it."""
    toolchain(session, "install")


@nox.session
def tests(session: nox.Session) -> None:
    """Install the wheel and run its tests: --torch none|installed|SPEC, the rest goes to pytest."""
    toolchain(session, "tests")


@nox.session
def bench(session: nox.Session) -> None:
    """Install the wheel and time every operator beside its limit and its peers: --ops, --cases, --quick, …"""
    toolchain(session, "bench")


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, mypy --strict, clang-format and the rules about the tree."""
    toolchain(session, "lint")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site into build/docs, from docs/, the sources and the recorded results."""
    toolchain(session, "docs")


@nox.session
def provision(session: nox.Session) -> None:
    """Fetch the locked compilers and tools into .kw/ and do nothing else."""
    toolchain(session, "provision")


@nox.session
def lock(session: nox.Session) -> None:
    """Make locks/ anew from targets.toml and pyproject.toml, or check them: --check."""
    toolchain(session, "lock")


@nox.session
def repro(session: nox.Session) -> None:
    """Build twice under different circumstances and compare every byte; --quick for one operator."""
    toolchain(session, "repro")


@nox.session
def verify(session: nox.Session) -> None:
    """Rebuild a WHEEL from the recipe in it and say, file by file, same or what differs and why."""
    toolchain(session, "verify")


@nox.session
def wheels(session: nox.Session) -> None:
    """Build the wheels of every target, or of other toolkits: --toolkits LIST; and a table of time and size."""
    toolchain(session, "wheels")
