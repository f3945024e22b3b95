# SPDX-License-Identifier: MIT
"""nvcc as people have it: `-cubin` and `-ptx` only, so nothing of the host's compiler gets into an image."""

from __future__ import annotations

import re
import shlex
import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.device import child
from kernelwright_toolchain.device.compiler import INCLUDE, STANDARD, Compiled, Job, check_options, defines
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.errors import CompileError, ToolMissing
from kernelwright_toolchain.files import digest_of, remembered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_VERSION = re.compile(r"release \d+\.\d+, V(\d+\.\d+\.\d+)")


class Nvcc:
    """The driver of one nvcc; `host_gcc` preprocesses for it (default: gcc on PATH)."""

    name = "nvcc"

    def __init__(
        self, path: Path, host_gcc: Path | None = None, *, provider: str = "system", memo: Path | None = None
    ) -> None:
        if not path.is_file():
            raise ToolMissing(f"nvcc is not at {path}")
        gcc = host_gcc or shutil.which("gcc")
        if not gcc or not Path(gcc).is_file():
            raise ToolMissing(f"{path} needs a GCC to preprocess, and {host_gcc or 'gcc on PATH'} is not there")
        self.path = path
        self.host_gcc = Path(gcc)
        self.provider = provider
        self._memo = memo or cache_dir()

    def __str__(self) -> str:
        return f"nvcc {self.version} ({self.path})"

    def _ask(self, command: Sequence[str], scratch: Path) -> str:
        try:
            ended = child.run(command, cwd=scratch, scratch=scratch)
        except OSError as error:
            raise ToolMissing(f"{command[0]} cannot be run: {error}") from None
        if ended.code != 0:
            raise ToolMissing(f"`{shlex.join(command)}` failed ({ended.why()}):\n{ended.output}")
        return ended.output

    def _find(self) -> tuple[list[Path], dict[str, str]]:
        """Every file that a compile reads besides the source, as a dry run and a dependency list tell."""
        with child.workspace() as scratch:
            match = _VERSION.search(self._ask([str(self.path), "--version"], scratch))
            if not match:
                raise ToolMissing(f"{self.path} --version does not say which nvcc it is")
            empty = scratch / "empty.cu"
            empty.touch()
            common = [str(self.path), f"-ccbin={self.host_gcc}", f"-std={STANDARD}", str(empty)]
            plan = self._ask([*common, "--dryrun", "-cubin"], scratch)
            headers = _dependencies(self._ask([*common, "-M"], scratch), empty)
            front = self._ask([str(self.host_gcc), "-print-prog-name=cc1plus"], scratch).strip()
        programs = [self.path, self.host_gcc, Path(front), *_programs(plan)]
        files = sorted({path.resolve() for path in (*programs, *headers) if path.is_file()})
        return files, {"version": match.group(1), "digest": digest_of(files)}

    @cached_property
    def _facts(self) -> Mapping[str, str]:
        return remembered(self._memo, f"nvcc {self.path} {self.host_gcc}", self._find)

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
        code = job.code
        options = ["-cubin" if code.kind == "cubin" else "-ptx", f"-std={STANDARD}", "-Wno-deprecated-gpu-targets"]
        options += ["-gencode", f"arch=compute_{code.number},code={code.name}", f"-I{INCLUDE}", *defines(code)]
        if code.kind == "cubin":
            options.append("-Xptxas=-v")
        if job.debug:
            options.append("-lineinfo")
        return tuple(options)

    def compile(self, job: Job) -> Compiled:
        with child.workspace() as scratch:
            output = scratch / "image"
            options = check_options(self.options(job), job)
            command = [str(self.path), f"-ccbin={self.host_gcc}", *options, "-o", str(output), str(job.source)]
            ended = child.run(command, cwd=job.root, scratch=scratch)
            if ended.code != 0 or not output.is_file():
                raise CompileError(f"{job}: {self} refused it ({ended.why()})\n{shlex.join(command)}\n{ended.output}")
            return Compiled(output.read_bytes(), ended.output, ended.seconds, ended.peak)


def _programs(plan: str) -> list[Path]:
    """The programs and the device library of a `--dryrun`: lines of `NAME=value`, then of commands."""
    variables: dict[str, str] = {}
    programs = []
    for line in plan.splitlines():
        text = line.removeprefix("#$ ")
        assigned = re.fullmatch(r"(\w+)=(.*)", text)
        if assigned:
            variables[assigned.group(1)] = assigned.group(2)
            continue
        word = shlex.split(text)[0] if text.strip() else ""
        named = re.sub(r"\$\{?(\w+)\}?", lambda match: variables.get(match.group(1), ""), word)
        found = shutil.which(named, path=variables.get("PATH"))
        if found:
            programs.append(Path(found))
    here = Path(variables.get("_HERE_", ""))
    libraries = Path(variables.get("NVVMIR_LIBRARY_DIR", "")).glob("libdevice*.bc")
    return [*programs, here / "nvcc", here / "nvcc.profile", *libraries]


def _dependencies(rule: str, source: Path) -> list[Path]:
    """The files of a make rule, less the source."""
    words = rule.replace("\\\n", " ").partition(":")[2].split()
    return [Path(word) for word in words if Path(word) != source]
