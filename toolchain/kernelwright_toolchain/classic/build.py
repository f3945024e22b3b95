# SPDX-License-Identifier: MIT
"""The wheel of a project that has a build of its own: its backend, run under the exact compilers."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kernelwright_toolchain import providers
from kernelwright_toolchain.classic import cross, finish, gcc, progress, requirements, source, toolkit, torch
from kernelwright_toolchain.classic.run import Ground, ignored, refusal, run
from kernelwright_toolchain.errors import CompileError, RequestError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import host, pip, system
from kernelwright_toolchain.request import codes_of, find_target
from kernelwright_toolchain.settings import Settings
from kernelwright_toolchain.targets import Code, Table, Target, Toolkit, Version, load
from kernelwright_toolchain.version import VERSION

OURS = "kernelwright_toolchain.backend"
_CALL = (
    """
import importlib, json, sys
given = json.loads(sys.argv[1])
sys.path[:0] = given["modules"]
if given["cuda"]:
    """
    + torch.PRELUDE
    + """
print("\\nmade: " + getattr(importlib.import_module(given["backend"]), given["hook"])(given["out"], given["settings"]))
"""
)


@dataclass(frozen=True)
class Made:
    wheel: Path
    sha256: str
    inexact: tuple[str, ...]  # why the bytes may be others elsewhere; empty where they may not


def arch_words(codes: tuple[Code, ...]) -> dict[str, str]:
    """The codes as CMake, torch and a project's own definitions say them."""
    cubins = [code for code in codes if code.kind == "cubin"]
    plain = [*(f"{code.number}-real" for code in cubins), *(f"{c.number}-virtual" for c in codes if c.kind == "ptx")]
    dotted = [re.sub(r"^(\d+)(\d)(\w?)$", r"\1.\2\3", code.number) for code in cubins]
    with_ptx = {code.number for code in codes if code.kind == "ptx"}
    of_torch = [f"{name}+PTX" if name.replace(".", "") in with_ptx else name for name in dotted]
    return {"cmake": ";".join(plain), "torch": " ".join(of_torch), "archs": ";".join(code.number for code in cubins)}


def host_compiler(home: toolkit.Home, kit: Toolkit, target: Target | None = None) -> tuple[str, dict[str, str]]:
    """What it says it is, and the variables that make all of a build take it; it is this machine's own.

    One that CUDAHOSTCXX or NVCC_CCBIN names, else what is on PATH; refused before anything is compiled where this nvcc
    does not take it. `target`: another machine's, for which it has to cross.
    """
    nvcc = system.FoundNvcc(home.path / "bin" / "nvcc", Version.parse(home.version))
    found = cross.compiler(target, kit, nvcc) if target else system.check_gcc(system.find_gcc(), nvcc, kit)
    done = subprocess.run([found.path, "--version"], capture_output=True, text=True, check=False)
    c = system.c_compiler(found.path) or found.path
    named = {"CXX": found.path, "CC": c, "CUDAHOSTCXX": found.path, "NVCC_CCBIN": found.path}
    return done.stdout.partition("\n")[0], {key: str(path) for key, path in named.items()}


def locked_compiler(settings: Settings, kit: Toolkit, why: list[str]) -> gcc.Gcc | None:
    """The table's own; None where it names none, or where it cannot lie at its fixed path."""
    if settings.gcc is None:
        return None
    major = int(settings.gcc.rpartition("-")[2])
    if not kit.gcc.accepts(major):
        raise RequestError(f'gcc = "{settings.gcc}": nvcc of {kit.name} takes GCC {kit.gcc.min} to {kit.gcc.max}')
    if reason := refusal():
        why.append(f"{settings.gcc} of {gcc.LOCK} needs namespaces ({reason}); this machine's GCC was taken")
        return None
    return gcc.find(settings.locks, settings.gcc)


def _ground(
    settings: Settings, home: toolkit.Home, tools: tuple[Path, ...], given: Mapping[str, str], why: list[str]
) -> Ground:
    place = project().state / "classic"
    build = place / "build"
    shutil.rmtree(build, ignore_errors=True)
    (build / "out").mkdir(parents=True)
    if reason := home.spread or refusal():
        here = "" if home.spread else "here "
        why.append(f"no namespaces {here}({reason}): paths, process numbers and dates may be in the bytes")
    if settings.network:
        why.append("network = true: what the build fetches is named by no lock")
    copied = source.copy(settings.root, place / "source")
    return Ground(copied, build, home, tools, exact=not reason, why=reason, environment=given, network=settings.network)


