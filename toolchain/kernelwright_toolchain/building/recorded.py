# SPDX-License-Identifier: MIT
"""The sha256 of every image and of the library in the default wheels, as the tree has them: so a build proves at once
that it made the same bytes, and a change of any of them shows in review.

A family's images stand in its folder, the library in csrc/core. A line is a sha256, a file of the package, and the
targets whose default wheel has those bytes.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelwright_toolchain.device.compiler import FAMILIES, source_of
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.families import CORE
from kernelwright_toolchain.files import write_if_changed
from kernelwright_toolchain.project import project
from kernelwright_toolchain.request import Request
from kernelwright_toolchain.wheel.shares import LIBRARY

IMAGES = "images.sha256"  # in a family's folder
OF_LIBRARY = CORE / "library.sha256"
ACCEPT = "python -m toolchain record --write"
SHOWN = 12
_PACKAGE = "kernelwright/"
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)  (\S+(?: \S+)*)")

Digests = dict[str, str]  # file of the package -> sha256

HEAD = f"""\
# SPDX-License-Identifier: MIT
# Made by `{ACCEPT}` from the default wheels; `./kw build` compares. sha256, file of the package, targets.
"""


def of_members(members: Mapping[str, bytes]) -> Digests:
    """Of a wheel's images and its library."""
    code = {name: data for name, data in members.items() if name == LIBRARY or name.startswith(f"{_PACKAGE}kernels/")}
    return {name.removeprefix(_PACKAGE): hashlib.sha256(data).hexdigest() for name, data in sorted(code.items())}


def of_wheel(path: Path) -> Digests:
    with zipfile.ZipFile(path) as archive:
        return of_members({info.filename: archive.read(info) for info in archive.infolist()})


def _file_of(name: str, root: Path) -> Path:
    """Where this file of the package is recorded, relative to the root."""
    if f"{_PACKAGE}{name}" == LIBRARY:
        return OF_LIBRARY
    return source_of(root, Path(name).stem).parent / IMAGES


def _files(root: Path) -> Iterator[Path]:
    yield from sorted(path.relative_to(root) for path in (root / FAMILIES).glob(f"*/{IMAGES}"))
    if (root / OF_LIBRARY).is_file():
        yield OF_LIBRARY


def read(root: Path, target: str) -> Digests:
    """What is recorded of this target's default wheel; GateError for a file that the command would not write."""
    found: Digests = {}
    for path in _files(root):
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("#"):
                continue
            match = _LINE.fullmatch(line)
            if match is None or (target in match[3].split() and match[2] in found):
                raise GateError(f"{path}, line {number}, is not what `{ACCEPT}` writes: {line[:100]!r}; run that")
            if target in match[3].split():
                found[match[2]] = match[1]
    return found


def _differences(recorded: Digests, found: Digests) -> Iterator[str]:
    names = {digest: name for name, digest in recorded.items()}
    for name in sorted(recorded.keys() | found.keys()):
        old, new = recorded.get(name), found.get(name)
        if old != new:
            said = [f"recorded {old:.12}…" if old else "not recorded", f"here {new:.12}…" if new else "not here"]
            other = f", which is recorded of {names[new]}" if new in names else ""
            yield f"{name}: {', '.join(said)}{other}"


def differences(root: Path, target: str, found: Digests) -> list[str]:
    """Where a default wheel of this target is not what the tree says, a line each."""
    return [*_differences(read(root, target), found)]


def check(wheel: Path, request: Request, root: Path | None = None) -> str:
    """Whether a build made the recorded bytes, in words; GateError where a default wheel is another."""
    root = root or project().root
    if not request.is_default:
        return "not compared: the sha256 of default wheels alone are recorded"
    found = of_wheel(wheel)
    lines = differences(root, request.target.name, found)
    if not lines:
        return f"the recorded bytes: {len(found) - 1} images and the library"
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    said = [
        f"{wheel.name} is built, and is not what {FAMILIES}/*/{IMAGES} and {OF_LIBRARY} say:", *lines[:SHOWN], *more,
        "If no source was changed, this machine gave other bytes than it should: `./kw verify -- WHEEL` says where.",
        f"If one was, and this is meant, record it and commit the files with the change: {ACCEPT}",
    ]  # fmt: skip
    raise GateError("\n".join(said))


def texts(wheels: Mapping[str, Digests], root: Path) -> dict[Path, str]:
    """Every file of the record, from target -> what its default wheel has."""
    targets: dict[Path, dict[tuple[str, str], list[str]]] = {}
    for target, found in wheels.items():
        for name, digest in found.items():
            targets.setdefault(_file_of(name, root), {}).setdefault((name, digest), []).append(target)
    return {
        path: HEAD + "".join(f"{digest}  {name}  {' '.join(of)}\n" for (name, digest), of in sorted(rows.items()))
        for path, rows in targets.items()
    }


def write(wheels: Mapping[str, Digests], root: Path | None = None) -> list[Path]:
    """Puts the record of these wheels in the place of what was there; the files that changed."""
    root = root or project().root
    made = texts(wheels, root)
    gone = [path for path in _files(root) if path not in made]
    for path in gone:
        (root / path).unlink()
    return [path for path, text in sorted(made.items()) if write_if_changed(root / path, text.encode())] + gone
