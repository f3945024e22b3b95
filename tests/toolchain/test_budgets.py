# SPDX-License-Identifier: MIT
"""What each family may take of a released wheel, what it takes, and that one which takes more ends the build by name."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from device_support import FakeCompiler

from kernelwright_toolchain import families
from kernelwright_toolchain.building import budgets
from kernelwright_toolchain.commands import objects
from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.errors import GateError, TableError
from kernelwright_toolchain.providers import host
from kernelwright_toolchain.request import resolve
from kernelwright_toolchain.wheel import archive, shares
from kernelwright_toolchain.wheel.shares import Share
from tests.tree import ROOT

TOOLS = host.HostTools(Path("python"), (), (), None)


@pytest.fixture
def root(tmp_path):
    """Two families of an operator each, and the floors they share."""
    place = tmp_path / "root"
    for family, op in (("gated", "swiglu"), ("norm", "rms_norm")):
        folder = place / "csrc/ops" / family
        folder.mkdir(parents=True)
        (folder / f"{op}.cu").write_text(f"int {op};")
        (folder / "family.toml").write_text("budget = 1_000\n")
    (place / "csrc/core").mkdir()
    (place / "csrc/core/family.toml").write_text("budget = 500\n")
    return place


def test_every_family_of_this_tree_has_a_budget(table):
    found = families.budgets(ROOT)
    folders = {path.name for path in (ROOT / "csrc/ops").iterdir() if path.is_dir()}
    assert set(found) == folders | {"common"}
    assert sum(found.values()) <= 8_000_000
    arm = families.limits(ROOT, table, table.targets["linux-aarch64"])
    assert families.limits(ROOT, table, table.targets["linux-x86_64"]) == found
    assert arm == {family: size * 6 // 5 for family, size in found.items()}
    assert families.limits(ROOT, table, table.targets["l4t-r36"]) == arm


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            None,
            "no budget for gated: without family.toml each takes 40,000 bytes of that of common (csrc/core/family.toml),",
        ),
        ("", "found budget = None"),
        ("budget = 0", "a number above 0, and nothing else; found budget = 0"),
        ("budget = true", "found budget = True"),
        ("budget = 1e6", "found budget = 1000000.0"),
        ("budget = 5\nbudgets = 6", "found budget = 5, budgets = 6"),
        ("budget = ", "csrc/ops/gated/family.toml: not valid TOML"),
        (
            "budget = 7_998_501",
            "sum to 8,000,001 bytes, more than 8,000,000: gated 7,998,501, norm 1,000, common 500",
        ),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(root, text, words):
    path = root / "csrc/ops/gated/family.toml"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(TableError) as refused:
        families.budgets(root)
    assert words in str(refused.value)


def test_a_family_without_a_budget_takes_a_share_of_what_is_common(root, table):
    (root / "csrc/core/family.toml").write_text("budget = 100_000\n")
    (root / "csrc/ops/gated/family.toml").unlink()
    assert families.budgets(root) == {"gated": 40_000, "norm": 1000, "common": 60_000}
    arm = families.limits(root, table, table.targets["linux-aarch64"])
    assert arm == {"gated": 48_000, "norm": 1200, "common": 72_000}
    (root / "csrc/ops/norm/family.toml").unlink()
    assert families.budgets(root)["common"] == 20_000
    (root / "csrc/core/family.toml").write_text("budget = 80_000\n")
    with pytest.raises(TableError, match=r"no budget for gated, norm: .* is 80,000\. Write csrc/ops/norm/family\.toml"):
        families.budgets(root)


def test_the_budgets_may_sum_to_the_whole(root):
    (root / "csrc/ops/gated/family.toml").write_text("budget = 7_998_500")
    assert sum(families.budgets(root).values()) == families.MOST


def test_what_each_family_takes_sums_to_the_wheel(root):
    noise = bytes(i * i * 31 % 251 for i in range(5000))
    members = {
        "kernelwright/kernels/sm_80/rms_norm.cubin": noise[:3000],
        "kernelwright/kernels/compute_90/rms_norm.ptx": noise[:1000],
        "kernelwright/kernels/sm_80/swiglu.cubin": noise[:500],
        shares.LIBRARY: noise,
        "kernelwright/__init__.py": b"x = 1\n" * 100,
    }

    def compress(data):
        return zlib.compress(data, 9, -15)

    wheel = archive.pack(members, compress)
    sizes = {"csrc/ops/norm/cpu/rms_norm.cpp": 600, "csrc/ops/norm/host/a.cpp": 100, "csrc/core/call.cpp": 200}
    sizes["csrc/ops/gated/host/swiglu.cpp"] = 100
    limits = families.budgets(root)
    gated, norm, common = shares.shares(wheel, sizes, limits, root)
    packed = {name: min(len(compress(data)), len(data)) for name, data in members.items()}
    library = packed[shares.LIBRARY]
    assert (gated.family, gated.images, gated.library) == (
        "gated",
        packed["kernelwright/kernels/sm_80/swiglu.cubin"],
        library // 10,
    )
    both = packed["kernelwright/kernels/sm_80/rms_norm.cubin"] + packed["kernelwright/kernels/compute_90/rms_norm.ptx"]
    assert (norm.images, norm.library, norm.rest, norm.limit) == (both, library * 7 // 10, 0, 1000)
    assert (common.family, common.images, common.limit) == ("common", 0, 500)
    assert common.library == library - gated.library - norm.library
    assert gated.size + norm.size + common.size == len(wheel)
    assert [share.library for share in shares.shares(wheel, {}, limits, root)] == [0, 0, library]


def test_an_object_counts_with_what_is_loaded_of_it(tmp_path):
    cc = shutil.which("cc")
    if cc is None:
        pytest.skip("no C compiler `cc` on PATH; ./kw tests puts zig there")
    listed = []
    for isa, count in (("plain", 1000), ("wide", 3000)):
        folder = tmp_path / "CMakeFiles" / f"kw_cpu_{isa}.dir" / "csrc/ops/norm/cpu"
        folder.mkdir(parents=True)
        text = f"const int table[{count}] = {{1, 2}};\nint room[9000];\n"
        (tmp_path / "x.c").write_text(text)
        for name, more in (("x.cpp.o", ()), ("debug.cpp.o", ("-g",))):
            command = [cc, "-c", "-O1", "-ffreestanding", *more, "x.c", "-o", str(folder / name)]
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            listed.append(str(folder / name))
    (tmp_path / "objects.txt").write_text("\n".join(listed) + "\n")
    given = type("Given", (), {"list": tmp_path / "objects.txt", "out": tmp_path / "objects.json"})
    assert objects.run(given) == 0  # type: ignore[arg-type]
    found = shares.sizes_of((tmp_path / "objects.json").read_bytes())
    assert set(found) == {"csrc/ops/norm/cpu/x.cpp", "csrc/ops/norm/cpu/debug.cpp"}
    assert 16_000 <= found["csrc/ops/norm/cpu/x.cpp"] < 16_500
    assert found["csrc/ops/norm/cpu/debug.cpp"] == found["csrc/ops/norm/cpu/x.cpp"]


@pytest.fixture
def build(root, table, tmp_path, monkeypatch):
    """Builds as ./kw build does up to the images, one compile at a time; gives what was compiled."""
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(archive, "compressor", lambda _library: lambda data: zlib.compress(data, 9, -15))
    compiler = FakeCompiler()

    def call(**options):
        request = resolve(table, **{"target": "linux-x86_64", "root": root, **options})
        watch = budgets.watch(request, table, TOOLS, root)
        compiler.asked.clear()
        try:
            build_images(request, compiler, root=root, jobs=1, family_done=watch)
        finally:
            call.asked = {op for op, _ in compiler.asked}

    return call


def test_a_family_whose_images_are_too_many_ends_the_build_before_the_next_is_compiled(build, root):
    (root / "csrc/ops/norm/family.toml").write_text("budget = 100")
    words = r"family norm: its images alone take [1-9],?\d+ packed bytes, more than its budget of 100 \(csrc/ops/norm/"
    with pytest.raises(GateError, match=words):
        build()
    assert build.asked == {"rms_norm"}
    with pytest.raises(GateError, match=words):  # out of the cache, before anything is compiled
        build()
    assert build.asked == set()
    build(archs="80")  # no release
    assert build.asked == {"swiglu"}
    (root / "csrc/ops/norm/family.toml").write_text("budget = 1_000_000")
    (root / "csrc/ops/gated/family.toml").write_text("budget = 100")
    with pytest.raises(GateError, match="family gated: its images alone"):
        build()
    (root / "csrc/ops/gated/family.toml").write_text("budget = 1_000_000")
    build()


def test_an_image_that_is_left_out_costs_nothing(build, root, table, monkeypatch):
    """The compiler's images for two codes are equal: their family's budget is that of one."""
    seen = []
    monkeypatch.setattr(budgets, "_packed", lambda image, _compress: seen.append(image.code) or 1)
    build()
    assert seen == ["sm_80", "sm_90a", "compute_90"] * 2


def test_what_an_image_takes_is_remembered_and_a_broken_note_is_not_believed(build, root, tmp_path, monkeypatch):
    for family in ("gated", "norm"):
        (root / f"csrc/ops/{family}/family.toml").write_text("budget = 1_000_000")
    build()
    notes = sorted((tmp_path / "cache" / "packed").rglob("*-12"))
    assert len(notes) == 6
    sizes = [note.read_text() for note in notes]
    for note in notes:
        note.write_text("not a number")
    build()
    assert [note.read_text() for note in notes] == sizes
    monkeypatch.setattr(archive, "compressor", lambda _library: lambda _data: 1 / 0)
    build()


def test_the_table_says_what_each_takes_and_may_take():
    found = (Share("gated", 200_000, 20_000, 0, 240_000), Share("common", 0, 13_000, 400_000, 600_000))
    lines = [line.split() for line in budgets.as_table(found, held=True).splitlines()]
    assert lines[0] == ["family", "bytes", "budget", "images", "library"]
    assert lines[2:4] == [
        ["gated", "220,000", "240,000", "200,000", "20,000"],
        ["common", "413,000", "600,000", "0", "13,000"],
    ]
    assert lines[-1] == ["total", "633,000", "8,000,000", "200,000", "33,000"]
    assert budgets.as_table(found, held=False).splitlines()[2].split()[:3] == ["gated", "220,000", "-"]


def test_a_build_that_is_no_release_is_not_watched(root, table):
    released = resolve(table, target="linux-x86_64", root=root)
    assert budgets.watch(released, table, TOOLS, root)
    assert budgets.watch(replace(released, debug=True), table, TOOLS, root) is None
    assert budgets.watch(resolve(table, target="l4t-r36", root=root), table, TOOLS, root) is None
    (root / "csrc/core/family.toml").unlink()
    with pytest.raises(TableError, match=r"csrc/core/family\.toml is missing"):
        budgets.watch(resolve(table, target="l4t-r36", root=root), table, TOOLS, root)
