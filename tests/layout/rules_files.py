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

# What an op consists of, and where in its family's folders that lies. Its kernels may be those of a file that the
# family's operators share.
_PARTS = {
    "its Python record": "src/kernelwright/ops/{family}/{op}.py",
    "its C ABI": "csrc/ops/{family}/api/{op}.h",
    "its launcher": "csrc/ops/{family}/host/{op}.cpp",
    "its CPU path": "csrc/ops/{family}/cpu/{op}.cpp",
}
_NAME = r"([a-z][a-z0-9]*(?:_[a-z0-9]+)*)"


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


def _part(tree: Tree, what: str) -> dict[tuple[str, str], str]:
    """(family, op) to path; what begins with an underscore is a family's own business."""
    pattern = re.escape(_PARTS[what]).replace(r"\{family\}", _NAME, 1).replace(r"\{op\}", _NAME, 1)
    found = ((re.fullmatch(pattern, path), path) for path in tree.files)
    return {(match[1], match[2]): path for match, path in found if match}


def _ops(tree: Tree) -> dict[tuple[str, str], str]:
    return {op: path for op, path in _part(tree, "its Python record").items() if op[1] != "__init__"}


def one_stem_names_an_op_everywhere(tree: Tree) -> Iterator[str]:
    """Every layer globs, so a missing or misnamed file is not an error there: the op would silently not exist."""
    ops = _ops(tree)
    for (family, op), record in ops.items():
        for what, path in _PARTS.items():
            if what == "its CPU path" and re.search(r"\bno_cpu=\(?\s*f?\"[^\"]", tree.text(record)):
                continue  # why there is none
            if (family, op) not in _part(tree, what):
                yield f"{record}: {what} is missing: no {path.format(family=family, op=op)}"
        if not tree.matching(rf"csrc/ops/{family}/{_NAME}\.cu"):
            yield f"{record}: its kernels are missing: no csrc/ops/{family}/{op}.cu, and no other .cu there"
    for what in ("its C ABI", "its CPU path"):
        for (family, op), path in _part(tree, what).items():
            if (family, op) not in ops:
                yield f"{path}: there is no {_PARTS['its Python record'].format(family=family, op=op)}"


def public_headers_declare_their_stem(tree: Tree) -> Iterator[str]:
    """A header of a family is the public one of its op."""
    for (_, op), path in _part(tree, "its C ABI").items():
        if not re.search(rf"\bkw_{op}\(", tree.text(path)):
            yield f"{path}: does not declare kw_{op}, the function of its op"
