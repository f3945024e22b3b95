# SPDX-License-Identifier: MIT
"""What the table of targets says, and the arithmetic on it that every other layer relies on."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from kernelwright_toolchain import request, targets
from kernelwright_toolchain.targets.model import GccRange, Span, Version

TABLE = targets.load()


def names(target: str, toolkit: str) -> list[str]:
    return [code.name for code in TABLE.default_codes(TABLE.targets[target], TABLE.toolkits[toolkit])]


def test_versions_compare_by_number_not_by_text():
    ordered = [Version.parse(text) for text in ("9.0", "12", "12.2", "12.2.140", "12.9", "12.10", "13.0")]
    assert ordered == sorted(ordered)
    assert Version.parse("12.10") > Version.parse("12.9")
    assert Version.parse("12.2.140").release == Version.parse("12.2")
    assert Version.parse("12.2.140").major == 12
    assert str(Version.parse("12.2.140")) == "12.2.140"


@pytest.mark.parametrize(
    ("first", "last", "release", "knows"),
    [
        ("11.8", None, "11.8", True),
        ("11.8", None, "11.7", False),
        ("11.8", None, "99.0", True),
        ("9.0", "12.9", "12.9", True),
        ("9.0", "12.9", "13.0", False),
        ("9.0", "12.9", "12.10", False),
        ("9.0", "12.9", "10.0", True),
    ],
)
def test_a_span_includes_both_ends(first: str, last: str | None, release: str, knows: bool):
    span = Span(Version.parse(first), Version.parse(last) if last else None)
    assert span.knows(Version.parse(release)) is knows
    assert str(span) == (f"{first} to {last}" if last else f"{first} or newer")


def test_gcc_ranges_include_both_ends():
    accepted = [major for major in range(1, 20) if GccRange(6, 12).accepts(major)]
    assert accepted == [6, 7, 8, 9, 10, 11, 12]


def test_default_sets_leave_out_what_the_toolkit_cannot_make():
    assert names("linux-x86_64", "cu122") == ["sm_80", "sm_86", "sm_89", "sm_90a", "compute_90"]
    assert names("linux-x86_64", "cu128") == ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120", "compute_90"]
    assert names("linux-x86_64", "cu130")[4:] == ["sm_100", "sm_103", "sm_120", "compute_90"]
    assert names("linux-aarch64", "cu122") == ["sm_80", "sm_87", "sm_89", "sm_90a", "compute_90"]
    assert "sm_110" in names("linux-aarch64", "cu130")
    # Thor's code of CUDA 12 would be gone from CUDA 13's set: whoever wants it asks for it.
    assert not any("sm_101" in names("linux-aarch64", toolkit) for toolkit in TABLE.toolkits)
    kits = [name for name, kit in TABLE.toolkits.items() if TABLE.codes["sm_101"].toolkits.knows(kit.release)]
    assert kits == ["cu128"]
    assert names("l4t-r36", "cu122") == ["sm_87"]


def test_a_newer_toolkit_only_adds_to_a_default_set():
    toolkits = sorted(TABLE.toolkits.values(), key=lambda toolkit: toolkit.release)
    for target, (older, newer) in itertools.product(TABLE.targets.values(), itertools.pairwise(toolkits)):
        assert set(names(target.name, older.name)) <= set(names(target.name, newer.name))


def test_codes_say_what_they_are():
    code = TABLE.codes["sm_90a"]
    assert (code.kind, code.number, str(code.native), code.suffix) == ("cubin", "90a", "9.0", "cubin")
    code = TABLE.codes["compute_90"]
    assert (code.kind, code.number, str(code.native), code.suffix) == ("ptx", "90", "9.0", "ptx")


def test_codes_stand_in_the_order_of_the_table_with_cubins_first():
    kinds = [code.kind for code in TABLE.codes.values()]
    assert kinds == sorted(kinds)
    natives = [code.native for code in TABLE.codes.values() if code.kind == "cubin"]
    assert natives == sorted(natives)


def test_every_released_gpu_is_served_by_its_own_cubin_or_a_sibling():
    """The fallback within a family is data; a hole in it is a GPU with no kernel."""
    codes = TABLE.default_codes(TABLE.targets["linux-x86_64"], TABLE.toolkits["cu130"])
    served = {str(cc) for code in codes for cc in code.runs_on}
    assert served >= {"8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "12.0", "12.1"}


def test_features_are_sorted_and_each_is_of_some_row():
    features = TABLE.features()
    assert list(features) == sorted(set(features))
    assert {"bf16_mma", "cp_async", "fp8", "tma", "wgmma"} <= set(features)


def test_a_feature_is_there_from_its_toolkit_on():
    code = TABLE.codes["sm_89"]
    assert "fp8_mma" in code.features
    have = {name: "fp8_mma" in TABLE.made(code, kit).features for name, kit in TABLE.toolkits.items()}
    assert have == {name: name != "cu122" for name in TABLE.toolkits}
    older, newer = (
        request.resolve(TABLE, target="linux-x86_64", toolkit=kit, archs="89") for kit in ("cu122", "cu128")
    )
    assert set(newer.codes[0].features) - set(older.codes[0].features) == {"fp8_mma"}
    default = request.resolve(TABLE, target="linux-x86_64")
    assert default.is_default_codes
    assert not any("fp8_mma" in code.features for code in default.codes)


def test_ptx_asks_for_nothing_architecture_specific():
    for code in TABLE.codes.values():
        if code.kind == "ptx":
            assert not {"wgmma", "setmaxnreg"} & set(code.features)


def test_the_table_cannot_be_changed_once_read():
    with pytest.raises(dataclasses.FrozenInstanceError):
        TABLE.gcc["cu122"].major = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        TABLE.toolkits["cu122"] = None  # type: ignore[index]
    with pytest.raises(TypeError):
        TABLE.toolkits["cu122"].components["nvcc"] = "1.0"  # type: ignore[index]
    with pytest.raises(TypeError):
        TABLE.targets["l4t-r36"].host["pip"] = "gcc"  # type: ignore[index]


def test_reading_twice_gives_equal_tables():
    assert targets.load() == TABLE
