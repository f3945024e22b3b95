# SPDX-License-Identifier: MIT
"""The wheel, by the build backend in a process of its own (wheel/__main__.py) that sees the tools."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from kernelwright_toolchain import keeper, measured, start
from kernelwright_toolchain.building.stamp import Step
from kernelwright_toolchain.device.progress import CACHED
from kernelwright_toolchain.errors import CompileError, KwError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers.host import HostTools
from kernelwright_toolchain.wheel.__main__ import ANSWER

_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")


def _environment(tools: HostTools, jobs: int | None) -> dict[str, str]:
    """This one, with the tools in front."""
    programs = [*map(str, tools.programs), os.environ.get("PATH", os.defpath)]
    parallel = str(jobs or len(os.sched_getaffinity(0)))
    return {
        **os.environ,
        start.MODULES: start.joined(tools.modules),
        "PATH": os.pathsep.join(programs),
        "CMAKE_BUILD_PARALLEL_LEVEL": parallel,
    }


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def build_wheel(
    settings: dict[str, str], tools: HostTools, workspace: Path, library: Path, out: Path, jobs: int | None
) -> tuple[Path, Step]:
    """The finished wheel in `out`, and what it took; steps are shown, the whole log stays in the workspace.

    `library` is CMake's build directory, in which other wheels may have been built before.
    """
    scratch = _emptied(workspace / "tmp")  # and not /tmp: a child that is killed leaves behind what it holds there
    given = json.dumps({"settings": settings, "build_dir": str(library), "out": str(out), "jobs": jobs})
    out.mkdir(parents=True, exist_ok=True)
    log = workspace / "package.log"
    terminal = sys.stderr.isatty()
    started = time.monotonic()
    command = start.command(tools.python, project().root, "kernelwright_toolchain.wheel", given)
    env = {**_environment(tools, jobs), "TMPDIR": str(scratch)}
    lines = []
    with (
        log.open("w", encoding="utf-8") as kept,
        os.fdopen(os.memfd_create("report")) as report,
        subprocess.Popen(
            measured.command(command, report.fileno()),
            pass_fds=[report.fileno()],
            cwd=project().root,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # a group of its own: ended as one
        ) as child,
        keeper.kept(child.pid),
    ):
        try:
            for line in child.stdout or ():
                kept.write(line)
                lines.append(line)
                _show(line, terminal)
        except BaseException:  # otherwise it would be waited for here
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        code, peak = measured.outcome(report.fileno(), child.wait())
    if terminal:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    answer = next((line for line in reversed(lines) if line.startswith(ANSWER)), None)
    if code or not answer:
        raise _failure(code, "".join(lines), log)
    return out / answer.removeprefix(ANSWER).strip(), Step(time.monotonic() - started, peak)


def _show(line: str, terminal: bool) -> None:
    """A step of ninja's, in one line that is written over where there is a terminal.

    CMake asks for the images that were made a moment ago: their list stands above already.
    """
    if (step := _STEP.match(line)) and not line.rstrip().endswith(CACHED):
        shown = f"[{step[1]}/{step[2]}] {step[3]}"[:100]
        print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True) if terminal else print(shown, file=sys.stderr)


def _failure(code: int, text: str, log: Path) -> KwError:
    """What the child refused, in its own class; or else its log from where it first went wrong."""
    refused = re.search(r"^error: ((?:.|\n)*)", text, re.MULTILINE)
    kind = next((kind for kind in KwError.__subclasses__() if kind.exit_code == code), None)
    if refused and kind:
        return kind(refused[1].strip())
    wrong = re.search(r"^(FAILED|CMake Error|Traceback|error:)", text, re.MULTILINE)
    tail = text[wrong.start() if wrong else 0 :][:12000]
    return CompileError(f"building the wheel failed (exit code {code}); the whole log is {log}\n{tail}")
