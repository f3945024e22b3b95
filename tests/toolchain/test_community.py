# SPDX-License-Identifier: MIT
"""What stands beside the sources for people: issue forms whose commands exist, and a citation of this version."""

from __future__ import annotations

import re
from pathlib import Path

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
