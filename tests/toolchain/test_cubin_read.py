# SPDX-License-Identifier: MIT
"""Cubins are read exactly, and bytes that are no cubin give one error, never another."""

from __future__ import annotations

import random
import struct

import pytest
from device_support import Made, record

from kernelwright_toolchain.cubin import CubinError, bare, check, read, read_ptx

COMPAT_A = b"\x02\x09\x01\x00"
COMPAT_PLAIN = b"\x02\x09\x00\x00"


@pytest.mark.parametrize(
    ("osabi", "abi", "flags", "extra", "arch"),
    [
        (51, 7, 0x500550, {}, "80"),  # NVRTC 12.2, sm_80
        (51, 7, 0x5A055A, {}, "90"),
        (51, 7, 0x5A0D5A, {}, "90a"),
        (65, 8, 0x6007802, {}, "120"),  # NVRTC 12.8
        (65, 8, 0x600640A, {}, "100a"),
        (65, 8, 0x6005A04, {".nv.compat": COMPAT_PLAIN}, "90"),  # nvcc 13.0
        (65, 8, 0x6005A04, {".nv.compat": COMPAT_A}, "90a"),
        (65, 8, 0x6004B04, {}, "75"),
    ],
)
def test_both_encodings_of_the_architecture(osabi, abi, flags, extra, arch):
    assert read(Made(osabi=osabi, abi=abi, flags=flags, extra=extra).bytes()).arch == arch


def test_what_a_kernel_needs():
    made = Made(extra={".nv.shared.op_kernel": bytes(1280)}, registers=73)
    (kernel,) = read(made.bytes()).kernels
    assert (kernel.name, kernel.registers, kernel.shared, kernel.constant) == ("op_kernel", 73, 1280, 360)
    assert (kernel.stack, kernel.max_threads) == (0, 256)


def test_stack_is_what_ptxas_knows_of_it():
    known = Made(extra={".nv.info": record(0x2F, 1, 9) + record(0x11, 1, 64) + record(0x12, 1, 96)})
    assert read(known.bytes()).kernels[0].stack == 96
    recursive = Made(extra={".nv.info": record(0x2F, 1, 9) + record(0x11, 1, 64) + record(0x12, 1, 0xFFFFFFFF)})
    assert read(recursive.bytes()).kernels[0].stack == 64


def test_a_required_block_is_a_limit_too():
    assert read(Made(info=record(0x10, 8, 4, 2)).bytes()).kernels[0].max_threads == 64


def test_check_wants_the_code_that_was_asked_for(table):
    image = Made(flags=0x5A0D5A).bytes()
    assert check(image, table.codes["sm_90a"]).arch == "90a"
    for other in ("sm_90", "sm_89"):
        with pytest.raises(CubinError, match=f"90a, not for {other}"):
            check(image, table.codes[other])


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"", "outside the file"),
        (b"\x7fELF", "not a 64-bit"),
        (b"MZ" * 40, "not an ELF file"),
        (Made(machine=62).bytes(), "machine 62"),
        (Made(abi=9).bytes(), "unknown cubin ABI 9"),
        (Made(extra={".nv.info": b""}).bytes(), "no register count"),
        (Made(extra={".nv.info": record(0x2F, 1)}).bytes(), "has 4 bytes, not 8"),
        (Made(extra={".nv.info": b"\x04\x2f\xff\x00"}).bytes(), "255 bytes, but 0 are left"),
        (Made(extra={".nv.info": b"\x04\x2f"}).bytes(), "cut off"),
        (Made(extra={".nv.info": b"\x09\x2f\x00\x00"}).bytes(), "unknown format 9"),
        (Made(extra={".symtab": b""}).bytes(), "no kernel"),
        (Made(extra={".symtab": bytes(25)}).bytes(), "symbol table of 25 bytes"),
        (Made(extra={".strtab": b"\0no end"}).bytes(), "has no end"),
        (Made(extra={".strtab": b"\0\xff\xfe\0"}).bytes(), "is not text"),
    ],
)
def test_damage_is_named(image, words):
    with pytest.raises(CubinError, match=words):
        read(image)


