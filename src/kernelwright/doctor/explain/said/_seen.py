# SPDX-License-Identifier: MIT
"""What a log shows to be there already, and what somebody says to have tried: the next command starts from both."""

from __future__ import annotations

import re

_PLACE = r"(?<![\w./~-])((?:/[\w.+-]+)+)/{name}(?![\w.-])"
_NOT_THERE = re.compile(
    r"['\"]?:? {0,2}(cannot open|can't|not found|is not|no such|file too short|undefined|version|invalid|: error|=>)"
)
_HOMES = re.compile(r"(/usr/local/cuda-\d{1,2}\.\d|/opt/cuda-\d{1,2}\.\d)\b")
_STILL = re.compile(
    r"\b(still|again|same (error|issue|problem)|did ?n.?o?t (help|work|solve|fix)|does ?n.?o?t (help|work|solve|fix)"
    r"|no luck|not work(ing)?|without success|already|tried|even (after|though|if)|also (get|tried))\b",
    re.IGNORECASE,
)
_NEAR = 400  # characters between a command and what is said of it
_SAID_BY_PROGRAMS = re.compile(
    r"(please|you (can|may|should|need)|try|consider|use|run|hint|to (fix|install))\W[^\n]{0,60}$", re.IGNORECASE
)
_NOTEBOOK = re.compile(
    r"\bcolab\b|localhost:8080|<ipython-input|^!pip |^!python|/kaggle/|/tmp/ipykernel", re.IGNORECASE | re.MULTILINE
)


def place_of(library: str, text: str) -> str:
    """The directory in which a log shows a library to lie, where no loader complains of that very file; else ""."""
    if not library:
        return ""
    for found in re.finditer(_PLACE.replace("{name}", re.escape(library)), text):
        place = found[1]
        if ".." not in place and "/stubs" not in place and not _NOT_THERE.match(text, found.end()):
            return place
    return ""


def homes(text: str) -> list[str]:
    """Toolkits by their directories, each once."""
    return list(dict.fromkeys(_HOMES.findall(text)))


def tried(pattern: str, text: str) -> bool:
    """Whether somebody ran a command with this in it, and says near it that it did not help."""
    for found in re.finditer(pattern, text, re.IGNORECASE):
        if _SAID_BY_PROGRAMS.search(text, max(0, found.start() - 100), found.start()):
            continue
        if _STILL.search(text, max(0, found.start() - _NEAR), found.end() + _NEAR):
            return True
    return False


def notebook(text: str) -> bool:
    """Colab, Kaggle and the like: each line is a shell of its own, which forgets what was exported."""
    return bool(_NOTEBOOK.search(text))
