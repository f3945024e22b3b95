# SPDX-License-Identifier: MIT
"""What files are that hold nothing xray can judge: said in a few words, since each kind has its own remedy."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BEGINNINGS = (
    (b"version https://git-lfs.github.com/", "a pointer of Git LFS: the file itself was not fetched"),
    (b"MZ", "a program or library of Windows"),
    (b"\xcf\xfa\xed\xfe", "a library of macOS"),
    (b"\xca\xfe\xba\xbe", "a library of macOS"),
    (b"!<arch>\n", "a static library"),
    (b"\x7fELF", "an ELF file that is neither a library nor a program nor GPU code"),
    (b"\x1f\x8b", "packed by gzip: a source archive, as a rule"),
    (b"BZh", "packed by bzip2"),
    (b"\xfd7zXZ\0", "packed by xz"),
    (b"\x28\xb5\x2f\xfd", "packed by Zstandard"),
    (b"PK", "a zip archive"),
)
_PAGE = re.compile(rb"\s*<(!doctype html|html|\?xml)", re.IGNORECASE)
_LIBRARY = re.compile(r"\.so(\.\d+)*$")


def _is_text(beginning: bytes) -> bool:
    try:
        beginning.decode()
    except UnicodeDecodeError as error:
        if error.start < len(beginning) - 3:  # not only a letter that was cut
            return False
    return all(each >= 32 or each in b"\t\n\r\f\x1b" for each in beginning)


def kind_of(head: bytes, size: int) -> str:
    """What a file is that begins like this."""
    if not size:
        return "empty"
    for beginning, words in _BEGINNINGS:
        if head.startswith(beginning):
            return words
    if _PAGE.match(head):
        return "a page: the download ended in somebody's answer"
    if not head.strip(b"\0"):
        return f"{size} bytes that begin with zeros"
    if _is_text(head[:512]):
        return "a text"
    return f"{size} bytes that begin with {head[:4].hex(' ')}"


def is_called_library(name: str) -> bool:
    return bool(_LIBRARY.search(name))


def nothing_in(kind: str, names: Sequence[str], only: str) -> str:
    """What was given, in which nothing is compiled; `only` says what its one file is."""
    wanted = "no wheel, ELF library, fat binary, cubin or PTX"
    if kind == "file":
        return f"it is {only}; {wanted}"
    if not names:
        return f"the {kind} is empty"
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"the {kind} has {len(names)} files ({shown}), and none is an ELF library, fat binary, cubin or PTX"
