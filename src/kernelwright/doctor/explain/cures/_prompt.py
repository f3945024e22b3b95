# SPDX-License-Identifier: MIT
"""A command of Unix as the prompt of Windows takes it: variables are set by a word of their own there."""

from __future__ import annotations

import re

_QUOTES = "\"'"
_VALUE = r"(\"[^\"]*\"|'[^']*'|[^\s&|;]*)"
_SET = re.compile(rf"([A-Z][A-Z0-9_]*)={_VALUE}\s*")
_EXPORT = re.compile(rf"\bexport ((?:[A-Z][A-Z0-9_]*={_VALUE}\s*)+)")
_BEFORE = re.compile(rf"(^|&& |& )((?:[A-Z][A-Z0-9_]*={_VALUE}\s+)+)(?=\S)")
_UNSET = re.compile(r"\bunset ((?:[A-Za-z_]\w*\s*)+)")
# What nothing there is like: then the command stays.
_OF_UNIX = re.compile(
    r"\b(sudo|apt-get|dnf|pacman|zypper|docker|xargs|grep|sed|find|modprobe|nix|until|cd /(?! &&))\b|<\(|\bif \["
)
_QUERY = re.compile(r'([A-Z_]+)="?\$\(nvidia-smi (--query-gpu=compute_cap) --format=csv,noheader[^)]*\)"?')


def _assigned(words: str) -> str:
    return " & ".join(f'set "{name}={value.strip(_QUOTES)}"' for name, value in _SET.findall(words))


def in_cmd(command: str) -> str:
    """The command for cmd.exe; as it is, where it cannot be said there."""
    asked = _QUERY.search(command)
    if asked:  # the loop sets one variable, which is what builds by torch's rules read
        query = f"nvidia-smi {asked[2]} --format=csv^,noheader"
        given = f"for /f %i in ('{query}') do set {asked[1]}=%i"
        if "tr -d ." in asked[0]:
            given = f"for /f \"tokens=1,2 delims=.\" %i in ('{query}') do set {asked[1]}=%i%j"
        rest = command[asked.end() :].lstrip()
        rest = re.sub(r"^[A-Z_]+=\S+\s*(&& )?|^&& ", "", rest)
        return f"{given} & {rest}" if rest else given
    if _OF_UNIX.search(command) or "$(" in command or "$V" in command:
        return command
    command = re.sub(r"^cd / && ", r"cd \\ && ", command)
    command = re.sub(r"\brm -rf (\S+) && ", r"rmdir /s /q \1 & ", command)
    command = _UNSET.sub(lambda found: " & ".join(f'set "{name}="' for name in found[1].split()) + " ", command)
    command = _EXPORT.sub(lambda found: _assigned(found[1]), command)
    command = _BEFORE.sub(lambda found: f"{found[1]}{_assigned(found[2])} & ", command)
    return re.sub(r'(set "\w+=") +&& ', r"\1 & ", command).strip()
