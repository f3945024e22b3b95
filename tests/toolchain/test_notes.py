# SPDX-License-Identifier: MIT
"""`python -m toolchain notes`: a release's words, and the tags and sections that are refused."""

from __future__ import annotations

import argparse

import pytest

from kernelwright_toolchain.commands import notes
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.locking.wanted import pyproject
from tests.tree import ROOT

TEXT = "# Changes\n\n## 1.1.0 (unreleased)\n\nNew.\n\n## 1.0.0 (2026-11-27)\n\nA.\n\n### More\n\nB.\n\n## 0.9.0\n\n"


def test_the_section_of_the_version_is_taken_whole():
    assert notes.notes("1.0.0", TEXT) == "A.\n\n### More\n\nB.\n"


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("1.1.0", "write the day"),
        ("0.9.0", "says nothing of 0.9.0"),
        ("2.0.0", "has no section for 2.0.0; it has 1.1.0"),
    ],
)
def test_a_version_without_words_is_refused(version, words):
    with pytest.raises(RequestError, match=words):
        notes.notes(version, TEXT)


def test_a_tag_of_another_version_is_refused():
    version = pyproject()["project"]["version"]
    with pytest.raises(RequestError, match=f"pyproject.toml says {version}"):
        notes.run(argparse.Namespace(tag="v99.0.0", out=None))


def test_this_trees_version_has_a_section():
    version = pyproject()["project"]["version"]
    text = (ROOT / notes.CHANGES).read_text(encoding="utf-8").replace(" (unreleased)", "")
    assert notes.notes(version, text)
