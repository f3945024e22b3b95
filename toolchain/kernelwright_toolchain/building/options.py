# SPDX-License-Identifier: MIT
"""What `./kw build -- …` can be told."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.providers import LOCKED
from kernelwright_toolchain.request import DEFAULT_PROVIDER
from kernelwright_toolchain.targets import Table


@dataclass(frozen=True)
class Options:
    """None leaves the choice to targets.toml."""

    archs: str | None = None
    toolkit: str | None = None
    target: str | None = None
    provider: str = LOCKED
    ops: str | None = None
    debug: bool = False
    release: bool = False  # the release's compilers, whatever environment is active
    clean: bool = False
    jobs: int | None = None

    def settings(self) -> dict[str, str]:
        """The same in the words of the build backend."""
        given = {"archs": self.archs, "toolkit": self.toolkit, "target": self.target, "ops": self.ops}
        words = {key: value for key, value in given.items() if value is not None}
        return {**words, "provider": self._provider(), "debug": "yes" if self.debug else "no"}

    def _provider(self) -> str:
        if self.release and self.provider not in (LOCKED, DEFAULT_PROVIDER):
            raise RequestError(
                f"--release means the compilers of the release, which provider {DEFAULT_PROVIDER} has, and --provider "
                f"{self.provider} means others; leave one of the two out"
            )
        return DEFAULT_PROVIDER if self.release else self.provider


def add_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    """The options; the help names what targets.toml has."""
    parser.add_argument("--archs", metavar="LIST", help='GPU architectures, as in "89;90" or "89,90+ptx"')
    parser.add_argument("--toolkit", metavar="NAME", help=f"one of {', '.join(table.toolkits)}")
    parser.add_argument("--target", metavar="NAME", help=f"one of {', '.join(table.targets)}; without: this machine's")
    parser.add_argument(
        "--provider",
        default=LOCKED,
        help="where compilers come from: pip, conda, nix, system, auto; without: the conda or Nix environment of this "
        "tree's locks if one is active, else pip",
    )
    parser.add_argument(
        "--release",
        action="store_true",
        help="by the release's compilers (locked NVRTC and zig) also inside a conda or Nix environment: the same bytes "
        "as anywhere else",
    )
    parser.add_argument("--ops", metavar="LIST", help="operators, as in rms_norm; without: all")
    parser.add_argument("--debug", action="store_true", help="device and host code with debug information")
    parser.add_argument("--clean", action="store_true", help="forget earlier builds of this kind and the compile cache")
    parser.add_argument("-j", "--jobs", type=int, metavar="N", help="compilers at a time; without: as many as fit")
