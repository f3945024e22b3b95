# SPDX-License-Identifier: MIT
"""Every way kernelwright can fail: one class per cause.

A class that stands for a status of the C library names it in `status`; tests/python compares them with the header.
Where Python has a built-in exception for the cause, the class is one of those too.
"""

from __future__ import annotations


class KernelwrightError(Exception):
    """Base of all. `status` is the name of the C library's code, None where the cause is on Python's side.

    Where the doctor knows why this machine or this installation refuses, `code` is its name for that, such as KW-076,
    `cause` the reason, `fix` the command that ends it and `then` what comes after; the message has the first three.
    """

    status: str | None = None
    code: str | None = None
    cause: str | None = None
    fix: str | None = None
    then: str | None = None


class InvalidArgument(KernelwrightError, ValueError):
    """The call is wrong whatever the machine."""

    status = "KW_ERROR_INVALID_ARGUMENT"


class InvalidDtype(InvalidArgument, TypeError):
    """A tensor's element type is not one the operator takes, or does not go with another tensor's."""


class Unsupported(KernelwrightError, NotImplementedError):
    """The call is right, but this build or this device cannot do it."""

    status = "KW_ERROR_UNSUPPORTED"


class NoDriver(KernelwrightError, RuntimeError):
    """libcuda.so.1 is not there, or lacks a function."""

    status = "KW_ERROR_NO_DRIVER"


class DriverTooOld(KernelwrightError, RuntimeError):
    """The driver is older than this wheel's toolkit accepts."""

    status = "KW_ERROR_DRIVER_TOO_OLD"


class NoDevice(KernelwrightError, RuntimeError):
    """There is no such GPU."""

    status = "KW_ERROR_NO_DEVICE"


class NoImage(KernelwrightError, RuntimeError):
    """The wheel has no kernel for this GPU."""

    status = "KW_ERROR_NO_IMAGE"


class ImageMissing(KernelwrightError, FileNotFoundError):
    """A kernel file is not where it should be."""

    status = "KW_ERROR_IMAGE_MISSING"


class ImageCorrupt(KernelwrightError, RuntimeError):
    """A kernel file is not the one the library was built with."""

    status = "KW_ERROR_IMAGE_CORRUPT"


class CudaError(KernelwrightError, RuntimeError):
    """The driver said no."""

    status = "KW_ERROR_CUDA"


class Forked(KernelwrightError, RuntimeError):
    """CUDA was used before fork(), or the fork cut another thread's first call in two; this child cannot use it."""

    status = "KW_ERROR_FORKED"


class OutOfMemory(KernelwrightError, MemoryError):
    """Memory ran out, on the GPU or here."""

    status = "KW_ERROR_OUT_OF_MEMORY"


class SystemCallFailed(KernelwrightError, OSError):
    """A system call failed."""

    status = "KW_ERROR_SYSTEM"


class TorchMissing(KernelwrightError, ImportError):
    """torch is not installed, or too old."""


class PackageIncomplete(KernelwrightError, FileNotFoundError):
    """A file of the package is missing or unreadable: the library, manifest.json, signatures.json, targets.json."""


class LibraryMismatch(KernelwrightError, ImportError):
    """libkernelwright.so cannot be loaded, or is not the one these Python files belong to."""


class NotCovered(KernelwrightError, AttributeError):
    """A module that stands in for another library's lacks this name of it."""


class InvalidEnvironment(KernelwrightError, ValueError):
    """An environment variable of kernelwright has a value it cannot have."""


class SelfCheckFailed(KernelwrightError, AssertionError):
    """An operator's result differs from what it should be."""


def of_status(name: str) -> type[KernelwrightError]:
    """The class of a status code's name; the base for one that is newer than these files."""
    for found in KernelwrightError.__subclasses__():
        if found.status == name:
            return found
    return KernelwrightError
