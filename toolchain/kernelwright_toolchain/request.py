# SPDX-License-Identifier: MIT
"""What a build was asked for, resolved against targets.toml before anything runs, and the label that names it.

It is settled once, in the process that a person started; others are given its settings.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.project import project
from kernelwright_toolchain.targets import Code, Table, Target, Toolkit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SOURCES = Path("csrc/ops")
DEFAULT_PROVIDER = "pip"
_YES, _NO = ("1", "true", "yes", "on", ""), ("0", "false", "no", "off")
AUTO = "auto"  # whoever has the providers replaces this before a label is made


@dataclass(frozen=True)
class Request:
    """One build: every field is resolved, codes stand in the table's order, ops and images are sorted.

    An image is a .cu file for a code. One that is named like an operator is that operator's own; any other of a family
    is shared by the family's operators.
    """

    target: Target
    toolkit: Toolkit
    codes: tuple[Code, ...]
    ops: tuple[str, ...]
    images: tuple[str, ...]
    shared: tuple[tuple[str, str], ...]  # of operators without an image of their own: the operator, the image it takes
    provider: str
    debug: bool
    default_codes: tuple[Code, ...]  # of this target with this toolkit
    all_ops: tuple[str, ...]

    @property
    def is_default_toolkit(self) -> bool:
        return self.toolkit.name == self.target.toolkit

    @property
    def is_default_codes(self) -> bool:
        return self.codes == self.default_codes

    @property
    def is_default_ops(self) -> bool:
        return self.ops == self.all_ops

    @property
    def is_default(self) -> bool:
        """Whether this is the one build of its platform tag that carries the plain version."""
        return label(self) == ""


def label(request: Request) -> str:
    """The local version label (PEP 440) of this build; "" for the default set.

    Two targets may share a platform tag; only the one that is released has the plain name.
    """
    if request.provider == AUTO:
        raise RequestError(f"provider {AUTO!r} has no label: a build is named after the provider that was picked")
    parts = []
    if not request.target.release:
        parts.append(request.target.name)
    if not (request.is_default_toolkit and request.is_default_codes):
        parts.append(request.toolkit.name)
    if not request.is_default_codes:
        parts += [code.name for code in request.codes]
    if not request.is_default_ops:
        parts += request.ops
    if request.provider != DEFAULT_PROVIDER:
        parts.append(request.provider)
    if request.debug:
        parts.append("debug")
    return ".".join(re.sub(r"[^a-z0-9]", "", part.lower()) for part in parts)


def find_images(root: Path | None = None) -> tuple[str, ...]:
    """The stems of csrc/ops/<family>/*.cu."""
    root = root or project().root
    found = sorted(path.stem for path in (root / SOURCES).glob("*/*.cu"))
    if not found:
        raise RequestError(f"no device source <family>/*.cu in {root / SOURCES}: is this the root of the tree?")
    return tuple(found)


def find_ops(root: Path | None = None) -> dict[str, tuple[str, ...]]:
    """Each operator with the images that it needs: its own, if it has one, and those that its family shares.

    An operator is a public header of a family; a family without any has an operator for each image.
    """
    root = root or project().root
    ops: dict[str, tuple[str, ...]] = {}
    for family in sorted({path.parent for path in (root / SOURCES).glob("*/*.cu")}):
        images = sorted(path.stem for path in family.glob("*.cu"))
        names = sorted(path.stem for path in (family / "api").glob("*.h")) or images
        shared = [image for image in images if image not in names]
        for name in names:
            ops[name] = tuple(sorted([*shared, *([name] if name in images else [])]))
    return dict(sorted(ops.items()))


def find_target(table: Table, name: str | None = None, machine: str | None = None) -> Target:
    """The row of this name, else the released one of this machine."""
    machine = machine or platform.machine()
    known = ", ".join(table.targets)
    if name is not None:
        if name not in table.targets:
            raise RequestError(f"target {name!r} is not in targets.toml; there are {known}")
        return table.targets[name]
    for target in table.targets.values():
        if target.machine == machine and target.release:
            return target
    raise RequestError(f"no released target is for this machine ({machine}); name one with --target: {known}")


def _toolkit(table: Table, target: Target, name: str | None) -> Toolkit:
    if name is None:
        return table.toolkits[target.toolkit]
    for toolkit in table.toolkits.values():
        if name in (toolkit.name, str(toolkit.release)):
            return toolkit
    raise RequestError(f"toolkit {name!r} is not in targets.toml; there are {', '.join(table.toolkits)}")


def _words(text: str, option: str) -> list[str]:
    words = [word for word in re.split(r"[;,\s]+", text) if word]
    if not words:
        raise RequestError(f"{option} {text!r} names nothing; leave the option out for the default set")
    return words


def _codes_of(table: Table, word: str) -> list[Code]:
    """A number, with the dot before its last digit or without: that cubin. A row's name: that row.

    `+ptx`: its PTX too, as in PyTorch's arch list.
    """
    plain, plus, extra = word.lower().partition("+")
    number = re.sub(r"^((?:sm_)?\d+)\.(\d[a-z]?)$", r"\1\2", plain)

    def cubin(code: Code) -> bool:
        return code.kind == "cubin" and number in (code.number, code.name)

    wanted: list[Callable[[Code], bool]] = [cubin]
    if plus:
        wanted.append(lambda code: code.kind == "ptx" and number == code.number)
    elif plain in table.codes:
        wanted = [lambda code: code.name == plain]
    found = [code for want in wanted for code in table.codes.values() if want(code)]
    if len(found) != len(wanted) or (plus and extra != "ptx"):
        rows = ", ".join(table.codes)
        raise RequestError(f"arch {word!r} is not in targets.toml; there are {rows} (a bare number means the sm_ row)")
    return found


