# SPDX-License-Identifier: MIT
"""What a refusal comes from: the doctor is asked before the error is raised, and the error carries what it says.

The library refuses before the first launch: it looks at the driver's level, the GPU, the kernel's file. Why the machine
is so, it cannot know. This file is read on failure only; nothing of the doctor is imported before.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kernelwright import _environment, errors

if TYPE_CHECKING:
    from kernelwright.doctor._check import Check, Finding
    from kernelwright.doctor.machine._machine import Machine

# The causes whose checks are asked, the one that explains the others first. Where no check finds one, the last stands:
# it is what the refusal says by itself.
_ASKED: dict[type[errors.KernelwrightError], tuple[str, ...]] = {
    errors.NoDriver: (
        *("KW-006", "KW-004", "KW-002", "KW-007", "KW-008", "KW-104", "KW-102", "KW-103", "KW-035"),
        "KW-001",
    ),
    errors.DriverTooOld: ("KW-004", "KW-032", "KW-076"),
    errors.NoDevice: ("KW-012", "KW-002", "KW-014", "KW-104", "KW-102", "KW-103", "KW-001", "KW-015"),
    errors.NoImage: ("KW-078", "KW-074"),
    errors.ImageMissing: ("KW-070",),
    errors.ImageCorrupt: ("KW-030", "KW-032", "KW-071"),
    errors.PackageIncomplete: ("KW-070",),
    errors.LibraryMismatch: ("KW-073", "KW-052", "KW-072"),
}
# The driver itself said no, of one of many reasons: what its words say counts, then what the machine shows.
_OF_THE_MACHINE = ("KW-004", "KW-014", "KW-030", "KW-032", "KW-009")
_WHILE_STARTING = ("starting CUDA", "cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction")

_asking = threading.local()
_known: dict[tuple[type, str], Finding | None] = {}


def machine() -> Machine:
    """The machine that is asked about."""
    from kernelwright.doctor.machine._machine import Machine

    return Machine(_environment.everything())


def with_cause(error: errors.KernelwrightError) -> errors.KernelwrightError:
    """The same error, with the code, the cause and the fix that the doctor names; unchanged where it names none."""
    if getattr(_asking, "now", False):  # by a check that opens the library itself
        return error
    _asking.now = True
    try:
        words = str(error)
        key = (type(error), words)
        if key not in _known:
            _known[key] = _ask(error, words)
        found = _known[key]
        return _told(error, words, found) if found else error
    except Exception:  # noqa: BLE001 - the doctor may be missing or broken: the refusal itself must not be lost
        return error
    finally:
        _asking.now = False


def _told(error: errors.KernelwrightError, words: str, found: Finding) -> errors.KernelwrightError:
    from kernelwright.doctor._told import as_data

    known = as_data(found)
    shown = f" ({found.evidence})" if found.evidence and found.evidence not in words else ""
    made = type(error)(
        f"{words} [{found.code}: {known['title']}{shown}; fix: {known['fix']}]"
    )  # one line: of a traceback the last
    made.code, made.cause, made.fix, made.then = found.code, known["why"], known["fix"], known["then"]
    return made


def _ask(error: errors.KernelwrightError, words: str) -> Finding | None:
    if isinstance(error, errors.CudaError):
        return _of_the_driver(words) if any(word in words for word in _WHILE_STARTING) else None
    asked = _ASKED.get(type(error))
    if asked is None:
        return None
    if isinstance(error, errors.NoDriver):  # what was opened in its place has told its name: no file tells more
        named = _named(words)
        if named is not None and named.code == "KW-006":
            return _found((named.code,)) or named
    return _found(asked) or _without_evidence(asked[-1])


def _without_evidence(code: str) -> Finding:
    from kernelwright.doctor._check import Finding, Grade

    return Finding(code, Grade.FAILS, "")


def _found(codes: tuple[str, ...]) -> Finding | None:
    """The first of the causes that a check finds here."""
    from kernelwright.doctor._check import Grade
    from kernelwright.doctor.checks import all_checks, examine

    of_ours: list[Check] = [one for one in all_checks() if one.code in codes and not _of_others(one)]
    found = {one.code: one for one in examine(machine(), of_ours) if one.grade is not Grade.UNKNOWN}
    return next((found[code] for code in codes if code in found), None)


def _of_others(one: Check) -> bool:
    """A check of other people's packages says nothing of why this one refuses."""
    return one.look.__module__.endswith(".extensions")


def _of_the_driver(words: str) -> Finding | None:
    found = _found(_OF_THE_MACHINE)
    named = _named(words)
    better = found is not None and (found.code != "KW-009" or named is None or named.code == found.code)
    return found if better else named


def _named(words: str) -> Finding | None:
    """The cause that the log explainer reads from the driver's own words."""
    from kernelwright.doctor.explain import explain

    answers = explain(words, own_alone=True).answers
    return _without_evidence(answers[0].cause.code) if answers else None
