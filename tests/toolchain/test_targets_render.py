# SPDX-License-Identifier: MIT
"""The tables of docs/ are made from targets.toml and the operators' records, and a stale one is noticed."""

from __future__ import annotations

import argparse
import dataclasses
import shutil
from pathlib import Path

import pytest

from kernelwright_toolchain.commands import render as command
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.targets import load, render, tested
from tests.tree import ROOT

TABLE = load()
RECORD = 'OP = Op(name="gelu", doc="The Gaussian | unit", function=gelu)\n'
OPERATORS = "docs/use.md"


@pytest.fixture
def project(tmp_path):
    """A small tree with a table, two records and pages that are up to date."""
    shutil.copy(ROOT / "targets.toml", tmp_path)
    (tmp_path / render.RECORDS / "toy").mkdir(parents=True)
    (tmp_path / render.RECORDS / "toy/gelu.py").write_text(RECORD)
    (tmp_path / render.RECORDS / "toy/_cases.py").write_text("class Op: ...\n")
    for name in ("pyproject.toml", tested.EVIDENCE, tested.REHEARSAL):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, blocks in render.blocks(TABLE, tmp_path).items():
        marks = [
            f"<!-- begin {block}: made by `{render.COMMAND}` -->\nold\n<!-- end {block} -->\n\nprose\n"
            for block in blocks
        ]
        (tmp_path / name).write_text("# Title\n\n" + "".join(marks))
    for path, text in render.pages(tmp_path).items():
        path.write_text(text)
    return tmp_path


def page(root: Path, name: str = OPERATORS) -> Path:
    return root / name


def fresh(root: Path, name: str = OPERATORS) -> str:
    return render.pages(root)[page(root, name)]


def cells(block: str) -> list[list[str]]:
    """The rows below the head, each as its cells."""
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in block.splitlines()[2:]]


def test_these_pages_are_what_the_table_and_the_records_make_it():
    render.check()  # the error's text says what differs and which command makes it anew


def test_a_fresh_page_is_left_alone(project):
    render.check(project)
    for path, text in render.pages(project).items():
        assert path.read_text() == text


@pytest.mark.parametrize(
    ("file", "old", "new", "stale"),
    [
        ("targets.toml", '"sm_80", "sm_86", "sm_89"', '"sm_80", "sm_89"', "start"),
        ("targets.toml", "535.54.03", "535.54.04", "options"),
        ("targets.toml", "Titan V", "Titan W", "start"),
        ("src/kernelwright/ops/toy/gelu.py", "Gaussian", "Gauss", "use"),
        ("docs/start.md", "`sm_86`", "`sm_85`", "start"),
        ("docs/releasing.md", "glibc 2.28", "glibc 2.17", "releasing"),
    ],
)
def test_a_change_makes_the_page_stale(project, file, old, new, stale):
    path = project / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(GateError, match=rf"docs/{stale}\.md:\d+ is stale: run `python -m toolchain render`"):
        render.check(project)


def test_a_new_operator_is_a_new_row(project):
    (project / render.RECORDS / "toy/silu.py").write_text(RECORD.replace("gelu", "silu"))
    with pytest.raises(GateError, match="is stale"):
        render.check(project)
    assert "`kernelwright.silu`" in fresh(project)


def test_a_row_added_at_the_very_end_is_noticed(project):
    text = page(project).read_text().removesuffix("\nprose\n")
    page(project).write_text(text.removesuffix("<!-- end operators -->\n"))
    with pytest.raises(GateError, match=r"found 0; put it back"):
        render.check(project)


def test_a_block_that_is_there_twice(project):
    page(project).write_text(page(project).read_text() * 2)
    with pytest.raises(GateError, match="found 2"):
        render.check(project)


def test_a_record_without_a_plain_doc(project):
    (project / render.RECORDS / "toy/silu.py").write_text("OP = Op(name='silu', doc=make_doc())\n")
    with pytest.raises(GateError, match=r"silu.py: its Op record has no `doc`"):
        fresh(project)


def test_a_bar_in_a_doc_does_not_make_a_column(project):
    assert r"The Gaussian \| unit" in fresh(project)


def test_targets_block_lists_what_the_default_wheel_holds():
    for row, target in zip(cells(render.targets_block(TABLE)), TABLE.targets.values(), strict=True):
        names = [code.name for code in TABLE.default_codes(target, TABLE.toolkits[target.toolkit])]
        assert target.name in row[0]
        assert [word.strip(" `") for word in f"{row[2]}, {row[3]}".split(",") if "none" not in word] == names
        assert row[5] == str(target.glibc)