def _hostile(image: bytes, count: int, seed: int) -> bytes:
    """One truncation, flip, wild number or splice."""
    dice = random.Random(f"{seed} {count}")
    data = bytearray(image)
    how = dice.randrange(4)
    if how == 0:
        return bytes(data[: dice.randrange(len(data))])
    if how == 1:
        for _ in range(dice.randrange(1, 20)):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif how == 2:
        at = dice.randrange(0, len(data) - 8)
        data[at : at + 8] = struct.pack(
            "<Q", dice.choice((0, 1, 0xFFFF, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1, len(data)))
        )
    else:
        at, source = dice.randrange(len(data)), dice.randrange(len(data))
        data[at : at + 64] = data[source : source + 64]
    return bytes(data)


def _refused(reader, image: bytes) -> bool:
    """Whether the reader refuses; any error but CubinError ends the test."""
    try:
        reader(image)
    except CubinError:
        return True
    return False


def test_hostile_bytes_give_one_error_class():
    images = [Made().bytes(), Made(osabi=65, abi=8, flags=0x6005A04, extra={".nv.compat": COMPAT_A}).bytes()]
    refused = sum(_refused(read, _hostile(image, n, seed)) for seed, image in enumerate(images) for n in range(4000))
    assert refused > 2000  # the fuzzer reaches the checks


def test_every_truncation_is_refused():
    image = Made().bytes()
    for size in range(len(image)):
        with pytest.raises(CubinError):
            read(image[:size])


PTX = """//
// .target sm_11 is only a comment
.version 8.2
.target sm_90
.address_size 64
.visible .entry op_two(
\t.param .u64 op_two_param_0
)
.maxntid 256, 1, 1
{ ret; }
.visible .entry op_one(.param .u64 op_one_param_0)
{ ret; }
"""


def test_ptx_names_its_kernels(table):
    facts = read_ptx(PTX.encode())
    assert (facts.arch, facts.kernels) == ("90", (("op_one", 0), ("op_two", 256)))
    assert check(PTX.encode(), table.codes["compute_90"]) == facts
    with pytest.raises(CubinError, match="90, not for compute_80"):
        check(PTX.encode(), table.codes["compute_80"])


def test_bare_ptx_is_the_same_program():
    noted = PTX.replace("{ ret; }", '{\n\n\t.pragma "a // b";  // kept\n\tret;\t// begin inline asm\n\n}', 1)
    less = bare(noted.encode())
    assert read_ptx(less) == read_ptx(noted.encode())
    head, code = less.decode().split(".version", 1)
    assert head == "//\n// .target sm_11 is only a comment\n"
    assert code.splitlines()[6:11] == [".maxntid 256,1,1", "{", '.pragma "a // b";  // kept', "ret;", "}"]
    assert bare(less) == less


def test_bare_ptx_has_no_constant_that_nothing_reads():
    read, unread = ".global .align 4 .u32 kRead = 4;", ".global .align 1 .u8 kUnread;"
    noted = PTX.replace("{ ret; }", f"{{ ld.global.u32\t%r1, [kRead]; ret; }}\n{read}\n{unread}\n", 1)
    less = bare(noted.encode()).decode()
    assert read in less
    assert "kUnread" not in less
    assert "ld.global.u32 %r1,[kRead];" in less


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "no .target"),
        (PTX.encode() + b"\0", "zero byte"),
        (b"\xff" + PTX.encode(), "not ASCII"),
        (b".target sm_90\n", "no kernel"),
    ],
)
def test_damaged_ptx_is_named(text, words):
    with pytest.raises(CubinError, match=words):
        read_ptx(text)


def test_hostile_ptx_gives_one_error_class():
    assert sum(_refused(read_ptx, _hostile(PTX.encode(), count, 7)) for count in range(2000)) > 500