def _check_known(table: Table, toolkit: Toolkit, code: Code) -> None:
    if code.toolkits.knows(toolkit.release):
        return
    able = [t.name for t in table.toolkits.values() if code.toolkits.knows(t.release)]
    cure = f"ask for --toolkit {' or '.join(able)}, or leave the arch out" if able else "leave the arch out"
    raise RequestError(
        f"toolkit {toolkit.name} (CUDA {toolkit.release}) cannot make {code.name}: "
        f"that is known to CUDA {code.toolkits}; {cure}"
    )


def _codes(table: Table, target: Target, toolkit: Toolkit, archs: str | None) -> tuple[Code, ...]:
    if archs is None:
        codes = table.default_codes(target, toolkit)
        if not codes:
            raise RequestError(
                f"toolkit {toolkit.name} (CUDA {toolkit.release}) knows none of {target.name}'s codes: "
                f"{', '.join((*target.cubins, *target.ptx))}; ask for --toolkit {target.toolkit}"
            )
        return codes
    asked = {code.name for word in _words(archs, "--archs") for code in _codes_of(table, word)}
    codes = tuple(code for code in table.codes.values() if code.name in asked)
    for code in codes:
        _check_known(table, toolkit, code)
    return codes


def _in_table_order(table: Table, toolkit: Toolkit, codes: Iterable[Code]) -> tuple[Code, ...]:
    """With the features that the toolkit can compile."""
    names = {code.name for code in codes}
    return tuple(table.made(code, toolkit) for code in table.codes.values() if code.name in names)


def _ops(found: tuple[str, ...], asked: str | None) -> tuple[str, ...]:
    if asked is None:
        return found
    ops = sorted(set(_words(asked, "--ops")))
    unknown = [op for op in ops if op not in found]
    if unknown:
        raise RequestError(
            f"op {unknown[0]!r} has no {SOURCES}/<family>/api/{unknown[0]}.h; there are {', '.join(found)}"
        )
    return tuple(ops)


def codes_of(table: Table, target: Target, toolkit: Toolkit, archs: str | None) -> tuple[Code, ...]:
    """What is asked for, in the table's order; without, the target's own."""
    return _in_table_order(table, toolkit, _codes(table, target, toolkit, archs))


def resolve(
    table: Table,
    *,
    target: str | None = None,
    toolkit: str | None = None,
    archs: str | None = None,
    ops: str | None = None,
    provider: str = DEFAULT_PROVIDER,
    debug: bool = False,
    root: Path | None = None,
    machine: str | None = None,
) -> Request:
    """The request behind the options of a command line, or a RequestError that says what there is."""
    root = root or project().root
    row = find_target(table, target, machine)
    kit = _toolkit(table, row, toolkit)
    if provider != AUTO and provider not in kit.hosts:
        raise RequestError(f"provider {provider!r} does not exist; there are {', '.join((*kit.hosts, AUTO))}")
    images = find_images(root)  # refuses what is no tree
    found = find_ops(root)
    wanted = _ops(tuple(found), ops)
    return Request(
        target=row,
        toolkit=kit,
        codes=codes_of(table, row, kit, archs),
        ops=wanted,
        images=tuple(image for image in images if any(image in found[op] for op in wanted)),
        shared=tuple((op, found[op][0]) for op in wanted if found[op] and op not in found[op]),
        provider=provider,
        debug=debug,
        default_codes=_in_table_order(table, kit, table.default_codes(row, kit)),
        all_ops=tuple(found),
    )


def _debug(ours: Mapping[str, str]) -> bool:
    text = ours.get("debug", "no").lower()
    if text not in _YES + _NO:
        raise RequestError(f"setting debug={text!r} is neither yes ({', '.join(_YES[:-1])}) nor no ({', '.join(_NO)})")
    return text in _YES


def settled(table: Table, ours: Mapping[str, str], *, fetching: bool = False) -> Request:
    """The request behind the settings, with provider and toolkit decided for this machine.

    `fetching`: what is missing is about to be fetched, so that it is missing now is no reason to refuse.
    """
    from kernelwright_toolchain import providers
    from kernelwright_toolchain.providers import environment, host, pip

    pip.check_place(project().root)
    provider, toolkit = ours.get("provider", AUTO), ours.get("toolkit")
    here = environment.active() if provider in (AUTO, providers.LOCKED, "nix") else None
    asked = ours.get("target") or (here.target if here else None)  # a Nix shell is for one target
    target = resolve(table, target=asked, provider=AUTO, ops=ours.get("ops")).target
    provider, toolkit = providers.settle(table, provider, toolkit, target.toolkit, fetching=fetching)
    request = resolve(
        table,
        target=target.name,
        toolkit=toolkit,
        archs=ours.get("archs"),
        ops=ours.get("ops"),
        provider=provider,
        debug=_debug(ours),
    )
    providers.refuse(provider, request.toolkit, table)
    host.check_target(table, target, provider)
    return request


def settings(request: Request) -> dict[str, str]:
    """The request in words, as the build backend takes them; sets that are the default ones are left to it, and so to
    the label."""
    given = {
        "target": request.target.name,
        "toolkit": request.toolkit.name,
        "provider": request.provider,
        "debug": "yes" if request.debug else "no",
    }
    if not request.is_default_codes:
        given["archs"] = ",".join(code.name for code in request.codes)
    if not request.is_default_ops:
        given["ops"] = ",".join(request.ops)
    return given


def restored(table: Table, words: Mapping[str, str]) -> Request:
    """The request of which these are the settings: in another process, where nothing is decided again."""
    return resolve(
        table,
        target=words["target"],
        toolkit=words["toolkit"],
        archs=words.get("archs"),
        ops=words.get("ops"),
        provider=words["provider"],
        debug=_debug(words),
    )
