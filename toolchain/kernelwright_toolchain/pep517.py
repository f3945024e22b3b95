# SPDX-License-Identifier: MIT
"""The build backend that pip calls: scikit-build-core runs CMake, this decides what is built and what it is called.

Settings (`pip install . -C archs=89`): toolkit, target, archs, ops, provider, debug, as `./kw build` has them; all
others are scikit-build-core's. It has no prepare_metadata hook: the version's label is known once the build is settled.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kernelwright_toolchain import providers, start
from kernelwright_toolchain.errors import KwError
from kernelwright_toolchain.files import make_private
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import archives, host, nvrtc
from kernelwright_toolchain.request import DEFAULT_PROVIDER, Request, label, settled
from kernelwright_toolchain.targets import Table, load

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
Settings = Mapping[str, "str | list[str]"]
OURS = ("toolkit", "target", "archs", "ops", "provider", "debug")
# Variables, by how they begin, with which a person changes what a compiler makes.
UNWANTED = (
    "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CC",
    "CXX", "CMAKE_ARGS", "CMAKE_GENERATOR", "CMAKE_TOOLCHAIN_FILE", "CMAKE_BUILD_TYPE", "SKBUILD_",
    "CMAKE_C_", "CMAKE_CXX_", "CMAKE_INSTALL_MODE", "DESTDIR", "ZIG_LIB",
)  # fmt: skip
# What Nix's wrappers of compilers hear, and zig too; only a build by those wrappers has a use for it.
_OF_WRAPPERS = "NIX_"


def _split(settings: Settings | None) -> tuple[dict[str, str], dict[str, str | list[str]]]:
    """Our settings, and scikit-build-core's."""
    ours: dict[str, str] = {}
    theirs: dict[str, str | list[str]] = {}
    for key, value in (settings or {}).items():
        if key not in OURS:
            theirs[key] = value
        else:
            ours[key] = value if isinstance(value, str) else ",".join(value)
    return ours, theirs


def defines(table: Table, request: Request, jobs: int | None = None) -> dict[str, str]:
    """Every definition CMake is given; the same for all ways into a build."""
    text = label(request)
    return {
        "KW_TARGET": request.target.name,
        "KW_TOOLKIT": request.toolkit.name,
        "KW_ARCHS": "" if request.is_default_codes else ",".join(code.name for code in request.codes),
        "KW_OPS": "" if request.is_default_ops else ",".join(request.ops),
        "KW_PROVIDER": request.provider,
        "KW_DEBUG": "ON" if request.debug else "OFF",
        "KW_JOBS": str(jobs or ""),
        "KW_PYTHON": sys.executable,
        "KW_LABEL": text,
        **host.cmake_defines(table, request.target, request.provider),
    }


def _requires(settings: Settings | None) -> list[str]:
    table = load()
    request = settled(table, _split(settings)[0], fetching=True)
    needed = [host.pin(table, "scikit-build-core"), host.pin(table, "deflate")]
    if request.provider == "pip":
        kit = request.toolkit
        machine = providers.machine_of(table)
        if archives.is_lock(Path(kit.locks[machine])):  # no package that pip could bring: it is fetched here
            nvrtc.library(kit, machine)
        elif not nvrtc.here(kit, machine):
            needed.append(f"{kit.pypi['nvrtc']}=={kit.components['nvrtc']}")
        if host.find_zig(table) is None:
            needed.append(host.pin(table, "ziglang"))
    needed += [] if host.has_cmake() else [host.pin(table, "cmake")]  # nothing in the wheel depends on its release
    needed += [host.pin(table, "ninja")] if request.provider == "pip" or not host.has_ninja() else []  # never by make
    return needed


def _be_patient() -> None:
    """scikit-build-core takes a tool that is silent for some seconds, as on a busy machine, for one that is not there;
    make would then take ninja's place, and another CMake that of the locked one."""
    from scikit_build_core import program_search

    program_search.BASE_TIMEOUT = 600


def make(
    build: Callable[..., str],
    directory: str,
    table: Table,
    request: Request,
    *,
    theirs: Mapping[str, str | list[str]],
    jobs: int | None = None,
) -> str:
    """Lets scikit-build-core build, then finishes its wheel into the directory; gives the file's name."""
    from kernelwright_toolchain.wheel.finish import finish

    if request.provider != "system":  # made by locked tools, so nothing of this machine slips in
        unwanted = (*UNWANTED, _OF_WRAPPERS) if request.provider == DEFAULT_PROVIDER else UNWANTED
        for name in [name for name in os.environ if name.startswith(unwanted)]:
            del os.environ[name]
        os.environ["CMAKE_GENERATOR"] = "Ninja"  # make links the same objects in another order
        _be_patient()
    os.environ.setdefault(start.MODULES, start.joined(start.importable()))  # for the toolchain that CMake starts
    make_private(cache := project().state / "cache" / "zig")
    for name in ("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"):  # zig makes a C library once; not in people's homes
        os.environ.setdefault(name, str(cache))
    given = {f"cmake.define.{key}": value for key, value in defines(table, request, jobs).items()}
    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        name = build(scratch, {**given, **theirs}, None)
        floor_is_given = host.floor_is_given(table, request.target, request.provider, request.toolkit.name)
        made = Path(scratch) / name
        return finish(
            made, Path(directory), table, request, floor_is_given=floor_is_given, editable="editable" in build.__name__
        ).name


def _refusing(call: Callable[[], T]) -> T:
    """An error that a person is meant to read ends the build with its words alone, without a traceback."""
    try:
        return call()
    except KwError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None


def _build(build: Callable[..., str], directory: str, settings: Settings | None) -> str:
    ours, theirs = _split(settings)

    def work() -> str:
        table = load()
        return make(build, directory, table, settled(table, ours), theirs=theirs)

    return _refusing(work)


def build_wheel(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    from scikit_build_core.build import build_wheel as build

    return _build(build, wheel_directory, config_settings)


def build_editable(
    wheel_directory: str,
    config_settings: Settings | None = None,
    metadata_directory: str | None = None,  # noqa: ARG001 - the hook's
) -> str:
    from scikit_build_core.build import build_editable as build

    return _build(build, wheel_directory, config_settings)


def build_sdist(sdist_directory: str, config_settings: Settings | None = None) -> str:
    from scikit_build_core.build import build_sdist as build

    from kernelwright_toolchain.wheel.sdist import finish

    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        name = build(scratch, _split(config_settings)[1])
        return finish(Path(scratch) / name, Path(sdist_directory)).name


def get_requires_for_build_wheel(config_settings: Settings | None = None) -> list[str]:
    return _refusing(lambda: _requires(config_settings))


def get_requires_for_build_editable(config_settings: Settings | None = None) -> list[str]:
    return get_requires_for_build_wheel(config_settings)


def get_requires_for_build_sdist(config_settings: Settings | None = None) -> list[str]:  # noqa: ARG001 - the hook's
    return [host.pin(load(), name) for name in ("scikit-build-core", "deflate")]
