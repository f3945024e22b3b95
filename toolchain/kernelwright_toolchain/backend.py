# SPDX-License-Identifier: MIT
"""The build backend of projects that are built by this toolchain: what pip calls (PEP 517, PEP 660).

A project with kernel tables gets a device-only wheel, one that names a backend what that backend makes under the
exact compilers. Settings: `pip install . -C archs=89 -C toolkit=NAME`.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from kernelwright_toolchain import editable
from kernelwright_toolchain.classic import build as classic
from kernelwright_toolchain.errors import KwError, RequestError
from kernelwright_toolchain.packages import build as packages
from kernelwright_toolchain.packages import stage
from kernelwright_toolchain.project import Project, project, serving
from kernelwright_toolchain.settings import Settings, read
from kernelwright_toolchain.targets import load
from kernelwright_toolchain.targets.read import toml
from kernelwright_toolchain.wheel.metadata import known, text

T = TypeVar("T")
Given = Mapping[str, "str | list[str]"]
OURS = ("target", "toolkit", "archs")


def _asked(given: Given | None) -> dict[str, str | None]:
    if odd := (given or {}).keys() - set(OURS):
        raise RequestError(f"setting {min(odd)!r} is not known; there are {', '.join(OURS)}")
    return {key: value if isinstance(value, str) else ",".join(value) for key, value in (given or {}).items()}


def _refusing(work: Callable[[Settings], T]) -> T:
    """An error that a person is meant to read ends the build with its words alone."""
    try:
        with serving(Project(Path.cwd())) as found:
            settings = read(found.root)
            return work(settings)
    except KwError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


def _wheel(settings: Settings, out: Path, given: Given | None) -> Path:
    if settings.kernels:
        return packages.build(settings, load(), out, _asked(given)).wheel
    made = classic.build(settings, load(), out, _asked(given))
    for reason in made.inexact:
        print(f"inexact: {reason}", file=sys.stderr)
    return made.wheel


def build_wheel(
    wheel_directory: str,
    config_settings: Given | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    return _refusing(lambda settings: _wheel(settings, Path(wheel_directory), config_settings).name)


def build_editable(
    wheel_directory: str,
    config_settings: Given | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    """The package is built into .kw/editable; an import says what changed since, and installing it again builds it."""

    def work(settings: Settings) -> str:
        place = project().state / "editable"
        made = _wheel(settings, project().state / "editable-wheel", config_settings)
        members = editable.members(made, place, settings.root, settings.package)
        with zipfile.ZipFile(Path(wheel_directory) / made.name, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, data)
        made.unlink()
        return made.name

    return _refusing(work)


def build_sdist(sdist_directory: str, config_settings: Given | None = None) -> str:  # noqa: ARG001 - the hook's
    def work(settings: Settings) -> str:
        if not settings.kernels:
            return classic.sdist(settings, load(), Path(sdist_directory)).name
        root = settings.root
        about = known(toml((root / "pyproject.toml").read_text(encoding="utf-8"))["project"], root / "pyproject.toml")
        files = {path.as_posix() for path in stage.sources(root, packages.kernels_of(settings))} | {"pyproject.toml"}
        files |= {about[key] for key in ("readme",) if isinstance(about.get(key), str)}
        files |= {name for name in ("LICENSE", "README.md") if (root / name).is_file()}
        own = root / "src" / settings.package
        files |= {path.relative_to(root).as_posix() for path in own.rglob("*.py")}
        members = {name: (root / name).read_bytes() for name in files} | {"PKG-INFO": text(about, root)}
        top = f"{settings.package}-{settings.version}"
        with tarfile.open(Path(sdist_directory) / f"{top}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(members):
                info = tarfile.TarInfo(f"{top}/{name}")
                info.size, info.mtime, info.mode = len(members[name]), 315_532_800, 0o644
                archive.addfile(info, io.BytesIO(members[name]))
        return f"{top}.tar.gz"

    return _refusing(work)
