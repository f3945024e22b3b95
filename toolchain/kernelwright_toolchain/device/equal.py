# SPDX-License-Identifier: MIT
"""Which images a default wheel leaves out, because all that is loaded of them equals another image's that it has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kernelwright_toolchain.device.image import Image
    from kernelwright_toolchain.request import Request
    from kernelwright_toolchain.targets import Code


def may_serve(code: Code, instead: Code) -> bool:
    """Whether images of `instead` may be packed in place of equal ones of `code`: they run wherever those do."""
    if code.always or {code.kind, instead.kind} != {"cubin"}:
        return False
    return set(code.runs_on) <= set(instead.runs_on)


def with_equals(request: Request, images: Iterable[Image]) -> tuple[Image, ...]:
    """The images, each that is left out with the code that serves in its place: the first of the table that may.

    Codes that a person asked for by name all stay, and so do those of a debug build, whose line tables differ.
    """
    if not request.is_default_codes or request.debug:
        return tuple(images)
    codes = {code.name: code for code in request.codes}
    kept: dict[str, list[Image]] = {}
    found = []
    for image in images:
        before = kept.setdefault(image.op, [])
        fitting = (one for one in before if may_serve(codes[image.code], codes[one.code]))
        serving = next((one for one in fitting if one.loaded == image.loaded), None)
        if serving is None:
            before.append(image)
            found.append(image)
        else:
            found.append(replace(image, served_by=serving.code))
    return tuple(found)
