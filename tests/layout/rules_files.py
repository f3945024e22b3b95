# SPDX-License-Identifier: MIT
"""Rules about files as files: names, headers, size, what may not stand in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from tests.layout.tree import Tree

LONGEST = 400
WIDEST = 120

# Put together here so that this file does not hold what it forbids.
_UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
_ELSEWHERE = re.compile(
    r"(?<![\w.])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+|Us" + r"ers/\w+|tmp/w" + r"t)\b(?:/|\b)"
    r"|https?://\S*(?:/sim" + r"ple/|/pack" + r"ages/)\S*"
    r"|(?<![\w-])/(?:sim" + r"ple|pack" + r"ages)/"
)

# The rooms of an op: what lies there.
_ROOMS = {
    "its kernel": "csrc/cuda/{op}.cu",
    "its launcher": "csrc/host/ops/{op}.cpp",
    "its CPU path": "csrc/cpu/{op}.cpp",
    "its C ABI": "csrc/include/kernelwright/{op}.h",
    "its Python record": "src/kernelwright/ops/{op}.py",
}


def sources_carry_the_licence(tree: Tree) -> Iterator[str]:
    """Files travel alone: into other projects, into wheels, into bug reports. Each says what may be done with it."""
    for path in tree.sources():
        lines = tree.text(path).splitlines()
        first = next((line for line in lines if not line.startswith("#!")), "")
        if lines and "SPDX-License-Identifier: MIT" not in first:
            yield f"{path}: begins with {first[:60]!r}, not with an SPDX-License-Identifier: MIT line"


def files_can_be_held_in_the_head(tree: Tree) -> Iterator[str]:
    """A file of a thousand lines is read by nobody; splitting it late costs more than splitting it early."""
    for path in {*tree.sources(), *(path for path in tree.files if path.endswith(".md"))}:
        count = tree.text(path).count("\n")
        if count > LONGEST:
            yield f"{path}: {count} lines; {LONGEST} is the most, 60 to 200 the aim"


def nix_files_are_laid_out_alike(tree: Tree) -> Iterator[str]:
    """nixfmt comes with Nix alone, and most changes are made without it: what it would surely change is seen here."""
    for path in (path for path in tree.files if path.endswith(".nix")):
        for place, line in tree.lines(path):
            indent = len(line) - len(line.lstrip(" "))
            if "\t" in line or line != line.rstrip() or indent % 2 or len(line) > WIDEST:
                yield f"{place}: a tab, a blank at the end, an odd indentation or more than {WIDEST} columns"
        if not tree.text(path).endswith("\n") or "\n\n\n" in tree.text(path):
            yield f"{path}: two empty lines together, or no end of line at the end"


def nothing_is_left_for_later(tree: Tree) -> Iterator[str]:
    """A note to oneself in a source is a bug report that nobody is going to read."""
    for place, line in chain.from_iterable(tree.lines(path) for path in tree.files):
        for found in _UNFINISHED.findall(line):
            yield f"{place}: {found}: finish it, or open an issue and take the note out"


def no_file_knows_a_machine_or_an_index(tree: Tree) -> Iterator[str]:
    """A path of somebody's machine works there alone, and an index address in a lock ties a build to one mirror."""
    for place, line in chain.from_iterable(tree.lines(path) for path in tree.files):
        for found in _ELSEWHERE.findall(line):
            yield f"{place}: {found!r} exists on one machine or one index only"


def _room(tree: Tree, what: str) -> dict[str, str]:
    """Stem to path; what begins with an underscore is a room's own business."""
    before, _, after = _ROOMS[what].partition("{op}")
    return tree.matching(re.escape(before) + r"([a-z][a-z0-9]*(?:_[a-z0-9]+)*)" + re.escape(after))


def one_stem_names_an_op_everywhere(tree: Tree) -> Iterator[str]:
    """Every layer globs, so a missing or misnamed file is not an error there: the op would silently not exist."""
    ops = _room(tree, "its kernel")
    for op, kernel in ops.items():
        for what, path in _ROOMS.items():
            if op not in _room(tree, what):
                yield f"{kernel}: {what} is missing: no {path.format(op=op)}"
    for what in ("its launcher", "its CPU path", "its Python record"):
        for stem, path in _room(tree, what).items():
            if stem not in ops:
                yield f"{path}: there is no csrc/cuda/{stem}.cu"


def public_headers_declare_their_stem(tree: Tree) -> Iterator[str]:
    """The room of public headers also holds what ops share, told apart by content; a misnamed op must not pass for that."""
    ops = _room(tree, "its kernel")
    for stem, path in _room(tree, "its C ABI").items():
        declares = re.search(rf"\bkw_{stem}\(", tree.text(path))
        if declares and stem not in ops:
            yield f"{path}: declares kw_{stem}, but there is no csrc/cuda/{stem}.cu"
        if stem in ops and not declares:
            yield f"{path}: does not declare kw_{stem}, the function of its op"
