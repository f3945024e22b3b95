# SPDX-License-Identifier: MIT
"""`python -m toolchain compare`: wheels that several machines made, their table, and what differs in which of them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
import tiny

from kernelwright_toolchain.commands import compare
from kernelwright_toolchain.errors import RequestError
from kernelwright_toolchain.exact import wheel

OTHER = tiny.NAME.replace("x86_64", "aarch64")
MEMBERS = tiny.sealed({"kernelwright/x.py": b"one\n", "kernelwright/y.py": b"two\n"})


def run(*folders: Path, summary: Path | None = None) -> int:
    parser = argparse.ArgumentParser()
    compare.add_arguments(parser)
    words = [*map(str, folders), *(["--summary", str(summary)] if summary else [])]
    return compare.run(parser.parse_args(words))


@pytest.fixture
def builds(tmp_path):
    """Three builds of two wheels."""
    for name in ("conda", "nix", "pip"):
        (tmp_path / name).mkdir()
        for file in (tiny.NAME, OTHER):
            tiny.write(tmp_path / name / file, MEMBERS)
    return [tmp_path / name for name in ("pip", "conda", "nix")]


def test_the_same_bytes_everywhere_are_a_success_and_a_table(builds, tmp_path, capsys):
    summary = tmp_path / "summary.md"
    summary.write_text("# before\n")
    assert run(*builds, summary=summary) == 0
    said = capsys.readouterr().out
    assert said.endswith("SUCCESS: the same bytes from 3 builds\n")
    lines = summary.read_text().splitlines()
    assert lines[0] == "# before"
    digest = wheel.read(builds[0] / tiny.NAME).sha256
    assert lines[3:] == [
        f"| {build} | `{name}` | `{digest}` | same |"
        for name in (OTHER, tiny.NAME)
        for build in ("pip", "conda", "nix")
    ]


def test_another_byte_is_named_with_its_build_and_its_member(builds, capsys):
    tiny.write(builds[2] / OTHER, tiny.sealed({"kernelwright/x.py": b"one\n", "kernelwright/y.py": b"2\n"}))
    assert run(*builds) == 1
    out, err = capsys.readouterr()
    assert f"| nix | `{OTHER}` |" in out
    assert out.count("**different**") == 1
    wrong = [line for line in out.splitlines() if ": different  " in line]
    assert wrong
    assert all(line.startswith("nix: different  ") for line in wrong)
    assert any("kernelwright/y.py" in line for line in wrong)
    assert f"DIFFERENT: {len(wrong)} differences to what pip made" in err


def test_a_wheel_that_one_build_lacks_is_a_difference(builds, capsys):
    (builds[1] / tiny.NAME).unlink()
    assert run(*builds) == 1
    assert f"conda: has no {tiny.NAME}, which pip made\n" in capsys.readouterr().out


def test_nothing_to_compare_is_no_success(builds, tmp_path):
    with pytest.raises(RequestError, match=r"only .* was named"):
        run(builds[0])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(RequestError, match="empty holds no wheel"):
        run(*builds, empty)
