# SPDX-License-Identifier: MIT
"""libkernelwright.so, bound by ctypes from signatures.json, which is read from the C headers."""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from kernelwright import _environment, _files, errors
from kernelwright._fork import section

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

ABI = 1

_SCALARS: dict[str, Any] = {
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "kw_status": ctypes.c_int32,
}
_STRING = "const char *"
MOST_WHOLE, MOST_DOUBLES = 22, 8  # integers and pointers, and doubles, in the block that kw_call takes
_COMMON = "base"  # the header that is no operator's
_FIX = "Reinstall kernelwright (in a source tree: build it again)."


def _ctype(spelling: str, where: str) -> Any:
    """The ctypes type of a C spelling. Pointers are plain addresses, so that a call converts nothing but integers."""
    words = " ".join(spelling.replace("*", " * ").split())
    if words == _STRING:
        return ctypes.c_char_p
    if words == "void":
        return None
    if words.endswith("*"):
        return ctypes.c_void_p
    if words not in _SCALARS:
        raise errors.LibraryMismatch(
            f"{where} has type {spelling!r}; these Python files know {', '.join(_SCALARS)} and pointers. {_FIX}"
        )
    return _SCALARS[words]


def _struct(name: str, members: Any) -> type[ctypes.Structure]:
    fields = [(member, _ctype(spelling, f"{name}.{member}")) for member, spelling in members]
    return type(name, (ctypes.Structure,), {"_fields_": fields})


def _bind(handle: ctypes.CDLL, path: Path, signatures: Mapping[str, Any], built: set[str]) -> dict[str, Any]:
    """The functions of the common part and of the operators of this build; a build may leave operators out."""
    bound = {}
    for name, signature in signatures["functions"].items():
        try:
            function = getattr(handle, name)
        except AttributeError:
            if _stem(signature) not in built:
                continue
            raise errors.LibraryMismatch(
                f"{path} has no function {name}, which {_files.SIGNATURES} declares: they are not of one build. {_FIX}"
            ) from None
        function.argtypes = [_ctype(spelling, f"{name}({argument})") for argument, spelling in signature["arguments"]]
        function.restype = _ctype(signature["returns"], f"the result of {name}")
        bound[name] = function
    return bound


def _stem(signature: Mapping[str, Any]) -> str:
    return str(signature["header"]).removesuffix(".h")


class Library:
    """The open library: its functions by name, its constants, the operators it was built with."""

    def __init__(self, path: Path, signatures: Mapping[str, Any], manifest: Mapping[str, Any]) -> None:
        try:
            handle = ctypes.CDLL(str(path))
        except OSError as error:
            raise errors.LibraryMismatch(
                f"{path} cannot be loaded: {error}. "
                "It needs Linux on the type of machine it was built for, and a glibc as new as the wheel's name says."
            ) from error
        self.path = path
        built = {_COMMON, *(str(image["op"]) for image in manifest["images"])}
        self.functions = _bind(handle, path, signatures, built)
        self._signatures = signatures["functions"]
        # One that lacks a function is as if it were not there: families share files, which a build of others may have.
        partly = {_stem(one) for name, one in signatures["functions"].items() if name not in self.functions}
        self.ops = {_stem(signatures["functions"][name]) for name in self.functions} - {_COMMON} - partly
        self.constants: Mapping[str, int] = signatures["constants"]
        self.structs = {name: _struct(name, members) for name, members in signatures["structs"].items()}
        self._statuses = {self.constants[name]: name for name in self.constants if name.startswith("KW_ERROR_")}
        self.threads = 0  # what use_threads was last given
        self._check_build(str(manifest["version"]))

    def _check_build(self, version: str) -> None:
        found = self.functions["kw_abi"]()
        if found != ABI:
            raise errors.LibraryMismatch(
                f"{self.path} has ABI {found}, these Python files speak {ABI}: they are not of one release. {_FIX}"
            )
        compiled = self.text("kw_version")
        if compiled != version:
            raise errors.LibraryMismatch(
                f"{self.path} is of version {compiled}, but {_files.MANIFEST} is of {version}. {_FIX}"
            )

    def refusal(self, function: str, status: int) -> errors.KernelwrightError:
        """What `status` stands for, in the library's own words."""
        name = self._statuses.get(status, f"status {status}")
        words = (self.functions["kw_last_error"]() or b"").decode(errors="replace") or name
        return errors.of_status(name)(words if words.startswith(function) else f"{function}: {words}")

    def fail(self, function: str, status: int) -> NoReturn:
        """Raises that, with the cause that the doctor finds."""
        raise _with_cause(self.refusal(function, status))

    def call(self, function: str, *arguments: Any) -> None:
        """Calls a function that returns a status, and raises if that is not KW_OK."""
        status = self.functions[function](*arguments)
        if status:
            self.fail(function, status)

    def packer(self, function: str) -> tuple[Callable[..., bytes], int]:
        """(pack, address): `functions["kw_call"](pack(address, *arguments))` is a call of `function` with integers,
        then doubles, and takes a fifth of the time that ctypes takes for so many arguments. NULL is 0."""
        kinds = [kind for _, kind in self._signatures[function]["arguments"]]
        doubles = kinds.count("double")
        whole = len(kinds) - doubles
        if "double" in kinds[:whole]:
            raise TypeError(f"{function}: its doubles must be its last arguments, as they are packed behind the others")
        block = struct.Struct(f"={1 + whole}q{8 * (MOST_WHOLE - whole)}x{doubles}d{8 * (MOST_DOUBLES - doubles)}x")
        return block.pack, ctypes.cast(self.functions[function], ctypes.c_void_p).value or 0

    def text(self, function: str, *arguments: Any) -> str:
        """Calls a function that returns a string."""
        return str((self.functions[function](*arguments) or b"").decode())

    def use_threads(self, count: int) -> None:
        """Makes the CPU path use `count` threads; callers look at `threads` first, which costs less than a call."""
        if count != self.threads:
            self.call("kw_set_num_threads", count)
            self.threads = count

    def share_openmp(self) -> bool:
        """Makes the CPU path run on torch's OpenMP threads; False where it keeps to its own, which work as well."""
        return not self.functions["kw_share_openmp"]()

    def share_torch(self) -> bool:
        """Whether functions of tensors take torch's own from now on, by their `_cdata`."""
        return not self.functions["kw_share_torch"]()


def _apply(library: Library, settings: _environment.Settings) -> None:
    for option, value, variable in (
        ("kernels", settings.kernels, _environment.KERNELS),
        ("arch", settings.arch, _environment.ARCH),
    ):
        if value:
            try:
                library.call("kw_set_option", option.encode(), os.fsencode(value))
            except errors.KernelwrightError as error:
                raise errors.InvalidEnvironment(f"{variable}={value!r}: {error}") from error


_lock = threading.Lock()


@cache
def _open() -> Library:
    library = Library(_files.whole_library(), _files.read(_files.SIGNATURES), _files.read(_files.MANIFEST))
    _apply(library, _environment.read())
    return library


def opened() -> Library:
    """The process's library, opened on the first call."""
    if _open.cache_info().currsize:
        return _open()
    with section, _lock:
        return _open()


def load() -> Library:
    """The same; what keeps it from being opened is raised with its cause."""
    try:
        return opened()
    except errors.KernelwrightError as error:
        raise _with_cause(error) from error.__cause__


def _with_cause(error: errors.KernelwrightError) -> errors.KernelwrightError:
    from kernelwright import _refusal

    return _refusal.with_cause(error)
