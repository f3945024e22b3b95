# SPDX-License-Identifier: MIT
"""The cache compiles what changed and nothing else, and never believes a damaged entry."""

from __future__ import annotations

import io
import os

import pytest
from device_support import FakeCompiler, tree

from kernelwright_toolchain.device import build_images
from kernelwright_toolchain.device.cache import Cache, _seal, key_of
from kernelwright_toolchain.device.compiler import Job
from kernelwright_toolchain.device.environment import cache_dir
from kernelwright_toolchain.device.progress import Progress
from kernelwright_toolchain.device.sources import read_sources
from kernelwright_toolchain.request import resolve


@pytest.fixture
def root(tmp_path):
    place = tree(tmp_path / "root", first='#include "shared.cuh"\nint a;', second="int b;")
    (place / "csrc/ops/toy/shared.cuh").write_text("// one\n")
    return place


@pytest.fixture
def build(table, root, tmp_path):
    """Builds and gives (what was compiled, what was shown, the images)."""

    def run(compiler, archs="80;89", **options):
        before = len(compiler.asked)
        request = resolve(table, machine="x86_64", root=root, archs=archs, **options)
        shown = io.StringIO()
        progress = Progress(len(request.images) * len(request.codes), shown)
        built = build_images(request, compiler, root=root, cache_at=tmp_path / "cache", progress=progress)
        return sorted(compiler.asked[before:]), shown.getvalue(), built.images

    return run


def every(*codes, ops=("first", "second")):
    return sorted((op, code) for op in ops for code in codes)


def entries(tmp_path):
    return sorted((tmp_path / "cache/images").glob("*/*"))


def test_a_second_build_compiles_nothing(build):
    compiler = FakeCompiler()
    asked, _, images = build(compiler)
    assert asked == every("sm_80", "sm_89")
    again, shown, cached = build(compiler)
    assert again == []
    assert [image.data for image in cached] == [image.data for image in images]
    assert [image.cached for image in cached] == [True] * 4
    assert [line.split()[-1] for line in shown.splitlines()] == ["cached"] * 4


def test_a_build_afresh_compiles_all_and_leaves_it_to_the_next(build, table, root, tmp_path):
    build(FakeCompiler())
    (entry, *_), compiler = entries(tmp_path), FakeCompiler()
    entry.write_bytes(b"damaged")
    request = resolve(table, machine="x86_64", root=root, archs="80;89")
    built = build_images(request, compiler, root=root, cache_at=tmp_path / "cache", afresh=True)
    assert sorted(compiler.asked) == every("sm_80", "sm_89")
    assert [image.cached for image in built.images] == [False] * 4
    assert build(FakeCompiler())[0] == []
    assert entry.read_bytes() != b"damaged"


def test_one_more_arch_compiles_that_arch_alone(build):
    compiler = FakeCompiler()
    build(compiler)
    assert build(compiler, archs="80;89;90")[0] == every("sm_90")
    assert build(compiler, archs="90+ptx")[0] == every("compute_90")
    assert build(compiler, archs="80", ops="first")[0] == []


def test_images_come_in_the_tables_order(build):
    order = [(image.op, image.code) for image in build(FakeCompiler(), archs="compute_90;90a;80")[2]]
    assert order == [(op, code) for op in ("first", "second") for code in ("sm_80", "sm_90a", "compute_90")]


def test_a_changed_source_is_compiled_again_and_so_is_a_changed_header(build, root):
    compiler = FakeCompiler()
    build(compiler)
    (root / "csrc/ops/toy/second.cu").write_text("int c;")
    assert build(compiler)[0] == every("sm_80", "sm_89", ops=("second",))
    (root / "csrc/ops/toy/shared.cuh").write_text("// two\n")
    assert build(compiler)[0] == every("sm_80", "sm_89", ops=("first",))
    os.utime(root / "csrc/ops/toy/first.cu", (1, 1))
    (root / "csrc/ops/toy/unused.cuh").write_text("// nobody includes it\n")
    assert build(compiler)[0] == []