def said_archs(settings: Settings, words: Mapping[str, str], more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The codes for CMake, torch and the project's own definitions, as environment variables; with CMake's `more`."""
    try:
        defines = {key: value.format(**words) for key, value in settings.defines.items()}
    except (KeyError, IndexError, ValueError) as error:
        raise RequestError(f"defines: {error} in braces is not known; there are {{{'}, {'.join(words)}}}") from None
    cmake = {"CMAKE_CUDA_ARCHITECTURES": words["cmake"], **defines, **(more or {})}
    of_torch = torch.VARIABLES if settings.torch != "none" else {}
    return {
        "CUDAARCHS": words["cmake"], "TORCH_CUDA_ARCH_LIST": words["torch"], **of_torch, **defines,
        "CMAKE_ARGS": " ".join(f"-D{shlex.quote(f'{key}={value}')}" for key, value in cmake.items()),
    }  # fmt: skip


def _backend(settings: Settings) -> str:
    """RequestError where there is none, or no other one."""
    if settings.backend is None:
        raise RequestError(
            "[tool.kernelwright] names neither a kernel nor a backend: `kwt init` finds the one that the project has"
        )
    if settings.backend == OURS:
        raise RequestError(
            f"backend = {OURS!r} is this toolchain's own; name the one that the project had before, such as "
            "scikit_build_core.build or setuptools.build_meta"
        )
    return settings.backend


def _crossed(target: Target, rows: Table, provider: str) -> Target | None:
    """The target, where it is another machine's; RequestError for what cannot be built for one here."""
    machine = providers.machine_of(rows)
    if target.machine == machine:
        return None
    if provider == "system":
        raise RequestError(
            f"{target.name} is {target.machine}: a toolkit of this machine's own has no libraries for it. Build it "
            "there, or with --provider pip, whose packages have them"
        )
    return target


def check_tegra(target: Target, release: Version) -> None:
    """A board's own driver is of CUDA 12: code of a newer toolkit would load nowhere there."""
    if target.system and target.system.userland == "tegra" and release.major > target.system.cuda.major:
        raise RequestError(
            f"{target.name} has a driver of CUDA {target.system.cuda}, which runs nothing of CUDA {release}: ask for a "
            f"toolkit of CUDA {target.system.cuda.major}"
        )


def _chosen(
    settings: Settings, home: toolkit.Home, kit: Toolkit, other: Target | None, words: Mapping[str, str],
    why: list[str],
) -> tuple[str, gcc.Gcc | None, dict[str, str]]:  # fmt: skip
    """The host compiler in words, the one of a lock, and the build's variables."""
    if other:
        if settings.gcc:
            why.append(f"{settings.gcc} of {gcc.LOCK} does not cross; for {other.machine} this machine's own was taken")
        said, named = host_compiler(home, kit, other)
        more = cross.cmake(other, named["CXX"])
        return said, None, {**said_archs(settings, words, more), **named, **cross.variables(other)}
    if locked := locked_compiler(settings, kit, why):
        return f"{settings.gcc} of {gcc.LOCK}", locked, {**said_archs(settings, words), **locked.variables()}
    said, named = host_compiler(home, kit)
    return said, None, {**said_archs(settings, words), **named}


def _run(ground: Ground, backend: str, hook: str, jobs: int | None, cuda: str | None = None) -> Path:
    """What the project's backend makes."""
    tools = [ground.at(f"tools{number}") for number in range(len(ground.tools))]
    own = {"build-dir": f"{ground.at('build')}/tree"} if backend == "scikit_build_core.build" else {}
    given = {
        "modules": tools,
        "backend": backend,
        "hook": hook,
        "cuda": cuda,
        "out": f"{ground.at('build')}/out",
        "settings": own,
    }
    log = project().state / "classic" / "build.log"
    command = [sys.executable, "-I", "-u", "-c", _CALL, json.dumps(given)]
    code = run(ground, command, cwd=ground.at("source"), count=jobs, log=log)
    said = log.read_text(encoding="utf-8", errors="replace")
    found = re.findall(r"^made: (.+)$", said, re.MULTILINE)
    if code or not found:
        cure = toolkit.undeclared(said, load().libraries)
        raise CompileError(f"{backend} failed (exit code {code}); the whole log is {log}\n{said[-6000:]}{cure}")
    return ground.build / "out" / str(found[-1])


def _tools(settings: Settings, rows: Table, backend: str, why: list[str]) -> tuple[Path, ...]:
    needed = requirements.wanted(settings.root, backend, settings.torch, settings.requires)
    return (host.tools(rows, "pip").modules[0], *requirements.installed(settings.locks, needed, why))


def find_toolkit(
    settings: Settings, rows: Table, asked: str | None, provider: str, why: list[str], target: Target | None = None
) -> tuple[Toolkit, toolkit.Home]:
    """`target`: another machine's, whose libraries are linked."""
    name = asked or settings.toolkit
    if name is not None and name not in rows.toolkits:
        raise RequestError(f"toolkit {name!r} is not in the table; there are {', '.join(rows.toolkits)}")
    row = rows.toolkits[name] if name else None
    lock = None
    if provider != "system" and settings.libraries:
        needed = requirements.libraries_wanted(toolkit.row_of(row, rows), settings.libraries)
        machines = (target.machine,) if target else ()
        lock = requirements.locked(settings.locks, requirements.LIBRARIES, needed, why, nvidia=True, machines=machines)
    if target is None:
        return toolkit.find(row, rows, provider, settings.libraries, lock)
    kit, host = toolkit.find(row, rows, provider)
    home = cross.home(host, kit, target, lock)
    toolkit.check_libraries(
        home.path,
        toolkit.libraries_of(rows, settings.libraries),
        target.triple,
        f"`kwt lock` writes a lock with {target.machine}",
    )
    return kit, home


def build(
    settings: Settings, rows: Table, out: Path, asked: Mapping[str, str | None], *,
    jobs: int | None = None, provider: str = "pip",
) -> Made:  # fmt: skip
    """One wheel into the directory."""
    target = find_target(rows, asked.get("target"))
    backend = _backend(settings)
    why: list[str] = []
    if odd := ignored():
        print(f"not passed on, since no wheel could say so: {', '.join(odd)}", file=sys.stderr, flush=True)
    if (name := asked.get("toolkit") or settings.toolkit) in rows.toolkits:
        check_tegra(target, rows.toolkits[str(name)].release)  # before anything is fetched
    other = _crossed(target, rows, provider)
    kit, home = find_toolkit(settings, rows, asked.get("toolkit"), provider, why, other)
    check_tegra(target, kit.release)
    if home.lock is None:
        why.append(f"nvcc {home.version} is this machine's own")
    codes = codes_of(rows, target, kit, asked.get("archs") or settings.archs_of(target.name))
    words = arch_words(codes)
    compiler, locked, environment = _chosen(settings, home, kit, other, words, why)
    tools = _tools(settings, rows, backend, why)
    with_torch = settings.torch != "none"
    if with_torch:
        torch.complete(tools, str(shutil.which("cc") or "cc"))
    with pip.locked(project().state / "classic.lock", "another build of this project is running here; waiting"):
        ground = replace(_ground(settings, home, tools, environment, why), gcc=locked)
        print(f"nvcc {home.version}, {compiler}, {words['cmake']}", file=sys.stderr, flush=True)
        built = _run(ground, backend, "build_wheel", jobs, str(kit.release) if with_torch else None)
        recipe = {
            "toolchain": VERSION, "provider": provider, "backend": backend, "host_compiler": compiler, "inexact": why,
            "build": {"target": target.name, "toolkit": kit.name, "archs": ",".join(code.name for code in codes)},
            "inputs": source.digests(settings.root), "locks": [home.lock, rows.tools.locks[providers.machine_of(rows)]],
            "torch": {"kind": settings.torch, "release": torch.version(tools) if with_torch else None},
            "libraries": list(settings.libraries), "userland": home.userland, "defines": dict(settings.defines),
            "project_locks": requirements.digests(settings.locks),
        }  # fmt: skip
        made = finish.finish(built, out, target, recipe, settings.root)
    print("\n".join(progress.table(ground.build)), file=sys.stderr, flush=True)
    return Made(made, hashlib.sha256(made.read_bytes()).hexdigest(), tuple(why))


def sdist(settings: Settings, rows: Table, out: Path) -> Path:
    """By the project's backend, from the sources that git knows; no compiler is needed for it."""
    backend = _backend(settings)
    tools = _tools(settings, rows, backend, [])
    place = project().state / "classic"
    build = place / "build"
    shutil.rmtree(build, ignore_errors=True)
    (build / "out").mkdir(parents=True)
    home = toolkit.Home(place, "none", None)
    ground = Ground(source.copy(settings.root, place / "source"), build, home, tools, exact=False)
    return Path(shutil.copy2(_run(ground, backend, "build_sdist", None), out))
