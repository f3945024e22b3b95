# SPDX-License-Identifier: MIT
"""The kernels of kernels/ on the emulated GPU, in a process of their own: what each gives, or what is wrong with it.

    python -m tests.emulator.machine DRIVER IMAGE

Prints a JSON: for each kernel of machine.cu and boxes.cu, four times (each way of the emulator to order things), null if its result
is right, "other numbers", or the emulator's message; for each of matrices.cu how far off its product is.
"""

from __future__ import annotations

import ctypes
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


class MatrixParams(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_void_p) for name in "abcd")


def kernels(source: str) -> dict[str, str]:
    """Those of machine.cu, and how each is launched: BLOCK, WARP, OVERLAPPING or CLUSTER; or those of boxes.cu: BOX."""
    text = (KERNELS / source).read_text(encoding="utf-8")
    return {name: how for how, name in re.findall(r"^([A-Z]+)_KERNEL\((\w+)\)", text, re.MULTILINE)}


def array(driver: Driver, kind: type, values: list[float], name: str, *, writable: bool = False) -> ctypes.Array:
    """Values that the device may read, or room for as many that it may write."""
    made = (kind * (len(values) + 16))()  # ctypes aligns to the element; kernels want 16 bytes
    start = -ctypes.addressof(made) % 16
    place = (kind * len(values)).from_buffer(made, start)
    place[:] = values
    driver.tell(ctypes.addressof(place), ctypes.sizeof(place), name, written=not writable, writable=writable)
    return place


def rotated(driver: Driver, image: Path, kernel: str, how: str, temper: int) -> str | None:
    """One kernel of machine.cu."""
    cluster = 2 if how == "CLUSTER" else 1
    count = 32 if how == "WARP" else 64
    driver.temper(temper)
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


def boxed(driver: Driver, image: Path, kernel: str, _how: str, temper: int) -> str | None:
    """One kernel of boxes.cu, of which a right one gives 8 rows from the fourth on: 4 floats from the eighth, or words."""
    driver.temper(temper)
    floats = array(driver, ctypes.c_float, [random.random() for _ in range(24 * 16)], "floats")
    words = array(driver, ctypes.c_uint32, [random.getrandbits(32) for _ in range(24 * 32)], "bytes")
    found = array(driver, ctypes.c_uint32, [0] * 32, "out", writable=True)
    room = ctypes.create_string_buffer(ctypes.sizeof(BoxParams) + 64)
    parameters = BoxParams.from_buffer(room, -ctypes.addressof(room) % 64)
    parameters.to = ctypes.addressof(found)
    place = ctypes.addressof(parameters)
    driver.describe(place, floats, (24, 16), 4, (8, 4), swizzled=False)
    driver.describe(place + 128, words, (24, 128), 1, (8, 128), swizzled=True)
    said = driver.run(image, kernel, parameters, threads=32)
    driver.forget()
    if said:
        return said
    of, pitch, column = (words, 32, 8) if "swizzled" in kernel else (floats, 16, 8)
    rows = [list(of[row * pitch + column :][:4]) for row in range(4, 12)]
    expected = [value for row in rows for value in row]
    given = list(found) if of is words else list((ctypes.c_float * 32).from_buffer(found))
    return None if given == expected else "other numbers"


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
    said = driver.run(image, f"{kernel}_{kind}", MatrixParams(*map(ctypes.addressof, arrays)), threads=rows * 2)
    driver.forget()
    assert said is None, said
    expected = [
        sum(a[row * 16 + k] * b[k * columns + column] for k in range(16)) + c[row * columns + column]
        for row in range(rows)
        for column in range(columns)
    ]
    return max(math.inf if math.isnan(x) else abs(x - y) for x, y in zip(arrays[3], expected, strict=True))


def main() -> None:
    driver, image = Driver(Path(sys.argv[1])), Path(sys.argv[2])
    said = {
        kernel: [run(driver, image, kernel, how, temper) for temper in range(4)]
        for source, run in (("machine.cu", rotated), ("boxes.cu", boxed))
        for kernel, how in kernels(source).items()
    }
    off = {
        f"{kernel}_{kind}": product(driver, image, kernel, kind, *sizes)
        for kernel, sizes in (("product", (16, 8)), ("group_product", (64, 32)))
        for kind in ("float16", "bfloat16")
    }
    print(json.dumps({"said": said, "off": off}))


if __name__ == "__main__":
    main()
