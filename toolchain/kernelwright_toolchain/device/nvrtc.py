# SPDX-License-Identifier: MIT
"""NVRTC, NVIDIA's compiler as a library: what the pip provider has. Every compile runs in a process of its own."""

from __future__ import annotations

import json
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.device import child, nvrtc_worker
from kernelwright_toolchain.device.compiler import INCLUDE, STANDARD, Compiled, Job, check_options, defines
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.errors import CompileError, ToolMissing
from kernelwright_toolchain.files import digest_of, remembered, search_file

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = re.compile(rb"Cuda compilation tools, release \d+\.\d+, V(\d+\.\d+\.\d+)")

# Without it NVRTC puts the constants of its own header nv/target into every cubin (3 KB of symbols).
_WITHOUT_NV_TARGET = "-D__NV_TARGET_H"


class Nvrtc:
    """The driver of one libnvrtc.so; `memo` is where the digest of its bytes is remembered."""

    name = "nvrtc"

    def __init__(self, library: Path, *, provider: str = "pip", memo: Path | None = None) -> None:
        if not library.is_file():
            raise ToolMissing(f"NVRTC is not at {library}; install the toolkit's NVRTC package or name its library")
        self.library = library.resolve()
        self.provider = provider
        self._memo = memo or cache_dir()
        found = sorted(self.library.parent.glob("libnvrtc-builtins.so*"))
        self._builtins = found[0].resolve() if found else None

    def __str__(self) -> str:
        return f"NVRTC {self.version} ({self.library})"

    def _find(self) -> tuple[list[Path], dict[str, str]]:
        match = search_file(self.library, _VERSION)
        if not match:
            raise ToolMissing(f"{self.library} does not say which NVRTC it is; is it whole?")
        files = [self.library, *([self._builtins] if self._builtins else [])]
        return files, {"version": match.group(1).decode(), "digest": digest_of(files)}

    @cached_property
    def _facts(self) -> Mapping[str, str]:
        return remembered(self._memo, f"nvrtc {self.library} {self._builtins}", self._find)

    @property
    def version(self) -> str:
        return self._facts["version"]

    @property
    def release(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def digest(self) -> str:
        return self._facts["digest"]

    def examined(self) -> str:
        """The digest as the files are now, whatever a cache remembers."""
        return self._find()[1]["digest"]

    def options(self, job: Job) -> tuple[str, ...]:
        options = ["-default-device", f"--std={STANDARD}", f"-arch={job.code.name}", _WITHOUT_NV_TARGET, f"-I{INCLUDE}"]
        options += defines(job.code)
        if job.code.kind == "cubin":
            options.append("--ptxas-options=-v")
        if job.debug:
            options.append("-lineinfo")
        return tuple(options)

    def compile(self, job: Job) -> Compiled:
        with child.workspace() as scratch:
            output = scratch / "image"
            request = {
                "library": str(self.library),
                "builtins": str(self._builtins or ""),
                "source": str(job.source),
                "options": check_options(self.options(job), job),
                "form": "CUBIN" if job.code.kind == "cubin" else "PTX",
                "output": str(output),
            }
            command = [sys.executable, "-I", "-S", str(Path(nvrtc_worker.__file__))]
            ended = child.run(command, cwd=job.root, scratch=scratch, stdin=json.dumps(request).encode())
            if ended.code == nvrtc_worker.BROKEN:
                raise ToolMissing(f"{self} does not work here:\n{ended.output}")
            if ended.code != 0:
                raise CompileError(f"{job}: {self} refused it ({ended.why()})\n{ended.output}")
            return Compiled(output.read_bytes(), ended.output, ended.seconds, ended.peak)
