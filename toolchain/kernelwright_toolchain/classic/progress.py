# SPDX-License-Identifier: MIT
"""What a build says goes into its log; of it, a person sees how far it is, and at the end what took its time."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernelwright_toolchain import keeper

# ninja's and CMake's steps, scikit-build-core's stages, what setuptools prints before it compiles a file
_STEP = re.compile(r"^(\[\s*\d+(?:/\d+|%)\] .+|\*\*\* .+|building '.+' extension)$")
_SHOWN = 100
TIMES = "compiles"  # in the build folder: the shim writes "nanoseconds name" for each call of nvcc


def logged(command: Sequence[str], place: str | None, env: Mapping[str, str], log: Path) -> int:
    """The command's exit code."""
    began, live = time.monotonic(), sys.stderr.isatty()
    with (
        log.open("w", encoding="utf-8", buffering=1) as file,
        subprocess.Popen(
            command, cwd=place, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
        keeper.kept(process.pid) as memory,
    ):
        try:
            for line in process.stdout or ():
                file.write(line)
                if _STEP.match(line.rstrip("\n")):
                    words = f"{time.monotonic() - began:6.0f} s  {line.strip()[:_SHOWN]}"
                    print(f"\r\x1b[K{words}" if live else words, end="" if live else "\n", file=sys.stderr, flush=True)
        except BaseException:  # whoever ends this ends what it started
            process.terminate()
            raise
        finally:
            if live:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    if memory.stops:
        print(memory, file=sys.stderr, flush=True)
    return process.returncode


def table(build: Path) -> list[str]:
    """The compiles by nvcc, the longest first; none where the shim did not run, as without namespaces."""
    path = build / TIMES
    said = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = [(int(nanoseconds) / 1e9, name) for nanoseconds, _, name in (line.partition(" ") for line in said)]
    rows = [
        (seconds, name) for seconds, name in rows if name and "CMakeCUDACompiler" not in name
    ]  # a question of CMake's
    return [f"{seconds:8.1f} s  {name}" for seconds, name in sorted(rows, reverse=True)]
