# SPDX-License-Identifier: MIT
"""What a wheel must be before it is kept. Each gate looks at the finished members, never at what was meant."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright_toolchain.cubin import check, loaded
from kernelwright_toolchain.device.equal import may_serve
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.families import COMMON, MOST
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.project import project
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.request import Request, label
from kernelwright_toolchain.targets import Code
from kernelwright_toolchain.wheel.elf import Needs, defined, parse
from kernelwright_toolchain.wheel.shares import LIBRARY, Share, over

MANIFEST = "kernelwright/manifest.json"
LARGEST_CODE = 1_000_000  # what a code may add where somebody asks for more codes than a release has
EXPORTED = ("kw_*",)
_MADE = (".so", ".cubin", ".ptx", ".json", ".cmake", "/WHEEL")  # by a compiler or this toolchain; the others are copies
POLICY_LOCK = "audit"  # the dependency group with auditwheel, whose table of the manylinux policies is read


def policies() -> list[dict[str, Any]] | None:
    """auditwheel's table of what each manylinux tag allows, if it is provisioned."""
    home = pip.home(lock_of(POLICY_LOCK))
    table = home / "auditwheel" / "policy" / "manylinux-policy.json"
    if not table.is_file():
        return None
    found: list[dict[str, Any]] = json.loads(table.read_text(encoding="utf-8"))
    return found


def keeps_to_policy(needs: Needs, tag: str, known: list[dict[str, Any]], library: str) -> None:
    """The platform tag's own rules, as auditwheel has them: libraries and the versions of their symbols."""
    name, _, machine = tag.removeprefix("manylinux_").partition("_")
    minor, _, machine = machine.partition("_")
    policy = next((row for row in known if row["name"] == f"manylinux_{name}_{minor}"), None)
    if policy is None or machine not in policy["symbol_versions"]:
        raise GateError(
            f"{library}: auditwheel knows no policy {tag}; it has {', '.join(row['name'] for row in known)}"
        )
    for wanted in needs.libraries:
        if wanted not in policy["lib_whitelist"] and not wanted.startswith("ld-linux"):
            raise GateError(f"{library} needs {wanted}, which {tag} does not allow (auditwheel's policy)")
    versions = policy["symbol_versions"][machine]
    for source, text in needs.versions:
        family, _, version = text.partition("_")
        if version and version not in versions.get(family, ()):
            raise GateError(f"{library} needs {text} of {source}, which {tag} does not allow (auditwheel's policy)")


def exports(data: bytes, library: str) -> None:
    """Nothing but the C ABI: another name might meet another library's in one process."""
    names = [symbol.name for symbol in defined(data) if symbol.is_global]
    alien = [name for name in names if not any(fnmatch.fnmatchcase(name, form) for form in EXPORTED)]
    if alien:
        raise GateError(
            f"{library} exports {', '.join(alien[:5])}{' …' if len(alien) > 5 else ''}; it may export "
            f"{', '.join(EXPORTED)} alone (cmake/exports.map)"
        )
    if not names:
        raise GateError(f"{library} exports nothing; a C ABI of {', '.join(EXPORTED)} was expected")


def runs_with_older_libraries(data: bytes, library: str) -> None:
    """No function that glibc 2.38's headers put in an old one's place: the floor sees it only where it is given."""
    if found := re.search(rb"\0(__isoc23_\w+)\0", data):
        raise GateError(
            f"{library} calls {found[1].decode()}, which glibc has since 2.38 only, for strtol, sscanf or their like: "
            "use csrc/core/number.h in what is packed"
        )


def _equal(what: str, served_by: Mapping[str, str], file: bytes, code: Code, request: Request) -> None:
    """An image that was left out: asked for by nobody by name, and all that is loaded is in the file that serves."""
    instead = next((one for one in request.codes if one.name == served_by["code"]), None)
    if instead is None or not may_serve(code, instead) or not request.is_default_codes or request.debug:
        raise GateError(
            f"{what} was left out for the image of {served_by['code']}, which may not serve in its place: only default "
            "sets leave images out, for one that runs wherever they do, and never where the row says `always`"
        )
    check(file, instead)
    if (found := loaded(file)) != served_by["loaded"]:
        raise GateError(
            f"{what} was left out for the image of {instead.name}, which loads something else: {found}, and what was "
            f"left out {served_by['loaded']}; remove the build directory and build again"
        )


