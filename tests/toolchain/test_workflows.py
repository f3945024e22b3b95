# SPDX-License-Identifier: MIT
"""The workflows are made from the table, take every action by its commit, and ask for no more than they need.

`./kw lint` validates them against the schema of GitHub's workflows; here they are text.
"""

from __future__ import annotations

import json
import re

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.locking import conda as conda_names
from kernelwright_toolchain.workflows import render
from tests.tree import ROOT

TABLE = targets.load()
MADE = render.made(TABLE)


def test_the_files_are_what_their_templates_make_them():
    render.check(TABLE)


@pytest.mark.parametrize("name", MADE)
def test_every_action_is_taken_by_its_commit(name):
    for used in re.findall(r"\buses: (.*)", MADE[name]):
        assert used.startswith("./.github/workflows/") or re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", used)


def test_pins_are_used_and_whole():
    pins = render.pins()
    text = "".join(MADE.values())
    for name, pin in pins["action"].items():
        assert f"{name}@{pin['commit']} # {pin['version']}" in text
    assert set(pins["runner"]) == {target.machine for target in TABLE.targets.values()}


def test_the_oldest_torch_is_that_of_the_extra_and_of_the_recorded_names():
    oldest = render.pins()["torch"]["oldest"]
    lowest = oldest.rpartition(".")[0]
    assert f'torch = ["torch>={lowest}"]' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    names = (ROOT / "tests/layout/torch-names.txt").read_text(encoding="utf-8")
    assert set(re.findall(r"torch(?:==| )(\d[\d.]*\d)", names)) == {oldest}
    assert f"--torch torch=={oldest} tests/python tests/ops tests/doctor\n" in MADE[".github/workflows/oldest.yml"]


def test_the_earlier_torches_are_locked_and_on_both_sides_of_the_shim():
    first, second = render.pins()["torch"]["earlier"]
    assert f'torch: ["{first}", "{second}"]\n' in MADE[".github/workflows/earlier.yml"]
    assert {first, second} <= set(json.loads((ROOT / "locks/torch.json").read_text()))
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    last, begins = (number.rpartition(".")[0] for number in (first, second))
    assert f"Where torch lacks them (2.4 to {last}," in page
    assert f"Strings and lists need the shim of torch {begins};" in page


# Jobs that may write anything at all: a release, PyPI's trusted publishing, the pages.
WRITING = {"release.yml": ["publish", "pypi"], "docs.yml": ["publish"]}


@pytest.mark.parametrize("name", MADE)
def test_a_workflow_may_nothing_and_a_job_only_what_it_says(name):
    text = MADE[name]
    assert "\npermissions: {}\n" in text
    jobs = re.split(r"^  (?=[a-z-]+:\n    )", text.partition("\njobs:\n")[2], flags=re.MULTILINE)[1:]
    assert jobs
    for job in jobs:
        assert re.search(r"^    permissions:\n      contents: (read|write)", job, re.MULTILINE), job
        assert "uses: ./" in job or "timeout-minutes:" in job
    writing = [job.partition(":")[0] for job in jobs if ": write" in job]
    assert writing == WRITING.get(name.rpartition("/")[2], [])


@pytest.mark.parametrize("name", MADE)
def test_no_workflow_runs_strangers_code_with_rights(name):
    text = MADE[name]
    assert "pull_request_target" not in text
    assert text.count("persist-credentials: false") == text.count("uses: actions/checkout@")
    for script in re.findall(r"\brun: (?:\|\n((?:          .*\n)+)|(.*))", text):
        assert "${{" not in "".join(script)  # an expression becomes text of the script before the shell sees it
    if "vars.GPU_RUNNERS" in text:  # one's own machines
        assert "pull_request" not in text


def matrix(name: str, place: int = 0) -> list[dict[str, str]]:
    found = re.findall(r"include: (\[.*\])", MADE[f".github/workflows/{name}.yml"])
    return json.loads(found[place])