def test_what_decides_the_output_is_in_the_key(build, root):
    build(FakeCompiler())
    assert build(FakeCompiler(version="12.2.141"))[0] == every("sm_80", "sm_89")
    assert build(FakeCompiler(digest="e" * 64))[0] == every("sm_80", "sm_89")
    assert build(FakeCompiler(), debug=True)[0] == every("sm_80", "sm_89")
    assert build(FakeCompiler())[0] == []


def test_a_key_holds_no_place(table, root, tmp_path):
    other = tree(tmp_path / "elsewhere", first='#include "shared.cuh"\nint a;')
    (other / "csrc/ops/toy/shared.cuh").write_text("// one\n")
    jobs = [Job(place, "first", table.codes["sm_80"]) for place in (root, other)]
    keys = {key_of(job, FakeCompiler(), read_sources(job.root, job.source)) for job in jobs}
    assert len(keys) == 1


@pytest.mark.parametrize("where", [0, 40, 70, 150, -1, -200])
def test_a_damaged_entry_is_said_and_compiled_again(build, tmp_path, where):
    compiler = FakeCompiler()
    expected = build(compiler, archs="80", ops="first")[2][0].data
    (entry,) = entries(tmp_path)
    data = bytearray(entry.read_bytes())
    data[where] ^= 4
    entry.write_bytes(data)
    asked, shown, (image,) = build(compiler, archs="80", ops="first")
    assert asked == every("sm_80", ops=("first",))
    assert image.data == expected
    assert f"cache: the entry of csrc/ops/toy/first.cu for sm_80 is damaged ({entry})" in shown
    assert build(compiler, archs="80", ops="first")[0] == []


@pytest.mark.parametrize("size", [0, 10, 100, 700])
def test_a_cut_entry_is_damaged_too(build, tmp_path, size):
    compiler = FakeCompiler()
    build(compiler, archs="80", ops="first")
    (entry,) = entries(tmp_path)
    os.truncate(entry, size)
    asked, shown, _ = build(compiler, archs="80", ops="first")
    assert len(asked) == 1
    assert "is damaged" in shown


def test_an_entry_for_another_code_is_not_believed(build, tmp_path):
    """Whole, but in the wrong place: as a confused farm might leave it."""
    compiler = FakeCompiler()
    build(compiler, archs="80", ops="first")
    (wrong,) = entries(tmp_path)
    data = wrong.read_bytes()
    build(compiler, archs="89", ops="first")
    (right,) = set(entries(tmp_path)) - {wrong}
    right.write_bytes(data)
    asked, shown, _ = build(compiler, archs="89", ops="first")
    assert asked == every("sm_89", ops=("first",))
    assert "is damaged" in shown


@pytest.mark.parametrize("what", ["", "images", "peaks"])
@pytest.mark.parametrize(("mode", "who"), [(0o020, "its group"), (0o002, "everybody")])
def test_a_cache_that_others_may_write_is_not_used(build, tmp_path, what, mode, who):
    build(FakeCompiler())
    place = tmp_path / "cache" / what
    place.chmod(place.stat().st_mode | mode)
    forged = entries(tmp_path)[0].stat()
    asked, shown, images = build(FakeCompiler())
    assert asked == every("sm_80", "sm_89")
    assert not any(image.cached for image in images)
    assert shown.count(f"cache: {place} may be written by {who}, and whoever can") == 1
    assert f"goes without it. If all in it is yours: chmod -R go-w {tmp_path}/cache" in shown
    assert entries(tmp_path)[0].stat().st_mtime_ns == forged.st_mtime_ns  # nothing is put there either


@pytest.mark.parametrize("above", [False, True])
def test_an_entry_that_others_may_write_is_not_used(build, tmp_path, above):
    build(FakeCompiler(), archs="80", ops="first")
    (entry,) = entries(tmp_path)
    place = entry.parent if above else entry
    place.chmod(place.stat().st_mode | 0o020)
    asked, shown, _ = build(FakeCompiler(), archs="80", ops="first")
    assert asked == every("sm_80", ops=("first",))
    assert f"{place} may be written by its group" in shown


