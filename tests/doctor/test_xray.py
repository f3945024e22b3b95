# SPDX-License-Identifier: MIT
"""`kernelwright xray`: what it says is in a file, beside what was put into it, by us, by nvcc and by our build."""

from __future__ import annotations

import contextlib
import json
import random
import re
import struct
import sys
from pathlib import Path

import pytest

from kernelwright import __main__ as program
from kernelwright import _files
from kernelwright.doctor.xray import _elf, _fatbin, _host, _images, _unpack
from kernelwright.doctor.xray._view import Damaged, View
from kernelwright.doctor.xray.facts import examine
from kernelwright_toolchain.wheel import elf as built
from tests.doctor.cuda_files import Image, Library, container, cubin, ptx, ptx_file, sass, wheel
from tests.doctor.made_up import WORKSTATION

NVCC = Path(__file__).parent / "cuda_files_of_nvcc"
HOME = "/ho" + "me/ada"


def look(path, **options):
    return examine(path, WORKSTATION.at(path.parent / "root"), **options)


def put(tmp_path: Path, content: bytes, name: str = "made.so") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_entries_are_read_as_they_were_written(seed):
    random.seed(seed)
    archs = ["52", "75", "80", "90a", "100f", "120"]
    for _ in range(50):
        made = [
            Image(
                random.choice(["sass", "ptx", "lto"]),
                random.choice(archs),
                random.randbytes(random.randint(1, 300)),
                packing=random.choice([None, "lz4", "zstd"]),
                unpacked=random.randint(1, 10**6),
                version=(random.randint(1, 9), random.randint(0, 9)),
                header=random.choice([64, 72, 96, 112]),
            )
            for _ in range(random.randint(0, 5))
        ]
        data = bytes(8 * random.randint(0, 3)) + container(*made) + bytes(8 * random.randint(0, 3)) + container(*made)
        found = list(_fatbin.containers(View(data)))
        assert len(found) == 2
        for entries in found:
            assert [(e.kind, e.arch, e.version, e.packing) for e in entries] == [
                (i.kind, i.arch, i.version, i.packing) for i in made
            ]
            for entry, image in zip(entries, made, strict=True):
                assert data[entry.offset :].startswith(image.body)
                assert entry.unpacked == (image.unpacked if image.packing else entry.size)


@pytest.mark.parametrize("packing", ["lz4", "zstd"])
def test_what_nvcc_writes(packing, tmp_path):
    """Made by nvcc 13.0 of two kernels, `first` and `second`; the codes are those that cuobjdump lists."""
    path = NVCC / f"nvcc13-{'speed' if packing == 'lz4' else 'size'}.fatbin"
    told = examine(path, WORKSTATION.at(tmp_path), kernels=True)
    rows = {row["code"]: row for row in told["code"]}
    assert list(rows) == ["sm_75", "sm_90a", "sm_100f", "compute_120"]
    assert all(row["packing"] == {packing: 1} for row in rows.values())
    assert [row["unpacked"] for row in rows.values()] == [4456, 5328, 8048, 939]
    assert rows["compute_120"]["versions"] == ["9.0"]
    (file,) = told["files"]
    assert {"release": "13.0", "from": "PTX 9.0"} in file["toolkit"]
    if packing == "zstd" and not (_unpack._module("compression.zstd") or _unpack._module("zstandard")):
        assert file["kernels"] == {}
        assert "kernelwright[xray]" in file["skipped"][0]
    else:
        assert file["kernels"] == {code: ["_Z5firstPfi", "_Z6secondPi"] for code in rows}
        assert file["toolkit"][0] == {"release": "13.0.88", "from": "the compiler's note in the code"}


def test_the_images_of_this_build(tmp_path):
    """Every file of images in the installed package: its code, size and kernels as manifest.json has them."""
    manifest = _files.read(_files.MANIFEST)
    told = examine(_files.locate(_files.MANIFEST).parent / "kernels", WORKSTATION.at(tmp_path), kernels=True)
    by_code: dict[str, list[dict]] = {}
    for image in manifest["images"]:
        if not image["served_by"]:  # else it is the file of another code
            by_code.setdefault(image["code"], []).append(image)
    assert {row["code"]: (row["images"], row["bytes"]) for row in told["code"]} == {
        code: (len(images), sum(image["size"] for image in images)) for code, images in by_code.items()
    }
    (part,) = told["files"]
    assert part["modules"] == len({image["op"] for image in manifest["images"]})
    assert part["kernels"] == {
        code: sorted(kernel["name"] for image in images for kernel in image["kernels"])
        for code, images in sorted(by_code.items())
    }
    assert manifest["compiler"]["version"] in [one["release"] for one in part["toolkit"]] or not any(
        image["code"].startswith("compute") for image in manifest["images"]
    )


def test_our_library_as_the_build_reads_it():
    path = _files.locate(_files.LIBRARY)
    told, containers = _host.read(View(path.read_bytes()))
    needs = built.needs(path)
    assert told["needed"] == list(needs.libraries)
    assert told["glibc"] == str(needs.glibc)
    assert (containers, told["problems"], told["leaks"], told["torch"]) == ([], [], [], None)


