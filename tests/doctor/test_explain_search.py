# SPDX-License-Identifier: MIT
"""Signs are searched for only where the words of a match stand: that finds what a search of everything finds, sooner."""

from __future__ import annotations

import random
import string
import time

import pytest

from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.explain import explain
from kernelwright.doctor.explain._lines import lines_of
from kernelwright.doctor.explain._literals import crosses_lines, words_of
from kernelwright.doctor.explain._text import Text
from tests.doctor.test_explain import TEXTS

SIGNS = {
    sign.text: sign
    for cause in all_causes().values()
    for kind in ("signs", "needs", "without", "unless")
    for sign in getattr(cause, kind)
}


def test_every_text_of_the_corpus_gives_the_same():
    for path in TEXTS:
        text = Text(lines_of(path.read_text(encoding="utf-8")))
        for sign in SIGNS.values():
            whole = [(found.start(), found.end()) for found in sign.pattern.finditer(text.text)]
            assert list(text._matches(sign)) == whole, (path.name, sign.text)


def test_most_patterns_have_words():
    assert sum(not words_of(sign.small) for sign in SIGNS.values()) < 5


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("nvcc fatal", [{"nvcc"}, {"fatal"}]),
        (r"\bnvcc\b.{0,20}(not found|missing)", [{"nvcc"}, {"found", "missing"}]),
        ("(could not )?find it", [{"find"}, {"it"}]),
        ("colou?r", [{"colo"}]),
        ("errors?: x", [{"error"}]),
        (r"lib(cuda|cudart)\.so", [{"lib"}, {"cuda", "cudart"}, {"so"}]),
        ("a|bcd", []),
        (r"\d+\s", []),
        ("(?i)word", []),
        ("(?!never)ever", [{"ever"}]),
        ("[abc]word", [{"word"}]),
        ("(abc){0,2}def", [{"def"}]),
        ("(abc){2}def", [{"abc"}, {"def"}]),
        ("ab+cd", [{"ab"}, {"cd"}]),
        (r"x\x41yz", [{"yz"}]),
        ("[]]word", [{"word"}]),
        ("(unclosed", []),
    ],
)
def test_the_words_of_a_pattern(pattern, words):
    assert [set(one) for one in words_of(pattern)] == words


@pytest.mark.parametrize(
    ("pattern", "crosses"),
    [("a.b", False), (r"a\nb", True), (r"a\s+b", True), (r"a[^\n]b", False), ("a[^b]c", True), (r"a[^\n]{0,9}[\n]?b", True), (r"\W", True)],
)  # fmt: skip
def test_patterns_that_go_on_behind_a_line(pattern, crosses):
    assert crosses_lines(pattern) is crosses


def test_lines_of_which_none_is_like_another():
    """What took sixteen seconds; the limit is far above what it takes now."""
    draw = random.Random(1)
    lines, size = [], 0
    while size < 2_000_000:
        lines.append(" ".join("".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 9))) for _ in range(12)))
        size += len(lines[-1]) + 1
    lines[len(lines) // 2] = "nvcc fatal   : Unsupported gpu architecture 'compute_120'"
    start = time.process_time()
    found = explain("\n".join(lines))
    assert [answer.cause.code for answer in found.answers] == ["KW-044"]
    assert time.process_time() - start < 9


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nvcc fatal   : 'avx2': expected a number", "KW-099"),
        ("RuntimeError: Device 1 does not have CUDA compute capability 6.1 or higher", "KW-011"),
        ("ERROR: Detected NVIDIA GeForce GTX 980 GPU, which is not supported by this container", "KW-011"),
        ("src/knn.cu:3:10: THC/THCAtomics.cuh: No such file or directory", "KW-113"),
        ("ImportError: cannot import name 'group_points_ext' from 'points.ops.group'", "KW-093"),
    ],
)
def test_one_line_is_enough(line, code):
    assert [answer.cause.code for answer in explain(line).answers] == [code]
