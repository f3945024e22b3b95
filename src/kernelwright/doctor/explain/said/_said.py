# SPDX-License-Identifier: MIT
"""The facts of a log as cures need them; each is looked for when it is asked for, "" or None where it is not told."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kernelwright.doctor._cause import Sign
from kernelwright.doctor.explain._literals import words_of
from kernelwright.doctor.explain.said import _packages, _releases, _seen

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine

_FIRST_WITH_EXTRAS = 9  # the minor version of Python from which on TensorFlow has extras that bring CUDA's libraries
_BEGIN, _END = 40_000, 160_000  # characters of the log that are searched: there systems and failures are told
_WINDOWS = re.compile(
    r"\b[A-Za-z]:(\\|/(?!/))|\.dll\b|\.pyd\b|\[winerror|dll load failed|\bmsvc|is not recognized as|createprocess"
    r"|\bcl /|\bwindows \d\d\b(?![^\n]{0,60}\bwsl)|^\W*windows\W*$|\b(?:os|platform|system)s?\W{1,4}windows\b"
    r"|\bcmdlet\b",
    re.IGNORECASE | re.MULTILINE,
)
_JETSON = re.compile(r"tegra|jetson|\bl4t\b|jetpack|\borin\b|xavier|nvgpu|\bthor\b|\bnv\d\d\.\d\d\b", re.IGNORECASE)
_CONTAINER = re.compile(
    r"\bdocker|container|\bkubectl|\bk8s|\bpod/|^root@[0-9a-f]{12}:|^#\d+ \d|/workspace/|\bpid=1\)|\bcompose\b|"
    r"podman|dockerfile",
    re.IGNORECASE | re.MULTILINE,
)
_CONDA = re.compile(
    r"[/\\](?:ana|mini)?conda\d?[/\\]|feedstock|miniforge|mambaforge|\bconda\b|\bmamba\b", re.IGNORECASE
)
_SCRIPT = re.compile(r"^ *File \"([^\"<>\n]{1,200}\.py)\", line \d+, in <module>", re.MULTILINE)
_FILE = re.compile(r"^[^\"\n]{0,120}?File \"([^\"<>\n]{1,300}\.py)\", line \d+", re.MULTILINE)
_LIBRARY = re.compile(r"\b(lib[A-Za-z0-9_+-]+(?:\.\d+)?\.so[.\d]*)")
_MISSING = re.compile(_LIBRARY.pattern + r"['\"]?:? (?:cannot open|is not found|not found|file too short)")
_SOURCE = re.compile(r"\bgit\+https://[\w.-]+(?:/[\w.-]+){2,4}(?:@[\w./-]+)?")
_SAFE = re.compile(r"[\w./~+-]+")


@dataclass(frozen=True)
class Said:
    """`shown`: the lines that showed the cause, as they stand; `machine`: the one the log is of, where that is here."""

    log: str
    shown: tuple[str, ...] = ()
    machine: Machine | None = None

    @cached_property
    def text(self) -> str:
        return self.log if len(self.log) <= _BEGIN + _END else f"{self.log[:_BEGIN]}\n{self.log[-_END:]}"

    @cached_property
    def _lower(self) -> str:
        return self.text.lower()

    @cached_property
    def lines(self) -> str:
        return "\n".join(self.shown)

    def has(self, pattern: str) -> bool:
        sign = Sign(pattern)
        if not all(any(word in self._lower for word in words) for words in words_of(sign.small)):
            return False
        return sign.pattern.search(self._lower) is not None

    def shows(self, pattern: str) -> re.Match[str] | None:
        """In the lines that showed the cause."""
        return re.search(pattern, self.lines, re.IGNORECASE | re.MULTILINE)

    def finds(self, pattern: str) -> re.Match[str] | None:
        return re.search(pattern, self.text, re.IGNORECASE | re.MULTILINE)

    @cached_property
    def windows(self) -> bool:
        return self.machine is None and bool(_WINDOWS.search(self.text))

    @cached_property
    def jetson(self) -> bool:
        return bool(_JETSON.search(self.text))

    @cached_property
    def container(self) -> bool:
        return bool(_CONTAINER.search(self.text))

    @cached_property
    def conda(self) -> bool:
        return bool(_CONDA.search(self.text))

    @cached_property
    def wsl(self) -> bool:
        return self.has(r"\bwsl2?\b|microsoft-standard|/usr/lib/wsl")

    @cached_property
    def nix(self) -> bool:
        return self.has(r"/nix/store|\bnix-(shell|build)\b|\bnix (build|develop|run)\b|\bnixos\b|flake\.nix")

    @cached_property
    def old_tensorflow(self) -> bool:
        """One without extras: for an old Python, or by its own number."""
        by_number = self.has(r"tensorflow(-gpu|_gpu)?[ =:-]{1,4}(version:? )?(1\.\d+|2\.([0-9]|1[0-3])\.)")
        return by_number or (bool(self.python) and int(self.python.partition(".")[2]) < _FIRST_WITH_EXTRAS)

    @cached_property
    def macos(self) -> bool:
        return self.has(r"\bmac ?os\b|macosx_|\bdarwin\b|\bmacos-|\bapple m\d\b|(?<![:\w])/users/\w")

    @cached_property
    def board(self) -> bool:
        """A Jetson whose packages are its own: from JetPack 7 on it takes those for servers."""
        return self.jetson and not (self.l4t and self.l4t[0] > 36) and not self.has(r"\bthor\b|jetpack ?7|\bjp7")

    @cached_property
    def embedded(self) -> str:
        """The directory of a Python that comes within a program for Windows: the one on PATH is another."""
        if "python" not in self._lower or not self.windows:
            return ""
        found = self.finds(r"\b([a-z]:\\[\w .\\-]*?(?:python_embed+ed|\\system\\+python|webui\\+venv\\+scripts))\\")
        return re.sub(r"\\+", r"\\", found[1]) if found else ""

    @cached_property
    def uv(self) -> bool:
        return self.has(r"\buv (pip|sync|add|run|lock|venv)\b|^ *[\u251c\u2570]\u2500\u25b6")

    @cached_property
    def package(self) -> str:
        """What pip was at, where that is one; else whose file the error names; else who called last."""
        found = _packages.only(_packages.by_pip(self.text))
        found = found or next(_packages.by_path(self.lines), "") or _packages.told(self.lines)
        found = (
            found
            or next(_packages.by_import(self.text), "")
            or next(_packages.by_frames(self.text), "")
            or _packages.only(_packages.by_pip(self.lines))
        )
        found = found or _packages.only(_packages.unpacked(self.text)) or _packages.only(_packages.asked(self.text))
        # Where pip names several it is not known which: words that one of them is known by say nothing.
        return found or ("" if self.has(r"\bwheels? for\b") else _packages.only(_packages.tell(self.text)))

    @cached_property
    def project(self) -> str:
        """What pip has to be given: the package, or the directory that is built."""
        directory = self.finds(r"^processing (\./[\w./-]+)")
        if directory and ".." not in directory[1]:
            return directory[1]
        if self.has(r"failed (building|to build) editable for"):
            return "-e ."
        return "-e ." if not _packages.by_pip(self.text) and _packages.from_sources(self.text) else self.package

    @cached_property
    def source(self) -> str:
        """The address that pip was given in place of a name, where it was one."""
        found = {one.rstrip(".") for one in _SOURCE.findall(self.text) if ".." not in one}
        return next(iter(found)) if len(found) == 1 else ""

    @cached_property
    def library(self) -> str:
        """The shared library that the error names; of several the first."""
        missing = _MISSING.search(self.lines)
        found: list[str] = [missing[1]] if missing else _LIBRARY.findall(self.lines)
        return found[0].rstrip(".") if found else ""

    @cached_property
    def place_of_library(self) -> str:
        """Where the log shows that library to lie, though the loader does not find it."""
        return _seen.place_of(self.library, self.text)

    @cached_property
    def r(self) -> bool:
        """R, whose packages have installers of their own."""
        return self.has(
            r"\brscript\b|\brstudio\b|\breticulate\b|\blantern\b|\binstall_(torch|tensorflow|keras)\("
            r"|\blibrary\((torch|tensorflow|keras)\)|\br version [34]\.\d"
        )

    @cached_property
    def notebook(self) -> bool:
        return _seen.notebook(self.text)

    def tried(self, pattern: str) -> bool:
        """Whether somebody did this already and says that it did not help."""
        return _seen.tried(pattern, self.text)

    @cached_property
    def script(self) -> str:
        """The program that was run: the outermost frame that is nobody's package."""
        own = [name for name in _SCRIPT.findall(self.text) if not re.search(r"(site|dist)-packages|/lib/python", name)]
        return own[0] if own and _SAFE.fullmatch(own[0]) and ".." not in own[0] else ""

    @cached_property
    def own_directory(self) -> str:
        """Where the innermost frame's file lies, if that is somebody's own directory and no installed package's."""
        files = _FILE.findall(self.text)
        if not files or re.search(r"(site|dist)-packages|/lib(64)?/python\d", files[-1]):
            return ""
        place = posixpath.dirname(posixpath.normpath(files[-1]))
        return place if place.startswith("/") and _SAFE.fullmatch(place) else ""

    @cached_property
    def torch(self) -> str:
        """torch's release without a label, such as "2.8.0"."""
        return _releases.torch(self.text)

    @cached_property
    def torch_cuda(self) -> str:
        """The CUDA release torch is built with, major and minor number."""
        return _releases.torch_cuda(self.text)

    @cached_property
    def toolkit(self) -> str:
        """The release of the nvcc that was used."""
        return _releases.toolkit(self.text)

    @cached_property
    def level(self) -> int | None:
        """The driver's CUDA level, a thousand for each major version and ten for each minor."""
        if self.machine is not None and self.machine.driver.get("level"):
            return int(self.machine.driver["level"])
        return _releases.level(self.text)

    @cached_property
    def capability(self) -> int | None:
        """The GPU's compute capability, 90 for 9.0: the machine's, or as the log says it, or by the GPU's name."""
        if self.machine is not None and self.machine.driver.get("gpus"):
            return int(self.machine.driver["gpus"][0].get("capability", 0)) or None
        return _releases.capability(self.text)

    @cached_property
    def l4t(self) -> tuple[int, str] | None:
        """The release of Linux for Tegra, (36, "4.3"), or that of the JetPack that is named."""
        found = self.finds(r"#? ?R(3\d)\b[^\n]{0,20}REVISION: ?(\d+(?:\.\d+)?)|l4t[ :-]{0,3}r?(3\d)\.(\d+(?:\.\d+)?)")
        if found:
            return int(found[1] or found[3]), found[2] or found[4]
        named = self.finds(r"\bjetpack\W{0,3}(?:sdk |v(?:ersion)?\W{1,2})?([456])\.(\d)")
        if named:
            return 32 if named[1] == "4" else 30 + int(named[1]), "3" if named[0].endswith("6.0") else "4"
        # The first boards have no later one.
        return (
            (32, "7") if self.has(r"jetson[ -]nano|jetson[ -]?tx\d|\btx2\b") and not self.has("orin|xavier") else None
        )

    @cached_property
    def python(self) -> str:
        """The Python that ran, "3.12"."""
        found = self.finds(r"\bpython(3\.\d{1,2})\b|\bpython (3\.\d{1,2})\.\d|cp(?:ython-)?(3)(\d{1,2})\b")
        if not found:
            return ""
        return found[1] or found[2] or f"{found[3]}.{found[4]}"
