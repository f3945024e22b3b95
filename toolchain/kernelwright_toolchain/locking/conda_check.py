# SPDX-License-Identifier: MIT
"""`python -m kernelwright_toolchain.locking.conda_check ROOT`: what conda-lock itself says of the conda locks.

Needs no network. Run by the interpreter of locks/conda.txt, which has conda-lock and the conda it carries. One
line for each problem.
"""

from __future__ import annotations

import atexit
import logging
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kernelwright_toolchain.locking.conda import LOCKS, MAIN, REGENERATE, VIRTUAL, category_file, environment_file


def _build(package: Any) -> str:
    """conda-lock writes none where it has solved; then the name of the file has it."""
    return package.build or re.sub(r"\.(conda|tar\.bz2)$", "", package.url.rpartition("-")[2])


def _record(package: Any, name: str) -> dict[str, Any]:
    """What conda matches a specification of this name against."""
    return {"name": name, "version": package.version, "build": _build(package), "build_number": 0}


def _unmet(specs: list[tuple[str, str]], packages: dict[str, Any]) -> Iterator[str]:
    """Each (who wants it, what) that no locked package satisfies; `__glibc` and its like are the machine's."""
    from conda_lock.interfaces.vendored_conda import MatchSpec

    for who, spec in specs:
        match = MatchSpec(spec)
        package = packages.get(match.name) or packages.get(match.name.replace("-", "_"))  # pip's spelling
        if match.name.startswith("__"):
            continue
        if package is None:
            yield f"{who} wants {spec}, and {match.name} is not locked"
        elif not match.match(_record(package, match.name)):
            yield f"{who} wants {spec}, and {package.name} {package.version} {_build(package)} is locked"


def _file_of(category: str, platform: str) -> str:
    return environment_file(platform) if category == MAIN else category_file(category)


def _of_this(platform: str) -> tuple[str, ...]:
    """What the address of a file for this platform has: conda's folders, the tag of a wheel."""
    machine = "x86_64" if platform == "linux-64" else platform.partition("-")[2]
    return f"/{platform}/", "/noarch/", f"_{machine}.whl", "-any.whl"


def _of_platform(lock: Any, spec: Any, platform: str) -> Iterator[str]:
    from conda_lock.conda_lock import render_lockfile_for_platform

    locked = [package for package in lock.package if package.platform == platform]
    packages = {package.name: package for package in locked}
    needs = spec.dependencies[platform]
    wanted = [(_file_of(need.category, platform), f"{need.name} {need.version}".strip()) for need in needs]
    yield from _unmet(wanted, packages)
    for package in locked:
        yield from _unmet([(package.name, f"{k} {v}".strip()) for k, v in package.dependencies.items()], packages)
        if not any(word in package.url for word in _of_this(platform)):
            yield f"{package.name}: {package.url} is of another platform"
    rendered = render_lockfile_for_platform(
        lockfile=lock, include_dev_dependencies=True, extras=_extras(lock), kind="explicit", platform=platform
    )
    lines = [line for line in rendered if "://" in line]
    if len(lines) != len(locked) or not all(re.search(r"\S#\S+$", line) for line in lines):
        yield f"renders to {len(lines)} addresses for {len(locked)} packages, or to one without a hash"


def _extras(lock: Any) -> set[str]:
    """The categories that are asked for by name."""
    return {category for package in lock.package for category in package.categories} - {MAIN, "dev"}


def _as_written(lock: Any) -> str:
    """The lock as conda-lock's own models write it, without the comments before it."""
    from conda_lock.lockfile import write_conda_lock_file

    with tempfile.TemporaryDirectory(prefix="kernelwright-") as scratch:
        path = Path(scratch) / "conda-lock.yml"
        write_conda_lock_file(lock, path, metadata_choices=set(), include_help_text=False)
        return _body(path.read_text(encoding="utf-8"))


def _body(text: str) -> str:
    return re.sub(r"\A(#.*\n|\n)*", "", text)


@cache
def _no_names() -> Path:
    """A file that translates no name of PyPI's to one of conda's: none is needed, and conda-lock would fetch a list."""
    path = Path(tempfile.mkdtemp(prefix="kernelwright-")) / "names.json"
    path.write_text("{}", encoding="utf-8")
    atexit.register(shutil.rmtree, path.parent)
    return path


def _problems(root: Path, name: str) -> Iterator[str]:
    """What is wrong with one lock below this directory."""
    from conda_lock.conda_lock import make_lock_spec, virtual_package_repo_from_specification
    from conda_lock.content_hash import backwards_compatible_content_hashes
    from conda_lock.lockfile import parse_conda_lock_file

    lock = parse_conda_lock_file(root / name)
    if _body((root / name).read_text(encoding="utf-8")) != _as_written(lock):
        yield f"{name} is not as conda-lock writes it; run `{REGENERATE}`"
    virtual = virtual_package_repo_from_specification(root / VIRTUAL)
    own = {environment_file(platform): platform for platform in lock.metadata.platforms}
    shared = [file for file in lock.metadata.sources if file not in own]
    for file, platform in own.items():
        if file not in lock.metadata.sources or not (root / file).is_file():
            yield f"{name} is for {lock.metadata.platforms}, of {lock.metadata.sources}; run `{REGENERATE}`"
            return
        spec = make_lock_spec(
            src_files=[root / one for one in (file, *shared)],
            channel_overrides=None,
            platform_overrides=[platform],
            filtered_categories=None,
            mapping_url=str(_no_names()),
        )
        known = lock.metadata.content_hash.get(platform)
        if known not in backwards_compatible_content_hashes(spec, virtual, platform):
            yield f"{name}: {platform} was locked for another {file} or {VIRTUAL}; run `{REGENERATE}`"
        yield from (f"{name}: {platform}: {line}" for line in _of_platform(lock, spec, platform))


def problems(root: Path) -> Iterator[str]:
    """What is wrong with the locks below this directory."""
    for name in LOCKS.values():
        yield from _problems(root, name)


if __name__ == "__main__":
    logging.disable(logging.WARNING)  # that a line is for the other platform is no news
    print("\n".join(problems(Path(sys.argv[1]))))
