# SPDX-License-Identifier: MIT
"""The script that a machine with a GPU is given says what became of each step. It needs no GPU for that."""

from __future__ import annotations

import json
import sys

import pytest

from tests.gpu import everything
from tests.gpu.everything import Step


def python(code):
    return [sys.executable, "-c", code]


def test_parts_share_the_gpus_and_what_is_whole_sees_all(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    gpus = everything.visible()
    assert gpus == ["3", "5"]
    parts, whole = Step("a", 1, ["a"], {"B": "c"}, parts=3), Step("a", 1, ["a"])
    assert [e["CUDA_VISIBLE_DEVICES"] for e in parts.environments(gpus)] == ["3", "5", "3"]
    assert {e["B"] for e in parts.environments(gpus)} == {"c"}
    assert [e["CUDA_VISIBLE_DEVICES"] for e in whole.environments(gpus)] == ["3,5"]
    assert list(parts.commands().items())[2] == ("a-3", ["a", "3/3"])


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('fine')", "ok"),
        ("raise SystemExit(3)", "exit code 3"),
        ("import time; time.sleep(60)", "cut off"),
    ],
)
def test_what_became_of_a_step(tmp_path, code, said):
    assert everything.run(Step("a", 60, python(code)), tmp_path, 2.0, [])[0] == said


def test_a_part_that_fails_is_named(tmp_path):
    step = Step("a", 60, python("import sys; sys.exit(sys.argv[1] == '2/3')"), parts=3)
    assert everything.run(step, tmp_path, 20.0, ["0", "1"])[0] == "a-2: exit code 1"


def test_a_tool_that_is_not_there_is_no_success(tmp_path, monkeypatch):
    monkeypatch.setattr(everything, "steps", lambda *_: [Step("a", 1, ["no-such-sanitizer"]), Step("b", 9, python(""))])
    monkeypatch.setattr(sys, "argv", ["everything.py", str(tmp_path), "--ops", "rms_norm"])
    with pytest.raises(SystemExit) as end:
        everything.main()
    assert end.value.code == 1
    found = json.loads((tmp_path / "summary.json").read_text())
    assert [row["said"] for row in found] == ["no-such-sanitizer is not on PATH", "ok"]


def test_numbers_that_are_none_must_be_where_they_are_expected():
    torch = pytest.importorskip("torch")
    from tests.gpu.program import share_of

    inf, nan = float("inf"), float("nan")
    wide = torch.tensor([1.0, -inf, nan, 2.0], dtype=torch.float64)
    bound = torch.full_like(wide, 0.5)
    assert share_of(torch.tensor([1.25, -inf, nan, 2.0]), wide, bound) == 0.5
    for wrong in ([nan, -inf, nan, 2.0], [1.0, inf, nan, 2.0], [1.0, 0.0, nan, 2.0], [1.0, -inf, 3.0, 2.0]):
        assert share_of(torch.tensor(wrong), wide, bound) > 1.0
    assert share_of(torch.empty(0), torch.empty(0, dtype=torch.float64), torch.empty(0)) == 0.0
