# SPDX-License-Identifier: MIT
"""Would the compiled packages that stand on torch run here? Their files' headers are read, none of them is loaded.

They are other people's: what is wrong with one warns, and fails nothing of kernelwright's.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

from kernelwright.doctor._check import Check, Grade, Seen, check
from kernelwright.doctor.machine import extensions, python
from kernelwright.doctor.remedies import packages, wheels
from kernelwright.doctor.xray import symbols

if TYPE_CHECKING:
    from kernelwright.doctor.machine._machine import Machine
    from kernelwright.doctor.machine.extensions import Extension


# A search path that leads nowhere is told where something is missing because of it.
_MATTER_AS_WARNINGS = frozenset({"KW-083"})


def _of_no_use(libraries: list[Extension]) -> list[Extension]:
    """Those that keep a package from working: where it brings a library for each CUDA release, one is enough."""
    with_code = [one for one in libraries if one.has_gpu_code]
    if len(with_code) < 2:
        return libraries
    failing = [any(found.grade is Grade.FAILS for found in one.findings) for one in with_code]
    return with_code if all(failing) else []


def _fault(code: str) -> Check:
    """The check that looks for one of the causes which xray's judgement of a library names."""

    def look(machine: Machine) -> Seen | str | None:
        for package, group in groupby(machine.once(extensions.extensions), key=lambda one: one.package):
            for one in _of_no_use(list(group)):
                for found in one.findings:
                    if found.code == code and (found.grade is Grade.FAILS or code in _MATTER_AS_WARNINGS):
                        evidence = f"{one.name} ({package.name} {package.version}): {found.evidence}"
                        fix = wheels.ends(machine, code, package, found.evidence)
                        return Seen(evidence, *fix) if fix else evidence
        return None

    return Check(code, Grade.WARNS, look)


runtime_newer_than_driver = _fault("KW-003")
ptx_newer_than_driver = _fault("KW-005")
no_code_for_the_gpu = _fault("KW-010")
servers_build_on_tegra = _fault("KW-030")
other_processor = _fault("KW-036")
cuda_library_missing = _fault("KW-050")
newer_c_library = _fault("KW-052")
packed_too_new = _fault("KW-053")
other_library_missing = _fault("KW-054")
search_path_to_nowhere = _fault("KW-083")


def _dotted(tag: str) -> str:
    return f"{tag[0]}.{tag[1:]}"


@check("KW-094", Grade.WARNS)
def other_python(machine: Machine) -> Seen | None:
    """A file of the same module for this Python makes the other harmless."""
    own = machine.once(python.tag)
    found: dict[tuple[python.Package, str], list[str]] = {}
    for package, name in machine.once(extensions.libraries):
        match = re.search(r"(.*)\.cpython-(\d+)-[^/]*\.so$", name)
        if match and own:
            found.setdefault((package, match[1]), []).append(match[2])
    for (package, module), tags in found.items():
        if own not in tags:
            named = f"{package.name} {package.version}: {module}"
            evidence = f"{named} is compiled for Python {_dotted(tags[0])}, this is {_dotted(str(own))}"
            return Seen(
                evidence,
                packages.again(machine, package.name, package.version),
                "It has to have a wheel for this Python.",
            )
    return None


@check("KW-020", Grade.WARNS)
def other_torch(machine: Machine) -> Seen | None:
    torch = python.torch(machine)
    if torch is None:
        return None
    offered = symbols.Offered(machine, f"{torch.place}/lib")
    for package, name in machine.once(extensions.libraries):
        place = f"{package.place}/{name}"
        missing = offered.missing(machine.path(place)) if machine.is_file(place) else None
        if missing:
            evidence = (
                f"{name} ({package.name} {package.version}) wants {missing[:120]}, which torch {torch.version} lacks"
            )
            then = (
                "That builds it for this torch. Without a compiler: its wheel for this very torch, Python and C++ ABI."
            )
            return Seen(evidence, packages.built(machine, package.name, package.version), then)
    return None
