# SPDX-License-Identifier: MIT
"""What a line counts for in its log: many programs warn of what they lack at every start, and end for other reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kernelwright.doctor.explain._lines import Line

# What NCCL calls a warning is how it says its errors.
_WARNS = re.compile(
    r"(?<!\bnccl )\bwarn(ing)?\b|\w+warning\b|(^|: )[iw] (tensorflow|external|xla|tsl)/|^[iw]\d{4} "
    r"|^\W*(info|note|hint|debug)\b"
    r"|\bfall(ing|s)? back\b|(proceeding|processing) without|will not be (used|enabled)|error caught was|can be ignored"
    r"|\bskipping\b"
)
_ENDED = re.compile(r"^([a-z_]\w*\.)*[a-z_]\w*(error|exception)\b(: .|$)")
# An end that may well come from what was warned of.
_OURS = re.compile(
    r"\b(cuda\w*|gpus?|nvidia|cudnn|cublas|driver|devices?|kernels?|torch\w*|triton|xformers|flash\w*|bitsandbytes|nccl"
    r"|libcu\w+|libnv\w+|numpy|compil\w+|extension|librar(y|ies)|dll|c\+\+|operator|backend|nonetype|module|import)\b"
    r"|undefined|not defined|\.so\b|_c\b"
)


def only_warns(bare: str) -> bool:
    return bool(_WARNS.search(bare))


def ended_otherwise(lines: Sequence[Line], shown: Collection[int]) -> bool:
    """Whether the last exception of the log is about something else than what was found (the lines `shown`)."""
    for line in reversed(lines):
        if _ENDED.match(line.bare):
            return line.number not in shown and line.number > max(shown, default=0) and not _OURS.search(line.bare)
    return False
