# SPDX-License-Identifier: MIT
"""`kernelwright xray` with files that were damaged or made to harm: it ends, in bounds, and says what is wrong."""

from __future__ import annotations

import io
import os
import random
import struct
import zipfile
from pathlib import Path

import pytest

from kernelwright import __main__ as program
from kernelwright.doctor.machine._machine import Machine
from kernelwright.doctor.xray import _elf, _fatbin, _sources, _unpack, _zip
from kernelwright.doctor.xray._view import Damaged, View
from kernelwright.doctor.xray.facts import examine, unreadable
from kernelwright.doctor.xray.text import lines
from tests.doctor.cuda_files import Image, Library, container, cubin, ptx, ptx_file, sass, wheel

NVCC = Path(__file__).parent / "cuda_files_of_nvcc"
NOWHERE = Machine(variables={}, root=Path("/nowhere"), probe=lambda _: {"error": "none"}, ask=lambda _: None)

LIBRARY = Library(
    fat=container(*sass("80", "90a"), ptx("90")),
    anew=container(Image("sass", "80", b"\x10abc", packing="lz4", unpacked=3)),
    needed=("libcudart.so.12", "libc.so.6"),
    runpath="$ORIGIN/../x:/opt/y",
    soname="libmade.so",
    versions=(("libc.so.6", ("GLIBC_2.17", "GLIBC_2.4")), ("libstdc++.so.6", ("GLIBCXX_3.4.21",))),
    wants=("_ZN3c105ErrorC1E", "malloc"),
    texts=b"tmpxft_000021c_00000000-6_ops.cudafe1.cpp",
    stubs=True,
).bytes()


def look(path: Path, *, kernels: bool = True) -> list[str]:
    """The report, which always comes to its end. What xray did not foresee would be told as `cannot be read`."""
    try:
        told = examine(path, NOWHERE, ["l4t-r36"], kernels=kernels)
    except Damaged as error:
        printed = list(lines(unreadable(path, NOWHERE, ["l4t-r36"], str(error)), everything=True))
        assert any("fails KW-112" in line for line in printed), printed
        return [str(error)]
    return list(lines(told, everything=True))