def test_matrices_are_the_tables():
    released = [target for target in TABLE.targets.values() if target.release]
    (targets_of_wheels,) = re.findall(r"target: (\[.*\])", MADE[".github/workflows/wheels.yml"])
    assert json.loads(targets_of_wheels) == [target.name for target in released]
    assert [row["machine"] for row in matrix("ci")] == [target.machine for target in released]
    assert [row["target"] for row in matrix("ci", 3)] == list(TABLE.targets)
    conda = {conda_names.subdir(target.machine): target.machine for target in released}
    pinned = render.pins()["micromamba"]
    assert {row["subdir"]: row["sha256"] for row in matrix("ci", 2)} == {n: pinned[m] for n, m in conda.items()}


def test_the_released_wheels_are_made_on_two_images_and_in_each_environment():
    """Where the reference toolkit's NVRTC is: on both images of the first kind of machine, and on one of each other."""
    text = MADE[".github/workflows/ci.yml"]
    runners = render.pins()["runner"]
    kit = conda_names.toolkit(TABLE)
    assert f"RELEASED: {' '.join(target.name for target in TABLE.targets.values() if target.release)}\n" in text
    first, second = kit.hosts["pip"]
    three = [runners[first]["label"], runners[first]["second"], runners[second]["label"]]
    assert json.loads(re.findall(r"runner: (\[.*\])", text)[0]) == three
    assert [row["runner"] for row in matrix("ci", 2)] == three
    assert all(row["release"] for row in matrix("ci", 2))
    assert "needs: [pip, conda, nix-release]\n" in text
    uploads = re.findall(r"name: (build-[\w-]+)", text)
    assert uploads == ["build-pip-", "build-conda-", "build-nix-sandbox-", "build-nix-shell-"]


def test_a_release_waits_for_all_of_ci_and_for_the_rebuilt_wheels():
    text = MADE[".github/workflows/release.yml"]
    assert "    needs: [ci, verify, sdist]\n" in text
    assert "uses: ./.github/workflows/ci.yml\n" in text
    assert "\n  workflow_call: {}" in MADE[".github/workflows/ci.yml"]
    assert "vars.PYPI == 'yes'" in text


def test_renovate_finds_every_pin():
    """By the expression of .github/renovate.json, which is one of JavaScript: its named groups are written otherwise."""
    (manager,) = json.loads((ROOT / ".github/renovate.json").read_text())["customManagers"]
    (form,) = manager["matchStrings"]
    text = (render.TEMPLATES / "pins.toml").read_text()
    found = {
        m["depName"]: (m["currentValue"], m["currentDigest"]) for m in re.finditer(form.replace("(?<", "(?P<"), text)
    }
    assert found == {name: (pin["version"], pin["commit"]) for name, pin in render.pins()["action"].items()}
    (place,) = manager["managerFilePatterns"]
    assert re.fullmatch(place.strip("/"), f"{render.SOURCES}/pins.toml")


def test_a_new_target_is_a_new_row_of_the_matrices():
    text = (ROOT / "targets.toml").read_text()
    row = text[text.index("[target.l4t-r36]") : text.index("# --- tools")].replace("l4t-r36", "l4t-r99")
    made = render.made(targets.parse(text + row))
    assert '"target": "l4t-r99"' in made[".github/workflows/ci.yml"]


def test_an_unknown_place_is_told():
    with pytest.raises(GateError, match=r"x\.in: <<nothing>> is no value; there are a"):
        render.fill("run: <<nothing>>", {"a": ""}, "x.in")


def test_stale_and_stray_files_are_told(tmp_path):
    for name, text in MADE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    render.check(TABLE, tmp_path)
    (tmp_path / ".github/workflows/mine.yml").write_text("")
    with pytest.raises(GateError, match=r"mine\.yml has no template"):
        render.check(TABLE, tmp_path)
    (tmp_path / ".github/workflows/ci.yml").write_text("")
    with pytest.raises(GateError, match=r"ci\.yml is not what its template makes it"):
        render.check(TABLE, tmp_path)
