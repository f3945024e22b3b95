# SPDX-License-Identifier: MIT
"""The emulated GPU as Python sees it: memory to the byte, and operators bound to it.

The C library finds the emulating driver by its name, so a process that opens it first can see no real GPU any more.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

POISON = 0xFF  # NaN in every type of float
DESCRIBES = (  # what cuTensorMapEncodeTiled takes
    ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, *[ctypes.c_void_p] * 5, *[ctypes.c_int] * 4,
)  # fmt: skip


class Driver:
    """The emulating libcuda.so.1."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.emulator_launched.restype = ctypes.c_char_p
        self._library.emulator_run.restype = ctypes.c_char_p

    def tell(self, address: int, size: int, name: str, *, written: bool, writable: bool) -> None:
        """This memory is the device's: kernels may read what was written, and write if they may."""
        full = self._library.emulator_memory(
            ctypes.c_void_p(address), ctypes.c_size_t(size), written, writable, name.encode()
        )
        assert not full, "the emulator knows no more memory: forget()"

    def forget(self) -> None:
        self._library.emulator_forget()

    def schedule_mode(self, kind: int) -> None:
        """1: the last threads run first; 2: copies take effect late; -1: each launch the next of the four."""
        self._library.emulator_schedule_mode(kind)

    def launched(self) -> set[str]:
        """The kernels that ran."""
        names: set[str] = set()
        index = 0
        while name := self._library.emulator_launched(index):
            names.add(name.decode())
            index += 1
        return names

    @contextmanager
    def rehearsal(self) -> Iterator[None]:
        """Within: kernels do not run, but launched() has them; before and after it those of another time are forgotten."""
        self._library.emulator_rehearse(True)
        try:
            yield
        finally:
            self._library.emulator_rehearse(False)

    def describe(
        self, to: int, of: ctypes.Array, sizes: tuple[int, ...], element: int, box: tuple[int, ...], *, swizzle: int = 0
    ) -> None:
        """What kernels copy boxes of a tensor by: bytes or floats, the fastest dimension last. `swizzle`: bytes, or 0."""
        unsigned_8, float_32 = 0, 7
        encode, result = ctypes.CFUNCTYPE(ctypes.c_int, *DESCRIBES)(), ctypes.c_int()
        self._library.cuGetProcAddress_v2(
            b"cuTensorMapEncodeTiled", ctypes.byref(encode), 12000, ctypes.c_uint64(0), ctypes.byref(result)
        )
        rank, pitches = len(sizes), [element * math.prod(sizes[-d:]) for d in range(1, len(sizes))]
        numbers = ctypes.c_uint32 * rank
        code = encode(
            to, unsigned_8 if element == 1 else float_32, rank, ctypes.addressof(of),
            (ctypes.c_uint64 * rank)(*sizes[::-1]), (ctypes.c_uint64 * (rank - 1))(*pitches), numbers(*box[::-1]),
            numbers(*[1] * rank), 0, (0, 32, 64, 128).index(swizzle), 0, 0,
        )  # fmt: skip
        assert code == 0, code

    def run(
        self,
        image: Path,
        kernel: str,
        parameters: ctypes.Structure,
        *,
        threads: int,
        blocks: int = 1,
        cluster: int = 1,
        shared: int = 0,
        overlap: bool = False,
    ) -> str | None:
        """One kernel of an image; what was wrong."""  # fmt: skip
        said = self._library.emulator_run(
            str(image).encode(), kernel.encode(), blocks, threads, cluster, shared, overlap, ctypes.byref(parameters)
        )
        return said.decode() if said else None


