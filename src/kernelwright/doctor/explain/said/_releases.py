# SPDX-License-Identifier: MIT
"""Releases and GPUs as logs write them."""

from __future__ import annotations

import re

from kernelwright import _files

_FLAGS = re.IGNORECASE | re.MULTILINE


def _first(text: str, *patterns: str) -> str:
    for pattern in patterns:
        found = re.search(pattern, text, _FLAGS)
        if found:
            return next(part for part in found.groups() if part)
    return ""


def _dotted(digits: str) -> str:
    """ "128" as the index writes a release, with its dot."""
    return f"{digits[:-1]}.{digits[-1]}" if digits.isdecimal() and len(digits) > 2 else digits


def torch(text: str) -> str:
    return _first(
        text,
        r"torch[ =:-]+(\d+\.\d+\.\d+)(?:\+\w+)?\b",
        r"name: torch\s+version: (\d+\.\d+\.\d+)",
        r"you have torch (\d+\.\d+\.\d+)",
        r"pytorch(?: version)?[ =:(v)]+(\d+\.\d+\.\d+)",
    )


def torch_cuda(text: str) -> str:
    found = _first(
        text,
        r"version (?:that was used to compile|torch was compiled with)\W{1,12}(?:pytorch \()?(\d+\.\d+)",
        r"mismatches the version that was used to compile.{1,120}?', '\d+\.\d+', '(\d+\.\d+)'",
        r"pytorch \((\d+\.\d)\)",
        r"binaries were compiled with cuda (\d+\.\d)",
        r"torch[ =:\w-]{0,20}?\d+\.\d+\.\d+\+cu(\d{3})",
        r"torch_extensions/py\d+_cu(\d{3})",
        r"cuda used to build pytorch:? (\d+\.\d+)|\bcuda built:? (\d+\.\d+)|torch\.version\.cuda\W{1,6}(\d+\.\d+)",
        r"name: torch\s+version: [\d.]+\+cu(\d{3})\b",
        r"\b[12]\.\d{1,2}\.\d\+cu(\d{3})\b",
    )
    return _dotted(found)


def toolkit(text: str) -> str:
    return _first(
        text,
        r"detected cuda version \((\d+\.\d+)\)",
        r"detected cuda version \(%s\).{1,200}?', '(\d+\.\d+)', '\d+\.\d+'",
        r"installed cuda version (\d+\.\d+)",
        r"cuda compiler identification is nvidia (\d+\.\d+)",
        r"release (\d+\.\d+), v\d",
        r"by cuda (\d+\.\d+) \(",
        r"(?:cuda-|cuda\\v|nvcc[ /-]|cudatoolkit[ =])(\d{1,2}\.\d)\b",
    )


def level(text: str) -> int | None:
    found = re.search(r"found version (\d{4,5})\b", text)
    if found:
        return int(found[1])
    shown = _first(
        text,
        r"cuda version: (\d+\.\d+)",
        r"driver supports cuda (\d+\.\d+)",
        r"driver'?s? (?:cuda )?level (?:is )?(\d+\.\d+)",
    )
    major, _, minor = shown.partition(".")
    return int(major) * 1000 + int(minor) * 10 if shown else None


# GPUs by the names that people write, beside those of the table: (pattern, capability).
_OLDER = (
    (r"gt ?x? ?7[0-9]0\b|tesla k40|tesla k20|titan black", 35),
    (r"tesla k80", 37),
    (r"gtx ?(?:9[5-8]0|titan x)|tesla m[46]0|quadro m\d", 52),
    (r"tesla p100", 60),
    (r"gtx ?10[5-8]0|titan xp?\b|tesla p4\b|tesla p40|quadro p\d", 61),
    (r"tx2", 62),
    (r"jetson nano", 53),
    (r"rtx 8000|rtx 6000\b(?! ada)|quadro rtx|titan rtx", 75),
    (r"spark|gb10\b", 121),
    (r"orin\b", 87),
    (r"xavier\b", 72),
)


def of_name(text: str) -> int | None:
    """The capability of the GPU that a text names."""
    for code in _files.read(_files.TARGETS)["codes"].values():
        for board in code.get("boards", []):
            name = re.escape(board)
            # A series stands for its members: the name of one goes on with digits.
            name = rf"{name}\d\d" if re.search(r"X \d0$", board) else name
            if re.search(rf"\b{name}\b", text, re.IGNORECASE):
                return int(code["runs_on"][0].replace(".", ""))
    return next((number for pattern, number in _OLDER if re.search(rf"\b(?:{pattern})", text, re.IGNORECASE)), None)


def capability(text: str) -> int | None:
    found = _first(
        text,
        r"with cuda capability sm_(\d{2,3})",
        r"gpu has compute capability (\d+\.\d)",
        r"current capability: (\d{2,3})",
        r"gpu with cuda capability (\d+\.\d)",
        r"compatible with cuda arch (\d{2,3})0\b",
        r"got compute (\d\.\d)",
        r"cuda arch \(?(\d+\.\d)\)? or gpu",
        r"compute capability:? (\d+\.\d)(?! *or)",
    )
    return int(found.replace(".", "")) if found else of_name(text)
