# SPDX-License-Identifier: MIT
"""Words that hide what they mean, and the ones to use: the field's own, or plain ones."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.layout.tree import Tree

# Pattern, in any case, and what to write. Names count as words: a pattern sees `kAnyhow` and `anyhow.cuh`.
WORDS = {
    r"[a-z]*anyhow[a-z]*": "unaligned",
    r"(?:lie|lies|lying) alike": "of the same alignment",
    r"\w*group_matrix": "smem descriptor",
    r"(?:by|without) boxes": "tensor maps (TMA)",
    r"(?:\w+_)?temper": "schedule mode",
    r"leftovers": "orphans (processes)",
    r"deposits?": "partial sums",
    r"past the caches": "non-temporal stores",
    r"link(?:ing|ed)? anew": "relocatable code",
    r"what ends it": "fix",
    r"that shall have it": "activate the environment, then …",
    r"goes? with no(?:ne)? other\w*|\(0 to [^)]{1,9} go\)": "… must match …, … are supported",
    r"has another (?:shape|element type|type|size)\b.{0,30} must": "shape is A, expected B",
    r"calls that nothing watches": "the fast path that bypasses the dispatcher",
    r"who(?:ever)? replaces a kernel": "overrides made with torch.library",
}

# Where such words may stand until what lies there is rewritten: a line each, to be deleted then.
NOT_YET = (
    "csrc/ops/norm",
    "tests/cpp/cpu/tensor_arguments.cpp",
    "src/kernelwright/doctor",
    "docs/causes.md",
    "docs/errors.md",
    "docs/xray.md",
)

_OWN = ("tests/layout/rules_words.py", "tests/layout/plants_words.py")
_PATTERNS = [(re.compile(rf"(?<![a-z]){pattern}(?![a-z])", re.IGNORECASE), use) for pattern, use in WORDS.items()]


def _riddles(line: str) -> Iterator[str]:
    for pattern, use in _PATTERNS:
        for found in pattern.finditer(line):
            yield f"{found[0]!r}: write {use}"


def words_say_what_they_mean(tree: Tree) -> Iterator[str]:
    """A reader looks for the word that the field has; a private one hides the code, and a riddle hides the fault."""
    later = set(tree.under(*NOT_YET))
    written = {*tree.sources(), *(path for path in tree.files if path.endswith((".md", ".toml")))}
    for path in tree.files:
        if path in later or path in _OWN:
            continue
        yield from (f"{path}: {riddle}" for riddle in _riddles(path))
        if path in written:
            for place, line in tree.lines(path):
                yield from (f"{place}: {riddle}" for riddle in _riddles(line))
