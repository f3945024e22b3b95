# SPDX-License-Identifier: MIT
"""targets.toml as frozen values. Nothing here knows a GPU, a toolkit or a platform by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# Where compilers come from, and which host compilers a provider may bring.
PROVIDERS = ("pip", "conda", "nix", "system")
COMPILERS = ("zig", "gcc")


@dataclass(frozen=True, order=True)
class Version:
    """A dotted release; compared number by number, never as text."""

    parts: tuple[int, ...]

    def __str__(self) -> str:
        return ".".join(str(p) for p in self.parts)

    @staticmethod
    def parse(text: str) -> Version:
        return Version(tuple(int(p) for p in text.split(".")))

    @property
    def major(self) -> int:
        return self.parts[0]

    @property
    def release(self) -> Version:
        """Major and minor only: what the components of one toolkit release share."""
        return Version(self.parts[:2])


@dataclass(frozen=True)
class Driver:
    """The oldest driver: its CUDA level, and NVIDIA's number for it."""

    cuda: Version
    linux: str


@dataclass(frozen=True)
class GccRange:
    min: int
    max: int

    def accepts(self, major: int) -> bool:
        return self.min <= major <= self.max


@dataclass(frozen=True)
class Toolkit:
    """One CUDA release."""

    name: str
    release: Version
    driver: Driver
    ptx: Version
    gcc: GccRange
    components: Mapping[str, str]
    pypi: Mapping[str, str]
    conda: str
    nix: str
    redist: str
    hosts: Mapping[str, tuple[str, ...]]
    locks: Mapping[str, str]
    nvcc: Tools | None = None  # a whole toolkit, where PyPI has one


@dataclass(frozen=True)
class Span:
    """First and last toolkit release that can make a code; no last means still current."""

    first: Version
    last: Version | None

    def knows(self, release: Version) -> bool:
        return self.first <= release and (self.last is None or release <= self.last)

    def __str__(self) -> str:
        return f"{self.first} to {self.last}" if self.last else f"{self.first} or newer"


@dataclass(frozen=True)
class Code:
    """What device code is compiled to: a cubin for one GPU architecture, or PTX.

    `name` is what compilers call it (sm_…, compute_…); `number` is the part after the underscore.
    """

    name: str
    kind: str  # "cubin" | "ptx"
    toolkits: Span
    runs_on: tuple[Version, ...]  # for PTX: the one lowest compute capability
    features: tuple[str, ...]
    boards: tuple[str, ...]
    always: bool = False  # packed also where all that is loaded equals another code's

    @property
    def number(self) -> str:
        return self.name.partition("_")[2]

    @property
    def native(self) -> Version:
        return self.runs_on[0]

    @property
    def suffix(self) -> str:
        return "cubin" if self.kind == "cubin" else "ptx"


@dataclass(frozen=True)
class System:
    """What boards come with: the C library, the CUDA level of the oldest driver, and whose driver it is."""

    glibc: Version
    cuda: Version
    userland: str


@dataclass(frozen=True)
class Target:
    """What a wheel is built for. `system` is None where the machines differ."""

    name: str
    machine: str
    triple: str
    zig: str
    glibc: Version
    platform_tag: str
    toolkit: str
    cubins: tuple[str, ...]
    ptx: tuple[str, ...]
    host: Mapping[str, str]
    redist: str
    release: bool
    system: System | None
    about: str

    @property
    def glibc_tag(self) -> str:
        """What a wheel with this glibc floor may call itself (PEP 600)."""
        return f"manylinux_{'_'.join(str(part) for part in self.glibc.parts)}_{self.machine}"


@dataclass(frozen=True)
class Tools:
    """What the pip provider brings beside NVIDIA's compiler."""

    requirements: tuple[str, ...]
    locks: Mapping[str, str]


@dataclass(frozen=True)
class Library:
    """One of CUDA's libraries that a project may link with; `name` is what its own table and PyPI's extra call it."""

    name: str
    links: tuple[str, ...]
    conda: str
    nix: str


@dataclass(frozen=True)
class Gcc:
    """The host compiler that conda and Nix lock for one toolkit."""

    version: str
    major: int
    sysroot: str


@dataclass(frozen=True)
class Table:
    """The whole of targets.toml."""

    toolkits: Mapping[str, Toolkit]
    codes: Mapping[str, Code]  # cubins first, then PTX, in the table's order
    targets: Mapping[str, Target]
    libraries: Mapping[str, Library]
    tools: Tools
    gcc: Mapping[str, Gcc]  # by toolkit; those that conda or Nix has
    since: Mapping[str, Version]  # by feature: the first toolkit that can compile it, of those that need a newer one

    def made(self, code: Code, toolkit: Toolkit) -> Code:
        """The code as this toolkit makes it: with the features that it can compile."""
        known = (f for f in code.features if f not in self.since or self.since[f] <= toolkit.release)
        return replace(code, features=tuple(known))

    def default_codes(self, target: Target, toolkit: Toolkit) -> tuple[Code, ...]:
        """The target's set, less what this toolkit cannot make."""
        rows = (self.codes[name] for name in (*target.cubins, *target.ptx))
        return tuple(code for code in rows if code.toolkits.knows(toolkit.release))

    def features(self) -> tuple[str, ...]:
        """Every feature any row names, sorted: what device code may ask for."""
        return tuple(sorted({f for code in self.codes.values() for f in code.features}))