@dataclass
class Memory:
    """Tensors in memory that the driver was told of, each exactly as long as it is and `offset` elements off 64 bytes.

    Rows of those that are given have `gap` elements between them, which the device may read.
    """

    driver: Driver
    offset: int = 0
    gap: int = 0
    kept: list[Any] = field(default_factory=list)
    gaps: list[Any] = field(default_factory=list)
    made: int = 0

    def _place(self, shape: tuple[int, ...], dtype: Any) -> Any:
        import torch

        count = 1
        for size in shape:
            count *= size
        item = torch.tensor([], dtype=dtype).element_size()
        room = (ctypes.c_ubyte * (count * item + 64 + self.offset * item))()
        ctypes.memset(room, POISON, len(room))
        self.kept.append(room)
        start = -ctypes.addressof(room) % 64 + self.offset * item
        if count == 0:
            return torch.zeros(shape, dtype=dtype)
        return torch.frombuffer(room, dtype=dtype, count=count, offset=start).view(shape)

    def given(self, value: Any, name: str, *, writable: bool) -> Any:
        """A copy of a tensor; anything else as it is."""
        import torch

        if not isinstance(value, torch.Tensor):
            return value
        *rows, cols = value.shape or (1,)
        gap = self.gap if math.prod(rows) > 1 and cols > 0 else 0
        room = self._place((*rows, cols + gap), value.dtype)
        tensor = room[..., :cols].view(value.shape) if gap == 0 else room[..., :cols]
        tensor.copy_(value)
        self.gaps.append(room[..., cols:])
        if tensor.numel():
            size = room.nbytes - gap * value.element_size()
            self.driver.tell(tensor.data_ptr(), size, name, written=True, writable=writable)
        return tensor

    def spared(self) -> bool:
        """Whether nobody wrote between rows."""
        import torch

        plain = (gap.view(torch.uint8) if gap.dtype == torch.bool else gap for gap in self.gaps if gap.numel())
        return all(bool((gap.contiguous().view(torch.uint8) == POISON).all()) for gap in plain)

    def empty(self, *size: Any, dtype: Any = None, **_: Any) -> Any:
        """In the place of torch.empty."""
        import torch

        shape = tuple(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        offset, self.offset = self.offset, 0 if dtype is torch.uint8 else self.offset  # scratch memory is aligned
        tensor = self._place(shape, dtype or torch.float32)
        self.offset = offset
        if tensor.numel():
            self.made += 1
            self.driver.tell(tensor.data_ptr(), tensor.nbytes, f"result {self.made}", written=False, writable=True)
        return tensor

    @staticmethod
    def new_empty(tensor: Any, memory: Memory, *size: Any, dtype: Any = None, **_: Any) -> Any:
        """In the place of torch.Tensor.new_empty."""
        return memory.empty(*size, dtype=dtype or tensor.dtype)

    @staticmethod
    def contiguous_of(tensor: Any, memory: Memory, **_: Any) -> Any:
        """In the place of torch.Tensor.contiguous."""
        if tensor.is_contiguous():
            return tensor
        copy = memory._place(tuple(tensor.shape), tensor.dtype).copy_(tensor)
        memory.driver.tell(copy.data_ptr(), copy.nbytes, "a contiguous copy", written=True, writable=True)
        return copy

    @staticmethod
    def clone_of(tensor: Any, memory: Memory, **_: Any) -> Any:
        """In the place of torch.Tensor.clone: in memory of torch's own, which is aligned."""
        offset, memory.offset = memory.offset, 0
        copy = memory._place(tuple(tensor.shape), tensor.dtype).copy_(tensor)
        memory.offset = offset
        if copy.numel():
            memory.driver.tell(copy.data_ptr(), copy.nbytes, "a copy", written=True, writable=True)
        return copy

    def empty_like(self, like: Any, *, dtype: Any = None, **_: Any) -> Any:
        """In the place of torch.empty_like."""
        return self.empty(tuple(like.shape), dtype=dtype or like.dtype)


@contextmanager
def memory(driver: Driver, offset: int, gap: int) -> Iterator[Memory]:
    """Within: what operators allocate is the device's."""
    import torch

    made = Memory(driver, offset, gap)
    with ExitStack() as patches:
        patches.callback(driver.forget)
        patches.enter_context(patch.object(torch, "empty", made.empty))
        patches.enter_context(patch.object(torch, "empty_like", made.empty_like))
        patches.enter_context(patch.object(torch.Tensor, "new_empty", partialmethod(Memory.new_empty, made)))
        patches.enter_context(patch.object(torch.Tensor, "contiguous", partialmethod(Memory.contiguous_of, made)))
        patches.enter_context(patch.object(torch.Tensor, "clone", partialmethod(Memory.clone_of, made)))
        yield made


class OnDevice:
    """The open library, whose tensors of the CPU are those of an emulated device."""

    def __init__(self, library: Any, ordinal: int) -> None:
        self._library = library
        self.constants = {**library.constants, "KW_CPU": ordinal}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._library, name)

    def share_torch(self) -> bool:
        """Not: torch says that its tensors are on the CPU, a description of one has KW_CPU of above."""
        return False

    def bind(self, overload: Any) -> Callable[..., Any]:
        """The implementation of an operator's overload."""
        call: Callable[..., Any] = overload.bind(self, "CPU")
        return call
