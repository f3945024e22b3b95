# SPDX-License-Identifier: MIT
"""The option --html of a command line, and the file it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def pages_of(arguments: Sequence[str]) -> tuple[list[str], list[Path] | None]:
    """The other arguments, and the files that --html names; None where it names none."""
    others, pages, left = [], [], iter(arguments)
    for argument in left:
        option, has_value, value = argument.partition("=")
        if option != "--html":
            others.append(argument)
            continue
        name = value if has_value else next(left, "")
        if not name or name.startswith("-"):
            return others, None
        pages.append(Path(name))
    return others, pages


def write(path: Path, text: str) -> bool:
    """False, with the reason told, where the file cannot be written."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        print(f"the page cannot be written: {error}", file=sys.stderr)
        return False
    return True
