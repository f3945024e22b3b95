# SPDX-License-Identifier: MIT
"""What a cause is: one record, read by the log explainer, the tests and the documentation."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from functools import cache


class Area(enum.Enum):
    """Where the cause lies; what a person has to change."""

    DRIVER = "driver"
    GPU = "GPU"
    TORCH = "torch and Python packages"
    JETSON = "Jetson and other aarch64"
    TOOLCHAIN = "compilers and build tools"
    LIBRARIES = "libraries of the process"
    MACHINE = "memory, disk and rights"
    PACKAGE = "kernelwright's own files"
    SETTINGS = "environment variables and search paths"


@dataclass(frozen=True)
class Sign:
    """What one line of a log shows when the cause is at work.

    `weight` says how sure the line alone makes one: 3 says it in so many words, 2 is said by this cause as a rule,
    1 only supports others. Signs are about what programs print; what a program's name or a version is, is left open.
    """

    text: str
    weight: int = 3
    beside: tuple[str, ...] = ()
    """Each of these patterns has to stand somewhere in the log too."""
    apart: tuple[str, ...] = ()
    """And none of these."""

    @property
    def pattern(self) -> re.Pattern[str]:
        """The regular expression, in lower case. All together take a quarter of a second, which only logs need."""
        return _compiled(self.text)

    @property
    def small(self) -> str:
        """Its text in lower case."""
        return _small(self.text)


@cache
def _small(text: str) -> str:
    r"""Logs are searched in lower case, and so are the letters of the pattern (those behind a `\\` mean something
    else): `re.IGNORECASE` takes four times as long.
    """
    return re.sub(r"\\.|[A-Z]", lambda found: found[0] if len(found[0]) > 1 else found[0].lower(), text)


@cache
def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(_small(text), re.MULTILINE)


def sign(pattern: str, weight: int = 3, *, beside: tuple[str, ...] = (), apart: tuple[str, ...] = ()) -> Sign:
    """A sign from a regular expression, searched for anywhere in a line, in any case; `^` and `$` are a line's ends."""
    return Sign(pattern, weight, beside, apart)


def number(*codes: int) -> Sign:
    """CUDA's errors by their numbers, where a program prints no more than that."""
    found, apart = "|".join(map(str, codes)), r"[^\w\n]{0,4}"
    words = r"err|init failure|error|errno|returned|returns?|failed with|exit(ed)? with|code|status|result|errcode"
    return sign(
        rf"(\bcuda\w*|\bcu[a-z]\w+|\bnvrtc)\b.{{0,40}}\b({words}){apart}((code|number|value|is){apart})?({found})\b"
        rf"|\bcuda\w*error: \[({found})\]",
        2,
    )


@dataclass(frozen=True)
class Cause:
    """One thing that goes wrong. The code is its name for ever: never given to another."""

    code: str
    title: str
    """What is so, in a few words: not what the program said."""
    area: Area
    why: str
    fix: str
    """One command that can be pasted. What a log or a machine has to say first stands in it as <package>."""
    then: str = ""
    """What comes after it, and what else there is where the command is not for this system."""
    signs: tuple[Sign, ...] = ()
    needs: tuple[Sign, ...] = field(default=())
    """At least one of these must stand somewhere in the log too; without it the signs mean something else."""
    without: tuple[Sign, ...] = field(default=())
    """None of these stands anywhere in the log: with one of them the signs are another cause's consequence."""
    unless: tuple[Sign, ...] = field(default=())
    """A line with one of these is about something else, though a sign is in it."""
    yields_to: tuple[str, ...] = ()
    """Codes of causes that explain this one's signs better, where both show."""
    explains: tuple[str, ...] = ()
    """The other way round: codes of causes, of another package's too, that are this one's consequence in a log."""
