# SPDX-License-Identifier: MIT
"""The kernels of kernels/ on the emulated GPU, in a process of their own: what each gives, or what is wrong with it.

    python -m tests.emulator.machine DRIVER IMAGE

Prints a JSON: for each kernel of SOURCES, four times (each way of the emulator to order things), null if its result is right, "other numbers", or the emulator's message; for each of matrices.cu how far off its product is.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import math
import random
import re
import struct
import sys
from pathlib import Path

from tests.emulator.emulated import Driver

KERNELS = Path(__file__).parent / "kernels"


class MachineParams(ctypes.Structure):
    _fields_ = (("from", ctypes.c_void_p), ("to", ctypes.c_void_p), ("count", ctypes.c_int))


class BoxParams(ctypes.Structure):
    """Two of what the driver makes of a matrix, each of 128 bytes on 64; `matrices` has them."""

    _fields_ = (("matrices", ctypes.c_ubyte * 256), ("to", ctypes.c_void_p), ("rest", ctypes.c_ubyte * 56))


class StoreParams(ctypes.Structure):
    """Two descriptions of tensors, then where both are."""

    _fields_ = (("maps", ctypes.c_ubyte * 256), ("given", ctypes.c_void_p), ("found", ctypes.c_void_p),
                ("rest", ctypes.c_ubyte * 48))  # fmt: skip


class MatrixParams(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in "abcd")


def kernels(source: str) -> dict[str, str]:
    """Those of a source, and how each is launched: BLOCK, WARP, OVERLAPPING, CLUSTER, BOX, STORE, PAIR, WIDE, TWICE, WGMMA."""
    text = (KERNELS / source).read_text(encoding="utf-8")
    found = re.findall(r"^([A-Z]+)_KERNEL\(([^)]+)\)", text, re.MULTILINE)
    return {called(how, name): how for how, name in found}


def called(how: str, given: str) -> str:
    """A kernel by what its macro was given: of WGMMA_KERNEL all of it, of others the first."""
    first, *rest = given.split(", ")
    return f"wgmma_{'_'.join([first, *rest[:3]])}{''.join(rest[3:])}" if how == "WGMMA" else first


def array(
    driver: Driver, kind: type, values: list[float], name: str, *, writable: bool = False, written: bool | None = None
) -> ctypes.Array:
    """Values that the device may read, or room for as many that it may write, or both."""
    made = (kind * (len(values) + 16))()  # ctypes aligns to the element; kernels want 16 bytes
    start = -ctypes.addressof(made) % 16
    place = (kind * len(values)).from_buffer(made, start)
    place[:] = values
    driver.tell(
        ctypes.addressof(place),
        ctypes.sizeof(place),
        name,
        written=not writable if written is None else written,
        writable=writable,
    )
    return place


def rotated(driver: Driver, image: Path, kernel: str, how: str, mode: int) -> str | None:
    """One kernel of machine.cu."""
    cluster = 2 if how == "CLUSTER" else 1
    count = 32 if how == "WARP" else 64
    driver.schedule_mode(mode)
    given = array(driver, ctypes.c_float, [random.random() for _ in range(count)], "in")
    found = array(driver, ctypes.c_float, [0.0] * count, "out", writable=True)
    parameters = MachineParams(ctypes.addressof(given), ctypes.addressof(found), count)
    said = driver.run(
        image, kernel, parameters,
        blocks=cluster, threads=count // cluster, cluster=cluster, overlap=how == "OVERLAPPING",
    )  # fmt: skip
    driver.forget()
    if said:
        return said
    return None if list(found) == [*given[1:], given[0]] else "other numbers"


def boxed(driver: Driver, image: Path, kernel: str, _how: str, mode: int) -> str | None:
    """One kernel of boxes.cu, of which a right one gives 8 rows from the fourth on: 4 floats from the eighth, or words."""
    driver.schedule_mode(mode)
    floats = array(driver, ctypes.c_float, [random.random() for _ in range(24 * 16)], "floats")
    words = array(driver, ctypes.c_uint32, [random.getrandbits(32) for _ in range(24 * 32)], "bytes")
    found = array(driver, ctypes.c_uint32, [0] * 32, "out", writable=True)
    room = ctypes.create_string_buffer(ctypes.sizeof(BoxParams) + 64)
    parameters = BoxParams.from_buffer(room, -ctypes.addressof(room) % 64)
    parameters.to = ctypes.addressof(found)
    place = ctypes.addressof(parameters)
    driver.describe(place, floats, (24, 16), 4, (8, 4))
    driver.describe(place + 128, words, (24, 128), 1, (8, 128), swizzle=128)
    said = driver.run(image, kernel, parameters, threads=32)
    driver.forget()
    if said:
        return said
    of, pitch, column = (words, 32, 8) if "swizzled" in kernel else (floats, 16, 8)
    rows = [list(of[row * pitch + column :][:4]) for row in range(4, 12)]
    expected = [value for row in rows for value in row]
    given = list(found) if of is words else list((ctypes.c_float * 32).from_buffer(found))
    return None if given == expected else "other numbers"


def stored(driver: Driver, image: Path, kernel: str, how: str, mode: int) -> str | None:
    """One kernel of stores.cu, of which a right one brings a box to its place in another tensor, which was zeros."""
    driver.schedule_mode(mode)
    rank = int(kernel[-1]) if kernel[-1].isdigit() else 2
    sizes, box, at = (2, 3, 4, 6, 16)[-rank:], (2, 2, 2, 4, 8)[-rank:], (1, 1, 1, 3, 4)[-rank:]
    count = math.prod(sizes)
    given = array(driver, ctypes.c_float, [random.random() for _ in range(count)], "in")
    found = array(driver, ctypes.c_float, [0.0] * count, "out", writable=True, written=True)
    room = ctypes.create_string_buffer(ctypes.sizeof(StoreParams) + 64)
    parameters = StoreParams.from_buffer(room, -ctypes.addressof(room) % 64)
    parameters.given, parameters.found = ctypes.addressof(given), ctypes.addressof(found)
    for number, tensor in enumerate((given, found)):
        driver.describe(ctypes.addressof(parameters) + 128 * number, tensor, sizes, 4, box)
    cluster = 2 if how == "PAIR" else 1
    threads = 384 if how == "WIDE" else 32
    said = driver.run(image, kernel, parameters, blocks=cluster, threads=threads, cluster=cluster)
    driver.forget()
    if said:
        return said
    expected = [0.0] * count
    for steps in itertools.product(*map(range, box)):
        place = [first + step for first, step in zip(at, steps, strict=True)]
        if all(p < size for p, size in zip(place, sizes, strict=True)):
            flat = functools.reduce(lambda flat, pair: flat * pair[1] + pair[0], zip(place, sizes, strict=True), 0)
            expected[flat] = given[flat]
    return None if list(found) == expected else "other numbers"


def multiplied(driver: Driver, image: Path, kernel: str, how: str, mode: int) -> str | None:
    """One kernel of products.cu: D = A * B + C, or C and twice the product; small whole numbers, so that all is exact."""
    driver.schedule_mode(mode)
    _, kind, columns = kernel.split("_")[:3] if how == "WGMMA" else ("", "bf16", "16")
    depth, times, width = (16, 1, int(columns)) if kind in ("bf16", "f16") else (32, 1, int(columns))
    times = 1 if how == "WGMMA" else 2
    a, b, c = ([float(random.randrange(-4, 5)) for _ in range(n)] for n in (64 * depth, width * depth, 64 * width))
    sums = ctypes.c_int32 if kind == "s8" else ctypes.c_float
    pieces = [array(driver, ctypes.c_ubyte, list(coded(kind, v)), name) for name, v in (("a", a), ("b", b))]
    pieces.append(array(driver, sums, [sums(int(x) if kind == "s8" else x).value for x in c], "c"))
    pieces.append(array(driver, sums, [0] * len(c), "d", writable=True))
    said = driver.run(image, kernel, MatrixParams(*map(ctypes.addressof, pieces)), threads=128)
    driver.forget()
    if said:
        return said
    columns_of_b = [b[column * depth : (column + 1) * depth] for column in range(width)]
    expected = [
        c[row * width + column]
        + times * sum(x * y for x, y in zip(a[row * depth : (row + 1) * depth], of, strict=True))
        for row in range(64)
        for column, of in enumerate(columns_of_b)
    ]
    return None if list(pieces[3]) == expected else "other numbers"


def coded(kind: str, values: list[float]) -> bytes:
    """Small whole numbers in the type's bytes."""
    if kind == "s8":
        return struct.pack(f"{len(values)}b", *map(int, values))
    if kind == "e4m3":
        sizes = [0] + [(7 + x.bit_length() - 1) << 3 | (x << 3 >> (x.bit_length() - 1)) & 7 for x in range(1, 5)]
        return bytes(sizes[abs(int(value))] | (0x80 if value < 0 else 0) for value in values)
    return struct.pack(f"<{len(values)}H", *bits("float16" if kind == "f16" else "bfloat16", values))


