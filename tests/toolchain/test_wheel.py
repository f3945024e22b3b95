# SPDX-License-Identifier: MIT
"""The wheel's bytes, its tag and its label: compared with what other readers of the same files find."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import re
import sysconfig
import zipfile
import zlib
from pathlib import Path

import pytest

from kernelwright_toolchain import targets
from kernelwright_toolchain.errors import GateError
from kernelwright_toolchain.providers.host import provisioned
from kernelwright_toolchain.request import Request, resolve
from kernelwright_toolchain.targets import Version
from kernelwright_toolchain.wheel import archive, elf, finish, gates, tag

TABLE = targets.load()
TARGET = TABLE.targets["linux-x86_64"]


def deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def libraries() -> list[Path]:
    """Shared libraries of this interpreter, whoever built it."""
    folder = Path(sysconfig.get_path("stdlib")) / "lib-dynload"
    return [path for path in sorted(folder.glob("*.so")) if path.stat().st_size < 10_000_000][:12]


@pytest.mark.skipif(not libraries(), reason="this interpreter has no extension modules as files")
def test_needed_versions_are_those_in_the_file():
    assert max(elf.needs(path).glibc for path in libraries()) >= Version((2, 2))
    for path in libraries():
        needs = elf.needs(path)
        data = path.read_bytes()
        named = [Version.parse(text.decode()) for text in re.findall(rb"\0GLIBC_(\d+(?:\.\d+)+)(?=\0)", data)]
        assert needs.glibc == max(named, default=Version((0, 0))), path
        assert all(name.encode() in data for name in needs.libraries)
        assert {library for library, _ in needs.versions} <= set(needs.libraries)


def test_what_is_no_library_is_refused(tmp_path):
    whole = libraries()[0].read_bytes() if libraries() else b"\x7fELF\x02\x01" + bytes(100)
    for data in (b"", b"MZ", whole[:70], whole[:600], b"\x7fELF\x02\x01" + bytes(100)):
        (tmp_path / "x.so").write_bytes(data)
        with pytest.raises(GateError, match=r"x\.so"):
            elf.needs(tmp_path / "x.so")


def needs(glibc: str, *more: str) -> elf.Needs:
    versions = (("libc.so.6", "GLIBC_2.2.5"), ("libc.so.6", f"GLIBC_{glibc}"), ("libc.so.6", "GLIBC_PRIVATE"))
    return elf.Needs(("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", *more), versions)


@pytest.mark.parametrize(
    ("glibc", "expected"),
    [("2.4", "manylinux_2_28_x86_64"), ("2.28", "manylinux_2_28_x86_64"), ("2.34", "manylinux_2_34_x86_64")],
)
def test_the_tag_is_the_floor_or_what_is_needed(glibc, expected):
    assert tag.platform_tag(needs(glibc), TARGET, "lib.so") == expected


def test_more_than_the_c_library_or_the_floor_is_refused():
    with pytest.raises(GateError, match=r"libstdc\+\+\.so\.6"):
        tag.platform_tag(needs("2.4", "libstdc++.so.6"), TARGET, "lib.so")
    with pytest.raises(GateError, match=r"glibc 2\.34, above linux-x86_64's floor of 2\.28"):
        tag.check_floor(needs("2.34"), TARGET, "lib.so")
    tag.check_floor(needs("2.28"), TARGET, "lib.so")


MEMBERS = {"b/lib.so": b"x" * 5000, "a.txt": b"", "b/Z": os.urandom(64), "b/a": b"hello " * 100, "é": b"e"}


def test_an_archive_is_read_back_by_zipfile(tmp_path):
    (tmp_path / "a.zip").write_bytes(archive.pack(MEMBERS, deflate))
    with zipfile.ZipFile(tmp_path / "a.zip") as read:
        assert read.testzip() is None
        assert read.namelist() == sorted(MEMBERS)
        assert {name: read.read(name) for name in MEMBERS} == MEMBERS
        infos = {info.filename: info for info in read.infolist()}
    assert {info.date_time for info in infos.values()} == {(1980, 1, 1, 0, 0, 0)}
    assert {name: info.external_attr >> 16 for name, info in infos.items()} == {
        name: 0o100755 if name == "b/lib.so" else 0o100644 for name in MEMBERS
    }
    assert infos["b/Z"].compress_type == zipfile.ZIP_STORED  # noise only grows
    assert infos["b/a"].compress_type == zipfile.ZIP_DEFLATED
    assert {info.create_system for info in infos.values()} == {3}


def test_an_archive_depends_on_its_members_alone():
    first = archive.pack(MEMBERS, deflate)
    before = os.umask(0o077)
    try:
        assert archive.pack(dict(reversed(MEMBERS.items())), deflate) == first
    finally:
        os.umask(before)
    assert archive.pack({**MEMBERS, "a.txt": b"!"}, deflate) != first


def test_the_locked_compressor_makes_these_bytes_whatever_the_python(monkeypatch):
    tools = provisioned(TABLE)
    if tools is None:
        pytest.skip("the locked compressor is not in .kw/tools for this Python; ./kw provision brings it")
    monkeypatch.syspath_prepend(str(tools.modules[0]))
    data = "".join(f"{i * i % 9973:x} {i % 97} rms\n" for i in range(4000)).encode()  # each level packs it differently
    packed = archive.compressor()(data)
    assert zlib.decompress(packed, -15) == data
    assert hashlib.sha256(packed).hexdigest() == "d28caac1a226da2a7fb7b3a6da29924e6cdc5c460081ee89f02aa4e72e094445"


def built_wheel(folder: Path, library: bytes) -> Path:
    path = folder / "kernelwright-0.1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("kernelwright/lib/libkernelwright.so", library)
        wheel.writestr("kernelwright/__init__.py", "x = 1\n")
        wheel.writestr("kernelwright/manifest.json", '{"compiler": {"driver": "none", "version": "1", "sha256": "00"}}')
        wheel.writestr("kernelwright/recipe.json", '{"front": "no compiler"}')
        wheel.writestr(
            "kernelwright-0.1.0.dist-info/METADATA", "Name: kernelwright\nVersion: 0.1.0\n\nVersion: prose\n"
        )
        wheel.writestr("kernelwright-0.1.0.dist-info/WHEEL", "Tag: py3-none-linux_x86_64\n")
        wheel.writestr("kernelwright-0.1.0.dist-info/RECORD", "stale\n")
    return path


def request(**options: object) -> Request:
    return resolve(TABLE, target="linux-x86_64", **options)  # type: ignore[arg-type]


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Finishes a wheel around a library with the given needs; test_gates.py has the gates."""
    monkeypatch.setattr(archive, "compressor", lambda _library: deflate)
    monkeypatch.setattr(gates, "inspect", lambda *_, **__: None)

    def act(given: elf.Needs, asked: Request, *, floor: bool = True) -> Path:
        monkeypatch.setattr(finish, "parse", lambda _: given)
        return finish.finish(built_wheel(tmp_path, b"\x7fELF"), tmp_path, TABLE, asked, floor_is_given=floor)

    return act


