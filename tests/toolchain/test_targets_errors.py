# SPDX-License-Identifier: MIT
"""A wrong targets.toml is refused in words that name the row and the key, whatever is wrong with it.

Each case changes one thing of the real table, so that the message can only be about that thing.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import TableError, ToolMissing
from kernelwright_toolchain.targets import read
from tests.tree import ROOT

tomllib = pytest.importorskip("tomllib" if sys.version_info >= (3, 11) else "tomli", reason="no TOML reader here")
hypothesis = pytest.importorskip("hypothesis", reason="the random mutations need hypothesis")
st = hypothesis.strategies

REAL: dict[str, Any] = tomllib.loads((ROOT / "targets.toml").read_text(encoding="utf-8"))
DELETE = object()

# (dotted path to the value, its replacement, what the message says besides the row)
WRONG: list[tuple[str, Any, str]] = [
    # keys
    ("toolkit.cu122.colour", "red", "unknown key 'colour'"),
    ("toolkit.cu122.driver.windows", "537.13", "unknown key 'windows'"),
    ("toolkit.cu122.hosts.spack", [], "unknown key 'spack'"),
    ("toolkit.cu122.components.cublas", "12.2.5", "unknown key 'cublas'"),
    ("cubin.sm_89.toolkits.middle", "12.0", "unknown key 'middle'"),
    ("ptx.compute_90.boards", ["H100"], "unknown key 'boards'"),
    ("target.l4t-r36.host.spack", "gcc", "unknown key 'spack'"),
    ("gcc.cu122.libc", "2.28", "unknown key 'libc'"),
    ("tools.extra", [], "unknown key 'extra'"),
    ("extra", {}, "unknown key 'extra'"),
    ("toolkit.cu122.release", DELETE, "'release' is missing"),
    ("toolkit.cu122.driver.linux", DELETE, "'linux' is missing"),
    ("toolkit.cu122.hosts.nix", DELETE, "'nix' is missing"),
    ("toolkit.cu122.components.nvrtc", DELETE, "'nvrtc' is missing"),
    ("cubin.sm_89.toolkits.first", DELETE, "'first' is missing"),
    ("cubin.sm_89.boards", DELETE, "'boards' is missing"),
    ("ptx.compute_90.virtual", DELETE, "'virtual' is missing"),
    ("target.l4t-r36.release", DELETE, "'release' is missing"),
    ("target.l4t-r36.host.pip", DELETE, "'pip' is missing"),
    ("schema", DELETE, "'schema' is missing"),
    ("gcc", DELETE, "'gcc' is missing"),
    ("tools.locks", DELETE, "'locks' is missing"),
    # types
    ("toolkit.cu122.release", 12.2, "release = 12.2 should be of type str"),
    ("toolkit.cu122.gcc.max", True, "max = True should be of type int"),
    ("toolkit.cu122.gcc.max", "12", "max = '12' should be of type int"),
    ("toolkit.cu122.hosts.pip", "x86_64", "pip = 'x86_64' should be of type list"),
    ("toolkit.cu122.components", ["nvcc"], "components = ['nvcc'] should be of type dict"),
    ("toolkit.cu122.components.nvcc", 12, "nvcc = 12 should be of type str"),
    ("toolkit.cu122", 3, "expected a table, found 3"),
    ("cubin.sm_89.features", ["fp8", 8], "should hold strings only"),
    ("target.l4t-r36.release", 1, "release = 1 should be of type bool"),
    ("target", [], "target = [] should be of type dict"),
    ("schema", "1", "schema = '1' should be of type int"),
    ("schema", 2, "schema 2 is not 1"),
    # versions
    ("toolkit.cu122.release", "12.x", "release = '12.x' is not a dotted version"),
    ("toolkit.cu122.release", "12", "release = '12' should be major.minor"),
    ("toolkit.cu122.release", "12.2.0", "release = '12.2.0' should be major.minor"),
    ("toolkit.cu122.release", "1" * 5000 + ".2", "is not a dotted version"),
    ("toolkit.cu122.release", "12.٢", "is not a dotted version"),
    ("toolkit.cu122.components.nvcc", "", "nvcc: '' is not of the form"),
    ("toolkit.cu122.driver.linux", "new", "linux: 'new' is not of the form"),
    ("toolkit.cu122.redist", "12", "redist: '12' is not of the form"),
    ("cubin.sm_89.toolkits.last", "12", "last = '12' should be major.minor"),
    ("cubin.sm_89.toolkits.last", "", "last = '' is not a dotted version"),
    ("cubin.sm_89.runs_on", ["8.9", "nine"], "runs_on = 'nine' is not a dotted version"),
    ("cubin.sm_89.runs_on", ["8"], "runs_on = '8' should be major.minor"),
    ("target.l4t-r36.glibc", "2", "glibc = '2' should be major.minor"),
    ("target.l4t-r36.system.glibc", "two", "glibc = 'two' is not a dotted version"),
    ("target.l4t-r36.system.userland", "windows", "userland: 'windows' is not of the form"),
    ("target.l4t-r36.system.cuda", DELETE, "key 'cuda' is missing"),
    ("target.l4t-r36.system.gpu", "8.7", "unknown key 'gpu'"),
    ("toolkit.cu122.ptx", "8", "ptx = '8' should be major.minor"),
    ("gcc.cu122.sysroot", "two", "sysroot = 'two' is not a dotted version"),
    # toolkits
    ("toolkit.cu122.release", "12.3", "release = 12.3 is not the one of its name"),
    ("toolkit.cuda", "<toolkit.cu122>", "a toolkit row is called cuNNN"),
    ("toolkit.cu122.gcc", {"min": 13, "max": 12}, "gcc range 13..12 is empty"),
    ("toolkit.cu122.driver.cuda", "12.3", "driver.cuda = 12.3 is newer than release 12.2"),
    ("toolkit.cu122.components.nvcc", "12.3.1", "components.nvcc = 12.3.1 is not of release 12.2"),
    ("toolkit.cu122.components.nvrtc", "12.4.127", "components.nvrtc = 12.4.127 is not of release 12.2"),
    ("toolkit.cu122.components.cudart", "11.8.0", "components.cudart = 11.8.0 is not of release 12.2"),
    ("toolkit.cu122.redist", "12.4.1", "redist = 12.4.1 is not of release 12.2"),
    ("toolkit.cu122.pypi.meta", "cuda-toolkit==12.4.1", "does not pin release 12.2"),
    ("toolkit.cu122.pypi.meta", "cuda-toolkit>=12.2.1", "does not pin release 12.2"),
    ("toolkit.cu122.pypi.nvrtc", "nvrtc; rm -rf", "pypi.nvrtc = 'nvrtc; rm -rf' is not the name"),
    ("toolkit.cu122.hosts.nix", ["x86_64", "riscv64"], "hosts.nix names 'riscv64'; targets have aarch64, x86_64"),
    ("toolkit.cu122.hosts.nix", ["x86_64", "x86_64"], "names something twice"),
    ("toolkit.cu122.hosts.pip", ["x86_64"], "locks are for ['aarch64', 'x86_64'], but hosts.pip says"),
    ("toolkit.cu122.locks", {}, "locks are for [], but hosts.pip says ['aarch64', 'x86_64']"),
    ("toolkit.cu122.locks.x86_64", "/etc/passwd", "x86_64: '/etc/passwd' is not of the form"),
    ("toolkit.cu122.locks.x86_64", "locks/../x.txt", "is not of the form"),
    ("toolkit.cu122.locks.riscv64", "locks/x.txt", "unknown key 'riscv64'"),
    ("toolkit.cu122.locks.x86_64", "locks/cu124-x86_64.txt", "is that of [toolkit.cu122] too"),
    ("toolkit.cu122.conda", " ", "conda: ' ' is not of the form"),
    ("toolkit", {}, "there is no [toolkit.…] row"),
    # codes
    ("cubin.ampere", "<cubin.sm_80>", "a cubin row is called"),
    ("cubin.sm_89x", "<cubin.sm_89>", "a cubin row is called"),
    ("cubin.sm_88", "<cubin.sm_89>", "runs_on begins with 8.9, which is not this row's own"),
    ("cubin.sm_89.runs_on", [], "runs_on is empty"),
    ("cubin.sm_89.runs_on", ["8.9", "9.0"], "runs_on leaves the major family"),
    ("cubin.sm_89.runs_on", ["8.9", "8.6"], "runs_on goes below 8.9"),
    ("cubin.sm_89.runs_on", ["8.9", "8.9"], "names something twice"),
    ("cubin.sm_90a.runs_on", ["9.0", "9.1"], "architecture-specific cubin runs on its own"),
    ("cubin.sm_70.toolkits", {"first": "12.0", "last": "11.8"}, "toolkits.last 11.8 is before toolkits.first 12.0"),
    ("cubin.sm_89.features", ["fp8", "fp8"], "names something twice"),
    ("cubin.sm_89.features", ["FP8"], "features: 'FP8' is not of the form"),
    ("cubin.sm_89.features", ["fp-8"], "features: 'fp-8' is not of the form"),
    ("cubin.sm_89.boards", ["L4", "L4"], "names something twice"),
    ("cubin.sm_89.boards", [""], "boards: '' is not of the form"),
    ("cubin", {}, "there is no [cubin.…] row"),
    ("ptx.compute_90a", "<ptx.compute_90>", "a PTX row is called"),
    ("ptx.compute_90.virtual", "8.0", "virtual = 8.0 is not the capability of its name"),
    ("ptx.compute_90.features", ["wgmma"], "features: 'wgmma' is in no cubin row that newer GPUs can run"),
    # features
    ("feature.fp8_mma.first", DELETE, "'first' is missing"),
    ("feature.fp8_mma.first", "12", "first = '12' should be major.minor"),
    ("feature.fp8_mma.last", "13.0", "unknown key 'last'"),
    ("feature.fp9_mma", "<feature.fp8_mma>", "no cubin or PTX row has this feature"),
    ("feature", {}, "there is no [feature.…] row"),
    # targets
    ("target.l4t-r36.toolkit", "cu999", "toolkit 'cu999' has no row; there are cu122"),
    ("target.l4t-r36.cubins", ["sm_88"], "cubins: 'sm_88' has no row [cubin.sm_88]"),
    ("target.l4t-r36.cubins", ["compute_90"], "cubins: 'compute_90' has no row [cubin.compute_90]"),
    ("target.l4t-r36.cubins", ["sm_87", "sm_87"], "names something twice"),
    ("target.l4t-r36.cubins", [], "cubins = []: toolkit cu122 makes none of them"),
    ("target.l4t-r36.cubins", ["sm_110"], "toolkit cu122 makes none of them"),
    ("target.linux-x86_64.cubins", [], "cubins = []: toolkit cu122 makes none of them"),
    ("target.l4t-r36.ptx", ["sm_87"], "ptx: 'sm_87' has no row [ptx.sm_87]"),
    ("target.l4t-r36.platform_tag", "linux_aarch64", "does not say glibc 2.28 on aarch64"),
    ("target.l4t-r36.platform_tag", "manylinux_2_17_aarch64", "does not say glibc 2.28 on aarch64"),
    ("target.l4t-r36.triple", "x86_64-linux-gnu", "triple = 'x86_64-linux-gnu' is not of machine 'aarch64'"),
    ("target.l4t-r36.zig", "aarch64-linux-musl", "zig: 'aarch64-linux-musl' is not of the form"),
    ("target.l4t-r36.host.pip", "clang", "pip: 'clang' is not of the form zig|gcc"),
    ("target.l4t-r36.redist", "windows-x86_64", "redist: 'windows-x86_64' is not of the form"),
    ("target.l4t-r36.release", True, "platform_tag = 'manylinux_2_28_aarch64' is that of [target.linux-aarch64] too"),
    # tools and gcc
    ("tools.requirements", ["cmake"], "requirements: 'cmake' is not of the form"),
    ("tools.requirements", ["cmake==4.3.4", "cmake==4.3.3"], "pins something twice"),
    ("tools.locks.x86_64", DELETE, "locks has none for x86_64, which a target names"),
    ("tools.locks.aarch64", "locks/tools-x86_64.txt", "is that of [tools] too"),
    ("gcc.cu122.major", 13, "major = 13 is not that of version 12.4.0"),
    ("gcc.cu122", {"version": "13.1.0", "major": 13, "sysroot": "2.28"}, "the nvcc of cu122 takes 6 to 12"),
    ("gcc.cu999", "<gcc.cu122>", "'cu999' has no row [toolkit.cu999]"),
    ("gcc", {}, "there is no [gcc.…] row"),
    ("toolkit.cu130.hosts.nix", ["x86_64"], "hosts.nix names machines, and [gcc.cu130] is missing"),
    ("toolkit.cu130.hosts.conda", ["x86_64"], "hosts.conda names machines, and [gcc.cu130] is missing"),
]


def change(path: str, value: Any) -> dict[str, Any]:
    """The real table with the value at this dotted path set, deleted, or copied from another row."""
    table = copy.deepcopy(REAL)
    *parents, last = path.split(".")
    where = table
    for key in parents:
        where = where[key]
    if value is DELETE:
        del where[last]
    elif isinstance(value, str) and value.startswith("<"):
        section, row = value.strip("<>").split(".")
        where[last] = copy.deepcopy(table[section][row])
    else:
        where[last] = value
    return table


def row_of(path: str) -> str:
    keys = path.split(".")
    if keys[0] == "tools" and len(keys) > 1:
        return keys[0]
    return ".".join(keys[:2]) if len(keys) > 1 else "top level"


@pytest.mark.parametrize(("path", "value", "words"), WRONG, ids=[f"{path}-{n}" for n, (path, _, _) in enumerate(WRONG)])
def test_a_wrong_value_is_refused_by_row_and_key(path: str, value: Any, words: str):
    with pytest.raises(TableError) as caught:
        read.build(change(path, value))
    message = str(caught.value)
    assert words in message
    other_of_a_pair = "is that of [" in words  # there the second row of the two is the one named
    assert message.startswith("targets.toml [" if other_of_a_pair else f"targets.toml [{row_of(path)}")


def test_two_toolkits_of_one_release_are_refused():
    table = change("toolkit.cu0122", "<toolkit.cu122>")
    with pytest.raises(TableError, match=r"\[toolkit.cu0122\]: release = 12.2 is not the one of its name"):
        read.build(table)


def test_the_real_table_is_right_before_any_change():
    assert read.build(copy.deepcopy(REAL)) == targets.load()


def test_text_that_is_not_toml():
    with pytest.raises(TableError, match="not valid TOML"):
        targets.parse("schema = ")


def test_a_table_that_cannot_be_read(tmp_path):
    with pytest.raises(TableError, match="cannot read"):
        targets.load(tmp_path / "targets.toml")
    (tmp_path / "targets.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(TableError, match="cannot read"):
        targets.load(tmp_path / "targets.toml")


def test_a_python_without_a_toml_reader(monkeypatch):
    monkeypatch.setitem(sys.modules, "tomllib", None)
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(ToolMissing, match=r"run through \./kw, or `pip install tomli`"):
        targets.parse("schema = 1")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in the table, tables and list items included."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += leaves(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += leaves(item, (*path, index))
    return found


LEAVES = leaves(REAL)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@hypothesis.settings(max_examples=400, deadline=None, derandomize=True)
@hypothesis.given(st.sampled_from(LEAVES), VALUES | st.sampled_from([DELETE]))
def test_no_change_crashes_the_reader(path, value):
    """Whatever stands anywhere in the file, the answer is a table or a TableError."""
    table = copy.deepcopy(REAL)
    where = table
    for key in path[:-1]:
        where = where[key]
    if value is DELETE:
        del where[path[-1]]
    else:
        where[path[-1]] = value
    try:
        made = read.build(table)
    except TableError as error:
        assert str(error).startswith("targets.toml [")
    else:
        assert made.targets


@hypothesis.settings(max_examples=200, deadline=None, derandomize=True)
@hypothesis.given(st.lists(st.sampled_from(sorted(targets.load().codes)), unique=True, min_size=1))
def test_any_set_of_known_codes_is_kept_in_its_order_or_refused(codes):
    table = copy.deepcopy(REAL)
    cubins = [name for name in codes if name in REAL["cubin"]]
    table["target"]["l4t-r36"].update(
        cubins=cubins, ptx=[name for name in codes if name in REAL["ptx"]], toolkit="cu130"
    )
    makeable = [name for name in cubins if "last" not in REAL["cubin"][name]["toolkits"]]
    try:
        made = read.build(table)
    except TableError as error:
        assert not makeable
        assert "toolkit cu130 makes none of them" in str(error)
        return
    target = made.targets["l4t-r36"]
    known = made.default_codes(target, made.toolkits["cu130"])
    assert [code.name for code in known if code.kind == "cubin"] == makeable
