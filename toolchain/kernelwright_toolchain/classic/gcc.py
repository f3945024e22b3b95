# SPDX-License-Identifier: MIT
"""A GCC and the C library it compiles for, by hash and at a fixed path: Debian's packages, on whatever Linux.

Of the machine's own there is nothing left but the kernel: programs are started by the packages' own ld.so, which is
mounted at a path short enough to be written in the place of the usual one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernelwright_toolchain.errors import ProvisionError, RequestError, ToolMissing
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.request import find_target
from kernelwright_toolchain.targets import load

LOCK = "kernelwright-gcc.txt"  # a project's own, beside its table; `kwt lock` writes it
KEPT = "kernelwright-gcc"  # a folder beside the lock with the packages, for the day when no mirror has them
PLACE, LOADER = "/kw/gcc", "/kw/ld.so"
PROGRAMS = "kw-bin"
_DIRECT = "kw-direct"  # the same assembler and linker, as GCC starts them: no shell of this machine comes between
_INTERPRETER = b"/lib64/ld-linux-x86-64.so.2"
# In every compiler's dependencies, and nothing that a compile or a link of a shared library reads.
_LEFT_OUT = re.compile(r"lib([alt]san|ubsan|gprofng|tirpc|nsl|ssl|keyutils|cc1)|rpcsvc-proto|libc-dev-bin")
_ASKING = ("install", "--print-uris", "--yes", "--no-install-recommends", "-o", "Dir::State::status=/dev/null",
           "-o", "Debug::NoLocking=1")  # fmt: skip
_BINUTILS = ("ar", "as", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "strip")


def _triple() -> str:
    """As Debian's folders and programs are named."""
    return find_target(load(), machine="x86_64").triple


@dataclass(frozen=True)
class Gcc:
    """`lock` is its sha256."""

    root: Path
    major: str
    lock: str

    def places(self) -> dict[str, str]:
        """What is mounted where, in this order; Debian's own Python has half of its headers by the triple."""
        found = {PLACE: str(self.root), LOADER: str(self.root / "lib" / _triple() / Path(_INTERPRETER.decode()).name)}
        for key in ("include", "platinclude"):
            headers = Path(sysconfig.get_path(key))
            by_triple = Path("/usr/include") / _triple() / headers.name
            if headers.is_relative_to("/usr/include") and by_triple.is_dir():
                found[f"{PLACE}{by_triple}"] = str(by_triple)
        return found

    @staticmethod
    def variables() -> dict[str, str]:
        cxx, c = (f"{PLACE}/{PROGRAMS}/{name}" for name in ("g++", "gcc"))
        return {"CXX": cxx, "CC": c, "CUDAHOSTCXX": cxx, "NVCC_CCBIN": cxx}


def _apt(*words: str, cwd: Path | None = None) -> str:
    program = shutil.which("apt-get")
    if program is None:
        raise ToolMissing(
            f"gcc = … of the table is Debian's, fetched by apt-get, and there is none here; put the packages that "
            f"{LOCK} names into {KEPT}/ beside it"
        )
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False, cwd=cwd)
    if done.returncode:
        raise ProvisionError(f"apt-get {words[0]} failed (exit code {done.returncode}):\n{done.stderr.strip()[-2000:]}")
    return done.stdout


def pinned(package: str) -> str:
    """A lock's text, of what apt would install where there is nothing yet."""
    said = _apt(*_ASKING, package)
    files = re.findall(r"^'[^']+' (\S+_\S+_\S+\.deb) \d+", said, re.MULTILINE)
    wanted = [name for name in files if not _LEFT_OUT.match(name)]
    with tempfile.TemporaryDirectory(prefix="kwt-gcc-") as scratch:
        names = [f"{name.split('_')[0]}={_version(name)}" for name in wanted]
        _apt("download", *names, cwd=Path(scratch))
        brought = sorted(Path(scratch).glob("*.deb"))
        lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in brought]
    if len(lines) != len(wanted):
        raise ProvisionError(f"apt-get download brought {len(lines)} of the {len(wanted)} packages of {package}")
    return f"# {package}, and what it needs\n" + "".join(lines)


def _version(name: str) -> str:
    return name.split("_")[1].replace("%3a", ":").replace("%2b", "+").replace("%7e", "~")