def test_a_default_wheel_keeps_the_plain_name_and_its_record_is_right(finished):
    path = finished(needs("2.17"), request())
    assert path.name == "kernelwright-0.1.0-py3-none-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path) as wheel:
        record = wheel.read("kernelwright-0.1.0.dist-info/RECORD").decode()
        rows = {row[0]: row[1:] for row in csv.reader(io.StringIO(record))}
        assert list(rows) == wheel.namelist()
        for name in wheel.namelist():
            data = wheel.read(name)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            own = name.endswith("RECORD")
            assert rows[name] == (["", ""] if own else [f"sha256={digest}", str(len(data))]), name
        assert "Tag: py3-none-manylinux_2_28_x86_64\n" in wheel.read("kernelwright-0.1.0.dist-info/WHEEL").decode()


def test_any_other_wheel_is_labelled_inside_and_out(finished):
    path = finished(needs("2.35"), request(provider="system", archs="89", debug=True), floor=False)
    assert path.name == "kernelwright-0.1.0+cu122.sm89.system.debug-py3-none-manylinux_2_35_x86_64.whl"
    with zipfile.ZipFile(path) as wheel:
        metadata = wheel.read("kernelwright-0.1.0+cu122.sm89.system.debug.dist-info/METADATA").decode()
    assert metadata == "Name: kernelwright\nVersion: 0.1.0+cu122.sm89.system.debug\n\nVersion: prose\n"


def test_a_wheel_above_its_floor_or_without_its_library_is_not_made(finished, tmp_path, monkeypatch):
    with pytest.raises(GateError, match="floor"):
        finished(needs("2.35"), request())
    monkeypatch.setattr(finish, "LIBRARY", "kernelwright/lib/other.so")
    with pytest.raises(GateError, match=r"no kernelwright/lib/other\.so; it has kernelwright"):
        finished(needs("2.4"), request())
    assert [path.name for path in tmp_path.iterdir()] == ["kernelwright-0.1.0-py3-none-linux_x86_64.whl"]