def test_a_library(tmp_path):
    made = Library(
        fat=container(*sass("80", "90a"), ptx("90")) + container(*sass("80")),
        needed=("libcudart.so.12", "libc.so.6"),
        runpath="$ORIGIN/../x.libs:/usr/local/cuda-12.4/lib64",
        soname="libmade.so",
        versions=(("libc.so.6", ("GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.4")), ("libstdc++.so.6", ("GLIBCXX_3.4.21", "CXXABI_1.3.9"))),
        wants=("_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringE", "aoti_torch_get_data_ptr", "malloc"),
        texts=f"tmpxft_000021c_00000000-6_ops.cudafe1.cpp\0{HOME}/src/a.cu\0{HOME}/src/a.cu\0/usr/include/x.h\0".encode(),
        stubs=True,
    )  # fmt: skip
    (file,) = look(put(tmp_path, made.bytes()))["files"]
    assert file["problems"] == []
    assert file["needed"] == ["libcudart.so.12", "libc.so.6"]
    assert (file["soname"], file["glibc"], file["glibcxx"], file["cxxabi"]) == ("libmade.so", "2.17", "3.4.21", "1.3.9")
    assert [entry["path"] for entry in file["runpath"]] == ["$ORIGIN/../x.libs", "/usr/local/cuda-12.4/lib64"]
    assert [(row["code"], row["images"]) for row in file["code"]] == [("sm_80", 2), ("sm_90a", 1), ("compute_90", 1)]
    assert file["modules"] == 2
    assert (file["torch"]["unstable"], file["torch"]["stable"], file["torch"]["cxx11_abi"]) == (1, 1, True)
    assert [(leak["text"], leak["count"]) for leak in file["leaks"]] == [
        ("tmpxft_000021c_00000000-6_ops.cudafe1.cpp", 1),
        (f"{HOME}/src/a.cu", 2),
    ]
    assert file["compilers"] == ["GCC: (GNU) 12.4.0"]
    assert [one["release"] for one in file["toolkit"]] == ["12.2", "12.4", "12"]


@pytest.mark.parametrize(
    ("content", "code", "name"),
    [
        (cubin("87"), "sm_87", "a.cubin"),
        (cubin("90a"), "sm_90a", "a.cubin"),
        (cubin("100", newer=True), "sm_100", "a.cubin"),
        (cubin("100a", newer=True), "sm_100a", "a"),
        (cubin("103", note="-arch sm_103f -m 64", newer=True), "sm_103f", "a.bin"),
        (ptx_file("90"), "compute_90", "a.ptx"),
        (ptx_file("90a", "8.7"), "compute_90a", "a.txt"),
    ],
)
def test_an_image_by_itself(tmp_path, content, code, name):
    (row,) = look(put(tmp_path, content, name))["code"]
    assert (row["code"], row["bytes"]) == (code, len(content))


def test_images_that_differ_by_the_gpu_alone_are_one_module(tmp_path):
    files = {
        "p/kernels/sm_80/norm.cubin": cubin("80"),
        "p/kernels/compute_90/norm.ptx": ptx_file("90"),
        "p/add_sm80.cubin": cubin("80"),
        "p/add.sm_90a.cubin": cubin("90a"),
        "p/readme.txt": b"words",
    }
    told = look(wheel(tmp_path / "a.whl", files))
    assert told["files"][0]["modules"] == 2
    assert told["others"] == 3


def lz4_block(data: bytes) -> bytes:
    """LZ4 as simply as it can be written: each piece the longest repetition of what came in the last bytes."""
    out, pending, at = b"", b"", 0

    def piece(literals: bytes, distance: int, count: int) -> bytes:
        def more(number: int) -> bytes:
            return b"" if number < 15 else b"\xff" * ((number - 15) // 255) + bytes([(number - 15) % 255])

        token = min(len(literals), 15) << 4 | (min(count - 4, 15) if count else 0)
        match = distance.to_bytes(2, "little") + more(count - 4) if count else b""
        return bytes([token]) + more(len(literals)) + literals + match

    while at < len(data):
        count, distance = 0, 0
        for back in range(1, min(at, 40) + 1):
            length = 0
            while at + length < len(data) and data[at + length] == data[at + length - back]:
                length += 1
            count, distance = max((count, distance), (length, back))
        if count >= 4:
            out, pending, at = out + piece(pending, distance, count), b"", at + count
        else:
            pending, at = pending + data[at : at + 1], at + 1
    return out + piece(pending, 0, 0)


def test_lz4_gives_back_what_was_packed(seed):
    random.seed(seed)
    for _ in range(60):
        words = [random.randbytes(random.randint(1, 6)) for _ in range(random.randint(1, 4))]
        data = b"".join(random.choice(words) * random.choice([1, 1, 3, 90]) for _ in range(random.randint(0, 60)))
        packed = lz4_block(data)
        assert _unpack.lz4(packed, len(data) + 100) == data
        most = random.randint(0, len(data))
        assert _unpack.head("lz4", packed, most) == data[:most]


def counted_elsewhere(cubin: bytes) -> bytes:
    """The same file as one with too many sections for its header: their number stands in the first section's own."""
    data = bytearray(cubin)
    (at,), (count, names) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 60)
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    struct.pack_into("<Q", data, at + 32, count)
    struct.pack_into("<I", data, at + 40, names)
    return bytes(data)


