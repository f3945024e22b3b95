# SPDX-License-Identifier: MIT
"""Takes out of a report what names a person or a machine, and leaves what names programs, files and versions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.report._names import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kernelwright.doctor.report._names import Names

    Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]

_LETTER = r"[^\W\d_]"
_UUID = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
_IPV4 = r"(?!127\.|0\.0\.0\.0)\d{1,3}(?:\.\d{1,3}){3}(?![\d.]*\w)"

# Whoever's: directories in which the next name is a person's, and what identifies a device on a network or in a shop.
_ANYBODYS: tuple[Rule, ...] = tuple(
    (re.compile(pattern), stand_in)
    for pattern, stand_in in (
        # Windows' names may have blanks, which end where the next directory begins.
        (r"((?:/mnt|/cygdrive)?/[a-zA-Z]/Users/|\b[a-zA-Z]:[\\/]+Users[\\/]+)(?:[^/\\\n:;'\"]+(?=[/\\])|[^\s/\\:;'\"]+)",
         r"\g<1><user>"),
        (r"(?<![\w.-])(/(?:home|Users|media|run/media)/)(?!<)[^/\s:;,'\"]+", r"\g<1><user>"),
        (r"(/per-user/)[^/\s:;,'\"]+", r"\g<1><user>"),
        (r"(?<![\w.-])(/run/user/)\d+", r"\g<1><user>"),
        (r"(://)[^\s/@:]+(?::[^\s/@]*)?@", r"\g<1><user>@"),
        (r"(?<![\w.+-])(?!git@)[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-zA-Z]{2,}\b", "<mail>"),
        (rf"\b((?:MIG-)?(?:GPU|MIG)-)(?:{_UUID}|[0-9a-fA-F]{{4,}}(?:-[0-9a-fA-F]+)*)", r"\g<1><uuid>"),
        (rf"\b{_UUID}\b", "<uuid>"),
        (r"(?<![\w:-])[0-9a-fA-F]{2}(?:([:-])[0-9a-fA-F]{2})(?:\1[0-9a-fA-F]{2}){4}(?![\w:-])", "<mac>"),
        # A version may have four numbers too: an address is one where one is expected.
        (rf"(?<=//){_IPV4}|(?<=@){_IPV4}|\b(?<![\d.-]){_IPV4}(?=:\d|:/|/\d{{1,2}}\b)", "<ip>"),
        (rf"(?i)\b((?:ip|inet|addr|address|host)[ =:]+){_IPV4}", r"\g<1><ip>"),
        (r"(?<![\w:.])(?=[\da-fA-F:]*\d)(?:fe80|f[cd][\da-fA-F]{2}|[23][\da-fA-F]{3})(?::{1,2}[\da-fA-F]{1,4}){2,7}(?![\w:])",
         "<ip>"),
    )
)  # fmt: skip


def _rules(known: Names) -> Iterator[Rule]:
    for home in known.homes:
        yield re.compile(rf"(?<![\w.-]){re.escape(home)}(?![\w.-])"), "<home>"
    yield from _ANYBODYS
    for host in known.hosts:
        whole = rf"(?<![\w.-]){re.escape(host)}(?:\.[a-zA-Z][\w-]*)*(?![\w-])"
        yield re.compile(whole, re.IGNORECASE), "<host>"
    for domain in known.domains:
        yield re.compile(rf"(?<![\w-]){re.escape(domain)}(?![\w-])", re.IGNORECASE), "<domain>"
    for user in known.users:
        short = len(user) < 3  # two letters are a part of much: they have to stand alone
        before, behind = (r"(?<![\w.-])", r"(?![\w.-])") if short else (rf"(?<!{_LETTER})", rf"(?!{_LETTER})")
        yield re.compile(f"{before}{re.escape(user)}{behind}", re.IGNORECASE), "<user>"
    for word in known.words:
        yield re.compile(rf"(?<=/){re.escape(word)}(?=\d*(?:[/:;'\"\s]|$))|(?<![\w.-]){re.escape(word)}(?=@)"), "<user>"


def redacted(told: Any) -> Any:
    """The same data with homes, hosts, users, addresses and serial numbers replaced."""
    gpus = told.get("gpus") if isinstance(told, dict) else None
    products = " ".join(str(gpu.get("name")) for gpu in gpus if isinstance(gpu, dict)) if isinstance(gpus, list) else ""
    return _cleaned(told, tuple(_rules(names(products))))


def _cleaned(told: Any, rules: tuple[Rule, ...]) -> Any:
    if isinstance(told, dict):
        return {key: _cleaned(value, rules) for key, value in told.items()}
    if isinstance(told, list):
        return [_cleaned(value, rules) for value in told]
    if not isinstance(told, str):
        return told
    for pattern, stand_in in rules:
        told = pattern.sub(stand_in, told)
    return told
