# SPDX-License-Identifier: MIT
"""Which wheels a release has, and the table of what they take."""

from __future__ import annotations

import pytest
import tiny

from toolchain import targets
from toolchain.building import release, stamp
from toolchain.building.run import Outcome
from toolchain.errors import RequestError

TABLE = targets.load()
RELEASED = [row.name for row in TABLE.targets.values() if row.release]


def pairs(*given: list[str]) -> list[tuple[str | None, str | None]]:
    return [(one.target, one.toolkit) for one in release.plan(TABLE, *given)]


def test_without_a_wish_every_target_is_built_by_its_own_toolkit():
    assert pairs([], []) == [(name, None) for name in TABLE.targets]
    assert {one.provider for one in release.plan(TABLE, [], [])} == {"pip"}


def test_other_toolkits_are_for_the_released_targets():
    assert pairs([], ["cu124", "cu128"]) == [(name, kit) for kit in ("cu124", "cu128") for name in RELEASED]
    assert pairs(["l4t-r36"], ["cu124"]) == [("l4t-r36", "cu124")]
    with pytest.raises(RequestError, match="'cu999' is neither a target nor a toolkit"):
        pairs([], ["cu999"])


def test_the_table_says_what_each_code_adds(tmp_path, monkeypatch):
    members = {
        "kernelwright/kernels/sm_100/b.cubin": b"x" * 500, "kernelwright/kernels/sm_89/a.cubin": b"x" * 300,
        "kernelwright/kernels/sm_89/b.cubin": b"x" * 100, "kernelwright/kernels/compute_90/a.ptx": b"x" * 50,
        "kernelwright/x.py": b"",
    }  # fmt: skip
    wheel = tiny.write(tmp_path / "k.whl", members)
    rows = tuple(stamp.Row("sm_89", op, 1, 1, 0, 2.5) for op in "ab")
    monkeypatch.setattr(
        release, "build", lambda *_: Outcome(wheel, stamp.Stamp("", "", "", "", rows, 12.0), fresh=True)
    )
    (made,) = release.build_all(TABLE, [*release.plan(TABLE, ["l4t-r36"], [])], None)
    assert made.codes == (("sm_89", 400), ("sm_100", 500), ("compute_90", 50))
    assert made.rest == wheel.stat().st_size - 950
    line = release.page([made]).splitlines()[2]
    assert "| 12 | 5 | sm_89 400, sm_100 500, compute_90 50 |" in line