def mutated(data: bytes) -> bytes:
    """A few bytes changed, cut out, doubled, or replaced by numbers that overflow."""
    raw = bytearray(data)
    for _ in range(random.randint(1, 6)):
        at = random.randrange(len(raw))
        kind = random.randrange(5)
        if kind == 0:
            raw[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            number = random.choice([0, 1, 0x7F, 0xFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63, 2**64 - 1, len(raw), at])
            size = random.choice([2, 4, 8])
            raw[at : at + size] = (number & (256**size - 1)).to_bytes(size, "little")
        elif kind == 2:
            del raw[at : at + random.randint(1, 64)]
        elif kind == 3:
            raw[at:at] = raw[at : at + random.randint(1, 64)]
        else:
            del raw[max(1, at) :]
        if not raw:
            return b"\0"
    return bytes(raw)


def originals(tmp_path: Path) -> dict[str, bytes]:
    files = {
        "library.so": LIBRARY,
        "a.cubin": cubin("90a", ("first", "second"), note="-arch sm_90a"),
        "b.cubin": cubin("100", newer=True),
        "a.ptx": ptx_file("90", release="12.2.140"),
        "lz4.fatbin": (NVCC / "nvcc13-speed.fatbin").read_bytes(),
        "zstd.fatbin": (NVCC / "nvcc13-size.fatbin").read_bytes(),
    }
    made = wheel(tmp_path / "made.whl", {f"p/{name}": content for name, content in files.items()})
    return {**files, "made.whl": made.read_bytes()}


@pytest.fixture(scope="module")
def rounds(request: pytest.FixtureRequest) -> int:
    """3,500 files in the suite; more with the option of the operators' hostile calls: ten million make 3,500,000."""
    return max(500, request.config.getoption("--calls", default=0) // 20)


def test_mutations_are_told_and_nothing_else(tmp_path, seed, rounds):
    random.seed(seed)
    for name, content in originals(tmp_path).items():
        path = tmp_path / name
        for number in range(rounds):
            path.write_bytes(mutated(content))
            told = look(path, kernels=number % 2 == 0)
            unforeseen = [
                line for line in told if "cannot be read" in line and not line.count("the archive cannot be read")
            ]
            # A member's checksum and packing are zipfile's; it tells them by these classes.
            known = ("BadZipFile", "error: Error", "EOFError", "RuntimeError")
            assert all(any(word in line for word in known) for line in unforeseen), (name, unforeseen)
            assert all(line.isprintable() for line in told), name


def test_every_beginning_of_a_library(tmp_path):
    for size in range(1, len(LIBRARY), 3):
        path = tmp_path / "cut.so"
        path.write_bytes(LIBRARY[:size])
        assert not any("cannot be read" in line for line in look(path)), size


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_half_a_library_runs_nowhere(tmp_path, capsys, share):
    """A download that broke off: the loader ends with an error, or the process later by a signal."""
    path = tmp_path / "half.so"
    path.write_bytes(LIBRARY[: int(len(LIBRARY) * share)])
    assert program.main(["xray", "--for", "linux-x86_64", str(path)]) == 1
    printed = capsys.readouterr().out
    assert printed.count("no: it does not run on ") == 2, printed
    assert "it cannot be loaded anywhere" in printed


def test_what_cannot_be_judged_is_not_said_to_run(tmp_path, capsys):
    other = bytearray(LIBRARY)
    other[4] = 1  # 32 bits
    for name, content, words in (
        ("a.whl", b"", "is called a wheel and is no archive"),
        ("a-1-py3-none-any.whl", LIBRARY, "is called a wheel and is no archive"),
        ("old.so", bytes(other), "unknown: nothing in it can be judged"),
    ):
        (tmp_path / name).write_bytes(content)
        assert program.main(["xray", "--html", str(tmp_path / "page.html"), str(tmp_path / name)]) == 2, name
        printed = capsys.readouterr()
        assert words in printed.out + printed.err
        assert "no GPU to judge by" not in printed.out


def refused(data: bytes, words: str) -> None:
    with pytest.raises(Damaged, match=words):
        list(_fatbin.containers(View(data)))


def test_numbers_that_cannot_be():
    good = container(*sass("80"))
    refused(good[:-8], "lie outside")
    refused(struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 2**64 - 1), "lie outside")
    refused(struct.pack("<IHHQ", 0xBA55ED50, 2, 16, 0), "version 2")
    refused(struct.pack("<IHHQ", 0xBA55ED50, 1, 8, 0), "header of 8")
    refused(good[:20] + struct.pack("<I", 8) + good[24:], "header of 8 bytes")
    refused(good[:24] + struct.pack("<Q", 2**63) + good[32:], "lie outside")
    packed = bytearray(container(Image("sass", "80", b"12345678", packing="lz4")))
    struct.pack_into("<I", packed, 16 + 16, 9)
    refused(bytes(packed), "says 9 packed bytes, and has 8")


def test_a_hundred_thousand_images_are_too_many(monkeypatch):
    monkeypatch.setattr(_fatbin, "MOST_ENTRIES", 10)
    assert len(list(_fatbin.containers(View(container(*sass(*["80"] * 10)))))) == 1
    refused(container(*sass(*["80"] * 11)), "more than 10 images")


def test_versions_that_lead_in_a_circle():
    """Each record says that the next is 0 bytes on, and that there are 65,535 of them."""
    data = bytearray(LIBRARY)
    elf = _elf.Elf(View(bytes(data)))
    at = elf.sections()[".gnu.version_r"].offset
    struct.pack_into("<HHIII", data, at, 1, 0xFFFF, 1, 16, 1)
    struct.pack_into("<IHHII", data, at + 16, 0, 0, 2, 1, 0)
    with pytest.raises(Damaged, match="more than 4096 symbol versions"):
        _elf.Elf(View(bytes(data))).needs()


def test_packed_images_never_give_more_than_is_asked_for():
    endless = b"\x1fa\x01\x00" + b"\xff" * 4000 + b"\x00" + b"\x00"
    assert len(_unpack.head("lz4", endless, 1000)) == 1000
    for wrong in (b"\xf0", b"\xf0\xff", b"\x10", b"\x10a\x00\x00", b"\x10a\x05\x00", b"\x10a\x01"):
        with pytest.raises(Damaged):
            _unpack.lz4(wrong, 100)


def test_a_bomb_is_left_alone(tmp_path):
    path = tmp_path / "bomb.whl"
    wheel(path, {"p/bomb.so": LIBRARY[:64] + bytes(200 << 20), "p/fine.so": LIBRARY})
    told = look(path)
    assert any("p/bomb.so" in line and "claim to unpack" in line for line in told)
    assert any(line.startswith("p/fine.so") for line in told)


def test_a_lie_about_the_size_is_bounded(tmp_path):
    """The list of members says 100 bytes; what is unpacked ends with them, and so does not have the right checksum."""
    path = wheel(tmp_path / "a.whl", {"p/x.so": LIBRARY * 20})
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\x01\x02")
    struct.pack_into("<I", data, at + 24, 100)
    path.write_bytes(bytes(data))
    with _sources.opened(path) as given:
        (item,) = (one for one in given.items if one.name == "p/x.so")
        with item.open() as file, pytest.raises(zipfile.BadZipFile):
            assert len(file.read()) <= 100
    assert any("p/x.so cannot be read: BadZipFile" in line for line in look(path))


def test_members_over_each_other(tmp_path):
    path = wheel(tmp_path / "a.whl", {"p/x.so": LIBRARY, "p/y.so": LIBRARY})
    data = bytearray(path.read_bytes())
    second = data.find(b"PK\x01\x02", data.find(b"PK\x01\x02") + 4)
    struct.pack_into("<I", data, second + 42, 0)
    path.write_bytes(bytes(data))
    told = look(path)
    assert any("'p/y.so' overlaps another member" in line for line in told)
    assert any("libmade.so" in line or "libcudart.so.12" in line for line in told), told
    assert not any("cannot be read" in line for line in told), told


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_names_that_lead_outside_and_names_twice(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("../../evil.so", "/etc/evil.so", "p/x.so", "p/x.so"):
            archive.writestr(name, LIBRARY)
    told = "\n".join(look(path))
    assert "'../../evil.so' leads out of the wheel" in told
    assert "'/etc/evil.so' leads out of the wheel" in told
    assert "'p/x.so' is in it twice" in told
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_is_packed_as_in_no_wheel(tmp_path, packing):
    """Whether their unpackers are there, and how they fail, is Python's own affair."""
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/x.so", LIBRARY, packing)
        archive.writestr("p/y.so", LIBRARY)
    told = look(path)
    assert any(f"'p/x.so' is packed by method {packing}" in line for line in told), told
    assert not any("cannot be read" in line for line in told)
    assert any(line.startswith("p/y.so") for line in told)


@pytest.mark.parametrize("flag", [0x01, 0x20, 0x40])
def test_a_member_that_nobody_can_read(tmp_path, flag):
    path = wheel(tmp_path / "a.whl", {"p/x.so": LIBRARY, "p/y.so": LIBRARY})
    data = bytearray(path.read_bytes())
    data[data.find(b"PK\x01\x02") + 8] |= flag
    path.write_bytes(bytes(data))
    told = look(path)
    assert any("is encrypted, or a patch of something else" in line for line in told), told
    assert not any("cannot be read" in line for line in told)


def test_a_member_without_a_name(tmp_path):
    path = wheel(tmp_path / "a.whl", {"x": LIBRARY, "p/y.so": LIBRARY})
    data = bytearray(path.read_bytes())
    at = data.find(b"PK\x01\x02")
    # Its one letter becomes an extra field that nobody knows: the list stays as long as it was.
    struct.pack_into("<HH", data, at + 28, 0, 1)
    path.write_bytes(bytes(data))
    assert any("a member has no name" in line for line in look(path))


def test_a_list_of_members_that_would_fill_the_memory(tmp_path, monkeypatch):
    path = wheel(tmp_path / "a.whl", {f"p/{number}.py": b"" for number in range(100)})
    monkeypatch.setattr(_zip, "_MOST_DIRECTORY", 1000)
    assert look(path)[0].startswith("the archive's list of members has ")
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert look(path) == ["the archive is cut off: its list of members is missing"]


def test_circles_pipes_and_links_of_a_directory(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "up").symlink_to(tmp_path / "a")
    (tmp_path / "a" / "self.so").symlink_to("self.so")
    (tmp_path / "a" / "gone.so").symlink_to("/nowhere/x.so")
    (tmp_path / "a" / "empty.so").touch()
    os.mkfifo(tmp_path / "a" / "pipe.so")
    (tmp_path / "a" / "x.so").write_bytes(LIBRARY)
    (tmp_path / "a" / "again.so").symlink_to("x.so")
    told = examine(tmp_path, NOWHERE)
    assert [file["name"] for file in told["files"]] == ["a/again.so"]
    assert len(told["problems"]) == 2
    assert program.main(["xray", str(tmp_path / "a" / "pipe.so")]) == 2
    assert program.main(["xray", str(tmp_path / "a" / "self.so")]) == 2


def test_a_path_of_a_library_that_is_a_pattern(tmp_path):
    """A name from the file is never used as a pattern, nor followed out of the places where libraries are."""
    path = tmp_path / "a.so"
    path.write_bytes(Library(needed=("**/*", "../../etc/passwd", "[a"), runpath="$ORIGIN/../../..:x:$LIB").bytes())
    told = examine(path, NOWHERE)
    assert [entry["exists"] for entry in told["files"][0]["runpath"]] == [None, None, None]
    assert [one["evidence"] for one in told["verdicts"][0]["parts"][0]["findings"]] == [
        "not here: **/* ../../etc/passwd [a"
    ]


def test_a_large_member_is_unpacked_into_a_nameless_file(tmp_path, monkeypatch):
    monkeypatch.setattr(_sources, "_IN_MEMORY", 10)
    path = wheel(tmp_path / "a.whl", {"p/x.so": LIBRARY})
    assert any(line.startswith("p/x.so") for line in look(path))
    assert sorted(tmp_path.iterdir()) == [path]


def test_a_broken_member_keeps_the_others(tmp_path):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("p/a.so", LIBRARY)
        archive.writestr("p/b.so", LIBRARY)
    data = bytearray(raw.getvalue())
    data[data.find(LIBRARY) + 200] ^= 0xFF
    path = tmp_path / "a.whl"
    path.write_bytes(bytes(data))
    told = look(path)
    assert any(line.startswith("p/b.so") for line in told)
    assert any("p/a.so cannot be read: BadZipFile" in line for line in told)