def bits(kind: str, values: list[float]) -> list[int]:
    """Values that the type has exactly, as it has them."""
    if kind == "float16":
        return [struct.unpack("<H", struct.pack("<e", value))[0] for value in values]
    return [struct.unpack("<I", struct.pack("<f", value))[0] >> 16 for value in values]


def product(driver: Driver, image: Path, kernel: str, kind: str, rows: int, columns: int) -> float:
    """How far D is from A * B + C; quarters, so that every sum is exact."""
    sizes = rows * 16, 16 * columns, rows * columns
    a, b, c = ([random.randrange(-16, 17) / 4 for _ in range(size)] for size in sizes)
    arrays = [array(driver, ctypes.c_uint16, bits(kind, values), name) for name, values in (("a", a), ("b", b))]
    arrays.append(array(driver, ctypes.c_float, c, "c"))
    arrays.append(array(driver, ctypes.c_float, [0.0] * len(c), "d", writable=True))
    said = driver.run(image, kernel, MatrixParams(*map(ctypes.addressof, arrays)), threads=rows * 2)
    driver.forget()
    assert said is None, said
    expected = [
        sum(a[row * 16 + k] * b[k * columns + column] for k in range(16)) + c[row * columns + column]
        for row in range(rows)
        for column in range(columns)
    ]
    return max(math.inf if math.isnan(x) else abs(x - y) for x, y in zip(arrays[3], expected, strict=True))


SOURCES = {"machine.cu": rotated, "boxes.cu": boxed, "stores.cu": stored, "products.cu": multiplied}
THREADS = {"WIDE": 384, "TWICE": 128, "WGMMA": 128}  # of other kernels the most is 64


def main() -> None:
    driver, image = Driver(Path(sys.argv[1])), Path(sys.argv[2])
    said = {
        kernel: [run(driver, image, kernel, how, mode) for mode in range(4)]
        for source, run in SOURCES.items()
        for kernel, how in kernels(source).items()
    }
    off = {
        f"product_{kind}": product(driver, image, f"product_{kind}", kind, 16, 8) for kind in ("float16", "bfloat16")
    }
    print(json.dumps({"said": said, "off": off}))


if __name__ == "__main__":
    main()
