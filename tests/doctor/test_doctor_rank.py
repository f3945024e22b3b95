# SPDX-License-Identifier: MIT
"""In which order findings are told, and that one fault gets one command."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernelwright.doctor import _rank
from kernelwright.doctor._check import Grade
from kernelwright.doctor._rank import causes_of, ranked
from kernelwright.doctor._told import as_data
from kernelwright.doctor.causes import all_causes
from kernelwright.doctor.checks import examine
from kernelwright.doctor.report.facts import gather
from kernelwright.doctor.report.text import found_lines, lines
from tests.doctor import made_up
from tests.doctor.made_up import H100, ORIN, WORKSTATION, nvcc, torch
from tests.doctor.test_doctor_checks import driver_of, with_extension

DESKTOP_TORCH = ORIN.but(
    files={
        **torch("2.9.0", "13.0"),
        **made_up.package("nvidia_cublas_cu13", "13.0.1"),
        **made_up.package("nvidia_cuda_runtime_cu13", "13.0.48"),
    },
    torch={"available": False, "archs": []},
)


@pytest.mark.parametrize(
    ("machine", "first", "others"),
    [
        (DESKTOP_TORCH, "KW-033", {"KW-015", "KW-030", "KW-087"}),
        (WORKSTATION.but(driver={"init": 0, "level": 11040, "gpus": [H100]}), "KW-087", {"KW-003", "KW-076"}),
        (WORKSTATION.but(variables={"BNB_CUDA_VERSION": "124"}, files={}), "KW-028", {"KW-085"}),
        (WORKSTATION.but(**nvcc("13.0"), driver=driver_of(12080)), "KW-041", {"KW-003"}),
        (replace(with_extension(needed=("libcudart.so.13",)), driver=driver_of(12080)), "KW-050", {"KW-003"}),
    ],
    ids=["orin", "old driver", "bitsandbytes", "nvcc", "extension"],
)
def test_one_fault_has_one_command(tmp_path, machine, first, others):
    """What comes from another cause stands behind it, and the text has no command for it."""
    told = [as_data(one) for one in ranked(examine(machine.at(tmp_path)))]
    assert told[0]["code"] == first
    assert {one["code"] for one in told if one["explained_by"] == first} == others
    assert [one["code"] for one in told if not one["explained_by"]] == [first]
    printed = list(found_lines({"findings": told, "unlooked": [], "operators": []}))
    assert sum(line.startswith("  fix: ") for line in printed) == 1
    assert sum(line.startswith("  also: ") for line in printed) == len(told) - 1


def test_what_fails_comes_first(tmp_path):
    made = WORKSTATION.but(variables={"BNB_CUDA_VERSION": "124"}, driver={"init": 0, "level": 13000, "gpus": [
        {"name": "K40", "capability": 35}]})  # fmt: skip
    told = ranked(examine(made.at(tmp_path)))
    grades = [one.grade for one in told if not one.explained_by]
    assert grades == sorted(grades, key=[Grade.FAILS, Grade.WARNS].index)
    assert told[0].code == "KW-074"


def test_no_cause_comes_from_itself():
    """Over however many steps: of a circle nothing would stand at the head."""

    def later(code, seen=()):
        for other in {*causes_of(code), *_rank._BECAUSE_OF_THE_SAME.get(code, ())}:
            if other not in seen:
                yield other
                yield from later(other, (*seen, other))

    assert [code for code in all_causes() if code in set(later(code))] == []


def test_the_head_says_how_each_area_is(tmp_path):
    printed = list(lines(gather(DESKTOP_TORCH.at(tmp_path))))
    head = printed[1 : printed.index("")]
    assert [line[7:].split()[0] for line in head] == ["driver", "GPU", "torch", "compilers", "settings", "kernelwright"]
    assert head[1].startswith("fails  GPU          ")
    assert "Jetson AGX Orin Developer Kit, L4T 36.4.3); see KW-033" in head[1]
    assert head[2] == "fails  torch        2.9.0, CUDA 13.0, built by PyPI"
    assert printed[len(head) + 2].startswith("FAILS KW-033  ")


def test_an_area_that_could_not_be_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright.doctor.machine.toolkit.nvccs", lambda _: 1 / 0)
    printed = list(lines(gather(WORKSTATION.at(tmp_path))))
    assert "warns  compilers    ZeroDivisionError: division by zero" in printed
    (unlooked,) = [line for line in printed if line.startswith("not looked for: ")]
    assert unlooked.endswith("(ZeroDivisionError: division by zero); please report this")
    assert unlooked.count("KW-") > 3


def test_the_same_failure_is_told_once(tmp_path, monkeypatch):
    monkeypatch.setattr("kernelwright._library.opened", lambda: (_ for _ in ()).throw(ValueError("a bad path")))
    printed = "\n".join(lines(gather(WORKSTATION.at(tmp_path))))
    assert printed.count("FAILED ") == 1
    assert "layer_norm, " in printed