def narrowed(cubin: bytes) -> bytes:
    """The names of a cubin's kernels in a file of 32 bits, as CUDA wrote them for such hosts."""
    symbols = _elf.Elf(View(cubin)).symbols(".symtab")
    names, table = b"\0", b""
    for one in symbols:
        table += struct.pack("<IIIBBH", len(names), 0, 0, one.kind, one.other, 1)
        names += one.name.encode() + b"\0"
    strings = b"\0.symtab\0.strtab\0"
    start = 52 + 3 * 40
    rows = [(0,) * 10,
            (1, 2, 0, 0, start, len(table), 2, 0, 4, 16),
            (9, 3, 0, 0, start + len(table), len(names) + len(strings), 0, 0, 1, 0)]  # fmt: skip
    rows = [rows[0], rows[1], (len(names) + 9, *rows[2][1:])]
    rows[1] = (len(names) + 1, *rows[1][1:])
    header = b"\x7fELF\x01\x01\x01\x33\x07" + bytes(7)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 190, 1, 0, 0, 52, 75, 52, 0, 0, 40, 3, 2)
    return header + b"".join(struct.pack("<10I", *row) for row in rows) + table + names + strings


@pytest.mark.parametrize("form", [counted_elsewhere, narrowed])
def test_images_in_a_rare_form_of_elf(monkeypatch, form):
    """Their kernels' names need pyelftools; without it they are left out, with a word."""
    code, image = next((code, path.read_bytes()) for code, path in cubins())
    rare = form(image)
    assert rare != image
    with pytest.raises(Damaged):
        list(_elf.Elf(View(rare)).symbols(".symtab"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "elftools.elf.elffile", None)
        with pytest.raises(_unpack.CannotUnpack, match=r"kernelwright\[xray\]"):
            _images.kernels("sass", rare)
    pytest.importorskip("elftools", reason="the extra xray is not installed")
    assert _images.kernels("sass", rare) == _images.kernels("sass", image) != [], code
    for cut in range(1, len(rare), max(1, len(rare) // 300)):
        with contextlib.suppress(Damaged):
            _images.kernels("sass", rare[:cut])


def cubins():
    """(code, file) of the installed cubins, the smallest first."""
    images = _files.read(_files.MANIFEST)["images"]
    images = [image for image in images if image["path"].endswith(".cubin") and not image["served_by"]]
    for image in sorted(images, key=lambda image: image["size"]):
        yield image["code"], _files.locate(image["path"])


def test_lz4_by_the_extra_is_the_same(seed):
    """What our own code unpacks, and what it says of what cannot be."""
    pytest.importorskip("lz4", reason="the extra xray is not installed")
    random.seed(seed)
    for _ in range(200):
        data = random.choice([b"", random.randbytes(9), b"ab" * 5000, random.randbytes(3000) * 2])
        packed, size = bytearray(lz4_block(data)), len(data)
        if packed and random.random() < 0.5:
            packed[random.randrange(len(packed))] ^= 1 << random.randrange(8)
        size = max(0, size + random.choice([0, 0, -1, 1, 1000]))
        try:
            own = _unpack.head("lz4", bytes(packed), size)
        except Damaged as error:
            with pytest.raises(Damaged, match=re.escape(str(error))):
                _unpack.whole("lz4", bytes(packed), size)
        else:
            assert _unpack.whole("lz4", bytes(packed), size) == own


def test_the_command(tmp_path, capsys):
    path = put(tmp_path, Library(fat=container(*sass("80"), ptx("80"))).bytes())
    assert program.main(["xray", "--json", "--for", "linux-x86_64", str(path)]) in {0, 1}
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == 1
    assert [verdict["place"] for verdict in told["verdicts"]] == ["this machine", "linux-x86_64"]
    assert program.main(["xray", "--for=l4t-r36", str(path)]) == 1
    assert "KW-036" in capsys.readouterr().out
    for wrong in (
        [],
        [""],
        [str(path), str(path)],
        ["--heal", str(path)],
        [str(path), "--for"],
        [str(path), "--for", "mars"],
    ):
        assert program.main(["xray", *wrong]) == 2
    assert program.main(["xray", str(tmp_path / "none.so")]) == 2
    assert "No such file" in capsys.readouterr().err
    assert program.main(["xray", "--help"]) == 0


def test_names_do_not_steer_the_terminal(tmp_path, capsys):
    name = "p/\x1b[2J\u202egpj.so"
    program.main(["xray", "--all", str(wheel(tmp_path / "a.whl", {name: Library(runpath="/\x1b]0;x\x07").bytes()}))])
    printed = capsys.readouterr().out
    assert "gpj.so" in printed
    assert not set(printed) & {"\x1b", "\x07", "\u202e"}
