# SPDX-License-Identifier: MIT
"""The picture shows what the JSON says; needs matplotlib (locks/bench.txt)."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib", reason="matplotlib is not installed: it is in the environment of ./kw bench")

from benchmarks.harness import plot


def case(overload, shape, size, ours, limit, **others):
    us = {"kernelwright": ours, "copy": ours * limit, **others}
    return {"overload": overload, "shape": shape, "dtype": "bfloat16", "bytes": size, "limit": limit, "us": us}


RESULT = {
    "op": "some_op",
    "device": "a device",
    "commit": "c",
    "torch": "t",
    "cases": {
        "b": case("default", [2, 8], 1 << 30, 200.0, 0.9, eager=400.0),
        "a": case("default", [1, 8], 1 << 20, 10.0, 0.5, eager=20.0),
        "c": case("backward", [1, 8], 1 << 20, 10.0, 0.8),
        "d": {"overload": "default", "shape": [9, 9], "dtype": "bfloat16", "bytes": 1, "not run": ["no memory"]},
    },
}


def test_lines_are_shares_of_the_limit(tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    monkeypatch.setattr(plt, "close", lambda _: None)
    plot.plot([RESULT], tmp_path / "x.png")
    axes = plt.gcf().axes
    assert [a.get_title(loc="left") for a in axes] == ["some_op", "some_op.backward"]
    lines = {line.get_label(): list(line.get_ydata()) for line in axes[0].get_lines()}
    assert lines["kernelwright"] == pytest.approx([50, 90]), "smallest first"
    assert lines["torch eager"] == pytest.approx([25, 45])
    assert [label.get_text() for label in axes[0].get_xticklabels()] == ["1x8", "2x8"]
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_foot_names_the_commit_of_each_operator(tmp_path, monkeypatch):
    from matplotlib import pyplot as plt

    monkeypatch.setattr(plt, "close", lambda _: None)
    results = [RESULT, {**RESULT, "op": "other_op"}, {**RESULT, "op": "old_op", "commit": "b"}]
    plot.plot(results, tmp_path / "x.png")
    foot = "some_op, other_op: kernelwright at c, torch t; old_op: kernelwright at b, torch t"
    assert foot in [text.get_text() for text in plt.gcf().texts]
