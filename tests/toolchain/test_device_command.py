# SPDX-License-Identifier: MIT
"""`python -m toolchain device`: what it leaves in its directory, what it leaves alone, how it refuses."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from device_support import FakeCompiler, tree

from kernelwright_toolchain import __main__ as command_line
from kernelwright_toolchain.building import package
from kernelwright_toolchain.commands import device
from kernelwright_toolchain.device import build_images, progress
from kernelwright_toolchain.device.progress import Progress
from kernelwright_toolchain.errors import CompileError, KwError, ProvisionError
from kernelwright_toolchain.request import resolve
from tests.tree import ROOT

FILES = {
    "include/kernelwright/kernelwright.h",
    "kw_images.inc",
    "manifest.json",
    "report.json",
    "signatures.json",
    "targets.json",
}


@pytest.fixture
def root(tmp_path):
    place = tree(tmp_path / "root", one="int a;", two="int b;")
    (place / "csrc/include/kernelwright").mkdir(parents=True)
    (place / "csrc/include/kernelwright/base.h").write_text("KW_API int32_t kw_abi(void);\n")
    (place / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    return place


@pytest.fixture
def fill(table, root, tmp_path):
    def call(**options):
        request = resolve(table, **{"machine": "x86_64", "root": root, **options})
        compiler = FakeCompiler()
        built = build_images(request, compiler, root=root, cache_at=tmp_path / "cache")
        device.write_outputs(tmp_path / "out", table, request, compiler, built, root=root)
        return built

    return call


def found(place):
    return {path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file()}


def test_the_directory_holds_what_the_architecture_says(fill, tmp_path):
    fill(archs="80;90+ptx")
    images = {f"kernels/{code}/{op}" for op in ("one", "two") for code in ("sm_80", "sm_90", "compute_90")}
    suffixed = {f"{name}.{'ptx' if 'compute' in name else 'cubin'}" for name in images}
    assert found(tmp_path / "out") == FILES | suffixed
    manifest = json.loads((tmp_path / "out/manifest.json").read_text())
    for image in manifest["images"]:
        data = (tmp_path / "out" / image["path"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (image["size"], image["sha256"])
    assert manifest["version"] == "1.2.3+cu122.sm80.sm90.compute90"
    assert '"1.2.3+cu122.sm80.sm90.compute90"' in (tmp_path / "out/kw_images.inc").read_text()


def test_files_that_would_not_change_are_left_alone(fill, tmp_path):
    fill(archs="80")
    files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    before = {path: path.stat().st_mtime_ns for path in files}
    fill(archs="80")
    changed = {path.name for path in files if path.stat().st_mtime_ns != before[path]}
    assert changed <= {"report.json"}


def test_images_of_an_earlier_request_go(fill, tmp_path):
    fill(archs="80;89")
    fill(archs="89", ops="two")
    assert found(tmp_path / "out") == FILES | {"kernels/sm_89/two.cubin"}
    assert not (tmp_path / "out/kernels/sm_80").exists()


def test_what_a_killed_build_or_another_tree_left_goes(fill, root, tmp_path):
    """All of `include` and `kernels` is packed, so a header of an operator that is gone would be in the wheel."""
    (root / "csrc/include/kernelwright/one.h").write_text("KW_API int32_t kw_one(void);\n")
    fill(archs="89")
    for name in ("include/kernelwright/gone.h", "include/kernelwright/.part-x", "kernels/sm_89/.part-y", ".part-z"):
        (tmp_path / "out" / name).write_text("half")
    copied = tmp_path / "out/include/kernelwright/one.h"  # by CMake
    copied.write_text("KW_API int32_t kw_one(void);\n")
    fill(archs="89")
    images = {"kernels/sm_89/one.cubin", "kernels/sm_89/two.cubin"}
    assert found(tmp_path / "out") == FILES | images | {"include/kernelwright/one.h"}


def test_files_of_others_stay(fill, tmp_path):
    note = tmp_path / "out/kernels/sm_80/README"
    note.parent.mkdir(parents=True)
    note.write_text("not ours")
    fill(archs="89")
    assert note.read_text() == "not ours"


def test_a_build_that_fails_changes_nothing(fill, tmp_path, monkeypatch):
    fill(archs="80")
    before = {path: (tmp_path / "out" / path).read_bytes() for path in found(tmp_path / "out")}

    def refuse(self, job):
        raise CompileError(f"{job}: no")

    monkeypatch.setattr(FakeCompiler, "compile", refuse)
    with pytest.raises(CompileError):
        fill(archs="80;89")
    assert {path: (tmp_path / "out" / path).read_bytes() for path in found(tmp_path / "out")} == before


def test_progress_has_a_line_for_each_image_and_the_limit(table, root, tmp_path):
    shown = io.StringIO()
    request = resolve(table, machine="x86_64", root=root, archs="89;compute_90", ops="one")
    build_images(request, FakeCompiler(), root=root, cache_at=tmp_path / "c", jobs=1, progress=Progress(2, shown))
    lines = [" ".join(line.split()) for line in shown.getvalue().splitlines()]
    assert lines[0].startswith("compiling 2 images, 1 at a time: limited by -j 1")
    assert sorted(line.partition("] ")[2] for line in lines[1:]) == [
        "compute_90 one 0.1 s as text for newer GPUs compiled",
        "sm_89 one 0.1 s 40 registers 0 spills compiled",
    ]
    assert [line[:5] for line in lines[1:]] == ["[1/2]", "[2/2]"]


def test_images_that_were_just_made_are_listed_once(capsys):
    """The build of the library asks for them again; what it compiles anew is shown."""
    image = SimpleNamespace(code="sm_1", op="thing", seconds=1.0, registers=2, spills=[0], spilled=0, cached=True)
    for line in (progress.line(image, 1, 2), "[3/9] Building CXX object a.cpp.o"):
        package._show(f"{line}\n", False)
    image.cached = False
    package._show(progress.line(image, 2, 2) + "\n", False)
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == ["Building", "sm_1"]


def test_on_a_terminal_the_running_image_is_shown_in_place(table, root, tmp_path):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    request = resolve(table, machine="x86_64", root=root, archs="89", ops="one")
    build_images(request, FakeCompiler(), root=root, cache_at=tmp_path / "c", progress=Progress(1, shown))
    text = shown.getvalue()
    assert "\r\x1b[K[0/1] compiling one for sm_89\r\x1b[K[1/1] sm_89" in text
    assert text.endswith("compiled\n\r\x1b[K")


def run(*arguments):
    command = [sys.executable, "-m", "toolchain", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_command_line_lists_its_verbs():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "  device" in done.stdout
    assert "Compiles device sources to images" in done.stdout
    for wrong in ([], ["compile"]):
        done = run(*wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert "device" in done.stderr
    assert "--archs" in run("device", "--help").stdout


def test_an_error_is_its_words_and_its_exit_code(monkeypatch, capsys):
    class RefusalError(KwError):
        exit_code = 77

    def refuse(arguments):
        raise RefusalError("what, where, what to do")

    monkeypatch.setattr(device, "run", refuse)
    assert command_line.main(["device", "--out", "x"]) == 77
    assert capsys.readouterr().err == "error: what, where, what to do\n"


def test_a_file_that_may_not_be_touched_is_named_and_other_failures_stay_what_they_are(monkeypatch, capsys):
    def fail(error):
        def run(arguments):
            raise error

        return run

    for number in (errno.EACCES, errno.EPERM, errno.EROFS):
        monkeypatch.setattr(device, "run", fail(OSError(number, os.strerror(number), "/there/dist/x.whl")))
        assert command_line.main(["device", "--out", "x"]) == ProvisionError.exit_code
        said = capsys.readouterr().err
        assert said.startswith(f"error: /there/dist/x.whl: {os.strerror(number)}. ")
        assert "run the same command again" in said
    monkeypatch.setattr(device, "run", fail(OSError(errno.EIO, "Input/output error", "/there/x")))
    with pytest.raises(OSError, match="Input/output"):
        command_line.main(["device", "--out", "x"])


def test_an_interrupt_is_no_traceback(monkeypatch, capsys):
    def interrupt(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(device, "run", interrupt)
    assert command_line.main(["device", "--out", "x"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_every_error_has_an_exit_code_of_its_own():
    import kernelwright_toolchain.abi
    import kernelwright_toolchain.cubin  # noqa: F401

    codes = [one.exit_code for one in KwError.__subclasses__() if one.__module__.startswith("kernelwright_toolchain.")]
    assert len(codes) == len(set(codes))
    assert KwError.exit_code not in codes


SLOW_NVCC = """#!/bin/sh
case "$*" in
*--version*) echo "Cuda compilation tools, release 12.2, V12.2.140" ;;
*--dryrun*) ;;
*-M*) echo "empty.o :" ;;
*) touch {mark}; sh -c "sleep 301; true" {mark} ;;
esac
"""

INTERRUPTED = """
import signal, sys
from pathlib import Path
from types import SimpleNamespace
from kernelwright_toolchain import __main__, targets
from kernelwright_toolchain.building import package
from kernelwright_toolchain.commands import device
from kernelwright_toolchain.device import Nvcc, build_images
from kernelwright_toolchain.request import resolve

root = Path(sys.argv[1])
request = resolve(targets.load(), machine="x86_64", root=root, archs="80;86;89")
nvcc = Nvcc(root / "nvcc", root / "gcc", memo=root / "memo")
device.run = lambda arguments: build_images(request, nvcc, root=root, cache_at=root / "cache", jobs=2)
signal.signal(signal.SIGTERM, signal.SIG_DFL)  # which may be ignored where the tests run
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(__main__.main(["device", "--out", "x"]))
"""


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_build_leaves_no_process_and_no_file(root, tmp_path, sent, code):
    (root / "gcc").write_text("#!/bin/sh\n")
    (root / "nvcc").write_text(SLOW_NVCC.format(mark=tmp_path / "begun"))
    for name in ("gcc", "nvcc"):
        (root / name).chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "PYTHONPATH": str(ROOT / "toolchain")}
    child = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(root)], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    child.send_signal(sent)
    _, said = child.communicate(timeout=60)
    assert child.returncode == code
    assert b"Traceback" not in said
    assert list(scratch.iterdir()) == []
    assert not [line for line in _commands() if str(tmp_path / "begun") in line or str(scratch) in line]


def _commands():
    """Command lines of every process, with NUL between the words."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes().decode(errors="replace")
