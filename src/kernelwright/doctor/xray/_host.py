# SPDX-License-Identifier: MIT
"""A library or program for the CPU: what it needs, the GPU code in it, what it tells of the machine that built it."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray import _fatbin, _torch
from kernelwright.doctor.xray._elf import Elf, Section
from kernelwright.doctor.xray._view import Damaged, View

if TYPE_CHECKING:
    from collections.abc import Iterator

LOADED, RELINKED = ".nv_fatbin", "__nv_relfatbin"
_HOST_STUBS = ".nvFatBinSegment"

_MOST_SEARCHED = 512 << 20  # bytes of one file that are searched for names of the build machine
_MOST_LEAKS = 2000

# What nvcc calls its temporary files: with the process id of the build in it.
_NVCC = "name of a temporary file of nvcc", re.compile(rb"tmpxft_[0-9a-zA-Z_.-]{4,200}")
_PATH = "path of the build machine", re.compile(rb"(?<![\w.$/-])/[\w.+@/-]{2,300}")
# Directories that only somebody's machine or a build farm has.
_PLACES = ("home", "Users", "root", "build", "builds", "__w", "github", "workspace", "tmp/pip-", "tmp/tmp", "tmp/build")
_SIGNS = {b"tmpxft_": _NVCC} | {f"/{place}{'' if '/' in place else '/'}".encode(): _PATH for place in _PLACES}

# Sections that hold no text: relocations, symbol tables, unwinding tables.
_NO_TEXT = re.compile(r"\.rela?\b|\.(dynsym|symtab|eh_frame|gcc_except_table|hash|gnu\.hash|got|plt|dynamic)\b")

_TORCH = re.compile(r"_ZN?K?[A-Z]{0,3}\d*(3c10|2at|5torch|6caffe2)|^_ZT[ISV]N?(3c10|2at|5torch)")
_STABLE = re.compile(r"^(aoti_torch_|torch_|aoti_)")
_NEW_ABI, _OLD_STRING = "__cxx11", re.compile(r"_ZN\w*Ss|RKSs|\bSs")


def floor(versions: tuple[tuple[str, str], ...], family: str) -> str | None:
    """The highest release of GLIBC, GLIBCXX or CXXABI that a symbol asks for."""
    found = [
        match[1] for _, name in versions if (match := re.fullmatch(rf"{family}_(\d{{1,4}}(?:\.\d{{1,4}})*)", name))
    ]
    return max(found, key=lambda text: tuple(map(int, text.split("."))), default=None)


def compilers(elf: Elf, sections: dict[str, Section]) -> list[str]:
    """What .comment says."""
    if ".comment" not in sections:
        return []
    raw = elf.content(sections[".comment"])
    texts = raw.take(0, min(raw.size, 1 << 16)).split(b"\0")
    return sorted({text.decode("utf-8", errors="replace").strip() for text in texts if text.strip()})


def fat_binaries(elf: Elf, sections: dict[str, Section]) -> Iterator[tuple[str, View]]:
    """(where, its bytes) of each part that holds GPU code; the whole file where its sections were stripped away."""
    for name in (LOADED, RELINKED):
        if name in sections:
            yield name, elf.content(sections[name])
    if not sections:
        yield "file", elf.view


def _texts(elf: Elf, sections: dict[str, Section]) -> list[View]:
    """The parts in which texts stand: neither code, for the GPU or the CPU, nor tables."""
    if not sections:
        return [elf.view]
    return [
        elf.content(section)
        for name, section in sections.items()
        if not section.executable and name not in {LOADED, RELINKED} and not _NO_TEXT.match(name)
    ]


def leaks(parts: list[View]) -> tuple[list[dict[str, Any]], list[str]]:
    """Names and paths of the build machine, each once; and what was not searched."""
    found: Counter[tuple[str, str]] = Counter()
    searched = 0
    for part in parts:
        searched += part.size
        if searched > _MOST_SEARCHED:
            return _as_data(found), [f"only {_MOST_SEARCHED >> 20} MiB were searched for names of the build machine"]
        for literal, (kind, pattern) in _SIGNS.items():
            for match in part.search(literal, pattern):
                found[kind, match[0].decode("utf-8", errors="backslashreplace")] += 1
                if len(found) >= _MOST_LEAKS:
                    return _as_data(found), [f"more than {_MOST_LEAKS} names of the build machine"]
    return _as_data(found), []


def _as_data(found: Counter[tuple[str, str]]) -> list[dict[str, Any]]:
    return [{"kind": kind, "text": text, "count": count} for (kind, text), count in sorted(found.items())]


def is_torchs(symbol: str) -> bool:
    """Whether a name is of torch's C++ interface."""
    return bool(_TORCH.search(symbol))


def torch_symbols(elf: Elf) -> dict[str, Any] | None:
    """The symbols of torch that it wants: of its C++ interface, which changes, and of the stable one."""
    wanted = [one.name for one in elf.symbols(".dynsym") if not one.defined and one.name]
    unstable = [name for name in wanted if is_torchs(name)]
    stable = [name for name in wanted if _STABLE.search(name)]
    if not unstable and not stable:
        return None
    return {
        "unstable": len(unstable),
        "stable": len(stable),
        "examples": sorted(unstable or stable, key=lambda name: (len(name), name))[:3],
        "cxx11_abi": any(_NEW_ABI in name for name in unstable) or (None if not unstable else False),
        "old_strings": any(_OLD_STRING.search(name) for name in unstable),
        "marks": _torch.marks(unstable),
    }


def _cut(elf: Elf) -> str | None:
    """Why no loader can load it, where it is not whole."""
    try:
        return elf.cut()
    except Damaged as error:
        return f"program headers: {error}"


def read(view: View, *, thorough: bool = True) -> tuple[dict[str, Any], list[tuple[str, tuple[_fatbin.Entry, ...]]]]:
    """What is known of a library without its GPU code; and (where, container) of that code.

    `thorough`: with what takes time, torch's symbols and the names of the build machine.
    """
    elf = Elf(view)
    told: dict[str, Any] = {"machine": elf.machine, "problems": [], "skipped": []}
    code: list[tuple[str, tuple[_fatbin.Entry, ...]]] = []

    def part(name: str, make: Any) -> Any:
        try:
            return make()
        except Damaged as error:
            told["problems"].append(f"{name}: {error}")
            return None

    told["cut"] = _cut(elf)
    told["problems"] += [told["cut"]] if told["cut"] else []
    sections = part("section headers", elf.sections) or {}
    needs = part("dynamic section", elf.needs)
    told["needed"] = list(needs.libraries) if needs else []
    told["soname"] = needs.soname if needs else None
    told["runpath"] = list(needs.paths) if needs else []
    for family in ("GLIBC", "GLIBCXX", "CXXABI"):
        told[family.lower()] = floor(needs.versions, family) if needs else None
    told["compilers"] = compilers(elf, sections)
    told["torch"] = part("symbols", lambda: torch_symbols(elf)) if thorough else None
    told["registers_kernels"] = _HOST_STUBS in sections
    for where, content in fat_binaries(elf, sections):

        def walk(where: str = where, content: View = content) -> None:
            for entries in _fatbin.containers(content, anywhere=not sections):
                shift = content.start - view.start
                code.append((where, tuple(entry.moved(shift) for entry in entries)))

        part(where, walk)
    told["leaks"], notes = leaks(_texts(elf, sections)) if thorough else ([], [])
    told["skipped"] += notes
    return told, code
