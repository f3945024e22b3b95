# SPDX-License-Identifier: MIT
"""What stands beside the sources for people: issue forms whose commands exist, and a citation of this version."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelwright_toolchain.manifest import base_version

ROOT = Path(__file__).parents[2]


def test_the_commands_of_the_forms_exist():
    """A person in trouble runs what a form says."""
    forms = "".join(path.read_text() for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    told = set(re.findall(r"python -m kernelwright (\w+)", forms))
    assert told >= {"run", "explain", "bench"}
    known = (ROOT / "src/kernelwright/__main__.py").read_text()
    assert {command for command in told if f'"{command}"' not in known} == set()


def test_the_citation_is_of_this_version():
    cited = dict(re.findall(r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert cited["version"] == base_version(ROOT)


def test_the_licence_is_one_text_under_both_names():
    """Packages and forges look for LICENSE, the REUSE specification for LICENSES/MIT.txt."""
    assert (ROOT / "LICENSES" / "MIT.txt").read_text() == (ROOT / "LICENSE").read_text()


@pytest.mark.slow
def test_every_file_has_a_licence_that_tools_can_read():
    """By the specification's own tool, which has wheels for one kind of machine alone and so is in no lock."""
    if not importlib.util.find_spec("reuse") and not shutil.which("reuse"):
        pytest.skip("no reuse: `pip install reuse` brings the tool of the REUSE specification")
    command = [sys.executable, "-m", "reuse"] if importlib.util.find_spec("reuse") else ["reuse"]
    done = subprocess.run([*command, "lint"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
