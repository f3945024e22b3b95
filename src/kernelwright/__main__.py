# SPDX-License-Identifier: MIT
"""`python -m kernelwright`: what this installation is, what it can do on this machine, and whether it works.

Needs no torch. Exits with 0 and `SUCCESS`, or with 1 and what failed. `python -m kernelwright explain < log` names
the cause in a log.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import sys
from typing import TYPE_CHECKING

from kernelwright import _environment, _files, _library, errors, ops

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def _line(name: str, text: str) -> None:
    print(f"{name:<12} {text}", flush=True)


def _version() -> None:
    _line("kernelwright", f"{_files.version()} on {platform.machine()}, Python {platform.python_version()}")


def _build() -> None:
    manifest = _files.read(_files.MANIFEST)
    compiler = manifest["compiler"]
    images = sorted({image["code"] for image in manifest["images"]})
    debug = ", debug" if manifest["debug"] else ""
    _line("build", f"{manifest['version']} for {manifest['target']}, toolkit {manifest['toolkit']}, "
          f"provider {manifest['provider']}{debug}")  # fmt: skip
    _line("compiler", f"{compiler['driver']} {compiler['version']}")
    _line("images", " ".join(images) or "none")


def _kernel_files() -> None:
    """Only a GPU loads them; that they are whole can be said on any machine."""
    for image in _files.read(_files.MANIFEST)["images"]:
        path = _files.locate(image["path"])
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != image["sha256"]:
            raise errors.ImageCorrupt(
                f"{path} is not the file of this build: its sha256 is {found}, {_files.MANIFEST} says "
                f"{image['sha256']}; reinstall kernelwright"
            )


def _targets() -> None:
    _files.read(_files.TARGETS)


def _environment_variables() -> None:
    for name, value, meaning in _environment.describe():
        _line("environment", f"{name}{' is not set' if value is None else f'={value}'} ({meaning})")
    _environment.read()


def _library_file() -> None:
    library = _library.load()
    _line("library", f"{library.path} {library.text('kw_version')}")
    _line("cpu", f"{library.text('kw_cpu_isa')}, {library.functions['kw_num_threads']()} threads")


def _gpu_facts(library: _library.Library) -> Iterator[str]:
    count, driver = ctypes.c_int32(), ctypes.c_int32()
    library.call("kw_device_count", ctypes.byref(count))
    library.call("kw_driver_version", ctypes.byref(driver))
    yield f"{count.value} with a driver of CUDA {driver.value // 1000}.{driver.value % 1000 // 10}"
    for ordinal in range(count.value):
        capability, image = ctypes.c_int32(), ctypes.c_char_p()
        library.call("kw_device_capability", ordinal, ctypes.byref(capability))
        where = f"GPU {ordinal}, compute capability {capability.value // 10}.{capability.value % 10}"
        for op in sorted(library.ops):
            try:
                library.call("kw_image_for", op.encode(), capability, ctypes.byref(image))
                yield f"{where}: {op} uses {(image.value or b'').decode()}"
            except errors.NoImage as error:
                yield f"{where}: {op} cannot run: {error}"


def _gpus() -> None:
    """No GPU, or none that this wheel serves, is a fact of the machine and not a failure."""
    try:
        for fact in _gpu_facts(_library.load()):
            _line("gpus", fact)
    except (errors.NoDriver, errors.DriverTooOld, errors.NoDevice, errors.CudaError) as error:
        _line("gpus", f"none: {error}")


def _torch() -> None:
    """Looked up, not imported: a broken torch must not keep this report from being printed."""
    from importlib import metadata

    try:
        there = importlib.util.find_spec("torch") is not None
    except (ImportError, ValueError):  # something stands in the way of finding it
        there = False
    if not there:
        _line("torch", "is not installed; the operators need it, the C library does not")
        return
    try:
        found = metadata.version("torch")
    except metadata.PackageNotFoundError:
        found = "of unknown version"
    _line("torch", found)


def _operator(name: str) -> None:
    library = _library.load()
    _line(name, ops.record(name).selfcheck(library) if name in library.ops else "is left out of this build")


def _checks() -> Iterator[tuple[str, Callable[[], None]]]:
    yield "version", _version
    yield "build", _build
    yield "kernels", _kernel_files
    yield "targets", _targets
    yield "environment", _environment_variables
    yield "library", _library_file
    yield "gpus", _gpus
    yield "torch", _torch
    for name in ops.names():
        yield name, lambda name=name: _operator(name)  # type: ignore[misc]


def report() -> int:
    failures = []
    reported = set()
    for name, check in _checks():
        try:
            check()
        except Exception as error:  # noqa: BLE001 - the report must reach its end, whatever is broken
            text = f"{type(error).__name__}: {error}"
            if text not in reported:  # one missing library would fail every check after it in the same words
                failures.append(f"{name}: {text}")
                reported.add(text)
    for failure in failures:
        print(f"FAILED {failure}", flush=True)
    if not failures:
        print("SUCCESS")
    return 1 if failures else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """The program `kernelwright`: without a verb, the report."""
    verb, *rest = [*(sys.argv[1:] if arguments is None else arguments), ""]
    if verb == "explain":
        from kernelwright.doctor.explain import _print

        return _print.main(rest[:-1])
    if verb in {"", "doctor"}:
        return report()
    print(
        f"kernelwright has no verb {verb!r}; it has doctor (the report, also without a verb) and explain",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader, such as `| head`, went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