def test_gpus_block_says_how_each_gpu_is_served():
    rows = {row[1].strip("`"): row for row in cells(render.gpus_block(TABLE))}
    assert rows["sm_89"][2:] == ["`linux-x86_64`, `linux-aarch64`", "", ""]
    assert rows["sm_86"][2:] == ["`linux-x86_64`", "`sm_80`", "`--archs 86`"]
    assert rows["sm_90"][2:] == ["none", "`sm_90a`", "`--archs 90`"]
    assert rows["sm_70"][2:] == ["none", "nothing", "`--archs 70`"]
    assert rows["sm_100"][2:] == ["none", "`compute_90`", "`--toolkit cu128`"]
    assert rows["sm_110"][2:] == ["none", "`compute_90`", "`--toolkit cu130`"]
    assert rows["sm_101"][2:] == ["none", "`compute_90`", "`--toolkit cu128 --archs 101`"]


def test_a_gpu_that_needs_a_newer_toolkit_and_stands_in_no_set():
    targets = {name: dataclasses.replace(target, cubins=("sm_80",)) for name, target in TABLE.targets.items()}
    rows = {row[1].strip("`"): row for row in cells(render.gpus_block(dataclasses.replace(TABLE, targets=targets)))}
    assert rows["sm_120"][4] == "`--toolkit cu128 --archs 120`"


def test_toolkits_block_says_where_each_provider_has_it():
    rows = {row[0].strip("`"): row for row in cells(render.toolkits_block(TABLE))}
    both = "x86_64, aarch64"
    assert rows["cu122"][1:] == ["12.2.140", "CUDA 12.2 (535.54.03)", "6 to 12", *[both] * 4]
    assert rows["cu130"][4:] == [both, "not there", "not there", both]


def test_support_block_has_each_released_wheel():
    rows = {row[0]: row for row in cells(render.support_block(TABLE))}
    released = [target for target in TABLE.targets.values() if target.release]
    assert len(rows) == len(released) * len(TABLE.toolkits)
    plain = rows["`VERSION` for x86_64"]
    assert plain[1:4] == ["glibc 2.28", "CUDA 12.2 (535.54.03)", "`sm_80`, `sm_86`, `sm_89`, `sm_90a`"]
    assert plain[4] == "newer than 9.0, by PTX"
    assert "`sm_120`" in rows["`VERSION+cu128` for aarch64"][3]


def test_the_command_writes_compares_and_says_so(project, capsys):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    write, compare = parser.parse_args([]), parser.parse_args(["--check"])
    assert command.run(write, project) == 0  # the workflows
    assert command.run(compare, project) == 0
    capsys.readouterr()
    assert command.run(write, project) == 0
    assert {line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()} == {"unchanged"}
    (project / render.RECORDS / "toy/silu.py").write_text(RECORD.replace("gelu", "silu"))
    with pytest.raises(GateError):
        command.run(compare, project)
    assert command.run(write, project) == 0
    assert f"{OPERATORS}: written\n" in capsys.readouterr().out
    assert command.run(compare, project) == 0


def rows_of_support() -> dict[str, list[str]]:
    return {row[0]: list(row[1:]) for row in tested.rows(TABLE, ROOT)}


def test_what_is_supported_stands_beside_what_was_tested():
    rows = rows_of_support()
    assert rows["Python"][0].startswith("3.10 or newer; named: 3.10, 3.11")
    assert "3.10, 3.11, 3.12, 3.13, 3.14; free-threaded: not tested" in rows["Python"][1]
    assert rows["torch, an extra"][0] == "2.4 or newer"
    assert "2.4.1 (aarch64) each week" in rows["torch, an extra"][1]
    assert "580.159 (H200, H100)" in rows["NVIDIA driver"][1]
    assert rows["`sm_90a`"] == ["H100, H200, GH200", "H200, H100 80GB HBM3"]
    assert rows["`sm_87`"][1] == "compiled; no such GPU has run it"
    assert set(rows) >= {f"`{code.name}`" for t in TABLE.targets.values() if t.release
                         for code in TABLE.default_codes(t, TABLE.toolkits[t.toolkit])}  # fmt: skip


def test_a_gpu_that_has_run_it_is_tested_from_then_on(project):
    page = project / tested.EVIDENCE
    row = "| H200 | NVIDIA H200,"
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace(row, f"| L4 | NVIDIA L4, driver 550.1, torch 2.9.0 |\n{row}"), encoding="utf-8")
    rows = {row[0]: row[2] for row in tested.rows(TABLE, project)}
    assert rows["`sm_89`"] == "L4"
    assert "550.1 (L4); 580.159 (H200, H100)" in rows["NVIDIA driver"]
    assert "on GPUs 2.9.0, 2.11.0+cu130" in rows["torch, an extra"]


def test_evidence_without_its_machines_is_told(project):
    (project / tested.EVIDENCE).write_text("# Evidence\n", encoding="utf-8")
    with pytest.raises(GateError, match="no row of its machines is"):
        tested.rows(TABLE, project)
    (project / tested.REHEARSAL).write_text("OTHERS = ()\n", encoding="utf-8")
    with pytest.raises(GateError, match="has no SYSTEMS any more"):
        tested.rows(TABLE, project)
