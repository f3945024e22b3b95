# SPDX-License-Identifier: MIT
"""A GPU as a place where self-checks run: memory by the driver's own functions, kernels by this library."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from kernelwright.doctor.operators._run import Busy
from kernelwright.errors import CudaError, OutOfMemory, SelfCheckFailed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kernelwright._library import Library

# Between buffers lies what nobody may write; each begins where an allocation of its own would.
_ALIGN, _GUARD = 256, b"\xa5" * 256
_NO_MEMORY, _NOT_AVAILABLE = 2, 46
_BUSY = {
    _NO_MEMORY: "its memory is used up by other processes",
    _NOT_AVAILABLE: "another process has it for itself (its compute mode is exclusive)",
}


class Driver:
    """libcuda.so.1, which the library has opened before."""

    def __init__(self) -> None:
        self._functions = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function that returns a CUresult; addresses are plain integers."""
        given = [ctypes.c_uint64(a) if isinstance(a, int) else a for a in arguments]
        code = self._functions[name](*given)
        if code in _BUSY:
            raise Busy(_BUSY[code])
        if code:
            raise CudaError(f"{name} returned {code} ({self._words(code)})")

    def _words(self, code: int) -> str:
        text = ctypes.c_char_p()
        for name in ("cuGetErrorName", "cuGetErrorString"):
            if self._functions[name](code, ctypes.byref(text)) == 0 and text.value:
                return text.value.decode(errors="replace")
        return "the driver has no name for it"

    def enter(self, ordinal: int) -> None:
        """Makes the device's primary context, the one that the library uses too, this thread's own."""
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(ordinal))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)


class _Staged:
    """Buffers of one call side by side in the GPU's memory, with guards around each."""

    def __init__(self, driver: Driver, buffers: Sequence[Any]) -> None:
        self._driver, self._buffers = driver, buffers
        image, self._offsets = bytearray(_GUARD), []
        for buffer in buffers:
            self._offsets.append(len(image))
            image += bytes(buffer)
            image += _GUARD + b"\xa5" * (-len(image) % _ALIGN)
        self._before = bytes(image)
        self._address = ctypes.c_uint64()
        driver.call("cuMemAlloc_v2", ctypes.byref(self._address), len(image))
        driver.call("cuMemcpyHtoD_v2", self._address, self._before, len(image))

    def addresses(self) -> list[int]:
        return [self._address.value + offset for offset in self._offsets]

    def give_back(self, function: str) -> None:
        """Waits for the kernels, and puts what they wrote into the buffers."""
        after = ctypes.create_string_buffer(len(self._before))
        self._driver.call("cuCtxSynchronize")
        self._driver.call("cuMemcpyDtoH_v2", after, self._address, len(after))
        found, expected = bytearray(after.raw), bytearray(self._before)
        for buffer, offset in zip(self._buffers, self._offsets, strict=True):
            size = ctypes.sizeof(buffer)
            ctypes.memmove(buffer, bytes(found[offset : offset + size]), size)
            found[offset : offset + size] = expected[offset : offset + size] = bytes(size)
        if found != expected:
            place = next(i for i, (a, b) in enumerate(zip(found, expected, strict=True)) if a != b)
            number = sum(offset <= place for offset in self._offsets)
            raise SelfCheckFailed(
                f"{function}: memory that is in none of its buffers was written, behind number {number}"
            )

    def free(self) -> None:
        self._driver.call("cuMemFree_v2", self._address)


class OnGpu:
    """Calls of the library that run on one GPU."""

    def __init__(self, library: Library, driver: Driver, ordinal: int) -> None:
        self.device = ordinal
        self.constants: Mapping[str, int] = library.constants
        self._library, self._driver = library, driver

    def call(self, function: str, *arguments: Any) -> None:
        buffers = [argument for argument in arguments if isinstance(argument, ctypes.Array)]
        if not buffers:
            return self._launch(function, arguments)
        staged = _Staged(self._driver, buffers)
        addresses = iter(staged.addresses())
        self._launch(function, [next(addresses) if isinstance(a, ctypes.Array) else a for a in arguments])
        staged.give_back(function)
        staged.free()
        return None

    def _launch(self, function: str, arguments: Sequence[Any]) -> None:
        status = self._library.functions[function](*arguments)
        if status:
            refused = self._library.refusal(function, status)  # without the doctor's cause: the report has that
            raise Busy(_BUSY[_NO_MEMORY]) if isinstance(refused, OutOfMemory) else refused