def images(members: Mapping[str, bytes], request: Request) -> None:
    """Each operator is there for each code that was asked for, and each image is for the code it claims, or for another
    of which the same is loaded.
    """
    listed = {(image["op"], image["code"]): image for image in json.loads(members[MANIFEST])["images"]}
    for code in request.codes:
        for op in request.images:
            row = listed.get((op, code.name), {"path": f"kernels/{code.name}/{op}.{code.suffix}"})
            path = f"kernelwright/{row['path']}"
            if (op, code.name) not in listed or path not in members:
                have = sorted({name for _, name in listed})
                raise GateError(
                    f"the wheel lacks {op} for {code.name} ({path}); it has {', '.join(have) or 'no image'}"
                )
            if row.get("served_by"):
                _equal(f"{op} for {code.name}", row["served_by"], members[path], code, request)
            else:
                check(members[path], code)
    lying = {f"kernelwright/{row['path']}" for row in listed.values()}
    stray = [n for n in members if n.startswith("kernelwright/kernels/") and n not in lying]
    if stray:
        raise GateError(f"the wheel holds {stray[0]}, which its manifest does not name; remove the build directory")


def names_no_machine(members: Mapping[str, bytes]) -> None:
    """No path of this tree or of whoever built it, in any byte: elsewhere it would be another one.

    A text may name a place right below the root, such as /tmp, for reasons of its own: those are looked for in what
    was made here.
    """
    homes = {str(project().root), os.path.normpath(os.path.expanduser("~"))}  # noqa: PTH111 - a user may have none: then it stays
    for place in sorted(homes - {"/", "~"}):
        short = len(Path(place).parts) == 2
        for name in sorted(name for name in members if name.endswith(_MADE) or not short):
            if f"{place}/".encode() in members[name]:
                raise GateError(
                    f"{name} holds the path {place}/ of the build machine; compile with "
                    "-ffile-prefix-map, and put no path into a generated file"
                )


def size(name: str, packed: bytes, shares: Sequence[Share], request: Request) -> None:
    """A released wheel by its families' budgets. A label tells that it is none: it may have more codes and operators.

    Debug builds may be as big as they like.
    """
    if request.debug:
        return
    released = not label(request)
    for share in shares if released else ():
        if share.size > share.limit:
            what = f"its images ({share.images:,}) and its part of the library ({share.library:,})"
            if share.family == COMMON:
                what = f"its part of the library ({share.library:,}) and all that is no image ({share.rest:,})"
            raise over(share.family, share.size, share.limit, what, project().root)
    largest = MOST if released else max(MOST, LARGEST_CODE * len(request.codes))
    if len(packed) > largest:
        raise GateError(
            f"{name} has {len(packed):,} bytes, more than {largest:,}; `python -m kernelwright xray` lists what its "
            "codes take. Leave codes or operators out, or make kernels share code"
        )


def tag_is_earned(members: Mapping[str, bytes], name: str, tag: str) -> None:
    """File name, WHEEL file and library say the same."""
    wheel = next(data for member, data in members.items() if member.endswith(".dist-info/WHEEL")).decode()
    if f"\nTag: {tag}\n" not in wheel or not name.endswith(f"-{tag}.whl"):
        raise GateError(f"{name}: the library has earned {tag}, and the file name or WHEEL says otherwise")


def inspect(members: Mapping[str, bytes], name: str, tag: str, request: Request, *, with_paths: bool) -> None:
    """All but the size. `with_paths`: an editable install, which must name this tree."""
    library = members[LIBRARY]
    exports(library, LIBRARY)
    runs_with_older_libraries(library, LIBRARY)
    images(members, request)
    tag_is_earned(members, name, tag)
    if known := policies():
        keeps_to_policy(parse(library), tag.rpartition("-")[2], known, LIBRARY)
    if request.provider == "pip" and not request.debug and not with_paths:
        names_no_machine(members)
