# SPDX-License-Identifier: MIT
"""README.md's table of speed and its pictures are what the recorded results make them."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from benchmarks import front

BLOCK = f"<!-- begin speed: made by `{front.COMMAND}` -->\n<!-- end speed -->\n"
LOOK_UP = front.look_up
ROWS = [front.Row("toy", "gelu", "small", "GELU"), front.Row("toy", "gelu", "wide", "the same, wide")]
RESULT = {
    "device": "a device", "driver": "1.2", "torch": "t", "commit": "abc",
    "cases": {
        "small": {"us": {"kernelwright": 2.0, "eager": 8.04, "bitsandbytes": 1.0, "copy": 0.5}},
        "wide": {"us": {"kernelwright": 1500.4, "compile": 3000.0}},
        "huge": {"not run": ["no memory"]},
    },
}  # fmt: skip


@pytest.fixture
def tree(tmp_path, monkeypatch):
    results = tmp_path / "benchmarks/ops/toy/results"
    results.mkdir(parents=True)
    (tmp_path / "benchmarks/results").mkdir()
    (results / "gelu-h200.json").write_text(json.dumps(RESULT))
    (tmp_path / "README.md").write_text(f"before\n{BLOCK}after\n")
    monkeypatch.setattr(front, "look_up", lambda root: LOOK_UP(root, ROWS))
    return tmp_path


def test_this_readme_and_its_pictures_are_fresh():
    front.main(["--check"])  # what it raises names the file and the command


def test_each_figure_leads_to_its_record_and_the_fastest_is_bold(tree):
    lines = front.table(front.look_up(tree)).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    to = "(benchmarks/ops/toy/results/gelu-h200.json)"
    assert cells[0] == ["GELU", f"[2.0]{to}", f"[**1.0**]{to}", f"[8.0]{to}", "-", "`abc`"]
    assert cells[1] == ["the same, wide", f"[**1,500**]{to}", "-", "-", f"[3,000]{to}", "`abc`"]


@pytest.mark.parametrize("theme", front.THEMES)
def test_bars_are_as_long_as_the_times(tree, theme):
    svg = ET.fromstring(front.picture(front.look_up(tree), front.THEMES[theme]))  # noqa: S314 - made here
    space = "{http://www.w3.org/2000/svg}"
    bars = [float(r.get("width")) for r in svg.iter(f"{space}rect") if r.get("x") == str(front.LEFT)]
    bars = bars[1:]  # less the legend's, which begins at the same place
    assert [round(bar / bars[0], 1) for bar in bars] == [1, 0.5, 4.0, 1, 2.0]
    words = [text.text for text in svg.iter(f"{space}text")]
    assert {"2.0 µs", "0.50 x", "4.02 x", "1,500 µs", "2.00 x"} <= set(words)
    assert all(0 <= float(r.get("x", 0)) + float(r.get("width")) <= front.WIDTH for r in svg.iter(f"{space}rect")
               if r.get("width") != "100%")  # fmt: skip


def test_a_new_result_makes_readme_stale_and_the_command_repairs_it(tree, capsys):
    front.main([], tree)
    assert len(capsys.readouterr().out.splitlines()) == 3
    front.main(["--check"], tree)
    path = tree / "benchmarks/ops/toy/results/gelu-h200.json"
    path.write_text(path.read_text().replace("8.04", "9.06"))
    with pytest.raises(SystemExit, match=r"README\.md is stale: run `python benchmarks/front\.py`"):
        front.main(["--check"], tree)
    front.main([], tree)
    assert "[9.1]" in (tree / "README.md").read_text()
    assert (tree / "README.md").read_text().startswith("before\n")


def test_a_case_that_was_not_measured_is_named(tree, monkeypatch):
    monkeypatch.setattr(front, "look_up", LOOK_UP)
    with pytest.raises(SystemExit, match=r"gelu-h200\.json has no time of 'huge': choose another .* of small, wide"):
        front.look_up(tree, [front.Row("toy", "gelu", "huge", "GELU")])


def test_a_block_that_is_gone_is_named(tree):
    (tree / "README.md").write_text("before\n")
    with pytest.raises(SystemExit, match=r"README\.md: expected one block .* found 0; put it back"):
        front.main([], tree)
