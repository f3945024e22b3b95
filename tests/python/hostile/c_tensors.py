# SPDX-License-Identifier: MIT
"""Descriptions of tensors for the C functions: those of a call have one shape and type, but for what is odd.

Those of a weight of 4 bits are so many elements in any shape, and its scales are of one kind or of the other.

Behind what the library accepts there is memory: a few thousand elements on both sides of where a tensor begins. What is
farther away is so far that nothing can be there.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kernelwright import _library

    Fields = dict[str, Any]

ROWS, COLS, GAP = 4, 40, 8  # at most
SHAPES = ((), (1,), (2,), (ROWS,), (2, 2), (1, ROWS), (2, 1, 2), (3, 1), (0,), (2, 0))  # before the last dimension
MOST_DIMS = 6  # numbers that each array has room for
DTYPES = (0, 1, 2)
COLUMNS = ("weight", "bias", "dweight", "dbias")
PACKED = ("gate", "dgate")  # hold both halves where `up` is left out
BLOCKSIZES = (32, 64, 4096)
FLOAT32, UINT8 = 0, 4
QUANTIZED = ("codes", "absmax2", "map", "offset")  # scales; or absmax alone
TOGETHER = (("sum", "residual"), ("dsum",), ("up", "dup"), *((name,) for name in COLUMNS))  # are left out together
ODD_DEVICES = (-2, 64, 1 << 20, 2**31 - 1, -(2**31))  # a GPU that is there would write to host memory
ODD_TYPES = (-1, 3, 4, 2**31 - 1, -(2**31))
ODD_KINDS = (0, 2, -1, 1 << 32, (1 << 32) + 1, -(2**63), 2**63 - 1)
ODD_DIMS = (-1, -(2**63), 0, 1, 2, 3, 4, 5, 1025, 2**31, 2**63 - 1)
ODD_SIZES = (0, 1, 5, -1, -(2**31), -(2**63), 2**57 + 1, 2**58, 2**63 - 1)
FAR = (-(2**31), -(2**63), 2**57, 2**58, 2**63 - 1)  # strides


def _kind(tensor: Fields, draw: random.Random) -> None:
    tensor["kind"] = draw.choice(ODD_KINDS)


def _dims(tensor: Fields, draw: random.Random) -> None:
    tensor["dims"] = draw.choice(ODD_DIMS)


def _array(tensor: Fields, draw: random.Random) -> None:
    tensor[draw.choice(("sizes", "strides"))] = None


def _size(tensor: Fields, draw: random.Random) -> None:
    tensor["sizes"][draw.randrange(len(tensor["sizes"]))] = draw.choice(ODD_SIZES)


def _stride(tensor: Fields, draw: random.Random) -> None:
    stride = draw.choice((0, 2, draw.randint(-2 * COLS, 2 * COLS), *FAR))
    tensor["strides"][draw.randrange(len(tensor["strides"]))] = stride


def _transposed(tensor: Fields, _: random.Random) -> None:
    tensor["sizes"].reverse()
    tensor["strides"].reverse()


def _address(tensor: Fields, draw: random.Random) -> None:
    tensor["data"] = draw.choice((None, *(tensor["data"] + off for off in (1, 2, 4, 8, 128))))


def _dtype(tensor: Fields, draw: random.Random) -> None:
    tensor["dtype"] = draw.choice((*DTYPES, *ODD_TYPES))


def _device(tensor: Fields, draw: random.Random) -> None:
    tensor["device"] = draw.choice((0, *ODD_DEVICES))


def _misaligned(tensor: Fields, draw: random.Random) -> None:
    tensor["off"] = draw.choice((1, 2, 4, 7))


ODDITIES: tuple[Callable[[Fields, random.Random], None] | None, ...] = (
    None, _kind, _dims, _array, _size, _stride, _transposed, _address, _dtype, _device, _misaligned,
)  # fmt: skip


class Described(int):
    """The address of a description, with what it must outlive; a note of the call shows what it says."""

    kept: tuple[Any, ...]
    words: str

    def __repr__(self) -> str:
        return self.words


class Tensors:
    """Makes the tensors of one call after another."""

    def __init__(self, draw: random.Random, library: _library.Library) -> None:
        self.library = library
        self._draw, self._struct, self._kind = draw, library.structs["kw_tensor"], library.constants["KW_TENSOR"]

    def begin(self, odd: float, names: set[str]) -> None:
        """What the tensors of the next call, whose arguments have these names, have in common."""
        draw, self._odd = self._draw, odd
        self._leading, self._cols = draw.choice(SHAPES), draw.randint(1, COLS)
        self._dtype = draw.choice(DTYPES)
        self._columns_dtype = draw.choice((0, self._dtype))
        self._device = draw.choice(ODD_DEVICES) if draw.random() < odd / 4 else -1
        self._without = {name for group in TOGETHER if draw.random() < 0.25 for name in group}
        self._places: dict[str, int] = {}
        self.blocksize, self._y_cols = draw.choice(BLOCKSIZES), self._cols
        self._gap = GAP
        self._flat: dict[str, tuple[int, int]] = {}  # how many elements, and their type, of what has any shape
        if "packed" in names:
            self._without |= {"absmax"} if draw.random() < 0.5 else set(QUANTIZED)
            self._begin_four_bit(product="x" in names)

    def _begin_four_bit(self, *, product: bool) -> None:
        """The weight of a product has as many columns as x; another has as many elements as y."""
        if product:
            self._y_cols = self._draw.randint(1, COLS)
        else:
            self._gap = 0  # y is without gaps
        count = self._cols * (self._y_cols if product else math.prod(self._leading))
        blocks = -(-count // self.blocksize)
        self._flat = {
            "packed": ((count + 1) // 2, UINT8),
            "absmax": (blocks, FLOAT32),
            "codes": (blocks, UINT8),
            "absmax2": (-(-blocks // 256), FLOAT32),
            "map": (256, FLOAT32),
            "offset": (1, FLOAT32),
            "bias": (self._y_cols, self._dtype),
        }

    def make(self, name: str, data: int) -> Described | None:
        """An argument of that name, its memory there: right, or with the call's probability odd in one way."""
        if name in self._without:
            return None
        draw = self._draw
        if name == "residual" and "sum" in self._places and draw.random() < 0.5:
            data = self._places["sum"]
        elif self._places and draw.random() < self._odd / 4:
            data = draw.choice(list(self._places.values()))
        self._places[name] = data
        tensor = self._right(name, data)
        if draw.random() < self._odd:
            change = draw.choice(ODDITIES)
            if change is None:
                return None
            change(tensor, draw)
        return self._described(tensor)

    def _right(self, name: str, data: int) -> Fields:
        draw, gap = self._draw, 0
        if name in self._flat:
            count, dtype = self._flat[name]
            sizes = draw.choice(([count], [count, 1], [1, count], [1, count, 1]))
        elif name in COLUMNS:
            sizes, dtype = [self._cols], self._columns_dtype
        else:
            cols = self._y_cols if name == "y" else self._cols
            sizes, dtype = [*self._leading, cols * (2 if name in PACKED and "up" in self._without else 1)], self._dtype
            gap = draw.choice((0, draw.randint(0, self._gap)))
        strides, step = [1] * len(sizes), sizes[-1] + gap
        for i in reversed(range(len(sizes) - 1)):
            strides[i], step = step, step * sizes[i]
        return {"kind": self._kind, "data": data, "sizes": sizes, "strides": strides, "dims": len(sizes),
                "dtype": dtype, "device": self._device}  # fmt: skip

    def _described(self, tensor: Fields) -> Described:
        off = tensor.get("off", 0)
        memory = (ctypes.c_int64 * (ctypes.sizeof(self._struct) // 8 + 1))()
        made, arrays = self._struct.from_buffer(memory, off), []
        for which in ("sizes", "strides"):
            numbers = tensor[which]
            if numbers is not None:
                arrays.append((ctypes.c_int64 * MOST_DIMS)(*numbers, *[1] * (MOST_DIMS - len(numbers))))
                setattr(made, which, ctypes.addressof(arrays[-1]))
        for member in ("kind", "data", "dims", "dtype", "device"):
            setattr(made, member, tensor[member])
        described = Described(ctypes.addressof(memory) + off)
        described.kept, described.words = (memory, made, arrays), f"{tensor}"
        return described
