# SPDX-License-Identifier: MIT
"""The program `python -m kernelwright`: the doctor and its tools. Needs no torch."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# The verb and the module whose main() it is. Without a verb: the first.
_VERBS = {
    "doctor": "kernelwright.doctor.report.command",
    "explain": "kernelwright.doctor.explain._print",
    "xray": "kernelwright.doctor.xray.command",
}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    verb = given.pop(0) if given and not given[0].startswith("-") else "doctor"
    if verb not in _VERBS:
        print(f"kernelwright has no verb {verb!r}; it has {', '.join(_VERBS)} (each with --help)", file=sys.stderr)
        return 2
    try:
        return int(importlib.import_module(_VERBS[verb]).main(given))
    except BrokenPipeError:  # the reader, such as `| head`, went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    sys.exit(main())
