# SPDX-License-Identifier: MIT
"""Several wheels side by side, as a table of Markdown: a row each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.xray._serve import numbers
from kernelwright.doctor.xray._torch import in_words
from kernelwright.doctor.xray.text import amount, plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_HEAD = ("wheel", "size", "machine code for", "PTX", "no code for", "CUDA runtime", "glibc", "torch")


def _codes(told: dict[str, Any], kind: str) -> str:
    found = {row["code"].partition("_")[2] for row in told["code"] if row["kind"] == kind and not row["relinked"]}
    return " ".join(sorted(found, key=lambda code: (int(re.sub(r"\D", "", code) or 0), code)))


def _runtimes(told: dict[str, Any]) -> str:
    """The shared ones it is linked to; where it is linked to none, but has nvcc's stubs, the runtime is inside it."""
    names = {name for file in told["files"] for name in file.get("needed", []) if name.startswith("libcudart.so")}
    inside = any(file.get("registers_kernels") for file in told["files"])
    return " ".join(sorted(names)) or ("inside" if inside else "none")


def _torch(told: dict[str, Any]) -> str:
    requires = (told["wheel"] or {}).get("requires", [])
    required = [one for one in requires if re.match(r"torch\b(?![-_.]?\w)", one)]
    fits = dict.fromkeys(words for file in told["files"] if (words := in_words(file)))
    return "; ".join([*(f"requires {one}" for one in required), *(f"symbols of {one}" for one in fits)]) or "none"


def _row(told: dict[str, Any]) -> list[str]:
    floors = [file["glibc"] for file in told["files"] if file.get("glibc")]
    lacking = [one["name"].partition(",")[0] for one in told["gpus"] if one["outcome"] == "fails"]
    return [
        re.sub(r"-(cp|py)\d.*", "", told["path"].rpartition("/")[2]),
        amount(told["size"]),
        _codes(told, "sass") or "none",
        _codes(told, "ptx") or "none",
        ", ".join(lacking) or "none",
        _runtimes(told),
        max(floors, key=numbers, default="none"),
        _torch(told),
    ]


def table(several: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The lines of the table."""
    yield f"| {' | '.join(_HEAD)} |"
    yield "|---" * len(_HEAD) + "|"
    for told in several:
        yield "| " + " | ".join(plain(cell).replace("|", "\\|").replace("<", "&lt;") for cell in _row(told)) + " |"