def test_a_cache_of_somebody_else_is_not_used(build, tmp_path, monkeypatch):
    build(FakeCompiler())
    owner = tmp_path.stat().st_uid
    if owner:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    else:  # root's own is everybody's to read, so it goes to somebody else
        monkeypatch.setattr(os, "geteuid", lambda: 1)
        assert build(FakeCompiler())[0] == []
        owner = 4321
        os.chown(tmp_path / "cache", owner, -1)
    asked, shown, _ = build(FakeCompiler())
    assert asked == every("sm_80", "sm_89")
    assert f"cache belongs to user {owner}, and whoever" in shown


def test_a_cache_is_made_for_its_user_alone_to_write(build, tmp_path):
    before = os.umask(0)
    try:
        build(FakeCompiler())
        assert build(FakeCompiler())[0] == []
    finally:
        os.umask(before)
    made = [tmp_path / "cache", *(tmp_path / "cache").rglob("*")]
    assert {path.stat().st_mode & 0o022 for path in made} == {0}


@pytest.mark.parametrize(
    "facts", ["{}", "[]", "7", "{", '{"log": 1, "seconds": 1, "peak": 1}', '{"log": "", "peak": 1}']
)
def test_a_malformed_entry_is_named(build, tmp_path, facts):
    """Sealed as ours are, by somebody who knows how, or by another toolchain."""
    build(FakeCompiler(), archs="80", ops="first")
    (entry,) = entries(tmp_path)
    rest = facts.encode() + b"\nimage"
    entry.write_bytes(_seal(entry.name, rest) + b"\n" + rest)
    asked, shown, _ = build(FakeCompiler(), archs="80", ops="first")
    assert asked == every("sm_80", ops=("first",))
    assert f"cache: the entry of csrc/ops/toy/first.cu for sm_80 is malformed ({entry})" in shown


def test_a_cache_that_cannot_be_written_costs_time_only(build, tmp_path):
    (tmp_path / "cache").write_text("a file, where a directory should be")
    asked, shown, images = build(FakeCompiler())
    assert len(asked) == len(images) == 4
    assert shown.count("cannot be written") == 1


def test_nothing_is_left_half_written(build, tmp_path):
    build(FakeCompiler())
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.name.startswith(".part")]


def test_peak_memory_is_learned_per_op_code_and_compiler(build, table, root, tmp_path):
    compiler = FakeCompiler(peak=123 << 20)
    build(compiler)
    cache = Cache(tmp_path / "cache")
    assert cache.peak(Job(root, "first", table.codes["sm_80"]), compiler) == 123 << 20
    assert cache.peak(Job(root, "first", table.codes["sm_90"]), compiler) is None
    assert cache.peak(Job(root, "first", table.codes["sm_80"]), FakeCompiler(version="13.0.88")) is None


def test_the_compiler_sees_what_the_key_covers_and_nothing_else(build, root, tmp_path):
    """An edit between the key and the compile cannot get into the cache: the compiler reads a copy."""

    class Editor(FakeCompiler):
        def compile(self, job):
            assert job.root != root
            names = sorted(p.relative_to(job.root).as_posix() for p in job.root.rglob("*.cu*") if p.is_file())
            assert names == ["csrc/ops/toy/first.cu", "csrc/ops/toy/shared.cuh"]
            (root / "csrc/ops/toy/first.cu").write_text("int edited;")
            return super().compile(job)

    compiler = Editor()
    build(compiler, archs="80", ops="first")
    assert compiler.seen == [b'#include "shared.cuh"\nint a;']


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("KERNELWRIGHT_CACHE", raising=False)
    assert cache_dir().parts[-2:] == (".kw", "cache")
    monkeypatch.setenv("KERNELWRIGHT_CACHE", str(tmp_path / "farm"))
    assert cache_dir() == tmp_path / "farm"
    assert cache_dir(tmp_path / "argument") == tmp_path / "argument"
