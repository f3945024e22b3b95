# SPDX-License-Identifier: MIT
"""Each gate before a wheel is kept lets a good wheel through and is tripped by one bad thing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from device_support import FakeCompiler

from kernelwright_toolchain import targets
from kernelwright_toolchain.cubin import CubinError
from kernelwright_toolchain.device import Job
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.families import MOST
from kernelwright_toolchain.locking.wanted import lock_of
from kernelwright_toolchain.providers import pip
from kernelwright_toolchain.request import resolve
from kernelwright_toolchain.wheel import elf, gates
from kernelwright_toolchain.wheel.shares import Share
from tests.tree import ROOT

TABLE = targets.load()
OP = "rms_norm"  # whose one image bears its name
REQUEST = resolve(TABLE, target="linux-x86_64", archs="80,89", ops=OP)
TAG = "py3-none-manylinux_2_28_x86_64"
GOOD = '__attribute__((visibility("default"))) int kw_add(int a) { return a + 1; }\n'


def image(tmp_path: Path, code: str) -> bytes:
    (tmp_path / "csrc/ops/toy").mkdir(parents=True, exist_ok=True)
    (tmp_path / f"csrc/ops/toy/{OP}.cu").write_text("", encoding="utf-8")
    return FakeCompiler().compile(Job(tmp_path, OP, TABLE.codes[code])).image


@pytest.fixture
def members(tmp_path) -> dict[str, bytes]:
    images = {code: image(tmp_path, code) for code in ("sm_80", "sm_89")}
    return {
        gates.LIBRARY: tiny.library(tmp_path, GOOD),
        gates.MANIFEST: tiny.manifest(*((code, OP, data) for code, data in images.items())),
        **{f"kernelwright/kernels/{code}/{OP}.cubin": data for code, data in images.items()},
        f"{tiny.INFO}WHEEL": f"Wheel-Version: 1.0\nTag: {TAG}\n".encode(),
    }


def inspect(members: dict[str, bytes], name: str = f"k-{TAG}.whl", *, editable: bool = False) -> None:
    gates.inspect(members, name, TAG, REQUEST, with_paths=editable)


def test_a_good_wheel_passes(members):
    inspect(members)


def test_a_function_of_the_newest_c_library_is_refused(members, tmp_path):
    text = GOOD + "long __isoc23_strtol(const char*, char**, int);\n"
    text += GOOD.replace(
        "kw_add(int a) { return a + 1; }", "kw_read(int a) { return a + (int)__isoc23_strtol(0, 0, 10); }"
    )
    with pytest.raises(GateError, match=r"libkernelwright.so calls __isoc23_strtol, which glibc has since 2\.38 only"):
        inspect({**members, gates.LIBRARY: tiny.library(tmp_path, text)})


def test_another_export_than_the_c_abi_is_refused(members, tmp_path):
    text = GOOD + GOOD.replace("kw_add", "cblas_add")
    with pytest.raises(GateError, match=r"exports cblas_add; it may export kw_\* alone"):
        inspect({**members, gates.LIBRARY: tiny.library(tmp_path, text)})
    hidden = GOOD.replace("default", "hidden")
    with pytest.raises(GateError, match="exports nothing"):
        inspect({**members, gates.LIBRARY: tiny.library(tmp_path, hidden)})
    assert [s.name for s in elf.defined(members[gates.LIBRARY]) if s.is_global] == ["kw_add"]


def test_a_missing_arch_is_refused(members, tmp_path):
    gone = f"kernelwright/kernels/sm_89/{OP}.cubin"
    left = {name: data for name, data in members.items() if name != gone}
    with pytest.raises(GateError, match=rf"lacks {OP} for sm_89 \({gone}\); it has sm_80"):
        inspect(left)
    one = tiny.manifest(("sm_80", OP, members[f"kernelwright/kernels/sm_80/{OP}.cubin"]))
    with pytest.raises(GateError, match=rf"lacks {OP} for sm_89"):
        inspect({**members, gates.MANIFEST: one})
    with pytest.raises(CubinError, match="for GPU architecture 80, not for sm_89"):
        inspect({**members, gone: image(tmp_path, "sm_80")})
    with pytest.raises(GateError, match="which its manifest does not name"):
        inspect({**members, "kernelwright/kernels/sm_86/old.cubin": b""})


def test_a_tag_that_was_not_earned_is_refused(members):
    with pytest.raises(GateError, match="the library has earned py3-none-manylinux_2_28_x86_64"):
        inspect(members, name="k-py3-none-manylinux_2_17_x86_64.whl")
    with pytest.raises(GateError, match="otherwise"):
        inspect({**members, f"{tiny.INFO}WHEEL": b"Tag: py3-none-any\n"})


def test_a_path_of_the_build_machine_is_refused_unless_it_must_be_there(members, monkeypatch):
    leaking = {**members, "kernelwright/x.py": f"root = '{ROOT}/src'\n".encode()}
    with pytest.raises(GateError, match=r"kernelwright/x\.py holds the path"):
        inspect(leaking)
    inspect(leaking, editable=True)
    monkeypatch.setenv("HOME", "/export/people/kwbuilduser")
    with pytest.raises(GateError, match="/export/people/kwbuilduser/ of the build machine"):
        inspect({**members, "kernelwright/x.py": b"/export/people/kwbuilduser/.cache"})


@pytest.mark.parametrize("place", ["/io", "/srv"])
def test_a_container_whose_tree_or_home_is_right_below_the_root_is_a_machine_too(members, monkeypatch, place):
    monkeypatch.setenv("HOME", place)
    inspect({**members, "kernelwright/x.py": f"help = 'often {place}/.cache'\n".encode()})
    with pytest.raises(GateError, match=rf"a\.json holds the path {place}/ of the build machine"):
        inspect({**members, "kernelwright/a.json": f'"{place}/tree/csrc"'.encode()})


def test_a_user_without_a_home_has_none_to_be_found(members, monkeypatch):
    """A container's, by number alone."""

    def nobody(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    inspect(members)
    with pytest.raises(GateError, match="holds the path"):
        inspect({**members, "kernelwright/x.py": f"root = '{ROOT}/src'\n".encode()})


RELEASED = resolve(TABLE, target="linux-x86_64")


def shares(**sizes: int) -> list[Share]:
    """A library of 10 bytes for each, the rest images or, of `common`, other members; each may take 1,000."""
    parts = {name: (0, size - 10) if name == "common" else (size - 10, 0) for name, size in sizes.items()}
    return [Share(name, images, 10, rest, 1000) for name, (images, rest) in parts.items()]


def test_a_family_over_its_budget_is_refused_by_name():
    gates.size("k.whl", b"", shares(norm=1000, gated=1000, common=1000), RELEASED)
    words = (
        r"family gated: its images \(991\) and its part of the library \(10\) take 1,001 packed bytes, more than its "
        r"budget of 1,000 \(csrc/ops/gated/family\.toml\)"
    )
    with pytest.raises(GateError, match=words):
        gates.size("k.whl", b"", shares(norm=1000, gated=1001, common=1000), RELEASED)
    words = r"family common: .* all that is no image \(991\) take 1,001 packed bytes.* \(csrc/core/family\.toml\)"
    with pytest.raises(GateError, match=words):
        gates.size("k.whl", b"", shares(norm=1000, common=1001), RELEASED)


def test_a_wheel_that_is_no_release_is_not_held_to_the_budgets():
    big = shares(norm=5000)
    gates.size("k.whl", b"", big, resolve(TABLE, target="linux-x86_64", toolkit="cu130"))
    gates.size("k.whl", b"", big, resolve(TABLE, target="linux-x86_64", archs="89"))
    gates.size("k.whl", bytes(MOST + 1), big, replace(RELEASED, debug=True))


def test_a_wheel_of_more_codes_than_a_release_has_may_be_bigger_and_no_released_one(monkeypatch):
    able = [code.name for code in TABLE.codes.values() if code.toolkits.knows(TABLE.toolkits["cu128"].release)]
    more = resolve(TABLE, target="linux-x86_64", archs=",".join(able), toolkit="cu128")
    largest = gates.LARGEST_CODE * len(more.codes)
    assert largest > MOST
    gates.size("k.whl", bytes(largest), (), more)
    with pytest.raises(GateError, match=rf"k\.whl has {largest + 1:,} bytes, more than {largest:,}"):
        gates.size("k.whl", bytes(largest + 1), (), more)
    monkeypatch.setattr(gates, "LARGEST_CODE", MOST)  # whatever a code may add
    gates.size("k.whl", bytes(MOST), (), RELEASED)
    with pytest.raises(GateError, match=f"more than {MOST:,}"):
        gates.size("k.whl", bytes(MOST + 1), (), RELEASED)


POLICY = {
    "name": "manylinux_2_28",
    "symbol_versions": {"x86_64": {"GLIBC": ["2.2.5", "2.28"]}},
    "lib_whitelist": ["libc.so.6", "libm.so.6"],
}


def needs(*versions: str, libraries: tuple[str, ...] = ("libc.so.6", "ld-linux-x86-64.so.2")) -> elf.Needs:
    return elf.Needs(libraries, tuple(("libc.so.6", version) for version in versions))


def test_the_platform_tags_policy_is_kept():
    tag = "manylinux_2_28_x86_64"
    gates.keeps_to_policy(needs("GLIBC_2.2.5", "GLIBC_2.28"), tag, [POLICY], "l.so")
    with pytest.raises(GateError, match=r"needs GLIBC_2\.29 of libc\.so\.6, which manylinux_2_28_x86_64"):
        gates.keeps_to_policy(needs("GLIBC_2.29"), tag, [POLICY], "l.so")
    with pytest.raises(GateError, match=r"needs libcudart\.so\.12, which"):
        gates.keeps_to_policy(needs(libraries=("libcudart.so.12",)), tag, [POLICY], "l.so")
    with pytest.raises(GateError, match="knows no policy manylinux_2_28_aarch64"):
        gates.keeps_to_policy(needs(), "manylinux_2_28_aarch64", [POLICY], "l.so")


def test_auditwheels_table_has_every_tag_of_the_targets():
    known = gates.policies()
    if known is None:
        pytest.skip("auditwheel is not in .kw/tools; ./kw provision brings it")
    for target in TABLE.targets.values():
        gates.keeps_to_policy(needs("GLIBC_2.17"), target.platform_tag, known, target.name)
        with pytest.raises(GateError, match=r"GLIBC_2\.99"):
            gates.keeps_to_policy(needs("GLIBC_2.99"), target.platform_tag, known, target.name)


def test_the_policy_counts_when_it_is_there(members, tmp_path, monkeypatch):
    table = tmp_path / "audit" / "auditwheel" / "policy" / "manylinux-policy.json"
    table.parent.mkdir(parents=True)
    table.write_text(json.dumps([{**POLICY, "name": "manylinux_2_17"}]), encoding="utf-8")
    monkeypatch.setattr(pip, "home", lambda lock: tmp_path / "audit" if lock == lock_of("audit") else None)
    with pytest.raises(GateError, match="auditwheel knows no policy"):
        inspect(members)
