# SPDX-License-Identifier: MIT
"""A damaged, incomplete, read-only or strange installation: said in words, never a crash. On copies of the package."""

from __future__ import annotations

import json
import os
import stat

import pytest

from tests.python.support import REPORT, copy_package, run, start

LOAD = "from kernelwright import _library; _library.load()"
BROKEN_PACKAGE = 17  # the report's exit code for files of kernelwright that are not whole


@pytest.fixture
def package(tmp_path):
    return copy_package(tmp_path / "site packages")  # the blank is on purpose


def assert_fails(package, kind, *words, code=LOAD):
    done = run(code, package=package)
    assert done.returncode == 1, done.stdout
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"kernelwright.errors.{kind}: "), done.stderr
    for word in words:
        assert word in last, last


def test_a_whole_copy_works(package):
    done = run(REPORT, package=package)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("SUCCESS\n")
    assert str(package) in done.stdout


@pytest.mark.parametrize("name", ["lib/libkernelwright.so", "manifest.json", "signatures.json"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut"])
def test_a_damaged_file(package, name, damage):
    path = package / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes(b"" if damage == "empty" else content[: len(content) // 3])
    assert_fails(package, "PackageIncomplete", str(path), "Reinstall it")
    report = run(REPORT, package=package)
    assert report.returncode == BROKEN_PACKAGE
    assert "FAILS KW-070  " in report.stdout
    assert "PackageIncomplete: " in report.stdout
    assert str(path) in report.stdout
    assert "SUCCESS" not in report.stdout
    assert "Traceback" not in report.stdout + report.stderr


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_the_report_reads_the_kernel_files(package, damage):
    """Without a GPU nothing loads them, but the report must not call the installation whole."""
    path = min((package / "kernels").glob("*/*"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.unlink()
    if damage != "missing":
        path.write_bytes(content if damage == "flipped" else content[:1000])
    report = run(REPORT, package=package)
    assert report.returncode == BROKEN_PACKAGE
    assert f"FAILS {'KW-070' if damage == 'missing' else 'KW-071'}  " in report.stdout
    assert str(path) in report.stdout


def test_the_report_misses_targets(package):
    (package / "targets.json").unlink()
    report = run(REPORT, package=package)
    assert report.returncode == BROKEN_PACKAGE
    assert "FAILS KW-070  " in report.stdout
    assert str(package / "targets.json") in report.stdout


def test_a_directory_where_the_library_should_be(package):
    path = package / "lib" / "libkernelwright.so"
    path.unlink()
    path.mkdir()
    assert_fails(package, "PackageIncomplete", str(path), "Reinstall it")


def test_an_environment_that_is_no_utf8(package):
    set_it = "import os; os.environb[b'KERNELWRIGHT_ARCH'] = b'\\xff' * 99; "
    assert_fails(package, "InvalidEnvironment", "at most 63 fit", code=set_it + LOAD)


def test_a_library_for_another_machine(package):
    path = package / "lib" / "libkernelwright.so"
    content = bytearray(path.read_bytes())
    content[18:20] = (0xF3).to_bytes(2, "little")  # RISC-V's number in the ELF header
    path.unlink()
    path.write_bytes(content)
    assert_fails(package, "LibraryMismatch", str(path), "cannot be loaded", "type of machine")


def edit(package, name, change):
    path = package / name
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("manifest.json", lambda m: m.update(version="9.9.9"), ["is of version", "manifest.json is of 9.9.9"]),
        ("signatures.json", lambda s: s["functions"].update(kw_new={"header": "base.h", "returns": "void", "arguments": []}),
         ["has no function kw_new", "not of one build"]),
        ("signatures.json", lambda s: s["functions"]["kw_abi"].update(returns="struct kw"), ["'struct kw'", "kw_abi"]),
        ("signatures.json", lambda s: s["functions"]["kw_set_num_threads"].update(arguments=[["threads", "int128_t"]]),
         ["kw_set_num_threads(threads)", "'int128_t'"]),
    ],
)  # fmt: skip
def test_files_of_different_builds(package, name, change, words):
    edit(package, name, change)
    assert_fails(package, "LibraryMismatch", *words)


@pytest.mark.parametrize("name", ["manifest.json", "signatures.json"])
def test_a_schema_of_tomorrow(package, name):
    edit(package, name, lambda content: content.update(schema=2))
    assert_fails(package, "PackageIncomplete", name, "schema 2", "read schema 1")


def test_an_abi_of_tomorrow(package):
    code = "from kernelwright import _library; _library.ABI += 1; _library.load()"
    assert_fails(package, "LibraryMismatch", "has ABI", "not of one release", code=code)


@pytest.mark.torch
def test_an_operator_left_out(package):
    """A build with --ops: the library lacks the function, and the manifest has no image of it."""
    edit(package, "manifest.json", lambda m: m.update(images=[]))

    def gone(signatures):
        for name in [n for n, function in signatures["functions"].items() if function["header"] == "rms_norm.h"]:
            signatures["functions"][f"kw_gone_{name}"] = signatures["functions"].pop(name)

    edit(package, "signatures.json", gone)
    assert_fails(package, "Unsupported", "leaves rms_norm out", code="import kernelwright; kernelwright.rms_norm")
    report = run(REPORT, package=package)
    assert "left out of this build" in report.stdout
    assert report.returncode == 0


@pytest.mark.torch
def test_after_a_failure_the_next_call_tries_again(package):
    hidden = package / "manifest.hidden"
    (package / "manifest.json").rename(hidden)
    done = run(
        """
import sys, os
import kernelwright
from kernelwright import errors
try:
    kernelwright.rms_norm
except errors.PackageIncomplete:
    os.rename(sys.argv[1], sys.argv[2])
import torch
assert kernelwright.rms_norm(torch.ones(2, 8)).allclose(torch.ones(2, 8))
print("fine")
""",
        str(hidden),
        str(package / "manifest.json"),
        package=package,
    )
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.torch
def test_disabled_needs_no_library(package):
    for name in ("lib/libkernelwright.so", "manifest.json", "signatures.json"):
        (package / name).unlink()
    code = "import torch, kernelwright; print(kernelwright.rms_norm(torch.ones(2, 8)).sum().round().item())"
    done = run(code, package=package, KERNELWRIGHT_DISABLE="1")
    assert done.stdout == "16.0\n", done.stderr


def test_a_read_only_package(package):
    """Nothing is written into the package; an administrator, whom permissions do not stop, would show it."""
    for path in (package, *package.rglob("*")):
        path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
    before = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in package.rglob("*")}
    try:
        done = run(REPORT, package=package, PYTHONDONTWRITEBYTECODE="1")
        assert done.returncode == 0, done.stdout + done.stderr
        after = {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in package.rglob("*")}
        assert sorted(path for path in {*before, *after} if before.get(path) != after.get(path)) == []
    finally:
        for path in (package, *package.rglob("*")):
            if path.is_dir():
                path.chmod(0o755)


def test_two_processes_at_once(package):
    children = [start(REPORT, package=package) for _ in range(2)]
    for child in children:
        done = child.wait_text()
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_working_directory_does_not_matter(package, tmp_path, monkeypatch):
    """Neither a relative entry of sys.path nor files of the same names in the working directory confuse it."""
    (tmp_path / "manifest.json").write_text("{")
    monkeypatch.chdir(package.parent)
    done = run(f"import os, sys; sys.path.insert(0, ''); import kernelwright; os.chdir({str(tmp_path)!r}); " + REPORT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert os.fspath(package) in done.stdout
