# SPDX-License-Identifier: MIT
"""kernelwrightConfigVersion.cmake: which versions a find_package takes, whichever CMake wrote the file."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tree import ROOT

TEMPLATE = ROOT / "cmake" / "kernelwrightConfigVersion.cmake.in"
VERSION = (3, 4, 5)


@pytest.fixture(scope="module")
def cmake() -> str:
    own = sorted((ROOT / ".kw" / "tools").glob("tools-*/cmake/data/bin/cmake"))
    found = shutil.which("cmake") or (str(own[-1]) if own else None)
    if not found:
        pytest.skip("no CMake, neither on PATH nor in .kw/tools")
    return found


def answer(cmake: str, folder: Path, asked: str, width: str = "8") -> tuple[str, str, str]:
    """What find_package would read: compatible, exact, unsuitable."""
    values = {"PROJECT_VERSION": "3.4.5", "PROJECT_VERSION_MAJOR": "3", "PROJECT_VERSION_MINOR": "4"}
    text = re.sub(r"@(\w+)@", lambda place: values[place[1]], TEMPLATE.read_text())
    (folder / "v.cmake").write_text(text)
    lines = [f'set(CMAKE_SIZEOF_VOID_P "{width}")']
    low, _, high = asked.partition("...")
    parts = [*low.split("."), "", ""]
    lines += [f'set(PACKAGE_FIND_VERSION "{low}")']
    lines += [
        f'set(PACKAGE_FIND_VERSION_{name} "{part}")'
        for name, part in zip(("MAJOR", "MINOR", "PATCH"), parts, strict=False)
    ]
    if high:
        kind = "EXCLUDE" if high.startswith("<") else "INCLUDE"
        lines += [f'set(PACKAGE_FIND_VERSION_RANGE "{asked}")', f'set(PACKAGE_FIND_VERSION_RANGE_MAX "{kind}")']
        lines += [f'set(PACKAGE_FIND_VERSION_MIN "{low}")', f'set(PACKAGE_FIND_VERSION_MAX "{high.lstrip("<")}")']
    lines += [
        "include(v.cmake)",
        'message("${PACKAGE_VERSION_COMPATIBLE};${PACKAGE_VERSION_EXACT};${PACKAGE_VERSION_UNSUITABLE}")',
    ]
    (folder / "ask.cmake").write_text("\n".join(lines))
    done = subprocess.run([cmake, "-P", "ask.cmake"], cwd=folder, capture_output=True, text=True, check=True)
    compatible, exact, unsuitable = done.stderr.strip().split(";")
    return compatible, exact, unsuitable


@pytest.mark.parametrize(
    ("asked", "compatible", "exact"),
    [
        ("3.4.5", "TRUE", "TRUE"), ("3.4", "TRUE", "FALSE"), ("3.4.2", "TRUE", "FALSE"), ("3.4.6", "FALSE", "FALSE"),
        ("3.3", "FALSE", "FALSE"), ("3.5", "FALSE", "FALSE"), ("3", "FALSE", "FALSE"), ("2.4", "FALSE", "FALSE"),
        ("3.4.1...3.4.5", "TRUE", "FALSE"), ("3.4.1...<3.4.5", "FALSE", "FALSE"), ("3.0...3.9", "TRUE", "FALSE"),
        ("3.4.6...4", "FALSE", "FALSE"),
    ],
)  # fmt: skip
def test_a_version_is_taken_by_its_minor_release_or_range(cmake, tmp_path, asked, compatible, exact):
    assert answer(cmake, tmp_path, asked) == (compatible, exact, "")


def test_a_program_of_32_bits_is_told_that_it_does_not_suit(cmake, tmp_path):
    assert answer(cmake, tmp_path, "3.4", width="4")[2] == "TRUE"
    assert answer(cmake, tmp_path, "3.4", width="")[2] == ""


def test_nothing_that_cmake_writes_by_itself_gets_into_the_package():
    """Its texts differ from release to release, and so would the wheel."""
    for path in (ROOT / "cmake").glob("*.cmake"):
        assert not re.search(
            r"CMakePackageConfigHelpers|write_basic|configure_package|install\(EXPORT", path.read_text()
        )