def _fetched(lock: Path, to: Path) -> list[Path]:
    """The packages, each of the sha256 that the lock says."""
    entries = re.findall(r"^([0-9a-f]{64})  (\S+\.deb)$", lock.read_text(encoding="utf-8"), re.MULTILINE)
    if not entries:
        raise RequestError(f"{lock} names no package: `kwt lock` writes it")
    kept = lock.parent / KEPT
    missing = [name for _, name in entries if not (kept / name).is_file()]
    if missing:
        _apt("download", *(f"{name.split('_')[0]}={_version(name)}" for name in missing), cwd=to)
    found = []
    for digest, name in entries:
        path = kept / name if name not in missing else to / name
        if not path.is_file():
            raise ProvisionError(f"{name}: apt-get brought another file; {lock} wants {digest}")
        if (own := hashlib.sha256(path.read_bytes()).hexdigest()) != digest:
            raise ProvisionError(f"{path} has sha256 {own}, and {lock} wants {digest}: it is another package")
        found.append(path)
    return found


def _within(root: Path) -> None:
    """Links that begin at the root of a system end at the root of this one: ld would follow them into the machine's."""
    for path in root.rglob("*"):
        if path.is_symlink() and (to := path.readlink()).is_absolute():
            path.unlink()
            path.symlink_to(os.path.relpath(root / to.relative_to("/"), path.parent))


def _started_by_its_own_loader(root: Path) -> None:
    """Programs name their loader by an absolute path; the one that is mounted is shorter, and takes its place."""
    new = LOADER.encode().ljust(len(_INTERPRETER), b"\0")
    for folder in ("usr/bin", "usr/lib/gcc", "usr/libexec"):
        for path in (root / folder).rglob("*"):
            if path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            if data[:4] == b"\x7fELF" and _INTERPRETER + b"\0" in data[:4096]:
                path.write_bytes(data.replace(_INTERPRETER + b"\0", new + b"\0", 1))


def _wrappers(root: Path, major: str) -> None:
    """Each program with the packages' own libraries; compilers look for headers and libraries there alone.

    What a compiler starts inherits those libraries, with which a shell of this machine may not run.
    """
    place, direct = root / PROGRAMS, root / _DIRECT
    triple = _triple()
    place.mkdir()
    direct.mkdir()
    for name in _BINUTILS:
        (direct / name).symlink_to(f"../usr/bin/{triple}-{name}")
    libraries = f"{PLACE}/usr/lib/{triple}:{PLACE}/lib/{triple}"
    compilers = {"gcc": "gcc", "g++": "g++", "cc": "gcc", "c++": "g++"}
    named = {name: (f"{triple}-{real}-{major}", f"--sysroot={PLACE} -B{PLACE}/{_DIRECT}/ ")
             for name, real in compilers.items()}  # fmt: skip
    named |= {f"{name}-{major}": named[name] for name in ("gcc", "g++")}
    named |= {name: (f"{triple}-{name}", "") for name in _BINUTILS}
    for name, (real, options) in named.items():
        lines = ["#!/bin/sh", f"export LD_LIBRARY_PATH={libraries}", f'exec {PLACE}/usr/bin/{real} {options}"$@"', ""]
        (place / name).write_text("\n".join(lines), encoding="ascii")
        (place / name).chmod(0o755)


def find(folder: Path, package: str) -> Gcc:
    """The GCC that the project's lock names, unpacked once."""
    lock = folder / LOCK
    if not lock.is_file():
        raise RequestError(f'gcc = "{package}" is in the table, and there is no {lock}: `kwt lock` writes it')
    digest = hashlib.sha256(lock.read_bytes()).hexdigest()
    major = package.rpartition("-")[2]
    place = project().state / "tools" / f"gcc-{digest[:16]}"
    if not place.is_dir():
        unpack = shutil.which("dpkg-deb")
        if unpack is None:
            raise ToolMissing("the packages of a locked GCC are unpacked by dpkg-deb, which is not here")
        with pip.locked(project().state / "tools.lock", "another process is installing tools; waiting"):
            if not place.is_dir():
                print(f"unpacking {package} of {lock.name}", flush=True)
                with tempfile.TemporaryDirectory(prefix="kwt-gcc-") as scratch, pip.published(place) as part:
                    for path in _fetched(lock, Path(scratch)):
                        subprocess.run([unpack, "-x", str(path), str(part)], check=True)
                    _within(part)
                    _started_by_its_own_loader(part)
                    _wrappers(part, major)
    return Gcc(place, major, digest)
