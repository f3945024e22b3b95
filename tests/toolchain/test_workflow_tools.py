# SPDX-License-Identifier: MIT
"""The workflows before GitHub's schema and before an auditor of workflows, and faults that each of the two must see.

Both tools come with the environment of `./kw lint`, which runs this file.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tree import ROOT

FOLDER = ROOT / ".github" / "workflows"
BESIDE = Path(sys.executable).parent / "zizmor"
AUDITOR = [str(BESIDE), "--offline", "--quiet", "--no-progress"]
SCHEMA = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]

pytestmark = pytest.mark.skipif(
    not BESIDE.is_file(), reason="zizmor and check-jsonschema are not here: `./kw lint` has them, and runs this file"
)
CHECKOUT = "08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0"
# The tool that sees it: the workflow, what stands there, what is put in its place, the word in the finding.
WRONG = {
    "an action by its tag": (AUDITOR, "ci.yml", CHECKOUT, "v5", "unpinned-uses"),
    "an expression in a script": (AUDITOR, "ci.yml", "./kw tests", "./kw tests ${{ github.head_ref }}", "injection"),
    "a token left behind": (AUDITOR, "ci.yml", "persist-credentials: false", "fetch-depth: 1", "artipacked"),
    "strangers' code with rights": (AUDITOR, "ci.yml", "pull_request: {}", "pull_request_target: {}", "triggers"),
    "every right": (
        AUDITOR,
        "gpu.yml",
        "permissions:\n      contents: read\n    s",
        "permissions: write-all\n    s",
        "excessive",
    ),
    "a key of no job": (SCHEMA, "ci.yml", "timeout-minutes: 30", "timeout-hours: 30", "timeout-hours"),
    "no such right": (SCHEMA, "release.yml", "attestations: write", "attestations: sign", "attestations"),
    "no such event": (SCHEMA, "gpu.yml", "workflow_dispatch", "workflow_despatch", "workflow_despatch"),
}


def say(command: list[str], *files: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*command, *map(str, files)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [AUDITOR, SCHEMA], ids=["auditor", "schema"])
def test_nothing_is_wrong_with_the_workflows(command):
    done = say(command, *sorted(FOLDER.glob("*.yml")))
    assert done.returncode == 0, done.stdout + done.stderr


def test_renovates_settings_are_such():
    schema = [*SCHEMA[:-1], "vendor.renovate"]
    done = say(schema, ROOT / ".github" / "renovate.json")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [AUDITOR, SCHEMA], ids=["auditor", "schema"])
def test_the_workflow_that_the_page_shows_is_one(command, tmp_path):
    (text,) = re.findall(r"```yaml[^\n]*\n(.*?)```", (ROOT / "docs" / "environments.md").read_text(), re.DOTALL)
    shown = tmp_path / ".github" / "workflows" / "shown.yml"
    shown.parent.mkdir(parents=True)
    shown.write_text(text)
    done = say(command, shown)
    assert done.returncode == 0, done.stdout + done.stderr
    used = set(re.findall(r"uses: (actions/\S+)", text))
    assert used <= set(re.findall(r"uses: (\S+)", "".join(path.read_text() for path in FOLDER.glob("*.yml"))))


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_is_seen(what, tmp_path):
    command, name, old, new, word = WRONG[what]
    copy = tmp_path / ".github" / "workflows" / name
    shutil.copytree(FOLDER, copy.parent)
    text = copy.read_text()
    assert old in text
    copy.write_text(text.replace(old, new, 1))
    done = say(command, copy)
    assert done.returncode != 0
    assert word in done.stdout + done.stderr
